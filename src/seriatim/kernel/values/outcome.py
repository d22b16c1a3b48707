"""The kernel's decisions: dispositions, reasons and events, as words and as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from itertools import chain, islice
from typing import NamedTuple, Protocol

import numpy as np

from seriatim.kernel.values.columns import Bools, Columns, Ints, Numbered, empty_ints, mask_of

#: How many numbers that a set lacks are shown one by one: its size may be any.
MOST_SHOWN = 10_000
#: In place of the numbers of an event that has none: below every sequence.
_NO_NUMBER = -(2**63)


class Disposition(IntEnum):
    """The disposition of a message in one queue, in the order of the law of conservation."""

    RELEASED = 0
    HELD = 1
    LATE = 2
    DUPLICATE = 3
    INVALID = 4
    REJECTED = 5
    DEAD = 6
    VOID = 7
    COPY = 8

    @property
    def word(self) -> str:
        return self.name.lower()


class Reason(IntEnum):
    """The reason why a message was not released, or why it is flagged."""

    NONE = 0
    # invalid
    KEY_MISSING = 1
    KEY_TOO_LONG = 2
    KEY_HAS_NUL = 3
    KEY_NOT_TEXT = 4
    SEQUENCE_MISSING = 5
    SEQUENCE_NOT_A_NUMBER = 6
    SEQUENCE_OVERFLOWS = 7
    OFF_STEP = 8
    BELOW_START = 9
    BELOW_ONE = 10
    SIZE_BELOW_ONE = 11
    SIZE_CONTRADICTED = 12
    ABOVE_SIZE = 13
    TIME_MISSING = 14
    SEQUENCE_INEXACT = 15
    SEQUENCE_NOT_A_TIME = 16
    SIZE_NOT_A_NUMBER = 17
    SIZE_INEXACT = 18
    SIZE_OVERFLOWS = 19
    # late
    SKIPPED = 20
    BEFORE_FIRST = 21
    ROUND_OVER = 22
    GROUP_CLOSED = 23
    PASSED_OVER = 24
    BEFORE_OPENING = 25
    NOT_OPENED = 26
    PLACE_PASSED = 27
    # duplicate
    TAKEN_BEFORE = 30
    SET_COMPLETE = 31
    TAKEN_FOR_REPEATED = 32
    CONFLICTS = 33
    SEEN_BEFORE = 34
    # rejected
    CAPACITY = 40
    # dead
    TIMED_OUT = 50
    ABORTED = 51
    SKIPPED_BY_OPERATOR = 52
    DEAD_LETTERED = 53
    # held
    BEHIND_HOLE = 60
    COLLECTING = 61
    GROUP_STOPPED = 62
    LATE_HELD = 63
    RESTART_SUSPECTED = 64
    UNOPENED = 65
    PLACE_OPEN = 66
    # void
    LEAVES_NOTHING = 70
    # copy
    COPIED = 80
    # invalid, where messages come from two regions
    REGION_UNKNOWN = 90
    ID_MISSING = 91
    # invalid, where numbers are as producers have them
    ENDS_BEFORE = 100
    EPOCH_MISSING = 101
    NOT_OF_MODULUS = 102
    HALF_AWAY = 103
    BASE_WITHOUT_NUMBER = 104
    NOT_A_POSITION = 105
    # late
    EPOCH_OVER = 110
    # duplicate
    COVERED = 120
    # held
    SETTLING = 130
    UNTOLD = 131
    BEHIND_BEGINNING = 132
    # released
    OVERLAPS = 140
    PARTIAL = 141


#: The reason as people read it.
REASONS: dict[Reason, str] = {
    Reason.NONE: "",
    Reason.KEY_MISSING: "the group key is missing",
    Reason.KEY_TOO_LONG: "the group key is longer than 1 KiB",
    Reason.KEY_HAS_NUL: "the group key has a NUL in it",
    Reason.KEY_NOT_TEXT: "the group key is not UTF-8 text",
    Reason.SEQUENCE_MISSING: "the sequence is missing",
    Reason.SEQUENCE_NOT_A_NUMBER: "the sequence is not a whole number",
    Reason.SEQUENCE_OVERFLOWS: "the sequence is too large",
    Reason.OFF_STEP: "the sequence is off the step of its group",
    Reason.BELOW_START: "the sequence is below the first number of its group",
    Reason.BELOW_ONE: "the sequence is below 1",
    Reason.SIZE_BELOW_ONE: "the size is below 1",
    Reason.SIZE_CONTRADICTED: "the size contradicts the one told before",
    Reason.ABOVE_SIZE: "the sequence is above the size of the set",
    Reason.TIME_MISSING: "the event time is missing",
    Reason.SEQUENCE_INEXACT: "the sequence is a float too large to be exact",
    Reason.SEQUENCE_NOT_A_TIME: "the sequence is not a time",
    Reason.SIZE_NOT_A_NUMBER: "the size is not a whole number",
    Reason.SIZE_INEXACT: "the size is a float too large to be exact",
    Reason.SIZE_OVERFLOWS: "the size is too large",
    Reason.SKIPPED: "its number was skipped before",
    Reason.BEFORE_FIRST: "its number is below the one that began the group",
    Reason.ROUND_OVER: "a higher sequence left in an earlier round",
    Reason.GROUP_CLOSED: "the group is closed",
    Reason.PASSED_OVER: "an operator's reset passed it over",
    Reason.PLACE_PASSED: "its place at the gate has passed",
    Reason.BEFORE_OPENING: "its number is before the opening of the group",
    Reason.NOT_OPENED: "its group was not opened in time",
    Reason.TAKEN_BEFORE: "its number was taken in before",
    Reason.SET_COMPLETE: "the set was complete before",
    Reason.CONFLICTS: "conflicts: its number was taken in before with another content",
    Reason.TAKEN_FOR_REPEATED: "an operator took it for a repetition",
    Reason.CAPACITY: "the group holds as many as its capacity",
    Reason.TIMED_OUT: "the set was not complete in time",
    Reason.ABORTED: "an operator aborted the group",
    Reason.SKIPPED_BY_OPERATOR: "an operator skipped the message",
    Reason.DEAD_LETTERED: "its handler failed for good",
    Reason.BEHIND_HOLE: "waits behind a missing number",
    Reason.COLLECTING: "waits for its round or its set to be complete",
    Reason.GROUP_STOPPED: "waits for its group to be resumed",
    Reason.LATE_HELD: "late, and waits for an operator",
    Reason.RESTART_SUSPECTED: "its producer seems to have begun anew, and it waits for an operator",
    Reason.UNOPENED: "waits for a message that opens its group",
    Reason.LEAVES_NOTHING: "a void: its number passes without a message",
    Reason.COPIED: "the other region has shown it before",
    Reason.SEEN_BEFORE: "its region has shown it before",
    Reason.REGION_UNKNOWN: "its region is neither a nor b",
    Reason.ID_MISSING: "its message id is missing",
    Reason.ENDS_BEFORE: "the last number that it covers is below the first, or more than half the modulus ahead",
    Reason.EPOCH_MISSING: "the epoch is missing, or is not a whole number",
    Reason.NOT_OF_MODULUS: "the sequence is not a number below the modulus",
    Reason.HALF_AWAY: "the sequence is half the modulus away: it may be above or below",
    Reason.BASE_WITHOUT_NUMBER: "a base needs the number through which it has everything",
    Reason.NOT_A_POSITION: "the sequence is no position: up to 64 bytes of text or of binary, or up to 64 decimal digits",
    Reason.EPOCH_OVER: "its epoch is over",
    Reason.COVERED: "covered: another message has everything that it has",
    Reason.SETTLING: "waits until its group has settled where it begins",
    Reason.UNTOLD: "waits for the base, or for an operator's reset, that says where its group begins",
    Reason.BEHIND_BEGINNING: "waits behind a message with which its producer begins anew",
    Reason.OVERLAPS: "overlaps: it has numbers that have left before",
    Reason.PARTIAL: "partial: its set was not complete in time",
}


class EventKind(IntEnum):
    HOLE_OPENED = 0
    HOLE_OVERDUE = 1
    HOLE_SKIPPED = 2
    HOLE_FILLED = 3
    TIMED_OUT = 4
    CLOSED = 5
    SUSPENDED = 6
    RESUMED = 7
    #: A number was repeated with another content: the first time in a group and a batch, with a count.
    CONFLICT = 8
    #: The producer of a group seems to have begun anew.
    RESTART_SUSPECTED = 9
    #: A number has passed without a message.
    VOID = 10
    #: The group's stream between two boxes couldn't be made whole after a restore of one of them; its numbers are the lost ones. No
    #: policy reports it.
    RESTORED = 11
    #: A base has everything of the hole in it.
    HOLE_COVERED = 12
    #: A set has left whose time was over: an event for each run of numbers that it lacks.
    INCOMPLETE = 13

    @property
    def word(self) -> str:
        return self.name.lower()


class Messages(Protocol):
    """Some messages: the group, the number and the `ref` of each."""

    @property
    def group(self) -> Ints: ...

    @property
    def sequence(self) -> Ints: ...

    @property
    def ref(self) -> Ints: ...


class MessageRows(NamedTuple):
    """`Messages` that no other table has."""

    group: Ints
    sequence: Ints
    ref: Ints


@dataclass(frozen=True, slots=True)
class Decided(Numbered):
    """Decided messages, a row for each; released rows of one group stand in the order in which they leave. `cause` is the ``ref`` of the
    arrival that caused the decision; if `timed` is true, a timer or an action caused it, and `cause` is its time. `cause` orders decisions
    over groups. `counted`: it wasn't released, and counts as a message of a producer that has begun anew. `fingerprint`: of a released one
    that of its content, 0: unknown. `through`: the last number that a released one covers; None: each covers its own alone.
    """

    group: Ints
    sequence: Ints
    ref: Ints
    disposition: Ints
    reason: Ints
    ordinal: Ints
    late: Bools
    cause: Ints
    timed: Bools
    counted: Bools
    fingerprint: Ints
    through: Ints | None = None

    @classmethod
    def of(
        cls,
        messages: Messages,
        disposition: int | Ints,
        reason: int | Ints,
        cause: Ints | None = None,
        *,
        ordinal: Ints | None = None,
        late: Bools | bool = False,
        timed: bool = False,
        fingerprint: Ints | None = None,
        through: Ints | None = None,
    ) -> Decided:
        """Messages with a common disposition, or with one for each; `cause`: None: each is its own."""
        n = len(messages.group)
        return cls(
            group=messages.group,
            sequence=messages.sequence,
            ref=messages.ref,
            disposition=np.broadcast_to(np.asarray(disposition, np.int64), (n,)),
            reason=np.broadcast_to(np.asarray(reason, np.int64), (n,)),
            ordinal=np.zeros(n, np.int64) if ordinal is None else ordinal,
            late=np.broadcast_to(np.asarray(late, np.bool_), (n,)),
            cause=messages.ref if cause is None else cause,
            timed=np.full(n, timed),
            counted=np.zeros(n, np.bool_),
            fingerprint=np.zeros(n, np.int64) if fingerprint is None else fingerprint,
            through=through,
        )


@dataclass(frozen=True, slots=True)
class EventRow:
    """An event as values; `first` and `last` are None if it concerns no numbers."""

    kind: EventKind
    group: int
    first: int | None
    last: int | None
    at: int
    count: int


@dataclass(frozen=True, slots=True)
class Events(Columns):
    """Events, a row for each.

    * `group`, `kind`, and the time `at` (microseconds).
    * `first`..`last`: the range of numbers, see `rows`.
    * `count`: how many messages or numbers the event stands for; 1 if it isn't counted.
    * `kept`: whether it is on record where not all events are: a hole that opens isn't, nor is a hole that was filled
      before it was overdue.
    """

    kind: Ints
    group: Ints
    first: Ints
    last: Ints
    at: Ints
    count: Ints
    kept: Bools

    @classmethod
    def of(
        cls,
        kind: EventKind,
        group: Ints,
        first: Ints | None,
        last: Ints | None,
        at: Ints,
        *,
        count: Ints | None = None,
        kept: Bools | None = None,
    ) -> Events:
        """Rows of one kind. `first` and `last` are None if they concern no numbers; `kept`: by the kind, if it isn't given."""
        none = np.full(len(group), _NO_NUMBER, np.int64)
        return cls(
            kind=np.full(len(group), int(kind), np.int64),
            group=group,
            first=none if first is None else first,
            last=none if last is None else last,
            at=at,
            count=np.ones(len(group), np.int64) if count is None else count,
            kept=np.full(len(group), kind is not EventKind.HOLE_OPENED) if kept is None else kept,
        )

    def merged(self, kind: EventKind) -> Events:
        """Return the same events, with the events of a kind as one for each group: the first, with the sum of their counts."""
        rows = np.flatnonzero(self.kind == kind)
        if len(rows) < 2:
            return self
        groups, first, which = np.unique(self.group[rows], return_index=True, return_inverse=True)
        count = self.count.copy()
        count[rows[first]] = np.bincount(which, self.count[rows], len(groups)).astype(np.int64)
        kept = ~mask_of(len(self), rows)
        kept[rows[first]] = True
        return self.with_columns(count=count).take(kept)

    def without_numbers(self) -> Events:
        none = np.full(len(self), _NO_NUMBER, np.int64)
        return self.with_columns(first=none, last=none)

    def rows(self) -> Iterator[EventRow]:
        """The events as values, in order of time; events of one time in the order in which they happened."""
        order = np.argsort(self.at, kind="stable")
        columns = (self.kind, self.group, self.first, self.last, self.at, self.count)
        for kind, group, first, last, at, count in zip(*(one[order].tolist() for one in columns), strict=True):
            has_none = first == _NO_NUMBER
            yield EventRow(EventKind(kind), group, None if has_none else first, None if has_none else last, at, count)


def runs_of(events: Events) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
    """What partial sets lack: for each its group, its time, and the runs of the missing numbers."""
    its = events.take(events.kind == EventKind.INCOMPLETE)
    found: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for group, at, first, last in zip(
        its.group.tolist(), its.at.tolist(), its.first.tolist(), its.last.tolist(), strict=True
    ):
        found.setdefault((group, at), []).append((first, last))
    for (group, at), runs in found.items():
        yield group, at, runs


def numbers_in(runs: Iterable[tuple[int, int]]) -> tuple[int, ...]:
    return tuple(islice(chain.from_iterable(range(first, last + 1) for first, last in runs), MOST_SHOWN))


@cache
def no_messages() -> Decided:
    none = empty_ints()
    return Decided.of(MessageRows(none, none, none), Disposition.HELD, Reason.NONE)


@cache
def no_events() -> Events:
    none = empty_ints()
    return Events.of(EventKind.CLOSED, none, none, none, none)
