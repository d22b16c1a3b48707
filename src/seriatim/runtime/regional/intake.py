"""Copies of many sessions are taken from a region's box together, and the journal is asked about all of them in one call.

The worker's threads handle the copies that the journal gives; the others are completed, set aside, or wait, without a lock and without a
transaction.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TypeVar

from seriatim.box.box import MessageBox
from seriatim.box.faults.faults import Fault
from seriatim.box.faults.lease import HeldLease, claim
from seriatim.box.workers.copies import CopyEnd, end, known, set_aside
from seriatim.box.workers.own_session import own_session
from seriatim.errors import SeriatimError, Unavailable
from seriatim.kernel.regions.claims import EntryState, JournalAnswer
from seriatim.pipeline.text.event_log import LOG
from seriatim.pipeline.types.message import Received
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.values import ClaimAnswer, WantedMessage, digest_of
from seriatim.runtime.regional.claims import ClaimKeeper, HeldClaim
from seriatim.runtime.regional.holes import Holes
from seriatim.runtime.workers.lease_keeper import LeaseKeeper
from seriatim.runtime.workers.turn import TransactionalTurns, measure

_Answer = TypeVar("_Answer")
#: The most sessions of the next call, if no taken copy is to be handled.
_MOST_SESSIONS = 64
#: The longest pause between requests for a suspended session, as a multiple of the usual pause; it grows from request to request.
_LONGEST_PAUSES = 16
#: How many sessions' pauses are remembered.
_REMEMBERED = 100_000
_ASIDE = {
    JournalAnswer.CONFLICT: "its number is another message's in the journal",
    JournalAnswer.INVALID: "its number is below the start of the session, or between two steps",
    JournalAnswer.FORGOTTEN: "it is older than what the journal has forgotten, which can't say whether it was handled",
}


@dataclass(slots=True)
class TakenSession:
    """Copies of one session that the journal has given to this worker."""

    lease: HeldLease
    held: HeldClaim
    #: The number of copies before those to handle: they are over.
    over: int
    messages: Sequence[Received]
    around: ExitStack


@dataclass(slots=True)
class Intake:
    """The state that the threads of a worker share."""

    box: MessageBox
    journal: Journal
    name: str
    queue: str
    region: str
    mode: str
    lease_s: float
    #: The longest pause before the next request for a session that another region works on, seconds.
    recheck_s: float
    leases: LeaseKeeper
    claims: ClaimKeeper
    holes: Holes
    _ready: deque[TakenSession] = field(default_factory=deque)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _is_fetching: bool = False
    _most: int = 1
    _at_work: dict[int, TakenSession] = field(default_factory=dict)
    _pauses: dict[str, int] = field(default_factory=dict)

    def next(self, turns: TransactionalTurns, wait_s: float, limit: int | None) -> TakenSession | int | None:
        until = time.monotonic() + wait_s
        with self._changed:
            while not self._ready and self._is_fetching and not turns.ending():
                left = until - time.monotonic()
                if wait_s and left <= 0:
                    return None
                self._changed.wait(left if wait_s else None)
            if self._ready:
                return self._ready.popleft()
            if turns.ending():
                return None
            self._is_fetching = True
        try:
            taken = self._fetch(turns, wait_s, limit)
        finally:
            with self._changed:
                self._is_fetching = False
                self._changed.notify_all()
        if not taken:
            return taken if taken is None else 0
        with self._changed:
            self._ready.extend(taken[1:])
            self._changed.notify_all()
        return taken[0]

    @contextmanager
    def working(self, taken: TakenSession) -> Iterator[None]:
        """Inside the block a thread works on a session."""
        self._at_work[taken.lease.token] = taken
        try:
            yield
        finally:
            self._at_work.pop(taken.lease.token, None)

    def at_work(self, token: int) -> TakenSession | None:
        """Return the session that a thread works on, by the lease of its copies."""
        return self._at_work.get(token)

    def end(self) -> None:
        """Give back sessions that weren't begun."""
        with self._changed:
            left, self._ready = list(self._ready), deque()
        self.claims.give_back([one.held.claim for one in left if one.held.claim is not None])
        with suppress(SeriatimError):
            self.ends([CopyEnd(one.lease, one.over) for one in left])
        for one in left:
            one.around.close()

    def ends(self, ends: Sequence[CopyEnd]) -> None:
        """End leases of copies. Leases that can't be ended now run out, and their copies are found to be over."""
        if not ends:
            return
        with self.box.access.transaction() as transaction:
            queue = transaction.definitions().queue(self.queue)
            end(transaction, queue, ends)

    def set_aside(self, of: CopyEnd, reason: str, worker: str, what: Fault | None = None) -> None:
        """Set the next copy of a lease aside, as a dead letter of its box."""
        message = of.lease.delivery.messages[of.done]
        with self.box.access.transaction() as transaction:
            is_done = set_aside(transaction, of, reason, worker, what=what)
        if is_done:
            LOG.error(
                "copy_set_aside",
                queue=self.queue,
                group=message.group,
                message_id=message.message_id,
                region=self.region,
                why=reason,
            )

    def pause_us(self, session: str, again: int | None, *, grows: bool) -> int:
        """Return the pause before the next request for a session, microseconds."""
        recheck = round(self.recheck_s * 1e6)
        if not grows:
            self._pauses.pop(session, None)
            return max(1, recheck if again is None else min(again, recheck))
        if len(self._pauses) >= _REMEMBERED:
            self._pauses.clear()
        times = self._pauses[session] = min(2 * self._pauses.get(session, 0) or 1, _LONGEST_PAUSES)
        return max(1, times * recheck if again is None else min(again, times * recheck))

    # ---- taking

    def _fetch(self, turns: TransactionalTurns, wait_s: float, limit: int | None) -> list[TakenSession] | None:
        if self.claims.knows_it_away:
            self._asks(lambda: self.journal.rules(self.name, self.queue))
        self._asks(self.claims.pay)
        leases, rows = self._leased(turns, wait_s, limit)
        if not leases:
            gone_on = self._asks(lambda: self.holes.look(now=not wait_s))
            return [] if gone_on else None
        asked_at = time.monotonic()
        try:
            answers = self._asked(rows)
        except BaseException:
            with suppress(SeriatimError):
                self.ends([CopyEnd(one, 0) for one in leases])
            raise
        taken, ends, aside = [], [], []
        for lease, of_lease in zip(leases, answers, strict=True):
            found = self._sorted(lease, of_lease, asked_at)
            if isinstance(found, TakenSession):
                taken.append(found)
            elif isinstance(found, CopyEnd):
                ends.append(found)
            else:
                aside.append(found)
        self._most = turns.tuning.now.threads if taken else min(2 * self._most, _MOST_SESSIONS)
        try:
            self.ends(ends)
            for of, reason in aside:
                self.set_aside(of, reason, turns.worker)
        except Unavailable as error:  # their leases run out
            self.is_not_ended(error)
        self._asks(self.holes.look)
        return taken

    def is_not_ended(self, error: SeriatimError) -> None:
        """Log that copies couldn't be completed in the box; they are handed out again, and found to be over."""
        LOG.warning("copies_not_completed", queue=self.queue, region=self.region, error=error)

    def _leased(
        self, turns: TransactionalTurns, wait_s: float, limit: int | None
    ) -> tuple[list[HeldLease], list[list[WantedMessage]]]:
        """Return leases of the first copies of some sessions, and the journal's requests for each."""
        leases: list[HeldLease] = []
        with own_session(self.box) as session:
            session.ends_wait, session.by_regions = turns.ending, True
            most = max(self._most, turns.tuning.now.threads)
            while len(leases) < most:
                delivery = session.receive(
                    self.queue, limit=turns.most(limit), wait=(wait_s or None) if not leases else None
                )
                if delivery is None:
                    break
                measure(self.queue, delivery)
                leases.append(claim(session.transaction, delivery, len(delivery), turns.worker, self.leases.period_us))
            if not leases:
                return [], []
            asked = [_once(lease.delivery.messages) for lease in leases]
            told = iter(known(session.transaction, leases[0].queue, [one for each in asked for one in each]))
            return leases, [[asked_of(one, *next(told)) for one in each] for each in asked]

    def _asked(self, rows: Sequence[Sequence[WantedMessage]]) -> list[Sequence[ClaimAnswer]]:
        found = self._asks(
            lambda: self.journal.claim(
                self.name, self.queue, self.region, [one for each in rows for one in each], lease=self.lease_s,
                mode=self.mode,
            )
        )  # fmt: skip
        ends = list(accumulate(len(each) for each in rows))
        return [found[at - len(each) : at] for at, each in zip(ends, rows, strict=True)]

    def _sorted(
        self, lease: HeldLease, answers: Sequence[ClaimAnswer], asked_at: float
    ) -> TakenSession | CopyEnd | tuple[CopyEnd, str]:
        """Decide on the copies in a lease: those that are over come first, and the next one decides."""
        over = 0
        while over < len(answers) and answers[over].answer == JournalAnswer.OVER:
            over += 1
        session = lease.delivery.group or ""
        through = answers[0].through
        if over == len(answers):
            self._pauses.pop(session, None)
            return CopyEnd(lease, over, through=through)
        first = answers[over]
        if first.answer == JournalAnswer.TAKEN and first.claim is not None:
            self._pauses.pop(session, None)
            size = 0
            while over + size < len(answers) and answers[over + size].answer == JournalAnswer.TAKEN:
                size += 1
            held, around = HeldClaim(first.claim, asked_at), ExitStack()
            around.enter_context(self.leases.keeping(lease))
            around.enter_context(self.claims.keeping(held))
            return TakenSession(lease, held, over, lease.delivery.messages[over : over + size], around)
        if first.answer in _ASIDE:
            return CopyEnd(lease, over, through=through), _ASIDE[first.answer]
        grows = first.answer in (JournalAnswer.SUSPENDED, JournalAnswer.AHEAD) or first.entry == EntryState.PENDING
        return CopyEnd(lease, over, self.pause_us(session, first.again, grows=grows), through)

    def _asks(self, call: Callable[[], _Answer]) -> _Answer:
        try:
            answer = call()
        except Unavailable as error:
            self.claims.is_away(error)
            raise
        self.claims.is_back()
        return answer


def asked_of(message: Received, over: int | None, age: int | None, withdrawn: str | None) -> WantedMessage:
    digest, ident = digest_of(message.type, message.content_type, message.body), withdrawn or message.message_id
    return WantedMessage(
        message.group or "", message.sequence or 0, ident, digest, age or 0, over, withdrawn is not None
    )


def _once(messages: Sequence[Received]) -> Sequence[Received]:
    """Return the messages before the first repeated number: a late message may have any number."""
    seen: set[int | None] = set()
    for at, one in enumerate(messages):
        if one.sequence in seen:
            return messages[:at]
        seen.add(one.sequence)
    return messages
