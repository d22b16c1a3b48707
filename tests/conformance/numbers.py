"""Numbers as producers have them. For engines that know what they mean.

Messages have what a `Sequence` names as properties of the same names: ``through``, ``previous``, ``epoch``, and the filters.
"""

from __future__ import annotations

from typing import Any

from seriatim.kernel.groups.numbers import Sequence
from seriatim.kernel.groups.policy import BestEffort, Fifo, Standard, UnitOfWork, Unordered
from tests.conformance.case import CLOCK, Act, Case, Late, Message, at, by, later, of

_MAX = 2**63 - 1
_FAR = 2**62
_SPANS = Sequence(through="through")
_EPOCHS = Sequence(epoch="epoch")
_BASES = Sequence(base="base", base_only="base_only")
_MARKERS = Sequence(restarts="restarts")
_BARE = Sequence(unnumbered="unnumbered")
_RTP = Sequence(modulus=65536)
_SKIPPING = Standard(hole_timeout=10, on_hole="skip")


def span(first: int, last: int, **properties: Any) -> Message:
    """A message that covers several numbers."""
    return of(first, through=last, **properties)


def in_epoch(epoch: Any, *sequences: int, **properties: Any) -> tuple[Message, ...]:
    """Messages of an epoch."""
    return tuple(of(one, epoch=epoch, **properties) for one in sequences)


def base(number: int, **properties: Any) -> Message:
    """A message that has everything through its number in it."""
    return of(number, base=True, **properties)


def begins(label: str, sequence: Any = None) -> Message:
    """A message with which its producer begins anew."""
    return of(sequence, label, restarts=True)


def status(sequence: Any = None) -> Message:
    """A message without a number."""
    return of(sequence, unnumbered=True)


def placed(number: int, position: str | None, **properties: Any) -> Message:
    """A message with a position; the number says where that is in the order."""
    return of(number, position=position, **properties)


SPANS = (
    Case(
        "spans: a message leaves when the next number is among those that it covers",
        "numbers 1",
        Standard(),
        (at(0, "g", 1, span(5, 6), span(2, 4), leaves={"g": [1, 2, 5]}), at(1, "g", 7)),
        numbers=_SPANS,
        released={"g": [1, 2, 5, 7]},
    ),
    Case(
        "spans: one of more numbers than 64 bits can count is invalid",
        "numbers 1",
        Standard(start=-_FAR),
        (at(0, "g", span(-_FAR, _FAR), span(-_FAR, _FAR - 1), span(-_FAR, _FAR - 2), _FAR - 1),),
        numbers=_SPANS,
        released={"g": [-_FAR, _FAR - 1]},
        invalid={"g": [-_FAR, -_FAR]},
    ),
    Case(
        "spans: no group begins with one of more numbers than 64 bits can count",
        "numbers 1",
        Standard(start="first"),
        (at(0, "g", span(-_FAR, _FAR), 1, 2),),
        numbers=_SPANS,
        released={"g": [1, 2]},
        invalid={"g": [-_FAR]},
    ),
    Case(
        "spans: a loss is noticed",
        "numbers 1",
        _SKIPPING,
        (at(0, "g", span(1, 3), span(7, 9)), later(20), at(21, "g", span(4, 6), span(4, 7), span(2, 3))),
        numbers=_SPANS,
        released={"g": [1, 7], **CLOCK},
        late={"g": [4, 4]},
        duplicate={"g": [2]},
        reports=(("hole_overdue", "g", 4, 6), ("hole_skipped", "g", 4, 6)),
    ),
    Case(
        "spans: one that straddles the next number leaves, and overlaps",
        "numbers 1",
        Standard(),
        (at(0, "g", span(1, 5), span(4, 8), 9),),
        numbers=_SPANS,
        released={"g": [1, 4, 9]},
        overlaps={"g": [4]},
    ),
    Case(
        "spans: what one held message covers is a duplicate, what it doesn't is held",
        "numbers 1",
        Standard(),
        (at(0, "g", span(3, 6), span(4, 5), span(3, 6), span(5, 7), span(2, 4)), at(1, "g", 1)),
        note="behind 1 leaves 2..4; then 3..6 and 5..7 overlap",
        numbers=_SPANS,
        released={"g": [1, 2, 3, 5]},
        duplicate={"g": [4, 3]},
        overlaps={"g": [3, 5]},
    ),
    Case(
        "spans: what became covered while it was held is a duplicate",
        "numbers 1",
        Standard(),
        (at(0, "g", 4, span(3, 5)), at(1, "g", span(1, 2)), at(2, "g", 6)),
        numbers=_SPANS,
        released={"g": [1, 3, 6]},
        duplicate={"g": [4]},
    ),
    Case(
        "spans: only messages with both ends in common are compared",
        "numbers 1",
        Standard(remember=8),
        (at(0, "g", of(1, "a", through=3), of(1, "b", through=3), of(1, "b", through=2), of(1, "a", through=3)),),
        numbers=_SPANS,
        released={"g": [1]},
        duplicate={"g": [1, 1, 1]},
        conflicts=(("g", 1),),
    ),
    Case(
        "spans: a late delivery takes all its numbers",
        "numbers 1",
        Standard(hole_timeout=10, on_hole="skip", late="deliver"),
        (at(0, "g", 1, 6), later(20), at(21, "g", span(3, 4), 3, 2, span(2, 5), 5)),
        numbers=_SPANS,
        released={"g": [1, 6, Late(3), Late(2), Late(2)], **CLOCK},
        duplicate={"g": [3, 5]},
    ),
    Case(
        "spans: both ends are on the step, and the last isn't below the first",
        "numbers 1",
        Standard(start=2, increment=2),
        (at(0, "g", span(2, 6), span(8, 9), span(9, 10), span(12, 8), span(0, 0), 8),),
        numbers=_SPANS,
        released={"g": [2, 8]},
        invalid={"g": [8, 9, 12, 0]},
    ),
    Case(
        "spans: one that begins below the first number, and what comes of its numbers again",
        "numbers 1",
        Standard(start="first", late="deliver"),
        (at(0, "g", 3, span(2, 5), span(2, 5), 2, span(2, 3), 6),),
        numbers=_SPANS,
        released={"g": [3, 2, 6]},
        duplicate={"g": [2, 2, 2]},
        overlaps={"g": [2]},
    ),
    Case(
        "spans: a full group takes in what covers the next number",
        "numbers 1",
        Standard(capacity=1),
        (at(0, "g", span(4, 5), span(7, 8), span(1, 3), span(6, 6)),),
        numbers=_SPANS,
        released={"g": [1, 4, 6]},
        rejected={"g": [7]},
    ),
    Case(
        "previous: each message names the one before",
        "numbers 1",
        Standard(start="first"),
        (
            at(0, "g", of(None, previous=100, through=107), of(None, previous=120, through=130)),
            at(1, "g", of(None, previous=107, through=120), of(None, previous=107, through=120), of(None, through=140)),
        ),
        numbers=Sequence(previous="previous", through="through"),
        released={"g": [None, None, None]},
        duplicate={"g": [None]},
        invalid={"g": [None]},
    ),
)

