"""Handle the messages of one session that the journal has given.

Each is handled in a transaction of the journal's database, whose last statement completes it. Their copies in the box are completed
together at the end; if that fails, they are handed out again, and the journal says that they are over.
"""

from __future__ import annotations

import hashlib
import logging
import random
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from seriatim.box.faults.faults import Fault
from seriatim.box.traces import TRACES, TurnTrace
from seriatim.box.turns.causes import Causes
from seriatim.box.workers.copies import CopyEnd
from seriatim.errors import DeadLetter, LeaseLost, Postpone, SeriatimError, Unavailable
from seriatim.kernel.groups.sequence import MAX_KEY_BYTES
from seriatim.kernel.operators.fault import FaultKind
from seriatim.kernel.regions.claims import EntryState
from seriatim.kernel.values.time import seconds
from seriatim.pipeline.text.event_log import LOG
from seriatim.pipeline.types.message import Message, Received
from seriatim.regions.handler_transaction import HandlerTransaction, key_of
from seriatim.regions.journal.values import Claim
from seriatim.regions.regions import Regions
from seriatim.runtime.regional.intake import Intake, TakenSession
from seriatim.runtime.workers.coroutines import HandlerStopped
from seriatim.runtime.workers.handler_time import HandlerTime
from seriatim.runtime.workers.handlers import Answered, Handler, answered, called
from seriatim.runtime.workers.late_turn import LateTurn
from seriatim.runtime.workers.raised import delay_or_fault, fault_of
from seriatim.runtime.workers.scoreboard import Slot
from seriatim.runtime.workers.turn import LONG_S, TransactionalTurns

_Answer = TypeVar("_Answer")
#: A transaction that collides, or can't reach the journal, is repeated after a pause, as long as the claim lasts.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.01, 1.0
#: How often a handler with a mistake in its own code is called.
_BUG_ATTEMPTS = 2
_MOST_REPEATS = 100


def result_id(queue: str, session: str, number: int, place: int) -> str:
    """Return the id of a message that a handler returns: the same at each attempt, in both regions."""
    text = f"{key_of(queue, session, number)}/{place}"
    if len(text.encode()) <= MAX_KEY_BYTES:
        return text
    return f"{hashlib.sha256(session.encode()).hexdigest()}/{number}/{place}"


@dataclass(frozen=True, slots=True)
class RegionalTurns:
    """The turns of one thread of a region's worker; like `TransactionalTurns`."""

    turns: TransactionalTurns
    intake: Intake
    regions: Regions

    def take(self, slot: Slot, wait_s: float, limit: int | None) -> int | None:
        """Do a turn, if there is work in time; arguments, result and errors are those of `TransactionalTurns.take`."""
        session = self.intake.next(self.turns, wait_s, limit)
        if not isinstance(session, TakenSession):
            return session
        with session.around, self.intake.working(session), TRACES.turn(self.turns.queue) as traces:
            traces.received(session.messages)
            run = _Run(self, session, slot, traces, limit)
            try:
                run.run()
            finally:
                slot.end()
        return run.tried

    def time_out(self, late: LateTurn) -> None:
        """End the claim of a slow handler, and count its attempt. Errors are those of `TransactionalTurns.time_out`."""
        token = late.work.token
        session = None if token is None else self.intake.at_work(token)
        if session is None:
            return
        claim, error = session.held.claim, f"the handler took longer than {self.turns.turn_limit_s:g} s"
        session.held.lost.set()
        session.held.claim = None
        if claim is not None:
            try:
                with suppress(LeaseLost):
                    self.intake.journal.fail(claim, claim.first, error)
            except Unavailable:
                session.held.claim = claim  # for the next call
                raise
        with suppress(SeriatimError):
            self.intake.ends([CopyEnd(session.lease, session.over)])


class _HandlerFailed(Exception):
    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


