"""A journal in memory, a session and a message at a time: obviously right, slow, and compared with the real one."""

from __future__ import annotations

from dataclasses import dataclass, field

from seriatim.kernel.regions.claims import JournalAnswer
from seriatim.kernel.regions.votes import Vote

__all__ = ["Held", "Oracle"]

_OVER = ("skipped", "void")


@dataclass
class _Number:
    state: str
    ident: str | None = None
    attempts: int = 0
    due: float | None = None
    kept: int | None = None


@dataclass
class _Session:
    done: int = 0
    sent: int = 0
    state: str = "idle"
    claim: int | None = None
    version: int = 0
    until: float = 0
    hole: float | None = None
    numbers: dict[int, _Number] = field(default_factory=dict)

    @property
    def through(self) -> int:
        return max(self.done, self.sent)


@dataclass(frozen=True)
class Held:
    """A claim: its serial, and its next and last number."""

    session: str
    claim: int
    first: int
    last: int


class Oracle:
    """A journal of one queue that begins at 1 in steps of 1; times in seconds.

    Args:
        attempts: of each message.
        retry: before the next attempt.
        hole: after which a hole is skipped.
    """

    def __init__(self, attempts: int, retry: float, hole: float) -> None:
        self.attempts, self.retry, self.hole = attempts, retry, hole
        self.now = 0.0
        self.sessions: dict[str, _Session] = {}
        self._serial = 0

    def claim(
        self, session: str, asked: list[tuple[int, str]], lease: float, most: int
    ) -> tuple[list[JournalAnswer], Held | None]:
        """What is answered to the messages of one session, ascending."""
        it = self.sessions.setdefault(session, _Session())
        self.settle(it)
        self._lost(it, asked)
        self._hole(it, asked)
        answers, run = [], []
        stopped = False
        for number, ident in asked:
            answer = self._answer(
                it, number, ident, stopped=stopped, following=it.done + 1 + len(run), full=len(run) >= most
            )
            answers.append(answer)
            if answer == JournalAnswer.TAKEN:
                run.append((number, ident))
            stopped = stopped or (number > it.done and answer not in (JournalAnswer.TAKEN, JournalAnswer.OVER))
        if not run:
            return answers, None
        self._serial += 1
        for number, ident in run:
            known = it.numbers.setdefault(number, _Number("known"))
            known.ident, known.due = ident, None
        it.state, it.claim, it.until, it.hole = "working", self._serial, self.now + lease, None
        it.version, it.sent = it.version + 1, max(it.sent, run[-1][0])
        return answers, Held(session, self._serial, run[0][0], run[-1][0])

    def _answer(
        self, it: _Session, number: int, ident: str, *, stopped: bool, following: int, full: bool
    ) -> JournalAnswer:
        known = it.numbers.get(number)
        if known and known.ident not in (None, ident):
            return JournalAnswer.CONFLICT
        if number <= it.done or (known and known.state in _OVER):
            return JournalAnswer.OVER
        if it.state == "suspended":
            return JournalAnswer.SUSPENDED
        if it.state == "working" and it.until > self.now:
            return JournalAnswer.WORKING
        if stopped or full or number != following:
            return JournalAnswer.AHEAD
        waits = known and (known.state == "reserved" or (known.state == "pending" and (known.due or 0) > self.now))
        return JournalAnswer.LATER if waits else JournalAnswer.TAKEN

    def settle(self, it: _Session) -> None:
        """What the time ends."""
        for known in it.numbers.values():
            if known.state == "reserved" and (known.due or 0) <= self.now:
                known.state = "void"
        while (known := it.numbers.get(it.done + 1)) and known.state in _OVER:
            it.done, it.hole = it.done + 1, None

    def _lost(self, it: _Session, asked: list[tuple[int, str]]) -> None:
        """An attempt of a worker that died with the next number in hand."""
        known = it.numbers.get(it.done + 1)
        if it.state != "working" or it.until > self.now or known is None:
            return
        if not any(number == it.done + 1 and known.ident in (None, ident) for number, ident in asked):
            return
        known.attempts += 1
        again = known.attempts < self.attempts
        known.state, known.due = ("pending" if again else "failed"), None
        if not again:
            it.state = "suspended"

    def _hole(self, it: _Session, asked: list[tuple[int, str]]) -> None:
        fit = [
            number for number, ident in asked
            if number > it.done and (number not in it.numbers or it.numbers[number].ident in (None, ident))
        ]  # fmt: skip
        if not fit or min(fit) == it.done + 1:
            return
        if it.hole is None and it.state != "suspended":
            it.hole = self.now
        rests = it.state == "idle" or (it.state == "working" and it.until <= self.now)
        unknown = all(
            number not in it.numbers or it.numbers[number].state in _OVER for number in range(it.done + 1, min(fit))
        )
        if rests and unknown and it.hole is not None and self.now - it.hole >= self.hole:
            for number in range(it.done + 1, min(fit)):
                it.numbers[number] = _Number("skipped")
            it.done, it.hole = min(fit) - 1, None
            it.sent = max(it.sent, it.done)

    def holds(self, held: Held) -> bool:
        """Whether a claim is the present one, for its next number."""
        it = self.sessions[held.session]
        return it.state == "working" and it.claim == held.claim and held.first == it.done + 1

    def complete(self, held: Held, through: int, lease: float) -> bool:
        """Whether a completion counts."""
        it = self.sessions[held.session]
        if not self.holds(held):
            return False
        it.done, it.until, it.hole = through, self.now + lease, None
        if through == held.last:
            it.state = "idle"
        return True

    def renew(self, held: Held, lease: float) -> bool:
        """Whether a heartbeat counts."""
        it = self.sessions[held.session]
        if it.state != "working" or it.claim != held.claim:
            return False
        it.until = self.now + lease
        return True

    def give_back(self, held: Held) -> None:
        """The holder ends its claim."""
        it = self.sessions[held.session]
        if it.state == "working" and it.claim == held.claim:
            it.state = "idle"

    def fail(self, held: Held, *, passes: bool) -> str | None:
        """What becomes of the next number of a claim; None: the claim is another's."""
        it = self.sessions[held.session]
        if not self.holds(held):
            return None
        known = it.numbers[held.first]
        known.attempts += 1
        again = passes and known.attempts < self.attempts
        known.state, known.due = ("pending", self.now + self.retry) if again else ("failed", None)
        it.state = "idle" if again else "suspended"
        return known.state

    def vote(self, session: str, asked: list[tuple[int, str]]) -> list[Vote]:
        """The votes on the numbers of one session, ascending."""
        it = self.sessions.setdefault(session, _Session())
        found = []
        for number, ident in asked:
            known = it.numbers.get(number)
            same = known is not None and known.ident == ident
            found.append(Vote.HELD if same else Vote.GRANTED if number > it.through else Vote.REFUSED)
        if Vote.REFUSED in found:
            return [Vote.REFUSED] * len(found)
        for (number, ident), vote in zip(asked, found, strict=True):
            if vote == Vote.GRANTED:
                it.numbers[number] = _Number("known", ident)
                it.sent = max(it.sent, number)
        return found

    def bar(self, session: str, number: int, ident: str) -> Vote:
        """What is said to a sender that has withdrawn a message."""
        it = self.sessions.setdefault(session, _Session())
        known = it.numbers.get(number)
        is_its_own = known is not None and known.ident == ident
        if known is None and number > it.done:
            it.numbers[number] = _Number("void")
            it.sent = max(it.sent, number)
        self.settle(it)
        return Vote.HELD if is_its_own else Vote.GRANTED

    def reserve(self, session: str, lease: float) -> int:
        """The number that is reserved."""
        it = self.sessions.setdefault(session, _Session())
        number = it.through + 1
        it.numbers[number] = _Number("reserved", due=self.now + lease)
        it.sent = number
        return number

    def confirm(self, session: str, number: int, ident: str) -> bool:
        """Whether a reservation holds."""
        it = self.sessions[session]
        known = it.numbers[number]
        if known.state != "reserved" or (known.due or 0) <= self.now or number <= it.done:
            return False
        known.state, known.ident = "known", ident
        return True

    def act(self, session: str, verb: str, through: int | None = None) -> bool:
        """Whether an operator's action fits."""
        it = self.sessions[session]
        self.settle(it)
        known = it.numbers.get(it.done + 1)
        has_failed = known is not None and known.state == "failed"
        rests = it.state in ("idle", "suspended")
        fits = {
            "skip": rests or (it.state == "working" and it.until <= self.now),
            "retry": rests and known is not None and known.state in ("failed", "pending"),
            "release": it.state == "working",
            "suspend": it.state in ("idle", "working"),
            "resume": it.state == "suspended" and not has_failed,
        }[verb]
        if not fits:
            return False
        it.state = "suspended" if verb == "suspend" else "idle"
        if verb == "retry" and known is not None:
            known.state, known.due, known.attempts = "pending", None, 0
        if verb == "skip":
            last = it.done + 1 if through is None else through
            for number in range(it.done + 1, last + 1):
                one = it.numbers.setdefault(number, _Number("skipped"))
                one.state = one.state if one.state == "void" else "skipped"
            it.done, it.sent, it.hole = last, max(it.sent, last), None
            self.settle(it)
        return True