VOIDS_BY_FILTER = (
    *(
        Case(
            f"voids: a filter says which they are, with {policy.name}",
            "numbers 2",
            policy,
            (at(0, "g", 1, of(2, leaves_nothing=True), 3),),
            numbers=Sequence(void="leaves_nothing"),
            released={"g": [1, 3]},
            void={"g": [2]},
        )
        for policy in (Standard(), Fifo(), UnitOfWork(size=3), Unordered())
    ),
    *(
        Case(
            f"voids: a filter says which they are in a round, by {policy.by}",
            "numbers 2",
            policy,
            (at(0, "g", 2, of(1, leaves_nothing=True)), at(20, "g", 3, of(1, leaves_nothing=True)), at(40, "clock", 1)),
            numbers=Sequence(void="leaves_nothing"),
            released={"g": [2, 3]},
            late={"g": [1]},
            void={"g": [1]},
            held={"clock": [1]},
        )
        for policy in (BestEffort(window=10, buffer=0), BestEffort(by="time", window=10, buffer=0))
    ),
    *(
        Case(
            f"voids: a filter says which they are, where messages open and close groups, with {policy.name}",
            "numbers 2",
            policy,
            (
                at(0, "g", of(1, opens=True), of(2, leaves_nothing=True), 3),
                at(0, "h", of(1, opens=True, leaves_nothing=True), 2),
                at(1, "g", of(4, closes=True)),
            ),
            note="a void opens no group",
            opens=True,
            closes=True,
            numbers=Sequence(void="leaves_nothing"),
            released={"g": [1, 3, 4]},
            void={"g": [2], "h": [1]},
            held={"h": [2]},
            states={"g": "closed"},
        )
        for policy in (Standard(), Fifo())
    ),
    *(
        Case(
            f"voids: a filter says which they are, where two regions send messages, with {policy.name}",
            "numbers 2",
            policy,
            (
                at(0, "g", *by("a", 1), of(2, leaves_nothing=True, region="a", id="2"), *by("a", 3)),
                at(1, "g", *by("b", 1), of(4, leaves_nothing=True), *by("b", 3)),
            ),
            note="a void needs no region",
            regions=True,
            numbers=Sequence(void="leaves_nothing"),
            released={"g": [1, 3]},
            copy={"g": [1, 3]},
            void={"g": [2, 4]},
        )
        for policy in (Standard(remember=64), Fifo())
    ),
)

