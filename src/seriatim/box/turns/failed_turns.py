"""Set groups apart at which a turn fails, so that a receiver goes on with the others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import NoReturn

import psycopg

from seriatim.box.connection.access import Begin, Transaction
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.postgres.translate import translated
from seriatim.box.turns.locked_groups import LockedGroups
from seriatim.box.turns.turns import Turns
from seriatim.errors import InvariantBroken, SeriatimError
from seriatim.pipeline.text.event_log import LOG

#: The holder of such a group's lease, in place of a worker.
FAILED_TURN = "a turn that failed"
#: How many groups are checked alone: the failed turn was of the first ones.
_GROUPS = 16
#: The time after which a receiver checks such a group again.
_PERIOD = timedelta(seconds=60)
_LONGEST_ERROR = 2_000


def is_of_turn(error: Exception, place: str) -> bool:
    """Return whether an error comes from a group's content, and not from the connection, the server, the definitions or a right."""
    cause = error.__cause__ or error
    if isinstance(cause, psycopg.IntegrityError | psycopg.DataError) and cause.sqlstate is not None:
        return True  # the only value of a caller's is the group's key, which the driver would have refused
    try:
        _raise(error, place)
    except InvariantBroken:
        return True
    except SeriatimError:
        return False
    except Exception:  # noqa: BLE001 -- of our own code
        return True


def _raise(error: Exception, place: str) -> NoReturn:
    with translated(place):
        raise error


def set_failing_apart(begin: Begin, queue: BoxQueue, lock: Callable[[Transaction, int], LockedGroups]) -> int:
    """Judge the next groups of a queue alone, and set those apart at which that fails; return their number."""
    with begin() as transaction:
        keys = lock(transaction, _GROUPS).keys
        transaction.connection.rollback()
    failed = 0
    for key in keys:
        with begin() as transaction:
            try:
                locked = lock(transaction, _GROUPS)
                own = locked._replace(keys=[other for other in locked.keys if other == key])
                Turns(transaction).judge_all(queue, own)
            except Exception as error:
                if not is_of_turn(error, transaction.access.place):
                    raise
                transaction.connection.rollback()
                reason = f"{type(error).__name__}: {error}"[:_LONGEST_ERROR]
                transaction.do(
                    "set_apart", of_queue=queue.queue_id, of_group=key, of_worker=FAILED_TURN, its_error=reason, period=_PERIOD
                )  # fmt: skip
                tell(queue.declared.name, key)
                failed += 1
    return failed


def tell(queue: str, group: str | None) -> None:
    """Log the error at hand, at which a group or a queue can't be looked at."""
    where = f"queue {queue!r}" if group is None else f"queue {queue!r}, group {group!r}"
    LOG.exception("not_looked_at", queue=queue, group=group, _where=where)
