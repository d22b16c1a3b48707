"""A turn in leased mode: a run of messages of one group, each in its own short transaction, under one lease.

No transaction is open while a handler works, unless the handler uses its session. A message that fails ends the lease, in the
transaction that records the fault. If a commit fails, or the lease can't go on for another reason, the messages that aren't done
are freed and handed out again.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass

from seriatim.box.faults.failure_log import FAILURES
from seriatim.box.faults.faults import Fault, LostTurn
from seriatim.box.faults.lease import HeldLease, claim, give_back, untried
from seriatim.box.postgres.translate import migrated
from seriatim.box.traces import TRACES, TurnTrace
from seriatim.box.workers.leased_session import LeasedSession
from seriatim.box.workers.own_session import own_session
from seriatim.box.workers.steps import TurnEnded, refusal
from seriatim.errors import BoxMigrated, LeaseLost, SeriatimError, Unavailable
from seriatim.kernel.operators.fault import FaultKind
from seriatim.pipeline.text.event_log import LOG
from seriatim.runtime.workers.coroutines import HandlerStopped
from seriatim.runtime.workers.handler_time import HandlerTime
from seriatim.runtime.workers.handlers import Handler, answered, called
from seriatim.runtime.workers.late_turn import LateTurn
from seriatim.runtime.workers.lease_keeper import LeaseKeeper
from seriatim.runtime.workers.raised import fault_of
from seriatim.runtime.workers.scoreboard import Slot
from seriatim.runtime.workers.turn import LONG_S, TransactionalTurns, measure


@dataclass(frozen=True, slots=True)
class LeasedTurns:
    """The turns of one queue, in leases; like `TransactionalTurns`."""

    turns: TransactionalTurns
    keeper: LeaseKeeper

    def take(self, slot: Slot, wait_s: float, limit: int | None) -> int | None:
        """Do a turn, if there is work in time; arguments, result and errors are those of `TransactionalTurns.take`."""
        turns = self.turns
        with ExitStack() as around:
            lease = self._claimed(wait_s, limit, around)
            if lease is None:
                return None
            traces = around.enter_context(TRACES.turn(turns.queue))
            traces.received(lease.messages)
            turn = _Turn(self, lease, slot, traces)
            around.enter_context(self.keeper.keeping(lease))
            try:
                turn.run()
            except LeaseLost as error:
                LOG.error(
                    "turn_lost_lease", worker=turns.worker, queue=turns.queue, group=lease.delivery.group, _error=error
                )
            except HandlerStopped:
                self._give_back(lease)
            except BaseException:
                self._give_back(lease)
                raise
            finally:
                slot.end()
        return turn.tried

    def time_out(self, late: LateTurn) -> None:
        """Revoke the lease of a slow handler, and record the fault; errors are those of `TransactionalTurns.time_out`."""
        work = late.work
        if work.entry_id is not None and work.token is not None:
            error = f"the handler took longer than {self.turns.turn_limit_s:g} s"
            fault = Fault(FaultKind.TIMEOUT, "TurnLimit", error, self.turns.worker)
            self.keeper.lose(work.token)
            self.turns.note_lost(LostTurn(work.queue, work.group, work.entry_id, work.token), fault)

    def _claimed(self, wait_s: float, limit: int | None, around: ExitStack) -> HeldLease | None:
        turns = self.turns
        with own_session(turns.box) as session:
            session.ends_wait = turns.ending
            delivery = session.receive(turns.queue, limit=turns.most(limit), wait=wait_s or None)
            if delivery is None:
                return None
            # Wait for the exclusion before the claim: from the claim on, the death of the process counts as an attempt.
            around.enter_context(turns.exclusion(delivery, has_ended_worker=turns.has_ended_worker(delivery, session)))
            turns.turn_size.without_groups = delivery.group is None
            measure(turns.queue, delivery)
            size = len(delivery) if turns.whole else untried(delivery.messages)
            return claim(
                session.transaction,
                delivery,
                size,
                turns.worker,
                self.keeper.period_us,
                is_led=session.instance is not None,
            )

    def _give_back(self, lease: HeldLease) -> None:
        """Free the remaining messages at once. If that fails, the lease runs out."""
        lease.is_ending = True
        try:
            with self.turns.box.access.transaction() as transaction:
                give_back(transaction, self.turns.queue, lease.token)
        except SeriatimError as error:
            LOG.warning(
                "lease_not_given_back",
                worker=self.turns.worker,
                queue=self.turns.queue,
                group=lease.delivery.group,
                lease=lease.token,
                error=error,
            )


class _Turn:
    """One lease. `tried`: how many of its messages were given to handlers."""

    def __init__(self, leased: LeasedTurns, lease: HeldLease, slot: Slot, traces: TurnTrace) -> None:
        self.tried = 0
        self._handler: Handler | None = None
        self._turns = leased.turns
        self._lease = lease
        self._slot = slot
        self._traces = traces

    def run(self) -> None:
        """Call the handlers with the messages, until one fails, or other groups are due."""
        together = self._turns.whole or self._turns.batch
        began = time.monotonic()
        while self._lease.left:
            size = self._lease.left if together else 1
            try:
                if not self._call(size, began, together=together):
                    return
            except (LeaseLost, HandlerStopped, _Doubt, BoxMigrated):
                raise
            except TurnEnded as error:
                # The handler ended the transaction itself, and may have committed its writes: a retry might commit them twice.
                lease = self._lease
                lost = LostTurn(self._turns.queue, lease.delivery.group, lease.at_hand, lease.token)
                self._turns.note_lost(lost, fault_of(error, self._turns.worker))
                return
            except BaseException as error:
                # An error because the schema is another one now is no fault of the handler.
                if (newer := migrated(error, self._turns.box.access.place)) is not None:
                    raise newer from error
                self._end_early(size, error)
                return

    def _call(self, size: int, began: float, *, together: bool) -> bool:
        """Call a handler, and commit its writes; return whether the lease goes on."""
        turns, lease, box = self._turns, self._lease, self._turns.box
        message = lease.messages[0]
        given = lease.delivery.part(lease.done, lease.done + size) if together else message
        self._slot.begin(turns.queue, lease.delivery.group, 0, lease.token)
        self._slot.call(lease.at_hand)
        if lease.delivery.causes is not None:
            lease.delivery.causes.begin(lease.messages[:size])
        self.tried += size
        began_call = time.monotonic()
        with LeasedSession(lease, box.session, turns.run_as) as session:
            with self._traces.process(lease.messages[:size]):
                self._handler = turns.handlers.handler(message, session)
                with lease.delivery.lent(), HandlerTime(turns.queue):
                    answer = called(self._handler, given, session)
                published, consumed, delay_us = answered(answer, size, whole=turns.whole)
                if published:
                    session.publish(published)
            session.handled()
            self._slot.returned()
            took = time.monotonic() - began
            turns.turn_size.note(consumed, time.monotonic() - began_call)
            ends = consumed < size or took > LONG_S or turns.turn_size.is_over(took) or turns.ending()
            self._traces.settles()
            _complete(session, consumed, ends=ends, postponed=size - consumed, delay_us=delay_us)
        return not ends

    def _end_early(self, size: int, error: BaseException) -> None:
        """Postpone the messages that the handler had, or record its failure, and end the lease."""
        turns, lease = self._turns, self._lease
        with turns.box.access.transaction() as transaction:
            failed = turns.end_early(transaction, lease.take_back(transaction), 0, size, error, self._handler)
        if failed is not None:
            FAILURES.tell(turns.queue, lease.delivery.group, *failed)


def _complete(
    session: LeasedSession, count: int, *, ends: bool, postponed: int = 0, delay_us: int | None = None
) -> None:
    """Commit a handler's writes; for the arguments see `LeasedSession.complete`. An error by which the database refuses them, and would
    again, is raised as it is, so that it counts as the handler's failure; one that may be over soon becomes `_Doubt`.
    """
    try:
        session.complete(count, ends=ends, postponed=postponed, delay_us=delay_us)
    except (LeaseLost, TurnEnded):
        raise
    except SeriatimError as error:
        if (refused := refusal(error)) is not None:
            raise refused from None
        if isinstance(error, Unavailable):
            raise _Doubt(error.what, where=error.where, remedy=error.remedy) from error
        raise


class _Doubt(Unavailable):
    """The commit of a handler's writes has failed, or its outcome is unknown: it isn't the handler's failure, and no attempt is counted."""