GAPS = (
    Case(
        "voids: a gap fill passes in its place",
        "numbers 2",
        Standard(),
        (
            at(0, "s", 1, 5, 6, 7, leaves={"s": [1]}),
            at(1, "s", of(2, through=7, fill=True), leaves={}),
            at(2, "s", 8, leaves={"s": [8]}),
        ),
        note="FIX: the counterparty says in the stream that the next is 8",
        numbers=Sequence(through="through", void="fill"),
        released={"s": [1, 8]},
        duplicate={"s": [5, 6, 7]},
        void={"s": [2]},
        reports=(("void", "s", 2, 7),),
    ),
)

OF_A_POLICY = (
    Case(
        "spans: a late one stops its group, and leaves flagged",
        "numbers 1",
        Standard(hole_timeout=10, on_hole="skip", late="suspend"),
        (
            at(0, "g", 1, span(5, 6)),
            later(20),
            at(21, "g", span(2, 3), 7),
            Act("resume", "g", 22),
            at(23, "g", 3, span(4, 4)),
        ),
        numbers=_SPANS,
        released={"g": [1, 5, Late(2), 7], **CLOCK},
        duplicate={"g": [3]},
        held={"g": [4]},
        states={"g": "suspended"},
    ),
    Case(
        "epochs: a late one of the epoch before stops its group, and leaves flagged",
        "numbers 4",
        Standard(late="suspend"),
        (
            at(0, "g", *in_epoch(1, 1, 3), *in_epoch(2, 1), *in_epoch(1, 2), *in_epoch(2, 2)),
            Act("resume", "g", 1),
            at(2, "g", *in_epoch(1, 2), *in_epoch(2, 3)),
        ),
        numbers=_EPOCHS,
        released={"g": [1, 3, 1, Late(2), 2, 3]},
        duplicate={"g": [2]},
    ),
    Case(
        "spans: as many as are remembered are compared",
        "numbers 1",
        Standard(remember=1),
        (
            at(0, "g", of(1, "a", through=2)),
            at(1, "g", of(3, "b", through=4)),
            at(2, "g", of(1, "x", through=2), of(3, "x", through=4)),
        ),
        numbers=_SPANS,
        released={"g": [1, 3]},
        duplicate={"g": [1, 3]},
        conflicts=(("g", 3),),
    ),
    Case(
        "turn-over: numbers of before that count for a suspected restart",
        "numbers 3",
        Standard(start="first", restart_after=2, on_restart="suspend", remember=8),
        (at(0, "g", of(6, "a"), of(7, "b"), of(0, "c"), of(1, "d")), at(1, "g", of(7, "x"), of(0, "x"), of(2, "e"))),
        numbers=Sequence(modulus=8),
        released={"g": [6, 7, 0, 1]},
        duplicate={"g": [7]},
        held={"g": [0, 2]},
        states={"g": "suspended"},
    ),
)

TURN_OVERS = (
    Case(
        "turn-over: a counter of 16 bits",
        "numbers 3",
        Standard(start="first"),
        (at(0, "ssrc", 65534, 0, 65535, 1),),
        numbers=_RTP,
        released={"ssrc": [65534, 65535, 0, 1]},
    ),
    Case(
        "turn-over: again and again, from the start on; what comes again is a duplicate or late",
        "numbers 3",
        Standard(start=0, hole_timeout=10, on_hole="skip"),
        (at(0, "g", 0, 1, 2, 3, 4, 0, 1, 3, 4), later(20), at(21, "g", 2, 4, 0, 7)),
        note="7 is none of 0 … 4; 0 after 9 is 10, 2 is 7, which was skipped",
        numbers=Sequence(modulus=5),
        released={"g": [0, 1, 2, 3, 4, 0, 1, 3, 4, 0]},
        held={"clock": [1]},
        late={"g": [2]},
        duplicate={"g": [4]},
        invalid={"g": [7]},
        reports=(("hole_overdue", "g", 7, 7), ("hole_skipped", "g", 7, 7)),
    ),
    Case(
        "turn-over: half the modulus away may be above or below",
        "numbers 3",
        Standard(start="first"),
        (at(0, "g", 1, 5, 2, 6, 3),),
        numbers=Sequence(modulus=8),
        released={"g": [1, 2, 3]},
        invalid={"g": [5, 6]},
    ),
    Case(
        "turn-over: a span that turns over, and one that is too long",
        "numbers 3",
        Standard(start="first"),
        (at(0, "g", span(6, 1), span(1, 6), 2),),
        numbers=Sequence(modulus=8, through="through"),
        released={"g": [6, 2]},
        invalid={"g": [1]},
    ),
    Case(
        "turn-over: with BestEffort",
        "numbers 3",
        BestEffort(window=1),
        (at(0, "g", 65535, 1, 0, 65534), at(5, "g", 65533, 2), at(20, "g", 3)),
        numbers=_RTP,
        released={"g": [65534, 65535, 0, 1, 2]},
        late={"g": [65533]},
        held={"g": [3]},
    ),
)

