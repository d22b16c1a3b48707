"""A thread of a worker: it does turns of one queue, one after another, until it is told to end."""

from __future__ import annotations

import logging
import random
import threading

from seriatim.errors import ActionRefused, DeploymentError, EnvironmentProblem, SeriatimError, Unavailable, UsageError
from seriatim.runtime.workers.leased_turn import LeasedTurns
from seriatim.runtime.workers.rate_limit import RateLimit
from seriatim.runtime.workers.scoreboard import Slot
from seriatim.runtime.workers.turn import TransactionalTurns

__all__ = ["WorkerThread"]

_LOG = logging.getLogger("seriatim.worker")
#: A thread that waits looks so often whether something is there that nobody called it for: a group whose worker died.
_WAIT_S = 0.7
_SHORT_NAP_S, _LONG_NAP_S, _OFF_NAP_S = 0.1, 5.0, 0.5


class WorkerThread(threading.Thread):
    """A thread of a worker.

    Args:
        turns: the turns that it does.
        slot: the slot for its messages in hand.
        rate_limit: the rate limit.
        stop: set when it has to end after its turn.
    """

    def __init__(
        self, turns: TransactionalTurns | LeasedTurns, slot: Slot, rate_limit: RateLimit, stop: threading.Event
    ) -> None:
        # Where a handler never returns, that is no reason for the process to stay.
        super().__init__(name=turns.worker, daemon=True)
        self._turns = turns
        self._slot = slot
        self._rate_limit = rate_limit
        self._stop_asked = stop
        self._nap_s = 0.0
        self._told = ""
        #: Whether another thread has ended its turn: when its handler returns after all, this thread ends.
        self.given_up = False
        self.handled = 0
        #: Why it can't go on, if so.
        self.error: SeriatimError | None = None

    def look(self) -> bool:
        """Check whether its turn takes too long; then the turn is ended and the fault recorded.

        Returns:
            whether the handler is stuck, and another thread has to take its place.

        Raises:
            Unavailable: the transaction has to be repeated.
        """
        work = self._slot.read()
        if self.given_up or work is None or work.since < self._turns.turn_limit_s:
            return False
        if not self._slot.claim(work.turn):  # it has just ended, or the thread itself writes down that it was ended
            return False
        self.given_up = work.entry_id is not None
        self._turns.time_out(work)
        _LOG.error(
            "%s: a turn of queue %r, group %r took longer than %g s",
            self.name, work.queue, work.group, self._turns.turn_limit_s,
        )  # fmt: skip
        return self.given_up

    def run(self) -> None:
        """Do turns."""
        while not self._stop_asked.is_set() and not self.given_up:
            try:
                self._turn()
            except (Unavailable, EnvironmentProblem) as error:
                self._nap(error)
            except ActionRefused as error:  # the queue is off, until an operator turns it on
                self._tell(str(error))
                self._stop_asked.wait(_OFF_NAP_S)
            # The queue is gone, or the box is another one: errors of what a handler did are faults.
            except (UsageError, DeploymentError) as error:
                self.error = error
                self._stop_asked.set()
            except Exception:  # noqa: BLE001 -- whatever it is, the next turn may do
                _LOG.exception("%s: a turn failed", self.name)
                self._nap(None)

    def _turn(self) -> None:
        permits, wait_s = self._rate_limit.take(self._turns.run_length)
        if permits == 0:
            self._stop_asked.wait(min(wait_s, _WAIT_S))
            return
        tried: int | None = None
        try:
            tried = self._turns.take(self._slot, _WAIT_S, permits)
        finally:
            self._rate_limit.give_back((permits or 0) - (tried or 0))
        self.handled += tried or 0
        self._nap_s, self._told = 0.0, ""

    def _nap(self, error: SeriatimError | None) -> None:
        """Wait a while before the next attempt."""
        if error is not None:
            self._tell(str(error))
        self._nap_s = min(max(2 * self._nap_s, _SHORT_NAP_S), _LONG_NAP_S)
        self._stop_asked.wait(self._nap_s * random.uniform(0.5, 1.0))  # noqa: S311 -- nobody gains by guessing it

    def _tell(self, text: str) -> None:
        if text != self._told:
            _LOG.warning("%s: %s", self.name, text)
            self._told = text
