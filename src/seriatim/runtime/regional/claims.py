"""The claims of a process in the journal: one statement renews all of them, and the process's own clock ends them.

A claim whose lease has passed on the monotonic clock since it was asked for isn't completed by its holder, whether the journal answers or
not. In the end the journal decides: a completion counts only under the present claim.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from seriatim.errors import LeaseLost, SeriatimError, Unavailable
from seriatim.pipeline.text.event_log import LOG
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.values import Claim

_LOOK_S = 1.0


class HeldClaim:
    def __init__(self, claim: Claim, asked_at: float) -> None:
        #: The rest of it; None: it has ended.
        self.claim: Claim | None = claim
        self.lost = threading.Event()
        self._whole = claim
        self._until = asked_at + claim.lease / 1e6

    def renewed(self, asked_at: float) -> None:
        """Note that the journal has answered a request of that moment."""
        self._until = max(self._until, asked_at + self._whole.lease / 1e6)

    @property
    def is_over(self) -> bool:
        """Whether its lease has passed, by this side's clock."""
        return self.lost.is_set() or time.monotonic() >= self._until

    def check(self) -> None:
        if self.is_over:
            self.lost.set()
            raise LeaseLost(
                "the claim is over: it wasn't renewed in time, or is another's",
                where=f"session {self._whole.session!r} of queue {self._whole.queue!r}",
                remedy="the message is handled under the next claim; give handlers a longer lease",
            )


class ClaimKeeper(threading.Thread):
    def __init__(self, journal: Journal, queue: str, heartbeat_s: float) -> None:
        super().__init__(name="seriatim-claims", daemon=True)
        self._journal = journal
        self._queue = queue
        self._heartbeat_s = heartbeat_s
        self._lock = threading.Lock()
        self._held: dict[str, HeldClaim] = {}
        self._owed: dict[str, Claim] = {}
        self._why = ""
        self._ended = threading.Event()

    @contextmanager
    def keeping(self, held: HeldClaim) -> Iterator[None]:
        ident = held.claim.id if held.claim else ""
        with self._lock:
            self._held[ident] = held
        try:
            yield
        finally:
            with self._lock:
                self._held.pop(ident, None)

    def give_back(self, claims: list[Claim]) -> None:
        """End claims before their leases do. If the journal is away, they are ended when it is back, before anything is claimed: no attempt
        is counted then.
        """
        if not claims:
            return
        with self._lock:
            self._owed.update({claim.id: claim for claim in claims})
        try:
            self.pay()
        except Unavailable as error:
            self.is_away(error)

    def pay(self) -> None:
        """End the claims that couldn't be ended before."""
        with self._lock:
            owed = dict(self._owed)
        if owed:
            self._journal.give_back(list(owed.values()))
            with self._lock:
                for ident in owed:
                    self._owed.pop(ident, None)

    @property
    def knows_it_away(self) -> bool:
        """Whether the journal couldn't be reached at the last request."""
        return bool(self._why)

    def is_away(self, error: Unavailable) -> None:
        """Note that the journal can't be reached; it is logged once."""
        if not self._why:
            LOG.error("journal_away", queue=self._queue, error=error)
        self._why = str(error)

    def is_back(self) -> None:
        if self._why:
            self._why = ""
            LOG.warning("journal_back", queue=self._queue)

    def end(self) -> None:
        self._ended.set()

    def run(self) -> None:
        threading.Thread(target=self._watch, name=f"{self.name}-watch", daemon=True).start()
        while not self._ended.wait(self._heartbeat_s):
            try:
                self._renew()
            except Unavailable as error:
                self.is_away(error)
            except SeriatimError as error:
                self._tell(error)
            except Exception as error:  # noqa: BLE001 -- whatever it is, the next heartbeat may do
                self._tell(error)

    def _tell(self, error: Exception) -> None:
        LOG.warning("claims_not_renewed", queue=self._queue, error=error)

    def _watch(self) -> None:
        """End claims that weren't renewed in time, whatever the heartbeat does."""
        while not self._ended.wait(min(_LOOK_S, self._heartbeat_s)):
            with self._lock:
                held = list(self._held.values())
            for working in held:
                if working.is_over:
                    working.lost.set()

    def _renew(self) -> None:
        with self._lock:
            held = {
                ident: (working, working.claim)
                for ident, working in self._held.items()
                if working.claim and not working.lost.is_set()
            }
        if not held:
            return
        asked_at = time.monotonic()
        lost = {ended.id for ended in self._journal.renew([claim for _, claim in held.values()])}
        self.is_back()
        for ident, (working, claim) in held.items():
            if ident not in lost:
                working.renewed(asked_at)
            elif working.claim is claim and ident in self._held:  # and wasn't completed meanwhile
                working.lost.set()