EPOCHS = (
    Case(
        "epochs: a higher one ends the one before, wherever that is",
        "numbers 4",
        Standard(),
        (
            at(0, "g", *in_epoch(7, 1, 2, 4, 6)),
            at(1, "g", *in_epoch(9, 2), leaves={"g": [4, 6]}),
            at(2, "g", *in_epoch(9, 1)),
        ),
        numbers=_EPOCHS,
        released={"g": [1, 2, 4, 6, 1, 2]},
        reports=(("hole_skipped", "g", 3, 3), ("hole_skipped", "g", 5, 5)),
    ),
    Case(
        "epochs: what comes of the one before is late if it never left, else a duplicate",
        "numbers 4",
        Standard(),
        (at(0, "g", *in_epoch(1, 1, 3), *in_epoch(2, 1), *in_epoch(1, 2, 3, 4, 1), *in_epoch(2, 2)),),
        numbers=_EPOCHS,
        released={"g": [1, 3, 1, 2]},
        late={"g": [2, 4]},
        duplicate={"g": [3, 1]},
    ),
    Case(
        "epochs: late ones of the one before are delivered, older ones never",
        "numbers 4",
        Standard(late="deliver"),
        (
            at(
                0,
                "g",
                *in_epoch(1, 1),
                *in_epoch(3, 1, 3),
                *in_epoch(5, 1),
                *in_epoch(3, 2, 2, 4),
                *in_epoch(1, 2),
                *in_epoch(4, 1),
            ),
        ),
        numbers=_EPOCHS,
        released={"g": [1, 1, 3, 1, Late(2), Late(4)]},
        duplicate={"g": [2]},
        late={"g": [2, 1]},
    ),
    Case(
        "epochs: an epoch that is missing, and a first message that can't begin one",
        "numbers 4",
        Standard(start=1),
        (at(0, "g", *in_epoch(1, 1), *in_epoch(None, 2), *in_epoch(2, 0), *in_epoch(1, 2), *in_epoch(2, 1)),),
        numbers=_EPOCHS,
        released={"g": [1, 2, 1]},
        invalid={"g": [2, 0]},
    ),
    Case(
        "epochs: in a stopped group the first of a higher one waits, and all that comes after it",
        "numbers 4",
        Standard(),
        (
            at(0, "g", *in_epoch(1, 1, 3)),
            Act("suspend", "g", 1),
            at(2, "g", *in_epoch(2, 1), *in_epoch(1, 2)),
            Act("resume", "g", 3),
        ),
        numbers=_EPOCHS,
        released={"g": [1, 3, 1]},
        late={"g": [2]},
    ),
    Case(
        "epochs: each begins at its own first number",
        "numbers 4",
        Standard(start="first"),
        (at(0, "g", *in_epoch(1, 5, 6, 4), *in_epoch(2, 1, 2)),),
        numbers=_EPOCHS,
        released={"g": [5, 6, 1, 2]},
        late={"g": [4]},
    ),
    Case(
        "epochs: operators act on the current one",
        "numbers 4",
        Standard(),
        (
            at(0, "g", *in_epoch(1, 1, 3), *in_epoch(2, 1, 4)),
            Act("skip_hole", "g", 1),
            Act("reset", "g", 2, {"next": 9}),
            at(3, "g", *in_epoch(2, 9), *in_epoch(2, 3)),
        ),
        numbers=_EPOCHS,
        released={"g": [1, 3, 1, 4, 9]},
        late={"g": [3]},
    ),
)

