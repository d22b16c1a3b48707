"""Record a handler's fault in the transaction of its turn, and apply the effects on the message and its group.

The kernel decides when a message is retried, and what a fault does to a group. Messages of the turn before the failed
message are completed in the same commit; later messages are put back.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.definitions.meaning import end_of_set
from seriatim.box.faults.lease import drop
from seriatim.box.notice import EntryFailed, MessageFailed
from seriatim.box.turns.deliveries import DeliveryEnds
from seriatim.box.turns.delivery import Delivery
from seriatim.box.turns.locked_groups import LockedGroups
from seriatim.box.turns.turns import Turns
from seriatim.kernel.operators.fault import FaultKind, attempts_of, fault, retry_delay
from seriatim.kernel.values.outcome import REASONS, Reason
from seriatim.pipeline.types import failure_message

if TYPE_CHECKING:
    from seriatim.box.connection.access import Transaction

#: Longer texts are cut: they are for people.
_LONGEST = 20_000


@dataclass(frozen=True, slots=True)
class Fault:
    #: The kind of the fault; it decides whether a retry may succeed.
    kind: FaultKind
    error_class: str
    error: str
    worker: str
    traceback: str = ""
    #: The delay that the handler requests, microseconds; None: the queue's delay.
    retry_after: int | None = None
    #: Whether the handler wants a dead letter, whatever rule the queue has; no further attempt is made.
    is_dead: bool = False


class Then(StrEnum):
    #: The message is tried again.
    RETRY = "retry"
    #: Its group waits for an operator, or in a queue without groups the message itself.
    SUSPENDED = "suspended"
    #: It is a dead letter; its group goes on.
    DEAD = "dead"
    #: The queue is turned off.
    STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class FaultResult:
    #: The message; of several that were handed out together, the first.
    message_id: str
    attempts: int
    #: The largest number of attempts after a fault of this kind.
    most: int
    then: Then
    delay_us: int = 0

    @property
    def will_retry(self) -> bool:
        return self.then is Then.RETRY


@dataclass(frozen=True, slots=True)
class LostTurn:
    """The messages in hand of a worker that died or was stopped."""

    queue: str
    #: The key of the group; None in a queue without groups.
    group: str | None
    #: The entry of the first message that the handler had.
    entry_id: int
    #: The token of its lease, if any; the lease is removed.
    token: int | None = None
    #: Remove the lease only if it has run out.
    has_expired: bool = False
    #: The number of the attempt, if it is known; otherwise a retry is at once.
    attempt: int | None = None


def fail(
    transaction: Transaction, delivery: Delivery, done: int, size: int, fault: Fault, *, alone: bool = True
) -> FaultResult:
    """Record a handler's fault, in the transaction of its turn, and end the delivery."""
    noting = _Noting(transaction, transaction.access.known.definitions.queue(delivery.queue), delivery.group)
    message, entry_ids = delivery.messages[done], list(delivery.entry_ids[done : done + size])
    delivery.done_through(done)
    attempt = message.attempt
    delay = noting.delay(fault, attempt) if alone else 0
    noting.note(entry_ids, fault, delay or 0)
    then = Then.RETRY if delay is not None else noting.give_up(entry_ids, fault, message.message_id)
    failed = failure_message.Failed(
        delivery.queue, message.group, kind=fault.kind, error_class=fault.error_class, error=fault.error, attempts=attempt,
        ordinal=message.ordinal, will_retry=delay is not None, dead_letter=then is Then.DEAD,
    )  # fmt: skip
    transaction.notice(MessageFailed(message, failed))
    transaction.publish_notices()
    return FaultResult(message.message_id, attempt, noting.most(fault), then, delay or 0)


def note_lost(
    transaction: Transaction, lost: LostTurn, fault: Fault, patience_s: float, delivery: Delivery | None = None
) -> FaultResult | None:
    """Record an attempt of a worker that died, unless the message is done by now; waits for another worker with the group."""
    queue = transaction.definitions().queue(lost.queue)
    noting = _Noting(transaction, queue, lost.group)
    if lost.token is not None and not drop(
        transaction, queue, lost.token, expired=lost.has_expired, patience_ms=max(1, round(patience_s * 1000))
    ):
        return None
    if not noting.lock(patience_s):
        return None
    if delivery is not None:
        noting.put_back(delivery)
    delay = None if lost.attempt is None else noting.delay(fault, lost.attempt)
    noted = noting.note([lost.entry_id], fault, delay or 0)
    if noted is None:
        return None
    attempts, message_id = noted
    gives_up = noting.delay(fault, attempts) is None
    # It may have been tried once more behind others; with any problem then, this is its last attempt.
    entry_ids = noting.first(lost.entry_id, anyway=attempts > queue.declared.retry.attempts + 1) if gives_up else []
    then = noting.give_up(entry_ids, fault, message_id) if entry_ids else Then.RETRY
    failed = failure_message.Failed(
        lost.queue, lost.group, kind=fault.kind, error_class=fault.error_class, error=fault.error, attempts=attempts,
        will_retry=not entry_ids, dead_letter=then is Then.DEAD,
    )  # fmt: skip
    transaction.notice(EntryFailed(lost.entry_id, failed))
    transaction.publish_notices()
    return FaultResult(message_id, attempts, noting.most(fault), then, delay or 0)


