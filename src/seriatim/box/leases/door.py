"""The door: hand a run of one group out under a lease, in one transaction with the id of the caller's attempt."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from itertools import accumulate
from uuid import UUID

from seriatim.box.connection.access import Access
from seriatim.box.connection.in_hand import Event
from seriatim.box.faults.lease import check_leasable, untried
from seriatim.box.leases.bodies import Bodies
from seriatim.box.leases.calls import LeaseCalls, period_of
from seriatim.box.leases.taken import Principal, TakenLease, leased_message
from seriatim.box.postgres.translate import translated
from seriatim.box.session import Session
from seriatim.box.turns.deliveries import DeliveryEnds
from seriatim.box.turns.delivery import Delivery
from seriatim.errors import UsageError, is_whole, shown
from seriatim.kernel.groups.policy import UnitOfWork
from seriatim.pipeline.text.storable import checked_text
from seriatim.pipeline.types.message import Received

_LONGEST_ATTEMPT = 256


class Superseded(Exception):
    """A later call has the id of this attempt, and its place."""


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """What a call of `MessageBox.lease` asks for; arguments and errors are the call's."""

    queue: str
    limit: int
    period: timedelta
    group: str | UUID | None
    attempt_id: str | None
    max_bytes: int | None

    @classmethod
    def checked(
        cls,
        queue: str,
        limit: int,
        lease: float | str | timedelta,
        group: str | UUID | None,
        attempt_id: str | None,
        max_bytes: int | None,
    ) -> Wanted:
        """Check what is asked for; the limit and the group are checked where they are received."""
        checked_text(queue, "a queue's name")
        if attempt_id is not None and not (isinstance(attempt_id, str) and 0 < len(attempt_id) <= _LONGEST_ATTEMPT):
            raise UsageError(
                f"{shown(attempt_id, 80)} can't be the id of an attempt", remedy=f"text of 1 to {_LONGEST_ATTEMPT} characters",
                argument="attempt_id",
            )  # fmt: skip
        if max_bytes is not None and not is_whole(max_bytes, 1):
            raise UsageError(f"{shown(max_bytes)} is no number of bytes", remedy="1 or more", argument="max_bytes")
        return cls(queue, limit, period_of(lease), group, attempt_id, max_bytes)


class Door:
    def __init__(self, access: Access, principal: Principal | None, bodies: Bodies | None = None) -> None:
        self._access = access
        self._bodies = bodies
        self._calls = LeaseCalls(access, principal, bodies)
        self.principal = self._calls.principal

    def lease_of(self, lease_id: UUID | str) -> TakenLease:
        try:
            return TakenLease(self._calls, lease_id if isinstance(lease_id, UUID) else UUID(lease_id))
        except (ValueError, TypeError, AttributeError):
            raise UsageError(f"{shown(lease_id, 80)} is no id of a lease", remedy="a UUID, as lease.id") from None

    @contextmanager
    def attempt(self, wanted: Wanted) -> Iterator[None]:
        """Make a call the present one of its attempt, while the block runs: an earlier call with the same id stops waiting."""
        place = self._place(wanted)
        if wanted.attempt_id is not None:
            self._access.attempts[place] = wanted
        try:
            yield
        finally:
            if self._access.attempts.get(place) is wanted:
                del self._access.attempts[place]

    def _place(self, wanted: Wanted) -> tuple[object, ...]:
        return self._calls.principal, wanted.queue, wanted.attempt_id

    def look(self, session: Session, wanted: Wanted, wait: float | str | None = None) -> TakenLease | None:
        """Hand out the next run, or the lease of an earlier attempt with this id. `Superseded`: a later call has it. None: nothing."""
        if self._bodies is not None:
            self._bodies.leave(session.transaction)
        if wanted.attempt_id is not None:
            place = self._place(wanted)
            if self._access.attempts.get(place) is not wanted:
                raise Superseded
            if (before := self._before(session, wanted)) is not None:
                return before
            session.ends_wait = lambda: self._access.attempts.get(place) is not wanted
        delivery = session.receive(wanted.queue, limit=wanted.limit, group=wanted.group, wait=wait)
        return None if delivery is None else self._claimed(session, wanted, delivery)

    def _before(self, session: Session, wanted: Wanted) -> TakenLease | None:
        """The lease of an attempt that was made before; `LeaseLost` once it is over."""
        transaction = session.transaction
        with translated(self._access.place):
            queue = transaction.definitions().queue(wanted.queue)
            named = {
                "of_queue": queue.queue_id,
                "of_holder": self._calls.principal.name,
                "of_attempt": wanted.attempt_id,
            }
            found = transaction.value("lease_of_attempt", **named)
            if found is None:
                transaction.commit()  # it only looked
                return None
            lease = TakenLease(self._calls, found)
            row = self._calls.row(transaction, found, "read")
            self._calls.fill(transaction, lease, row, row.done)
            return lease

    def _claimed(self, session: Session, wanted: Wanted, delivery: Delivery) -> TakenLease:
        transaction = session.transaction
        with translated(self._access.place):
            queue = self._access.known.definitions.queue(delivery.queue)
            check_leasable(queue, is_led=session.instance is not None)
            is_set = delivery.group is not None and isinstance(queue.declared.policy_of(delivery.group), UnitOfWork)
            ends = DeliveryEnds.of_delivery(queue, delivery)
            size = len(delivery) if is_set else untried(delivery.messages)
            messages: Sequence[Received] = delivery.messages[:size]
            sizes = [len(one.body) for one in messages]
            most = None if is_set else wanted.max_bytes
            if self._bodies is not None:
                messages, sizes = self._bodies.read(
                    transaction, queue.queue_id, ends.entry_ids[:size], messages, most or self._bodies.most
                )
            if most is not None:
                size = max(sum(total <= most for total in accumulate(sizes)), 1)
            row = transaction.one(
                "lease_out", of_queue=ends.queue_id, of_group=ends.group, of_entries=ends.entry_ids, ordinals=ends.ordinals,
                lates=ends.lates, how_many=size, of_holder=self._calls.principal.name, of_attempt=wanted.attempt_id,
                period=wanted.period, is_set=is_set, at_commit=False,
            )  # fmt: skip
            delivery.happens(Event.TAKEN_OVER)
            delivery.early_ends = None
            if row.delivery is None:  # another call with this id of an attempt was faster
                transaction.connection.rollback()
                before = self._before(session, wanted)
                assert before is not None  # noqa: S101 -- its row was committed, and stays for an hour
                return before
        lease = TakenLease(self._calls, row.delivery)
        lease.token, lease.until, lease.queue, lease.group = row.token, row.until, delivery.queue, delivery.group
        lease.messages = tuple(leased_message(message, at) for at, message in enumerate(messages[:size], 1))
        return lease