MARKERS = (
    Case(
        "restarts: the producer says in the stream that it begins anew",
        "numbers 5",
        Standard(),
        (at(0, "g", 1, 2, 4, begins("a", -1), 1, 3), at(1, "g", 2)),
        numbers=_MARKERS,
        released={"g": [1, 2, 4, -1, 1, 2, 3]},
        reports=(("hole_skipped", "g", 3, 3),),
    ),
    Case(
        "restarts: the same marker again is a duplicate, another begins anew again",
        "numbers 5",
        Standard(),
        (at(0, "g", 1, begins("a"), begins("a"), 1, 2, begins("a"), begins("b"), 1),),
        numbers=_MARKERS,
        released={"g": [1, None, 1, 2, None, 1]},
        duplicate={"g": [None, None]},
    ),
    Case(
        "restarts: in a stopped group the marker waits, and all that comes after it",
        "numbers 5",
        Standard(),
        (
            at(0, "g", 1, 3),
            Act("suspend", "g", 1),
            at(2, "g", 2, begins("a"), 1, 1, 3),
            Act("resume", "g", 3),
            at(4, "g", 2),
        ),
        numbers=_MARKERS,
        released={"g": [1, 2, 3, None, 1, 2, 3]},
        duplicate={"g": [1]},
    ),
    Case(
        "restarts: numbers of before are judged by the new life, and a suspected restart stops it",
        "numbers 5",
        Standard(restart_after=2, on_restart="suspend"),
        (at(0, "g", begins("a"), 1, 2, 3, of(1, "x"), of(2, "x"), 4),),
        numbers=_MARKERS,
        released={"g": [None, 1, 2, 3]},
        duplicate={"g": [1]},
        held={"g": [2, 4]},
        states={"g": "suspended"},
    ),
)

BARE = (
    Case(
        "unnumbered: a message without a number is no base, whatever another filter says",
        "numbers 6",
        Standard(),
        (at(0, "g", 1, of(None, unnumbered=True, base_only=True), of(None, restarts=True, base_only=True), 1),),
        numbers=Sequence(unnumbered="unnumbered", base_only="base_only", restarts="restarts"),
        released={"g": [1, None, None, 1]},
    ),
    Case(
        "unnumbered: a status leaves at once, before what is held",
        "numbers 6",
        Standard(),
        (at(0, "g", 1, 3, status(0), leaves={"g": [1, 0]}), at(1, "g", 2, status(), 4)),
        numbers=_BARE,
        released={"g": [1, 0, 2, 3, None, 4]},
    ),
    Case(
        "unnumbered: in a stopped group it waits, and leaves first",
        "numbers 6",
        Standard(capacity=2),
        (at(0, "g", 1), Act("suspend", "g", 1), at(2, "g", 2, status(), status(9)), Act("resume", "g", 3)),
        numbers=_BARE,
        released={"g": [1, None, 2]},
        rejected={"g": [9]},
    ),
    Case(
        "unnumbered: a closed group takes in none",
        "numbers 6",
        Standard(),
        (at(0, "g", 1), Act("close", "g", 1), at(2, "g", status())),
        numbers=_BARE,
        released={"g": [1]},
        late={"g": [None]},
    ),
)

BEGINNINGS = (
    Case(
        "start: the lowest number that is there after a while",
        "numbers 7",
        Standard(start="lowest", settle=0.1),
        (at(0, "cam", 7003), at(0.01, "cam", 7001), at(0.02, "cam", 7002, leaves={}), at(0.2, "cam", 7005, 7000, 7004)),
        released={"cam": [7001, 7002, 7003, 7004, 7005]},
        late={"cam": [7000]},
    ),
    Case(
        "start: a span of more numbers than 64 bits can count is no beginning",
        "numbers 7",
        Standard(start="lowest", settle=0.1),
        (at(0, "g", span(-_FAR, _FAR), 7), at(0.2, "g", 8)),
        numbers=_SPANS,
        released={"g": [7, 8]},
        invalid={"g": [-_FAR]},
    ),
    Case(
        "start: a full group that settles rejects its highest number",
        "numbers 7",
        Standard(start="lowest", settle=10, capacity=2),
        (at(0, "g", 5, 9, 7, 3, 8), later(20)),
        released={"g": [3]},
        held={"g": [5], "clock": [1]},
        rejected={"g": [9, 7, 8]},
        states={"g": "waiting"},
    ),
    Case(
        "start: a group that is told where it begins",
        "numbers 7",
        Standard(start="told"),
        (
            at(0, "g", 5, 3, 4),
            later(100),
            Act("skip_hole", "g", 101, refused=True),
            Act("reset", "g", 102, {"next": 4}),
        ),
        released={"g": [4, 5]},
        late={"g": [3]},
        held={"clock": [1]},
    ),
    Case(
        "start: a group that waits to be told is waiting",
        "numbers 7",
        Standard(start="told"),
        (at(0, "g", 2, 1, 2),),
        held={"g": [1, 2]},
        duplicate={"g": [2]},
        states={"g": "waiting"},
    ),
)

