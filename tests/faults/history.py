"""A history: what publishers committed, what handlers wrote down themselves, and what a check found in the two.

Times are those of one clock, in any unit; only their order counts. `before` says which message came first:
a transaction whose commit had been answered when another one had not begun comes before it, and within a transaction
the order of the list counts. Between transactions that overlap nothing is certain, so nothing is required.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from seriatim.kernel.groups.policy import Policy

_SHOWN = 5


class Anomaly(StrEnum):
    """What can be wrong with a history."""

    LOST = "lost"
    DUPLICATED = "duplicated"
    REORDERED = "reordered"
    SUPPLANTED = "supplanted"  # a copy of a number was handled in place of the one that came first
    PHANTOM = "phantom"  # handled or set aside, and never published
    ALTERED = "altered"  # handled as something else than what was published
    OVERLAPPING = "overlapping"
    MISCOUNTED = "miscounted"  # ordinals
    DIVIDED = "divided"  # a unit of work in several turns, or not all of it
    UNACCOUNTED = "unaccounted"  # conservation: a message must be handled or set aside, and not both


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that a publisher gave away in a transaction; one that was repeated stands in the list again.

    Args:
        message_id: its id.
        group: the key of its group, None for `Unordered`.
        sequence: its number in the group, None where the policy needs none.
        batch: the transaction.
        place: its place among the messages of the transaction.
        began: when the transaction began.
        ended: when the answer to its commit was there; None if there was none, so that nobody knows.
        body: what it says.
    """

    message_id: str
    group: str | None
    sequence: int | None
    batch: str
    place: int
    began: int
    ended: int | None
    body: str = ""


@dataclass(frozen=True, slots=True)
class Handled:
    """A row of the handlers' own log, written through the transaction of the delivery.

    Args:
        log_id: ascends in the order of writing.
        receiver: who wrote it; with `began` it names the turn, which is one delivery.
        group, sequence, ordinal, message_id, body, late: as they were handed out.
        began: when the delivery was there.
        ended: when its last row was about to be written; the turn itself lasts longer.
    """

    log_id: int
    receiver: str
    group: str | None
    sequence: int | None
    ordinal: int | None
    message_id: str
    began: int
    ended: int
    body: str = ""
    late: bool = False

    def __str__(self) -> str:
        return f"{self.message_id} (number {self.sequence}, ordinal {self.ordinal}, log {self.log_id}, {self.receiver})"


@dataclass(frozen=True, slots=True)
class History:
    """One queue's history, from its beginning to when nothing moved any more.

    Args:
        policy: of the queue.
        sent: in any order.
        handled: in any order.
        set_aside: message id -> disposition of all that the queue lists as not released; None: nobody asked it.
        excused: the dispositions that explain why a message was never handled, and its number and ordinal passed over;
            any other one doesn't.
        sizes: of a `UnitOfWork`: group -> size, where the policy's `size` is no number.
    """

    policy: Policy
    sent: Iterable[Sent]
    handled: Iterable[Handled]
    set_aside: Mapping[str, str] | None = None
    excused: frozenset[str] = frozenset()
    sizes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """An anomaly, where it is and what shows it."""

    anomaly: Anomaly
    group: str | None
    evidence: str

    def __str__(self) -> str:
        return f"{self.anomaly}: group {self.group}: {self.evidence}"


@dataclass(frozen=True, slots=True)
class Findings:
    """All that is wrong with a history, and how much of it was looked at."""

    sent: int
    handled: int
    groups: int
    found: tuple[Finding, ...]

    def of(self, anomaly: Anomaly) -> tuple[Finding, ...]:
        """Those of one kind."""
        return tuple(one for one in self.found if one.anomaly is anomaly)

    def kinds(self) -> set[Anomaly]:
        """The kinds that occur."""
        return {one.anomaly for one in self.found}

    def __str__(self) -> str:
        lines = [f"{self.sent:,} messages sent, {self.handled:,} handled in {self.groups:,} groups"]
        for anomaly in Anomaly:
            found = self.of(anomaly)
            lines += [f"  {len(found):,} {anomaly}"] * bool(found)
            lines += [f"    group {one.group}: {one.evidence}" for one in found[:_SHOWN]]
        return "\n".join(lines)


def arrival(first: Sent, again: Sent) -> Sent:
    """When and where a message arrived that was sent twice: with the first commit, whichever that was."""
    if first.ended is not None and first.ended < again.began:
        return first
    if again.ended is not None and again.ended < first.began:
        return again
    ended = min((one.ended for one in (first, again) if one.ended is not None), default=None)
    same = first.batch == again.batch and first.place == again.place
    return Sent(
        first.message_id,
        first.group,
        first.sequence,
        first.batch if same else f"{first.batch} or {again.batch}",
        first.place if same else 0,
        min(first.began, again.began),
        ended,
        first.body,
    )


def before(one: Sent, other: Sent) -> bool:
    """Whether one message certainly arrived before another."""
    if one.batch == other.batch:
        return one.place < other.place
    return one.ended is not None and one.ended < other.began
