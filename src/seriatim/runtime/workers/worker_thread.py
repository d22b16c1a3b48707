"""A thread of a worker: it does turns of one queue, one after another, until it is told to end."""

from __future__ import annotations

import random
import threading
from typing import Protocol

from seriatim.box.measures import MEASURES, Measure
from seriatim.errors import ActionRefused, DeploymentError, EnvironmentProblem, SeriatimError, Unavailable, UsageError
from seriatim.pipeline.text.event_log import LOG
from seriatim.pipeline.text.told_once import ToldOnce
from seriatim.runtime.workers.idleness import Idleness
from seriatim.runtime.workers.late_turn import LateTurn
from seriatim.runtime.workers.rate_limit import RateLimit
from seriatim.runtime.workers.scoreboard import Slot
from seriatim.runtime.workers.turn import TransactionalTurns

#: The interval at which a waiting thread looks for work without a notification: for a group whose worker died, seconds.
_WAIT_S = 0.7
_SHORT_NAP_S, _LONG_NAP_S, _OFF_NAP_S = 0.1, 5.0, 0.5


class Turns(Protocol):
    """How a thread does turns of a queue; `TransactionalTurns` says what these are, and does them in one transaction each."""

    def take(self, slot: Slot, wait_s: float, limit: int | None) -> int | None:
        """Do a turn."""

    def time_out(self, late: LateTurn) -> None:
        """End a turn that takes too long."""


class WorkerThread(threading.Thread):
    def __init__(
        self, turns: Turns, common: TransactionalTurns, slot: Slot, rate_limit: RateLimit, stop: threading.Event,
        idleness: Idleness | None = None,
    ) -> None:  # fmt: skip
        # Where a handler never returns, that is no reason for the process to stay.
        super().__init__(name=common.worker, daemon=True)
        self._turns = turns
        #: Their queue, their limits, and their handlers.
        self._common = common
        self._slot = slot
        self._rate_limit = rate_limit
        self._stop_asked = stop
        #: Of the threads of the process, if they shall end when nothing is left to do.
        self._idleness = idleness
        if idleness is not None:
            idleness.joins(self)
        self._nap_s = 0.0
        self._told = ToldOnce("worker_waits", worker=common.worker, queue=common.queue)
        self._late: LateTurn | None = None
        #: Whether another thread has ended its turn: when its handler returns after all, this thread ends.
        self.given_up = False
        #: Whether it ends after its turn, because fewer threads are wanted.
        self.is_leaving = False
        self.handled = 0
        #: Why it can't go on, if so.
        self.error: SeriatimError | None = None

    def look(self) -> bool:
        """Check whether its turn takes too long; then the turn is ended and the fault recorded, by the next look if that fails."""
        late, self._late = self._late or self._claimed(), None
        if late is not None:
            try:
                self._time_out(late)
            except (Unavailable, EnvironmentProblem) as error:
                self._late = late
                self._tell_not_ended(late, str(error))
            finally:  # later, if it is retried: the attempt has to be counted before the message can be handed out
                if self._late is None and late.goes_on:
                    self._common.handlers.give_up(self.ident)
        return self.given_up

    @property
    def is_late(self) -> bool:
        """Whether one of its turns is still to be ended, or its attempt to be counted."""
        return self._late is not None

    def _claimed(self) -> LateTurn | None:
        """Claim its turn, if it takes too long and no other thread has claimed it: the thread itself may record its end."""
        work = self._slot.read()
        if self.given_up or work is None or work.since < self._common.turn_limit_s:
            return None
        late = LateTurn.claim(self._slot, work)
        self.given_up = late is not None and work.entry_id is not None
        return late

    def _time_out(self, late: LateTurn) -> None:
        self._turns.time_out(late)
        if self._idleness is not None:  # until now other threads couldn't get its messages
            self._idleness.worked()
        work = late.work
        LOG.error(
            "turn_too_long",
            worker=self.name,
            queue=work.queue,
            group=work.group,
            seconds=late.since,
            _limit_s=self._common.turn_limit_s,
        )

    def _tell_not_ended(self, late: LateTurn, text: str) -> None:
        if text != late.told:
            LOG.warning("turn_not_ended", worker=self.name, error=text)
            late.told = text

    def leave(self) -> None:
        self.is_leaving = True

    def is_replaced(self) -> None:
        """Note that another thread has taken its place: its idleness isn't waited for any more, once its turn is ended."""
        if self._idleness is not None and not self.is_late:
            self._idleness.leaves(self)

    def run(self) -> None:
        while not (self._common.ending() or self.given_up or self.is_leaving):
            try:
                self._turn()
            except (Unavailable, EnvironmentProblem) as error:
                self._nap(error)
            except ActionRefused as error:  # the queue is off, until an operator turns it on
                MEASURES.looked(self._common.queue)
                self._told.tell(str(error))
                if self._idleness is None:
                    self._stop_asked.wait(_OFF_NAP_S)
                else:
                    self._idleness.found_nothing(self, self._idleness.looks(self), _OFF_NAP_S)
            # The queue is gone, or the box is another one: handlers' errors are faults.
            except (UsageError, DeploymentError) as error:
                self.error = error
                self._stop_asked.set()
            except Exception:  # noqa: BLE001 -- whatever it is, the next turn may do
                LOG.exception("turn_failed", worker=self.name, queue=self._common.queue)
                self._nap(None)
        if self.is_leaving and self._idleness is not None:
            self._idleness.leaves(self)

    def _turn(self) -> None:
        self._common.handlers.check()
        permits, wait_s = self._rate_limit.take(self._common.run_length)
        if permits == 0:
            self._stop_asked.wait(min(wait_s, _WAIT_S))
            return
        tried: int | None = None
        idleness = self._idleness
        before = 0 if idleness is None else idleness.looks(self)
        try:
            tried = self._turns.take(self._slot, _WAIT_S if idleness is None else 0.0, permits)
        finally:
            self._rate_limit.give_back((permits or 0) - (tried or 0))
        MEASURES.looked(self._common.queue)
        MEASURES.count(Measure.HANDLED, self._common.queue, by=tried or 0)
        self.handled += tried or 0
        self._slot.count(tried or 0)
        self._nap_s = 0.0
        self._told.forget()
        if idleness is None:
            return
        if tried is None:
            idleness.found_nothing(self, before, _WAIT_S)
        else:
            idleness.worked()

    def _nap(self, error: SeriatimError | None) -> None:
        """Wait a while before the next attempt."""
        if error is not None:
            self._told.tell(str(error))
        self._nap_s = min(max(2 * self._nap_s, _SHORT_NAP_S), _LONG_NAP_S)
        self._stop_asked.wait(self._nap_s * random.uniform(0.5, 1.0))  # noqa: S311 -- nobody gains by guessing it