BASES = (
    Case(
        "bases: a snapshot in the middle of the changes",
        "numbers 8",
        Standard(start="told"),
        (
            at(0, "BTC", 989, 990, 992, 991, leaves={}),
            at(1, "BTC", base(991), 993, 990, leaves={"BTC": [991, 992, 993]}),
        ),
        numbers=_BASES,
        released={"BTC": [991, 992, 993]},
        duplicate={"BTC": [989, 990, 991, 990]},
    ),
    Case(
        "bases: one that only says where the changes go on isn't delivered",
        "numbers 8",
        Standard(start="told"),
        (at(0, "g", 4, 3, of(3, base_only=True)),),
        numbers=_BASES,
        released={"g": [4]},
        duplicate={"g": [3]},
        void={"g": [3]},
    ),
    Case(
        "bases: a hole below one is covered, and one below the next number is a duplicate",
        "numbers 8",
        Standard(),
        (at(0, "g", 1, 4), at(1, "g", base(2)), at(2, "g", base(5), 3, base(4), 6)),
        numbers=_BASES,
        released={"g": [1, 2, 5, 6]},
        duplicate={"g": [4, 3, 4]},
        reports=(("hole_covered", "g", 2, 2), ("hole_covered", "g", 3, 3)),
    ),
    Case(
        "bases: what is covered is compared with nothing, and clears what was skipped",
        "numbers 8",
        Standard(restart_after=2, hole_timeout=10, on_hole="skip"),
        (
            at(0, "g", of(1, "a"), 3),
            later(20),
            at(21, "g", base(3)),
            at(22, "g", base(5), of(1, "b"), of(2, "b"), of(3, "b")),
        ),
        numbers=_BASES,
        released={"g": [1, 3, 5], **CLOCK},
        duplicate={"g": [3, 1, 2, 3]},
        conflicts=(),
        reports=(("hole_overdue", "g", 2, 2), ("hole_skipped", "g", 2, 2)),
    ),
    Case(
        "bases: in a stopped group they wait, and the highest leaves first",
        "numbers 8",
        Standard(capacity=1),
        (at(0, "g", 1), Act("suspend", "g", 1), at(2, "g", 4, base(3), base(2), 2), Act("resume", "g", 3)),
        numbers=_BASES,
        released={"g": [1, 3, 4]},
        duplicate={"g": [2, 2]},
    ),
    Case(
        "bases: each epoch has its own",
        "numbers 8",
        Standard(start="told"),
        (
            at(0, "g", *in_epoch(1, 5), base(4, epoch=1), *in_epoch(2, 2, 3), leaves={"g": [4, 5]}),
            at(1, "g", base(2, epoch=2)),
        ),
        numbers=Sequence(epoch="epoch", base="base"),
        released={"g": [4, 5, 2, 3]},
        duplicate={"g": [2]},
    ),
    Case(
        "bases: one without a number is invalid",
        "numbers 8",
        Standard(start="told"),
        (at(0, "g", of(None, base=True), 1),),
        numbers=_BASES,
        held={"g": [1]},
        invalid={"g": [None]},
    ),
    Case(
        "bases: a stream of ranges with a snapshot in it",
        "numbers 8",
        Standard(start="told"),
        (
            at(0, "BTC", span(150, 160), span(161, 165)),
            at(1, "BTC", base(158), span(166, 170), span(140, 149)),
            at(2, "BTC", span(150, 160), base(158)),
        ),
        note="Binance: the first change that counts has the snapshot's number in it",
        numbers=Sequence(through="through", base="base"),
        released={"BTC": [158, 150, 161, 166]},
        duplicate={"BTC": [140, 150, 158]},
        overlaps={"BTC": [150]},
    ),
)

