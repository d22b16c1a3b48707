"""The calls on a lease: each is one transaction that locks the lease, finds out whether it was made before, and notes its answer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from seriatim.box.connection.access import Access, Transaction
from seriatim.box.faults.failure_log import FAILURES
from seriatim.box.faults.faults import Fault, FaultResult, fail
from seriatim.box.faults.lease import HeldLease
from seriatim.box.faults.postpone import postpone, postponement_us
from seriatim.box.leases.bodies import Bodies
from seriatim.box.leases.taken import LeaseAnswer, LeasedMessage, Principal, Result, TakenLease, leased_message
from seriatim.box.publishing.publish_result import Published
from seriatim.box.publishing.publisher import Publisher
from seriatim.box.turns.causes import causes_of
from seriatim.box.turns.deliveries import Deliveries
from seriatim.box.turns.delivery import Delivery
from seriatim.box.turns.turn_result import HandedMessages
from seriatim.errors import UsageError, is_whole, shown
from seriatim.kernel.operators.fault import FaultKind
from seriatim.kernel.values.time import micros
from seriatim.pipeline.types.answer import Answer
from seriatim.pipeline.types.message import Message, Received

#: The longest lease, microseconds: a day.
_LONGEST_US = 86_400 * 10**6


def period_of(lease: float | str | timedelta) -> timedelta:
    period_us = lease // timedelta(microseconds=1) if isinstance(lease, timedelta) else micros(lease)
    if not 0 < period_us <= _LONGEST_US:
        raise UsageError(
            f"a lease can't last {shown(lease)}", remedy="more than 0 and at most 1 day, such as 30s", argument="lease"
        )
    return timedelta(microseconds=period_us)


class LeaseCalls:
    """The calls of one principal on its leases: what the methods of `TakenLease` do."""

    def __init__(self, access: Access, principal: Principal | None, bodies: Bodies | None = None) -> None:
        self._access = access
        #: Which bodies `fill` reads; None: all.
        self._bodies = bodies
        self.principal = Principal() if principal is None else principal
        if not isinstance(self.principal, Principal):
            raise UsageError(
                f"{shown(principal, 80)} is no principal", remedy='principal=sq.Principal("web")', argument="principal"
            )

    def read(self, lease: TakenLease) -> None:
        with self._access.transaction() as transaction:
            row = self.row(transaction, lease.id, "read")
            self.fill(transaction, lease, row, row.done)

    def complete(
        self,
        lease: TakenLease,
        through: int | None,
        publish: Iterable[Result],
        check: Callable[[Published], None] | None = None,
    ) -> LeaseAnswer:
        """`check` raises where the caller may not publish something."""
        through = None if through is None else _checked_position(through)
        given = (publish,) if isinstance(publish, Message) or not isinstance(publish, Iterable) else publish
        results = [_checked_result(result) for result in given]
        said = _digest(results)
        with self._access.transaction() as transaction:
            told: dict[str, Any] = {}
            if results:
                transaction.leave_bodies(0)
                row = self.row(transaction, lease.id, "complete", through, said)
                if row.answer is not None:
                    return self._told(lease, row.answer)
                published = self._published(transaction, row, results)
                if check is not None:
                    check(published)
                told = {"published": list(published), "left_out": published.left_out}
            answer = transaction.value(
                "complete", delivery=lease.id, through=through, holder=self.principal.name, said=said, answer=json.dumps(told)
            )  # fmt: skip
        return self._told(lease, answer)

    def fail(
        self, lease: TakenLease, at: int, kind: str, error: str, retry_after: float | str | timedelta | None
    ) -> LeaseAnswer:
        if kind not in list(FaultKind):
            raise UsageError(f"{shown(kind)} is no kind of failure", remedy=", ".join(FaultKind), argument="kind")
        after_us = None if retry_after is None else postponement_us(retry_after)
        return self._failed(lease, "fail", at, Fault(FaultKind(kind), "Failed", error, "", retry_after=after_us))

    def dead_letter(self, lease: TakenLease, at: int, reason: str) -> LeaseAnswer:
        if not isinstance(reason, str) or not reason.strip():
            raise UsageError(f"{shown(reason)} is no reason", remedy="say in words why the message is set aside")
        return self._failed(lease, "dead_letter", at, Fault(FaultKind.BUSINESS, "DeadLetter", reason, "", is_dead=True))

    def postpone(self, lease: TakenLease, at: int, delay: float | str | timedelta) -> LeaseAnswer:
        delay_us = postponement_us(delay)

        def end(transaction: Transaction, row: Any, delivery: Delivery, size: int) -> None:
            postpone(transaction, delivery, row.at - 1 - row.done, delay_us, size)

        return self._ended(lease, "postpone", at, str(delay_us), end)

    def renew(self, lease: TakenLease, period: float | str | timedelta | None) -> datetime:
        with self._access.transaction() as transaction:
            until = transaction.value(
                "renew", delivery=lease.id, lease=None if period is None else period_of(period), holder=self.principal.name
            )  # fmt: skip
        lease.until = until
        return until

    def give_back(self, lease: TakenLease) -> LeaseAnswer:
        with self._access.transaction() as transaction:
            answer = transaction.value("give_back", delivery=lease.id, holder=self.principal.name)
        return self._told(lease, answer)

    def row(self, transaction: Transaction, of_lease: UUID, verb: str, at: int | None = None, said: str = "") -> Any:
        """Lock a lease for a call; see the function ``at_lease``."""
        named = {"of_lease": of_lease, "of_holder": self.principal.name, "verb": verb}
        return transaction.one("at_lease", **named, at=at, said=said)

    def fill(self, transaction: Transaction, lease: TakenLease, row: Any, begin: int) -> None:
        """Put what the box knows of a lease into its handle, with the messages from an index on."""
        lease.token, lease.queue, lease.group = row.token, row.queue, row.group_key
        lease.done, lease.until = row.done, row.until
        delivery = self._part(transaction, row, begin, len(row.entry_ids))
        messages: Sequence[Received] = delivery.messages
        if self._bodies is not None:
            messages, _ = self._bodies.read(
                transaction, row.queue_id, row.entry_ids[begin:], messages, self._bodies.most
            )
        read = [leased_message(message, at) for at, message in enumerate(messages, begin + 1)]
        lease.messages = (*lease.messages[:begin], *read)

    def _part(self, transaction: Transaction, row: Any, begin: int, end: int) -> Delivery:
        """The messages of a lease from an index to another one, as they were handed out."""
        definitions = transaction.definitions()
        ids = row.entry_ids[begin:end]
        rows = transaction.rows("handed", of_queue=row.queue_id, of_entries=ids) if ids else []
        sequences = [one.sequence for one in rows]
        handed = HandedMessages(
            row.group_key, row.incarnation, ids, sequences, row.ordinals[begin:end], row.lates[begin:end]
        )
        return Deliveries(transaction).of(definitions.queue(row.queue), handed, rows, definitions)

    def _published(
        self, transaction: Transaction, row: Any, results: Sequence[tuple[int | None, Message]]
    ) -> Published:
        definitions = transaction.definitions()
        messages: list[Message] = [message for _, message in results]
        wrong = next((at for at, _ in results if at is not None and not row.done < at <= row.at), None)
        if wrong is not None:
            raise UsageError(
                f"position {wrong} can't be the cause: the call completes {row.done + 1} to {row.at}",
                where=f"queue {row.queue!r}",
                remedy="name a message that this call completes",
            )
        on_way = False
        if row.queue in definitions.ways or row.at == row.done + 1 or any(at is not None for at, _ in results):
            part = self._part(transaction, row, row.done, row.at)
            causes = causes_of(row.queue, row.group_key, row.incarnation, part.messages, definitions)
            named = [
                message if at is None else Answer(part.messages[at - row.done - 1], message) for at, message in results
            ]
            messages, on_way = causes.stamped(named, None), causes.lead_to_gate
        # A full queue refuses at once: the lease runs on.
        return Publisher(
            self._access, messages, delay=None, visible_at=None, wait=0.0, own=False, carried=on_way,
            in_hand=row.entry_ids[row.done : row.at] if on_way else (),
        ).publish(transaction)  # fmt: skip

    def _failed(self, lease: TakenLease, verb: str, at: int, fault: Fault) -> LeaseAnswer:
        if not isinstance(fault.error, str):
            raise UsageError(f"{shown(fault.error)} is no text", remedy="say in words what was wrong", argument="error")
        result: FaultResult | None = None

        def end(transaction: Transaction, row: Any, delivery: Delivery, size: int) -> dict[str, Any]:
            nonlocal result, fault
            fault = replace(fault, worker=row.worker)
            result = fail(transaction, delivery, row.at - 1 - row.done, size, fault)
            return {"then": result.then}

        said = "\n".join([fault.kind, fault.error, str(fault.retry_after)])
        answer = self._ended(
            lease, verb, at, hashlib.md5(said.encode(errors="replace"), usedforsecurity=False).hexdigest(), end
        )
        if result is not None:
            FAILURES.tell(lease.queue, lease.group, fault, result)
        return answer

    def _ended(
        self, lease: TakenLease, verb: str, at: int, said: str,
        end: Callable[[Transaction, Any, Delivery, int], dict[str, Any] | None],
    ) -> LeaseAnswer:  # fmt: skip
        """End a lease at a position: complete what is before it, and leave it and the rest to `end`."""
        with self._access.transaction() as transaction:
            transaction.leave_bodies(0)
            row = self.row(transaction, lease.id, verb, _checked_position(at), said)
            if row.answer is not None:
                return self._told(lease, row.answer)
            part = self._part(transaction, row, row.done, len(row.entry_ids))
            queue = self._access.known.definitions.queue(row.queue)
            held = HeldLease(self._access, row.token, queue, part, len(part), row.incarnation)
            size = len(part) if row.is_set else 1
            told = end(transaction, row, held.take_back(transaction), size) or {}
            lease.queue, lease.group = row.queue, row.group_key
            answer = transaction.value(
                "note_answer", of_lease=lease.id, of_holder=self.principal.name, verb=verb, at=row.at, said=said,
                answer=json.dumps(told), through=row.at - 1, ends=True,
            )  # fmt: skip
        return self._told(lease, answer)

    def _told(self, lease: TakenLease, answer: dict[str, Any]) -> LeaseAnswer:
        lease.done = max(lease.done, answer["done"])
        listed = {name: tuple(answer.get(name, ())) for name in ("published", "left_out")}
        return LeaseAnswer(**{**answer, **listed})


def _checked_position(at: object) -> int:
    if not is_whole(at, 1, 2**31 - 1):
        raise UsageError(f"{shown(at)} is no position", remedy="positions of a delivery count from 1")
    return at


def _checked_result(result: object) -> tuple[int | None, Message]:
    if isinstance(result, tuple) and len(result) == 2:
        at, message = result
        if isinstance(message, Message):
            return _checked_position(at), message
    elif isinstance(result, Answer):
        if isinstance(result.cause, LeasedMessage):
            return result.cause.position, result
    elif isinstance(result, Message) and not isinstance(result, Received):
        return None, result
    raise UsageError(
        f"{shown(result, 80)} can't be published",
        remedy="a seriatim.Message, (position, message), or seriatim.Answer(lease.messages[0], message)",
        argument="publish",
    )


def _digest(results: Sequence[tuple[int | None, Message]]) -> str:
    """What a call publishes, as a fingerprint, apart from ids: a caller that repeats it may make new ones."""
    if not results:
        return ""
    seen = hashlib.sha256()
    for at, message in results:
        parts = [(part.name, part.content_type, part.body) for part in message.parts]
        context = sorted(message.context.items())
        seen.update(
            repr((at, message.type, message.content_type, context, message.body, parts)).encode(errors="replace")
        )
    return seen.hexdigest()
