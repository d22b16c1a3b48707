"""Record a handler's fault in the transaction of its turn, and apply the effects on the message and its group.

The kernel decides when a message is retried, and what a fault does to a group. Messages of the turn before the failed
message are completed in the same commit; later messages are put back.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.faults.lease import drop
from seriatim.box.notice import EntryFailed, MessageFailed
from seriatim.box.postgres.translate import translated
from seriatim.box.turns.delivery import Delivery
from seriatim.box.turns.turns import LockedGroups, Turns
from seriatim.kernel.fault import FaultKind, fault, retry_delay
from seriatim.kernel.outcome import REASONS, Reason
from seriatim.kernel.policy import Unordered
from seriatim.pipeline.types import failure_message

if TYPE_CHECKING:
    from seriatim.box.connection.access import Transaction

__all__ = ["Fault", "FaultResult", "LostTurn", "fail", "note_lost"]

#: Longer texts are cut: they are for people.
_LONGEST = 20_000


@dataclass(frozen=True, slots=True)
class Fault:
    """What a handler failed at.

    Args:
        kind: whether the same again may work.
        error_class: the name of the error's class.
        error: what it said.
        traceback: where, for people; may be empty.
        worker: whose handler it was.
        retry_after: microseconds that the handler asks to wait; None: as the queue says.
    """

    kind: FaultKind
    error_class: str
    error: str
    worker: str
    traceback: str = ""
    retry_after: int | None = None


@dataclass(frozen=True, slots=True)
class FaultResult:
    """What came of a fault.

    Args:
        attempts: how often the message has been tried.
        will_retry: whether it will be tried again by itself.
    """

    attempts: int
    will_retry: bool


@dataclass(frozen=True, slots=True)
class LostTurn:
    """What a worker had in hand that is gone, or was stopped.

    Args:
        queue: the queue's name.
        group: the key of the group; None where it has none.
        entry_id: of the message that its handler was given, the first one if it was given several.
        token: that of its lease, if it had one: it is taken away.
        has_expired: only if that has run out.
    """

    queue: str
    group: str | None
    entry_id: int
    token: int | None = None
    has_expired: bool = False


def fail(
    transaction: Transaction, delivery: Delivery, done: int, size: int, what: Fault, *, alone: bool = True
) -> FaultResult:
    """Write down a handler's failure, in the transaction of its turn, and end the delivery.

    Args:
        transaction: in which; what the handler wrote for the failed messages is rolled back already.
        delivery: that of the turn.
        done: so many messages of it, the first, have been worked on; they are completed.
        size: so many, the next ones, the handler was given together, and failed at; the others are put back.
        what: the failure.
        alone: whether it is known which message it is. Otherwise they are tried one by one, at once.

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
    """Write down an attempt whose worker couldn't: it is gone, or was stopped; its transaction was rolled back.

    Waits for the group where another worker has it already. If the message is done by then, there is nothing to note.

    Args:
        transaction: one in which nothing has been done.
        lost: what was in hand.
        what: the failure.
        patience_s: waits so long for the group.
        delivery: that of the turn, where its handler may have committed before anything was done: then it is put back.

    Returns:
        None where the group wasn't free in time, the message is done, or somebody has taken the lease away before.

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
        self._named = {"queue_id": queue.queue_id, "group_key": group or ""}

    def lock(self, patience_s: float) -> bool:
        """Lock the group; a queue without groups has nothing to lock but the message, which `note` does."""
        parameters = self._named | {"patience_ms": max(1, round(patience_s * 1000))}
        if self._group is None:
            return True
        locked, now_us, _, version = self._row("lock_for_fault", parameters)
        self._locked = LockedGroups([self._group], now_us, version)
        return bool(locked)

    def put_back(self, delivery: Delivery) -> None:
        """Put back what a turn has handed out, if that was committed, so that what is remembered of the group says so."""
        last = delivery.messages[-1].ordinal
        if last is None:
            return
        row = self._transaction.maybe("group_ordinal", **self._named)  # fmt: skip
        if row is not None and row.ordinal >= last:
            self._execute(
                "put_back",
                {
                    "entry_ids": list(delivery.entry_ids),
                    "ordinals": [one.ordinal for one in delivery.messages],
                    "late": [one.late for one in delivery.messages],
                },
            )

    def note(self, entry_ids: list[int], what: Fault, delay_us: int) -> int | None:
        """Write it down and count the attempt. Below 0, the message isn't tried again by itself, or at once."""
        parameters = self._named | {
            "entry_ids": entry_ids,
            "kind": what.kind,
            "error_class": _kept(what.error_class),
            "error": _kept(what.error),
            "traceback": _kept(what.traceback),
            "worker": _kept(what.worker),
            "delay": timedelta(microseconds=delay_us) if delay_us > 0 else None,
        }
        attempts, now_us = self._row("note_fault", parameters)
        self._locked = LockedGroups(self._locked.keys, now_us, -1)
        return None if attempts is None else int(attempts)

    def first(self, entry_id: int, *, anyway: bool = False) -> list[int]:
        """The messages that stop the group, if this entry is the first of them; they are judged before.

        What came before it in a turn that was lost is queued before it again: then it isn't its time yet, unless it is to
        be given up anyway.
        """
        if isinstance(self.queue.declared.policy, Unordered):
            return [entry_id]
        judged = self._turns.judge(self.queue, self._locked, 0)
        self._transaction.notice(*judged.notices(self.queue, self._locked.keys))
        entry_ids, codes = self._row("queued", self._named | {"at_most": self.queue.at_most(1)})
        queued = [one for one, code in zip(entry_ids or (), codes or (), strict=True) if code == 2]
        if queued[:1] == [entry_id]:
            return queued
        return [entry_id] if anyway else []

    def give_up(self, entry_ids: list[int], what: Fault, which: str) -> bool:
        """The handler has failed for good: do what the queue says; whether that makes a dead letter of the message."""
        errors = self.queue.declared.errors
        if errors == "continue" or (errors == "suspend" and self._group is None):
            why = f"{REASONS[Reason.DEAD_LETTERED]}: {what.error_class}: {what.error}"
            self._execute("set_dead", {"entry_ids": entry_ids, "why": _kept(why)})
            return True
        if self._group is not None:
            acted = self._turns.act(self.queue, self._locked, lambda state: fault(state, self._locked.now_us))
            self._transaction.notice(*acted.judged.notices(self.queue, self._locked.keys))
        if errors == "stop":
            why = f"the handler failed for good at {which}: {what.error_class}: {what.error}"
            self._execute("stop_queue", {"worker": _kept(what.worker)[:256], "why": _kept(why)[:4_000]})
        return False

    def _row(self, name: str, parameters: dict[str, Any]) -> tuple[Any, ...]:
        return self._transaction.one(name, **parameters)

    def _execute(self, name: str, parameters: dict[str, Any]) -> None:
        self._transaction.do(name, **(self._named | parameters))


def _kept(text: str) -> str:
    """Text that PostgreSQL can keep."""
    return text[:_LONGEST].encode(errors="backslashreplace").decode().replace("\0", "\\0")