SETS = (
    Case(
        "sets: numbered from 0, with a size",
        "numbers 10",
        UnitOfWork(size=3, start=0),
        (at(0, "g", 2, 0, 3, -1), at(1, "g", 1)),
        released={"g": [0, 1, 2]},
        invalid={"g": [3, -1]},
    ),
    Case(
        "sets: numbered from 0, with a last one",
        "numbers 10",
        UnitOfWork(last="is_last", start=0),
        (at(0, "g", 0, 3, of(2, is_last=True), 1),),
        released={"g": [0, 1, 2]},
        invalid={"g": [3]},
    ),
    Case(
        "sets: numbered from 0, the last one has the highest number",
        "numbers 10",
        UnitOfWork(last="is_last", start=0),
        (at(0, "g", of(_MAX, is_last=True), 0, _MAX, of(2, is_last=True)),),
        held={"g": [_MAX, 0]},
        duplicate={"g": [_MAX]},
        invalid={"g": [2]},
    ),
)

PARTIAL = (
    Case(
        "sets: what there is of one whose time is over leaves as a whole, with what is missing",
        "numbers 10",
        UnitOfWork(size=5, timeout=10, on_timeout="deliver"),
        (at(0, "g", 4, 1, 1), later(20), at(21, "g", 2, 4)),
        released={"g": [1, 4]},
        duplicate={"g": [1]},
        late={"g": [2, 4]},
        held={"clock": [1]},
        lacks={"g": (2, 3, 5)},
        states={"g": "closed"},
        reports=(("incomplete", "g", 2, 3), ("incomplete", "g", 5, 5), ("closed", "g", None, None)),
    ),
    Case(
        "sets: of unknown size it lacks what is below the highest number",
        "numbers 10",
        UnitOfWork(last="is_last", start=0, timeout=10, on_timeout="deliver"),
        (at(0, "g", 2, 3), later(20)),
        released={"g": [2, 3]},
        held={"clock": [1]},
        lacks={"g": (0, 1)},
    ),
    Case(
        "sets: a suspended one waits, and its time begins anew",
        "numbers 10",
        UnitOfWork(size=2, timeout=10, on_timeout="deliver"),
        (at(0, "g", 2), Act("suspend", "g", 1), later(20), Act("resume", "g", 21), later(25), later(40)),
        released={"g": [2], "clock": [1]},
        duplicate={"clock": [1]},
        late={"clock": [1]},
        lacks={"g": (1,), "clock": (2,)},
    ),
)

_AGAIN = UnitOfWork(size=2, timeout=10, once=False)

AGAIN = (
    Case(
        "sets: a key that is used again begins a new one; what comes again of the set before is a duplicate",
        "numbers 10",
        _AGAIN,
        (
            at(0, "g", of(2, "a"), of(1, "b"), of(1, "b"), of(1, "c"), of(2, "a"), of(2, "d"), of(1, "c")),
            at(1, "g", of(1, "b"), of(2, "a")),
        ),
        note="NMEA: the parts of a sentence have a number from 0 to 9 in common, which is used again",
        released={"g": [1, 2, 1, 2, 1, 2]},
        duplicate={"g": [1, 2, 1]},
        labels={"g": ["b", "a", "c", "d", "b", "a"]},
    ),
    Case(
        "sets: a key whose set was not complete in time begins a new one",
        "numbers 10",
        _AGAIN,
        (at(0, "g", of(1, "a")), later(20), at(21, "g", of(1, "a"), of(2, "b"), of(1, "c"))),
        released={"g": [1, 2]},
        duplicate={"g": [1]},
        held={"clock": [1]},
        dead={"g": [1]},
        labels={"g": ["c", "b"]},
    ),
    Case(
        "sets: of a key that is used again, delivered as they are",
        "numbers 10",
        UnitOfWork(last="is_last", timeout=10, once=False, on_timeout="deliver"),
        (
            at(0, "g", of(1, "a"), of(3, "c", is_last=True)),
            later(20),
            at(21, "g", of(2, "b"), of(3, "c", is_last=True), of(1, "x"), of(3, "y", is_last=True)),
        ),
        released={"g": [1, 3, 1, 2, 3]},
        duplicate={"g": [3]},
        held={"clock": [1]},
        reports=(("incomplete", "g", 2, 2),),
        lacks={"g": (2,)},
    ),
)

_ROUNDS = BestEffort(by="position", window=10, buffer=0)
_TEXT = Sequence("position")