class _Run:
    def __init__(
        self, of: RegionalTurns, session: TakenSession, slot: Slot, traces: TurnTrace, limit: int | None
    ) -> None:
        self.tried = 0
        self._of, self._turns, self._intake = of, of.turns, of.intake
        self._journal = of.intake.journal
        self._lease, self._held = session.lease, session.held
        self._messages = session.messages if limit is None else session.messages[:limit]
        self._slot, self._traces = slot, traces
        self._session = session.lease.delivery.group or ""
        self._done = 0
        self._over = session.over
        self._delay_us = 0
        self._through: int | None = None
        self._aside: tuple[str, Fault] | None = None
        self._handler: Handler | None = None
        self._told_away = False

    def run(self) -> None:
        """Call the handlers, until all messages are completed, one fails, or other groups are due; then end the lease."""
        try:
            self._run()
        except LeaseLost as error:
            LOG.error(
                "claim_lost", worker=self._turns.worker, queue=self._turns.queue, group=self._session, error=error
            )
            self._held.lost.set()
        except HandlerStopped:
            pass
        finally:
            self._end()

    def _run(self) -> None:
        together = self._turns.batch
        began = time.monotonic()
        while self._left and not self._turns.ending():
            size = len(self._left) if together else 1
            try:
                consumed, delay_us = self._call(self._left[:size])
            except _HandlerFailed as failed:
                if size > 1 and not isinstance(failed.error, Postpone):
                    together = False  # one by one, to find the message that fails
                    continue
                self._failed(failed.error)
                return
            took = time.monotonic() - began
            if consumed < size:
                self._delay_us = delay_us or 0
                return
            if took > LONG_S:
                return

    @property
    def _left(self) -> Sequence[Received]:
        return self._messages[self._done :]

    # ---- one call

    def _call(self, part: Sequence[Received]) -> tuple[int, int | None]:
        """Call the handler with messages, and complete them; return how many, and the delay of the others."""
        pause_s, repeats = _FIRST_PAUSE_S, 0
        self._slot.begin(self._turns.queue, self._session, 0, self._lease.token)
        self._slot.call(self._lease.delivery.entry_ids[self._over + self._done])
        self.tried += len(part)
        while True:
            self._held.check()
            try:
                return self._once(part)
            except LeaseLost:
                raise
            except Unavailable as error:
                # No failure: the handler is called again, and no attempt is counted.
                if self._turns.ending():
                    raise HandlerStopped from None
                self._tell(error)
                if (repeats := repeats + 1) > _MOST_REPEATS:  # another worker may succeed, and other groups are due
                    raise _HandlerFailed(Postpone(self._intake.recheck_s)) from error
                self._held.lost.wait(pause_s * random.uniform(0.5, 1.0))  # noqa: S311 -- nobody gains by guessing it
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _tell(self, error: Unavailable) -> None:
        if not self._told_away:
            LOG.info("handler_called_again", worker=self._turns.worker, queue=self._turns.queue, error=error)
        self._told_away = True

    def _once(self, part: Sequence[Received]) -> tuple[int, int | None]:
        claim = self._claim
        number = claim.first
        with self._journal.transaction() as tx:
            session = HandlerTransaction(tx, claim, number, self._held.check)
            try:
                with tx.lent():
                    outcome = self._handled(part, session)
            except HandlerStopped:
                raise
            except BaseException as error:
                if tx.passes(error):
                    raise Unavailable(
                        f"the transaction of the message has to be repeated: {error}", where=self._journal.place
                    ) from error
                raise _HandlerFailed(error) from error
            finally:
                session.end()
            self._slot.returned()
            self._publish(outcome.published, number, part)
            self._held.check()
            self._traces.settles()
            last = part[outcome.consumed - 1].sequence or 0
            started = time.monotonic()
            left = tx.complete(claim, last)
        self._held.claim = left
        self._held.renewed(started)
        self._done += outcome.consumed
        self._through = last
        return outcome.consumed, outcome.delay_us

    def _handled(self, part: Sequence[Received], session: HandlerTransaction) -> Answered:
        turns, begin = self._turns, self._over + self._done
        self._handler = turns.handlers.handler(part[0], session)  # type: ignore[arg-type]  # one that takes no `Session`
        argument = self._lease.delivery.part(begin, begin + len(part)) if turns.batch else part[0]
        with self._traces.process(part), HandlerTime(turns.queue):
            answer = called(self._handler, argument, session)  # type: ignore[arg-type]
        return answered(answer, len(part))

    def _publish(self, messages: Sequence[Message], number: int, part: Sequence[Received]) -> None:
        """Publish the handler's messages before the completion: a repeated attempt publishes the same ids."""
        if not messages:
            return
        named = [
            replace(message, message_id=result_id(self._turns.queue, self._session, number, place))
            for place, message in enumerate(Causes(self._turns.queue, part).stamped(messages, None))
        ]
        try:
            self._of.regions.publish(named)
        except Unavailable:
            raise
        except SeriatimError as error:
            raise _HandlerFailed(error) from error

    # ---- early ends of a turn

    def _failed(self, error: BaseException) -> None:
        """Note a failure in the journal, or a postponement; the claim ends."""
        claim, cause = self._claim, delay_or_fault(error)
        if isinstance(cause, int):
            self._asks_until(lambda: self._journal.postpone(claim, claim.first, seconds(cause)))
            self._delay_us = min(cause, self._intake.pause_us(self._session, None, grows=True)) or 1
            return
        fault = fault_of(cause, self._turns.worker, self._turns.classes, self._handler)
        is_dead = isinstance(error, DeadLetter)
        entry = self._asks_until(
            lambda: self._journal.fail(
                claim, claim.first, f"{fault.error_class}: {fault.error}", passes=fault.kind is not FaultKind.BUSINESS,
                retry_after=None if fault.retry_after is None else seconds(fault.retry_after),
                most=_BUG_ATTEMPTS if fault.kind is FaultKind.BUG else None, goes_on=True if is_dead else None,
            )
        )  # fmt: skip
        self._held.claim = None
        goes_on = entry == EntryState.FAILED and self._asks_until(lambda: self._is_over(claim))
        then = "it is tried again" if entry == EntryState.PENDING else (
            "the session goes on without it" if goes_on else "the session stands in both regions"
        )  # fmt: skip
        message = self._left[0]
        LOG.log(
            logging.WARNING if entry == EntryState.PENDING else logging.ERROR,
            "regional_failure",
            worker=self._turns.worker,
            queue=self._turns.queue,
            group=self._session,
            message_id=message.message_id,
            number=claim.first,
            kind=str(fault.kind),
            error=fault.error,
            then=then,
            _error_class=fault.error_class,
        )
        if goes_on:
            self._through = claim.first
            self._aside = f"{fault.error_class}: {fault.error}", replace(fault, is_dead=True)
        else:
            self._delay_us = self._intake.pause_us(self._session, fault.retry_after, grows=True)

    def _is_over(self, claim: Claim) -> bool:
        """Return whether the session goes on after the next number of a claim that has ended."""
        through = self._journal.done_through(claim.name, claim.queue, [claim.session])
        return through.get(claim.session, claim.first) >= claim.first

    def _asks_until(self, call: Callable[[], _Answer]) -> _Answer:
        """Ask the journal, again and again while it is away and the claim lasts."""
        pause_s = _FIRST_PAUSE_S
        while True:
            self._held.check()
            try:
                return call()
            except LeaseLost:
                raise
            except Unavailable as error:
                self._tell(error)
                self._held.lost.wait(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    @property
    def _claim(self) -> Claim:
        claim = self._held.claim
        if claim is None:
            raise AssertionError("a claim that has ended has nothing left to do")
        return claim

    # ---- the end

    def _end(self) -> None:
        """Give back the rest of the claim, and end the lease of the copies."""
        claim, self._held.claim = self._held.claim, None
        if claim is not None and self._aside is None:
            self._intake.claims.give_back([claim])
        of = CopyEnd(self._lease, self._over + self._done, self._delay_us, self._through)
        try:
            if self._aside is None:
                self._intake.ends([of])
            else:
                reason, fault = self._aside
                self._intake.set_aside(of, reason, self._turns.worker, fault)
        except SeriatimError as error:  # the lease runs out
            self._intake.is_not_ended(error)
