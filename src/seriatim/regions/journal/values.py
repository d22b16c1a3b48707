"""The requests to a journal, and its answers, as values."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from seriatim.errors import UsageError, is_whole, shown
from seriatim.kernel.fields import Choice, Declaration, Period, Plain, Whole, takes
from seriatim.kernel.groups.sequence import MAX_KEY_BYTES
from seriatim.kernel.regions.claims import EntryState, JournalAnswer
from seriatim.kernel.regions.votes import Vote
from seriatim.kernel.values.time import micros
from seriatim.pipeline.text.storable import fits_text

#: How long a lease may be, and how many numbers a claim may have.
LONGEST_LEASE_S, MOST_CLAIMED = 86_400, 1_000
#: Numbers keep this distance from the ends of their range, so that no step of a queue reaches them.
_LARGEST = 2**62
_DIGEST_BYTES = hashlib.sha256().digest_size


def digest_of(kind: str, content_type: str | None, body: bytes) -> bytes:
    """Return the SHA-256 of a message's type, content type and body; no byte can move from one to the next."""
    digest = hashlib.sha256()
    for part in (kind.encode(), b"" if content_type is None else b"\1" + content_type.encode()):
        digest.update(len(part).to_bytes(8, "big") + part)
    digest.update(body)
    return digest.digest()


@dataclass(frozen=True, slots=True)
class QueueRules(Declaration):
    """The rules of both regions for a queue of sessions."""

    start: int = takes(Whole(-_LARGEST, _LARGEST), 1)
    #: The step from one number to the next, at least 1.
    increment: int = takes(Whole(1, _LARGEST), 1)
    #: How often a message is handed to a handler, before it has failed for good.
    attempts: int = takes(Whole(1, _LARGEST), 5)
    #: ``"suspend"``: the session is suspended in both regions; ``"continue"``: the number is over, and the session goes on.
    errors: str = takes(Choice(("suspend", "continue")), "suspend")
    retry_delay: Plain[float, str] = takes(Period(), 1.0)
    #: Seconds, or ``"5m"``, after which a hole is skipped; None: never.
    hole_timeout: Plain[float | None, str] = takes(Period.above_0(), None)

    def as_columns(self) -> dict[str, int | bool]:
        return {
            "start": self.start,
            "increment": self.increment,
            "attempts": self.attempts,
            "goes_on": self.errors == "continue",
            "retry_after": micros(self.retry_delay),
            "hole_timeout": 0 if self.hole_timeout is None else micros(self.hole_timeout),
        }


@dataclass(frozen=True, slots=True)
class Numbered:
    session: str
    number: int
    message_id: str
    digest: bytes

    def __post_init__(self) -> None:
        for noun, value in (("session", self.session), ("message's id", self.message_id)):
            if not isinstance(value, str) or not value or not fits_text(value):
                raise UsageError(f"a {noun} can't be {shown(value, 80)}", remedy="text without NUL, not empty")
            if len(value.encode()) > MAX_KEY_BYTES:
                raise UsageError(f"the {noun} {shown(value, 80)} is too long", remedy=f"at most {MAX_KEY_BYTES} bytes")
        if not is_whole(self.number, -_LARGEST, _LARGEST):
            raise UsageError(
                f"the number of a message can't be {shown(self.number, 80)}",
                where=f"session {shown(self.session, 80)}",
                remedy="a whole number of at most 62 bits",
            )
        if not isinstance(self.digest, bytes) or len(self.digest) != _DIGEST_BYTES:
            raise UsageError(
                "a digest is no SHA-256", where=f"session {shown(self.session, 80)}", remedy="digest_of(…)"
            )


@dataclass(frozen=True, slots=True)
class WantedMessage(Numbered):
    #: How long ago it was published, in microseconds, by the clock of its box.
    age: int = 0
    #: Through which number all of the session is over, according to the region's box; None: it knows none.
    over_through: int | None = None
    #: Whether its box has withdrawn it: it is sent under another number, or not at all.
    withdrawn: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Token:
    """The token that another system gets with a write, so that it can refuse a write of an older claim: it compares both numbers, in this
    order.
    """

    incarnation: int
    version: int


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to work on numbers of a session, until its lease ends."""

    name: str
    queue: str
    session: str
    id: str
    token: Token
    first: int
    last: int
    increment: int
    #: Its length in microseconds. A holder stops by its own clock when this time has passed since its request.
    lease: int


@dataclass(frozen=True, slots=True)
class ClaimAnswer:
    """The journal's answer for a message that a region wants to work on."""

    answer: JournalAnswer
    #: The claim that contains it, if it is `JournalAnswer.TAKEN`; one for all messages of a session.
    claim: Claim | None = None
    #: Microseconds after which to ask again; None: no time is known.
    again: int | None = None
    #: The state of its number, if the journal has one.
    entry: EntryState | None = None
    #: All numbers of its session up to this one are over.
    through: int | None = None


@dataclass(frozen=True, slots=True)
class KnownByBox:
    through: int
    #: Through which number all is over, according to the journal's answers to the box; None: it has had none.
    over: int | None


@dataclass(frozen=True, slots=True)
class VoteAnswer:
    """The journal's answer to a number for a message."""

    vote: Vote
    #: The highest number that it knows in the session, after the vote.
    through: int


@dataclass(frozen=True, slots=True)
class Holder:
    message_id: str | None
    is_over: bool
    #: Whether it has no message for good: it was skipped, barred, or its reservation has ended.
    is_void: bool


@dataclass(frozen=True, slots=True)
class Reservation:
    """A number that is kept for a sender, until it confirms it or its time is over."""

    session: str
    number: int
    id: str = field(repr=False)