POSITIONS = (
    Case(
        "positions: text is in order of its bytes",
        "numbers 9",
        _ROUNDS,
        (
            at(0, "g", placed(3, "01B"), placed(1, "01A"), placed(2, "01AZ"), placed(4, "é")),
            at(20, "clock", placed(1, "a")),
            at(21, "g", placed(2, "01AZ"), placed(4, "é"), placed(5, "é1")),
        ),
        numbers=_TEXT,
        released={"g": [1, 2, 3, 4]},
        late={"g": [2]},
        held={"clock": [1], "g": [4, 5]},
    ),
    Case(
        "positions: decimal text is in order of its value, of up to 64 digits",
        "numbers 9",
        _ROUNDS,
        (
            at(
                0,
                "g",
                placed(3, "1" * 56),
                placed(2, "10"),
                placed(1, "0009"),
                placed(4, "9" * 64),
                of(None, position="x"),
            ),
            at(20, "clock", placed(1, "1")),
            at(21, "g", placed(2, "11"), of(None, position="1" * 65), of(None)),
        ),
        note="Kinesis",
        numbers=Sequence("position", format="digits"),
        released={"g": [1, 2, 3, 4]},
        late={"g": [2]},
        held={"clock": [1]},
        invalid={"g": [None, None, None]},
    ),
    Case(
        "positions: of two parts, an LSN and an index",
        "numbers 9",
        _ROUNDS,
        (
            at(0, "g", of(3, lsn="0/16B3790", index=1), of(1, lsn="0/9", index=7), of(2, lsn="0/9", index=10)),
            at(20, "clock", of(1, lsn="0/1", index=1)),
            at(21, "g", of(4, lsn="1/0", index=-1), of(None, lsn="1/0"), of(2, lsn="0/9", index=11)),
        ),
        numbers=Sequence(["lsn", "index"]),
        released={"g": [1, 2, 3]},
        late={"g": [2]},
        held={"clock": [1], "g": [4]},
        invalid={"g": [None]},
    ),
    Case(
        "positions: a round is a call, equal ones are no duplicates, and a late one leaves flagged",
        "numbers 9",
        BestEffort(by="position", late="deliver"),
        (
            at(0, "g", placed(2, "b"), placed(1, "a"), placed(2, "b")),
            at(1, "g", placed(1, "a"), placed(2, "b"), placed(3, "c" * 64), of(None, position="d" * 65)),
        ),
        numbers=_TEXT,
        released={"g": [1, 2, 2, Late(1), 2, 3]},
        invalid={"g": [None]},
    ),
    Case(
        "positions: a call takes the lowest ones",
        "numbers 9",
        BestEffort(by="position", max_rows=2),
        (at(0, "g", placed(3, "c"), placed(1, "a"), placed(2, "b")), at(1, "g", placed(2, "bb"), placed(0, "A"))),
        numbers=_TEXT,
        released={"g": [1, 2, 2, 3]},
        late={"g": [0]},
    ),
    Case(
        "positions: what came after the highest of a round was fixed waits for the next one",
        "numbers 9",
        BestEffort(by="position", window=10, buffer=0.5),
        (
            at(0, "g", placed(3, "c")),
            at(11, "g", placed(4, "d"), placed(1, "a"), placed(3, "c")),
            at(20, "g", placed(2, "b")),
            at(31, "clock", placed(1, "a")),
        ),
        numbers=_TEXT,
        released={"g": [1, 3, 3, 4]},
        late={"g": [2]},
        held={"clock": [1]},
    ),
    Case(
        "positions: a late one suspends its group, and leaves flagged",
        "numbers 9",
        BestEffort(by="position", window=10, buffer=0, late="suspend"),
        (
            at(0, "g", placed(2, "b")),
            at(11, "g", placed(1, "a"), placed(4, "d"), placed(3, "c")),
            Act("reset", "g", 11, {"next": 1}, refused=True),
            Act("resume", "g", 12),
            at(30, "clock", placed(1, "a")),
        ),
        numbers=_TEXT,
        released={"g": [2, Late(1), 3, 4]},
        held={"clock": [1]},
    ),
    Case(
        "positions: a filter says which messages are voids",
        "numbers 9",
        _ROUNDS,
        (
            at(0, "g", placed(2, "b"), placed(1, "a", leaves_nothing=True)),
            at(20, "g", placed(3, "c"), placed(1, "a", leaves_nothing=True)),
            at(40, "clock", placed(1, "a")),
        ),
        numbers=Sequence("position", void="leaves_nothing"),
        released={"g": [2, 3]},
        late={"g": [1]},
        void={"g": [1]},
        held={"clock": [1]},
    ),
)

NUMBERS = (
    SPANS
    + VOIDS_BY_FILTER
    + GAPS
    + OF_A_POLICY
    + TURN_OVERS
    + EPOCHS
    + MARKERS
    + BARE
    + BEGINNINGS
    + BASES
    + SETS
    + PARTIAL
    + AGAIN
    + POSITIONS
)
