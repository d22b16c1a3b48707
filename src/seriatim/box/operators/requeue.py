"""Put back set-aside messages of one group: the kernel decides the place of each, and the group is judged.

The number of statements doesn't depend on the number of messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.definitions.known import read_definitions
from seriatim.box.definitions.meaning import position_in
from seriatim.box.operators.actions import require_of
from seriatim.box.operators.operator_log import Operator
from seriatim.box.operators.regional import check_not_regional
from seriatim.box.operators.reopen import Reopening
from seriatim.box.turns.locked_groups import LockedGroups
from seriatim.box.turns.positions import positions_in
from seriatim.box.turns.turns import Turns
from seriatim.box.views.groups import group_of
from seriatim.errors import Unavailable, shown
from seriatim.kernel.groups.numbers import by_position
from seriatim.kernel.groups.state import NOTHING
from seriatim.kernel.groups.verbs import Action
from seriatim.kernel.operators.requeue import RequeuePosition, place
from seriatim.kernel.values.outcome import Disposition

#: How long the lock of a group is waited for: a receiver may hold it for as long as a turn takes.
_PATIENCE_MS = 10_000


class Moved(NamedTuple):
    """A message that was put back: its number in the operator log and in its queue, its place, and its new status."""

    operation_id: int
    entry_id: int
    place: RequeuePosition
    status: str


@dataclass(frozen=True, slots=True)
class _Facts:
    entry_id: int
    disposition: str
    sequence: int | None
    ordinal: int | None
    following: int
    last_ordinal: int
    undelivered: int
    forgotten: bool
    is_known: bool
    reason: str | None
    aside_at: datetime
    meaning: list[int] | None
    remembered: bytes | None


def requeue(
    transaction: Transaction,
    queue: str,
    group: str,
    entry_ids: Sequence[int],
    dispositions: Sequence[str],
    by: Operator,
    *,
    decides: bool = True,
) -> list[Moved]:
    """Put back set-aside messages, in the transaction, and log it."""
    definitions = read_definitions(transaction)
    found = definitions.queue(queue)
    if decides:
        check_not_regional(transaction, found, Action.REQUEUE, group)
    turns = Turns(transaction)
    locked = _locked(turns, found, group)
    facts = transaction.rows(
        "requeue_facts", _Facts, of_queue=found.queue_id, of_group=group, of_entries=list(entry_ids),
        its_dispositions=list(dispositions),
    )  # fmt: skip
    if not facts:
        return []
    if locked is not None and facts[0].is_known:
        view = group_of(transaction, queue, group)
        require_of(view if decides else replace(view, regions=None), Action.REQUEUE)
    its_ids = [one.entry_id for one in facts]
    reopening = Reopening.of(transaction, turns, definitions, found, its_ids)
    places = [
        _place(found, group, one, ordered=locked is not None, passed=one.entry_id in reopening.passed) for one in facts
    ]
    transaction.do("requeue_entries", of_queue=found.queue_id, of_group=group, **_rows(found, facts, places))
    reopening.apply()
    if locked is not None:
        # A message that was taken out comes back: its number isn't skipped any more.
        out = [one.sequence for one in facts if one.disposition == Disposition.DEAD.word and one.sequence is not None]
        transaction.notice(
            *turns.judge(found, locked, 0, put_back={group: out} if out else None).notices(found, locked.keys)
        )
    transaction.do("call_all_waiters", of_queues=[found.queue_id])
    said = {
        "of_entries": [one.entry_id for one in facts],
        "its_dispositions": [one.disposition for one in facts],
        "its_places": [str(one) for one in places],
        "its_reasons": [one.reason for one in facts],
        "aside_times": [one.aside_at for one in facts],
    }
    who = {"its_actor": by.actor, "its_reason": by.reason, "of_queue": found.queue_id, "of_group": group}
    rows = transaction.rows("log_requeue", **said, **who)
    return [Moved(number, entry_id, RequeuePosition(where), status) for number, entry_id, where, status in rows]


def _locked(turns: Turns, queue: BoxQueue, group: str) -> LockedGroups | None:
    if not queue.has_groups:
        return None
    locked = turns.lock(queue, 1, group, _PATIENCE_MS)
    if not locked.keys:
        where = f"queue {queue.declared.name!r}, group {shown(group)}"
        raise Unavailable(
            "another session has the lock of the group", where=where, remedy="try again after that session has ended"
        )
    return locked


def _place(queue: BoxQueue, group: str, one: _Facts, *, ordered: bool, passed: bool) -> RequeuePosition:
    """The place of a message that is put back. `passed`: the gate has passed its place there."""
    if not ordered and queue.numbers:
        return RequeuePosition.END if passed or one.ordinal is None else RequeuePosition.ORDINAL
    if not ordered or not one.is_known:
        return RequeuePosition.ARRIVAL
    intact = (
        not passed
        and not one.forgotten
        and one.ordinal is not None
        and one.last_ordinal - one.ordinal == one.undelivered
    )
    rejected = one.disposition == Disposition.REJECTED.word
    policy = queue.declared.policy_of(group)
    following, sequence = one.following, one.sequence
    if by_position(policy) and one.meaning is not None:  # `following` is a rank
        passed_to = positions_in(one.remembered or b"")[following] if following != NOTHING else b""
        following, sequence = 0, 0 if position_in(one.meaning) >= passed_to else -1
    return place(policy, following, sequence, one.ordinal, intact=intact, rejected=rejected)


def _rows(
    queue: BoxQueue, facts: Sequence[_Facts], places: Sequence[RequeuePosition]
) -> dict[str, list[int] | list[int | None] | list[str] | list[bool]]:
    """The entries for ``requeue``: entries that go to the end get the next ordinals, one after another."""
    ordinals: list[int | None] = []
    following = facts[0].last_ordinal + 1
    for one, where in zip(facts, places, strict=True):
        # Of an unordered queue the numbers are given at the commit.
        end = following if queue.has_groups else None
        ordinals.append(
            {RequeuePosition.ARRIVAL: None, RequeuePosition.ORDINAL: one.ordinal, RequeuePosition.END: end}[where]
        )
        following += where is RequeuePosition.END
    arrival = "arrived" if queue.origin_id is None else "placed"
    released = "queued" if queue.has_groups else "arrived"
    return {
        "of_entries": [one.entry_id for one in facts],
        "its_statuses": [arrival if where is RequeuePosition.ARRIVAL else released for where in places],
        "its_ordinals": ordinals,
        "to_the_end": [where is RequeuePosition.END for where in places],
    }
