"""Record a handler's fault in the transaction of its turn, and apply the effects on the message and its group.

The kernel decides when a message is retried, and what a fault does to a group. Messages of the turn before the failed
message are completed in the same commit; later messages are put back.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.faults.lease import drop
from seriatim.box.notice import EntryFailed, MessageFailed
from seriatim.box.postgres.translate import translated
from seriatim.box.turns.delivery import Delivery
from seriatim.box.turns.delivery_ends import DeliveryEnds
from seriatim.box.turns.turns import LockedGroups, Turns
from seriatim.kernel.fault import FaultKind, fault, retry_delay
from seriatim.kernel.outcome import REASONS, Reason
from seriatim.pipeline.types import failure_message

if TYPE_CHECKING:
    from seriatim.box.connection.access import Transaction

__all__ = ["Fault", "FaultResult", "LostTurn", "fail", "note_lost"]

#: Longer texts are cut: they are for people.
_LONGEST = 20_000


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a handler.

    Args:
        kind: the kind of the fault; it decides whether a retry may succeed.
        error_class: the name of the error's class.
        error: the error's text.
        traceback: its traceback; may be empty.
        worker: the worker whose handler failed.
        retry_after: the delay that the handler requests, microseconds; None: the queue's delay.
    """

    kind: FaultKind
    error_class: str
    error: str
    worker: str
    traceback: str = ""
    retry_after: int | None = None


@dataclass(frozen=True, slots=True)
class FaultResult:
    """The effect of a fault.

    Args:
        attempts: the number of attempts so far.
        will_retry: whether the message is retried automatically.
    """

    attempts: int
    will_retry: bool


@dataclass(frozen=True, slots=True)
class LostTurn:
    """The messages in hand of a worker that died or was stopped.

    Args:
        queue: the queue's name.
        group: the key of the group; None in a queue without groups.
        entry_id: the entry of the first message that the handler had.
        token: the token of its lease, if any; the lease is removed.
        has_expired: remove the lease only if it has run out.
    """

    queue: str
    group: str | None
    entry_id: int
    token: int | None = None
    has_expired: bool = False


def fail(
    transaction: Transaction, delivery: Delivery, done: int, size: int, what: Fault, *, alone: bool = True
) -> FaultResult:
    """Record a handler's fault, in the transaction of its turn, and end the delivery.

    Args:
        transaction: the transaction; the handler's writes for the failed messages are rolled back already.
        delivery: the delivery of the turn.
        done: the number of processed messages, from the first on; they are completed.
        size: the number of next messages, at which the handler failed together; later messages are put back.
        what: the fault.
        alone: whether the failed message is known. Otherwise the messages are retried one by one, at once.

    Raises:
        Unavailable: the transaction has to be repeated.
    """
    noting = _Noting(transaction, transaction.access.known.definitions.queue(delivery.queue), delivery.group)
    message, entry_ids = delivery.messages[done], list(delivery.entry_ids[done : done + size])
    delivery.done_through(done)
    attempt = message.attempt
    delay = 0
    if alone:
        retry = noting.queue.declared.retry()
        chance = random.random()  # noqa: S311 -- nobody gains by guessing it
        found = retry_delay(retry, what.kind, attempt, what.retry_after, chance)
        delay = -1 if found is None else found
    noting.note(entry_ids, what, delay)
    dead = delay < 0 and noting.give_up(entry_ids, what, message.message_id)
    told = failure_message.Failed(
        delivery.queue, delivery.group, kind=what.kind, error_class=what.error_class, error=what.error, attempts=attempt,
        ordinal=message.ordinal, will_retry=delay >= 0, dead_letter=dead,
    )  # fmt: skip
    transaction.notice(MessageFailed(message, told))
    transaction.publish_notices()
    return FaultResult(attempt, delay >= 0)


def note_lost(
    transaction: Transaction, lost: LostTurn, what: Fault, patience_s: float, delivery: Delivery | None = None
) -> FaultResult | None:
    """Record an attempt of a worker that died or was stopped, so that its transaction was rolled back.

    If another worker has the group already, this waits for it. If the message is done by then, nothing is recorded.

    Args:
        transaction: a transaction in which nothing has been done.
        lost: the worker's messages.
        what: the fault.
        patience_s: the longest wait for the group, seconds.
        delivery: the delivery of the turn, if its handler may have committed before completing it: it is put back then.

    Returns:
        None if the group wasn't free in time, the message is done, or the lease was removed before.

    Raises:
        UsageError: there is no such queue.
        Unavailable: the transaction has to be repeated.
    """
    with translated(transaction.access.place):
        return _note_lost(transaction, lost, what, patience_s, delivery)