class _Noting:
    """One fault, in one transaction, under the lock of its group."""

    def __init__(self, transaction: Transaction, queue: BoxQueue, group: str | None) -> None:
        self._transaction = transaction
        self._turns = Turns(transaction)
        self._group = group
        self.queue = queue
        self._locked = LockedGroups([group or ""], 0, -1)
        # Messages that are counted by group and not locked are named by their entries alone.
        self._named = {"of_queue": queue.queue_id, "of_group": None if queue.numbers else group or ""}

    def lock(self, patience_s: float) -> bool:
        """Lock the group. In a queue without groups only the message is locked, by `note`."""
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

    def delay(self, fault: Fault, attempt: int) -> int | None:
        """Return the pause before a retry, microseconds; None: there is none."""
        if fault.is_dead:
            return None
        chance = random.random()  # noqa: S311 -- nobody gains by guessing it
        return retry_delay(self.queue.declared.retry, fault.kind, attempt, fault.retry_after, chance)

    def most(self, fault: Fault) -> int:
        """The largest number of attempts after such a fault."""
        return attempts_of(self.queue.declared.retry, fault.kind)

    def note(self, entry_ids: list[int], fault: Fault, delay_us: int) -> tuple[int, str] | None:
        """Count the attempt; return the number of attempts, and the message's id, None if it is gone. A delay of 0: again at once."""
        noted = self._transaction.one(
            "note_fault",
            **self._named,
            of_entries=entry_ids,
            its_kind=fault.kind,
            its_class=_kept(fault.error_class),
            its_error=_kept(fault.error),
            its_traceback=_kept(fault.traceback),
            of_worker=_kept(fault.worker),
            delay=timedelta(microseconds=delay_us) if delay_us > 0 else None,
        )
        self._locked = LockedGroups(self._locked.keys, noted.now_us, -1)
        return None if noted.attempts is None else (int(noted.attempts), noted.message_id)

    def first(self, entry_id: int, *, anyway: bool = False) -> list[int]:
        """The messages that stop the group, if this entry is their first: earlier ones of a lost turn are queued before it again."""
        if not self.queue.has_groups:
            return [entry_id]
        judged = self._turns.judge(self.queue, self._locked, 0)
        self._transaction.notice(*judged.notices(self.queue, self._locked.keys))
        row = self._transaction.one(
            "turn_entries", of_queue=self.queue.queue_id, of_groups=self._locked.keys, at_most=self.queue.at_most(1),
            most_arrived=0, most_held=0,
        )  # fmt: skip
        read = zip(row.entry_ids or (), row.codes or (), row.ordinals or (), row.meanings or (), strict=True)
        line = [(entry_id, ordinal, meaning) for entry_id, code, ordinal, meaning in read if code == 2]
        end = end_of_set(line[0][2]) if line and self.queue.begins_again else None
        queued = [entry_id for entry_id, ordinal, _ in line if end is None or ordinal <= end]
        if queued[:1] == [entry_id]:
            return queued
        return [entry_id] if anyway else []

    def give_up(self, entry_ids: list[int], failure: Fault, which: str) -> Then:
        """End the attempts of the message by the rule of its queue."""
        errors = self.queue.declared.errors
        leaves = errors == "continue" or (errors == "suspend" and self._group is None and not self.queue.numbers)
        if leaves or failure.is_dead:
            failed = f"{REASONS[Reason.DEAD_LETTERED]}: {failure.error_class}: {failure.error}"
            why = f"its handler made it a dead letter: {failure.error}" if failure.is_dead else failed
            self._transaction.do("set_dead", **self._named, of_entries=entry_ids, why=_kept(why))
            return Then.DEAD
        if self._group is not None:
            acted = self._turns.act(self.queue, self._locked, lambda state: fault(state, self._locked.now_us))
            self._turns.record(self.queue, self._locked.keys, acted.caused)
            self._transaction.notice(*acted.judged.notices(self.queue, self._locked.keys))
        elif self.queue.numbers:
            self._transaction.do("fault_messages", of_queue=self.queue.queue_id, of_entries=entry_ids)
        if errors == "stop":
            why = f"the handler failed for good at {which}: {failure.error_class}: {failure.error}"
            named = self._named | {"of_worker": _kept(failure.worker)[:256], "why": _kept(why)[:4_000]}
            self._transaction.do("stop_queue", **named)
            return Then.STOPPED
        return Then.SUSPENDED


def _kept(text: str) -> str:
    return text[:_LONGEST].encode(errors="backslashreplace").decode().replace("\0", "\\0")