def _note_lost(
    transaction: Transaction, lost: LostTurn, what: Fault, patience_s: float, delivery: Delivery | None
) -> FaultResult | None:
    queue = transaction.access.known.current(transaction).queue(lost.queue)
    noting = _Noting(transaction, queue, lost.group)
    if lost.token is not None and not drop(
        transaction, queue, lost.token, expired=lost.has_expired,
        patience_ms=max(1, round(patience_s * 1000)),
    ):  # fmt: skip
        return None
    if not noting.lock(patience_s):
        return None
    if delivery is not None:
        noting.put_back(delivery)
    attempts = noting.note([lost.entry_id], what, -1)
    if attempts is None:
        return None
    retry = queue.declared.retry()
    gives_up = retry_delay(retry, what.kind, attempts, None, 0.5) is None
    # Once more it may have been tried behind others; whatever is wrong with it then, it comes to an end.
    entry_ids = noting.first(lost.entry_id, anyway=attempts > retry.attempts + 1) if gives_up else []
    dead = bool(entry_ids) and noting.give_up(entry_ids, what, f"entry {lost.entry_id}")
    told = failure_message.Failed(
        lost.queue, lost.group, kind=what.kind, error_class=what.error_class, error=what.error, attempts=attempts,
        will_retry=not entry_ids, dead_letter=dead,
    )  # fmt: skip
    transaction.notice(EntryFailed(lost.entry_id, told))
    transaction.publish_notices()
    return FaultResult(attempts, will_retry=not entry_ids)


class _Noting:
    """One fault, in one transaction, under the lock of its group."""

    def __init__(self, transaction: Transaction, queue: BoxQueue, group: str | None) -> None:
        self._transaction = transaction
        self._turns = Turns(transaction)
        self._group = group
        self.queue = queue
        self._locked = LockedGroups([group or ""], 0, -1)
        self._named = {"of_queue": queue.queue_id, "of_group": group or ""}

    def lock(self, patience_s: float) -> bool:
        """Lock the group. In a queue without groups there is only the message to lock, which `note` does."""
        if self._group is None:
            return True
        patience_ms = max(1, round(patience_s * 1000))
        locked, now_us, _, version = self._transaction.one("lock_for_fault", **self._named, patience_ms=patience_ms)
        self._locked = LockedGroups([self._group], now_us, version)
        return bool(locked)

    def put_back(self, delivery: Delivery) -> None:
        """Put back the messages that a turn has handed out, if that was committed, so that the group's state is correct."""
        last = delivery.messages[-1].ordinal
        if last is None:
            return
        row = self._transaction.maybe("group_ordinal", queue_id=self.queue.queue_id, group_key=self._locked.keys[0])
        if row is not None and row.ordinal >= last:
            self._transaction.do("put_back", **DeliveryEnds.of_delivery(self.queue, delivery).back())

    def note(self, entry_ids: list[int], what: Fault, delay_us: int) -> int | None:
        """Record the fault and count the attempt. Below 0, the message isn't retried automatically, or is retried at once."""
        attempts, now_us = self._transaction.one(
            "note_fault",
            **self._named,
            of_entries=entry_ids,
            its_kind=what.kind,
            its_class=_kept(what.error_class),
            its_error=_kept(what.error),
            its_traceback=_kept(what.traceback),
            of_worker=_kept(what.worker),
            delay=timedelta(microseconds=delay_us) if delay_us > 0 else None,
        )
        self._locked = LockedGroups(self._locked.keys, now_us, -1)
        return None if attempts is None else int(attempts)

    def first(self, entry_id: int, *, anyway: bool = False) -> list[int]:
        """The messages that stop the group, if this entry is the first of them; they are judged before.

        Earlier messages of a lost turn are queued before it again: then it can't stop the group yet, unless it has
        failed for good anyway.
        """
        if not self.queue.has_groups:
            return [entry_id]
        judged = self._turns.judge(self.queue, self._locked, 0)
        self._transaction.notice(*judged.notices(self.queue, self._locked.keys))
        row = self._transaction.one(
            "turn_entries", of_queue=self.queue.queue_id, of_groups=self._locked.keys, at_most=self.queue.at_most(1),
            most_arrived=0, most_held=0,
        )  # fmt: skip
        queued = [one for one, code in zip(row.entry_ids or (), row.codes or (), strict=True) if code == 2]
        if queued[:1] == [entry_id]:
            return queued
        return [entry_id] if anyway else []

    def give_up(self, entry_ids: list[int], what: Fault, which: str) -> bool:
        """The handler has failed for good: apply the queue's `errors`; return whether the message becomes a dead letter."""
        errors = self.queue.declared.errors
        if errors == "continue" or (errors == "suspend" and self._group is None):
            why = f"{REASONS[Reason.DEAD_LETTERED]}: {what.error_class}: {what.error}"
            self._transaction.do("set_dead", **self._named, of_entries=entry_ids, why=_kept(why))
            return True
        if self._group is not None:
            acted = self._turns.act(self.queue, self._locked, lambda state: fault(state, self._locked.now_us))
            self._transaction.notice(*acted.judged.notices(self.queue, self._locked.keys))
        if errors == "stop":
            why = f"the handler failed for good at {which}: {what.error_class}: {what.error}"
            named = self._named | {"of_worker": _kept(what.worker)[:256], "why": _kept(why)[:4_000]}
            self._transaction.do("stop_queue", **named)
        return False


def _kept(text: str) -> str:
    """Text that PostgreSQL can store."""
    return text[:_LONGEST].encode(errors="backslashreplace").decode().replace("\0", "\\0")
