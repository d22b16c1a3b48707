"""What other resequencers' suites expect, restated; and what of theirs is for later parts.

Where a peer's rule differs from ours, the case says so and states our outcome.
"""

from __future__ import annotations

from seriatim.kernel.groups.policy import BestEffort, Standard, UnitOfWork
from tests.conformance.case import Case, Recorded, at, later, of

_AGGREGATOR = "spring-projects/spring-integration spring-integration-core/src/test/java/org/springframework/integration/aggregator/"
_RESEQUENCER = _AGGREGATOR + "ResequencerTests"
_WOLVERINE = "JasperFx/wolverine src/Testing/SlowTests/Persistence/Sagas/resequencer_saga_in_memory"
_KSTREAM = "snekse/kstream-resequence-starter resequence-starter/src/test/groovy/.../ResequenceProcessorSpec"

SPRING = (
    Case(
        "a set of three, backwards",
        Recorded(_RESEQUENCER, "basic"),
        UnitOfWork(size=3),
        (at(0, "g", 3, 2, 1),),
        released={"g": [1, 2, 3]},
    ),
    Case(
        "the first leaves although the second is missing",
        Recorded(_RESEQUENCER, "basicA partial"),
        Standard(),
        (at(0, "g", 3, leaves={}), at(1, "g", 1, leaves={"g": [1]})),
        released={"g": [1]},
        held={"g": [3]},
    ),
    Case(
        "two holes in turn are filled",
        Recorded(_RESEQUENCER, "unbounded partial"),
        Standard(),
        (
            at(0, "g", 3, leaves={}),
            at(1, "g", 1, leaves={"g": [1]}),
            at(2, "g", 2, leaves={"g": [2, 3]}),
            at(3, "g", 5, leaves={}),
            at(4, "g", 4, leaves={"g": [4, 5]}),
        ),
        released={"g": [1, 2, 3, 4, 5]},
    ),
    Case(
        "a number twice in a set",
        Recorded(_RESEQUENCER, "duplicates"),
        UnitOfWork(size=3),
        (at(0, "g", 3, of(2, "first"), of(2, "second"), of(1)),),
        note="the peer doesn't say what becomes of the second copy; ours is a duplicate",
        released={"g": [1, 2, 3]},
        labels={"g": ["", "first", ""]},
        duplicate={"g": [2]},
    ),
    Case(
        "an incomplete run leaves, its rest follows",
        Recorded(_RESEQUENCER, "incomplete release"),
        Standard(),
        (at(0, "g", 4, 2, 1, leaves={"g": [1, 2]}), at(1, "g", 3, leaves={"g": [3, 4]})),
        released={"g": [1, 2, 3, 4]},
    ),
    Case(
        "a full group and the number it waits for",
        Recorded(_RESEQUENCER, "capacity"),
        Standard(capacity=2),
        (at(0, "g", 4, 2, leaves={}), at(1, "g", 1, leaves={"g": [1, 2]})),
        differs="the peer fails on 1, although it would make room; here `next` is never rejected",
        released={"g": [1, 2]},
        held={"g": [4]},
    ),
    Case(
        "the order of numbers, not of arrival",
        Recorded(_RESEQUENCER, "partial+comparator"),
        Standard(),
        (at(0, "g", 2, 1, 4, leaves={"g": [1, 2]}), at(1, "g", 3, leaves={"g": [3, 4]})),
        released={"g": [1, 2, 3, 4]},
    ),
    Case(
        "an incomplete set expires",
        Recorded(_RESEQUENCER, "discard on expiry"),
        UnitOfWork(size=4, timeout=100),
        (at(0, "g", 2, 1), later(101), at(102, "g", 4)),
        dead={"g": [1, 2]},
        late={"g": [4]},
        held={"clock": [1]},
        states={"g": "closed"},
    ),
    Case(
        "two sizes for one set",
        Recorded(_RESEQUENCER, "different sizes"),
        UnitOfWork(size="size"),
        (at(0, "g", of(2, size=4)), at(1, "g", of(1, size=5))),
        note="discarded there; invalid here, with the reason",
        held={"g": [2]},
        invalid={"g": [1]},
    ),
    Case(
        "a number above the size it states",
        Recorded(_RESEQUENCER, "wrong size and number"),
        UnitOfWork(size="size"),
        (at(0, "g", of(4, size=2)),),
        differs="the peer neither discards nor releases it; here it is invalid, because it can never leave",
        invalid={"g": [4]},
    ),
    Case(
        "nothing leaves before the set is complete",
        Recorded(_RESEQUENCER, "complete release"),
        UnitOfWork(size=4),
        (at(0, "g", 2, 1, 4, leaves={}), at(1, "g", 3, leaves={"g": [1, 2, 3, 4]})),
        released={"g": [1, 2, 3, 4]},
    ),
    Case(
        "a set of one leaves nothing behind",
        Recorded(_RESEQUENCER, "group removed"),
        UnitOfWork(size=1),
        (at(0, "g", 1, leaves={"g": [1]}),),
        released={"g": [1]},
        states={"g": "closed"},
    ),
    Case(
        "what comes after the time-out of a set",
        Recorded(_RESEQUENCER, "timeout default"),
        UnitOfWork(size=3, timeout=0.1),
        (at(0, "g", 3, 2), at(0.2, "g", 1, leaves={})),
        dead={"g": [2, 3]},
        late={"g": [1]},
    ),
    Case(
        "what comes after the time-out of a set that a peer forgets",
        Recorded(_RESEQUENCER, "timeout + expire group"),
        UnitOfWork(size=3, timeout=0.1),
        (at(0, "g", 3, 2), at(0.2, "g", 1), later(1)),
        differs="the peer begins a new set with 1 and discards it after another time-out; here the group is closed and 1 is late",
        dead={"g": [2, 3]},
        late={"g": [1]},
        held={"clock": [1]},
    ),
    Case(
        "only the contiguous run is taken",
        Recorded(_AGGREGATOR + "ResequencingMessageGroupProcessorTests", "partial"),
        Standard(),
        (at(0, "g", 4, 1, 3),),
        released={"g": [1]},
        held={"g": [3, 4]},
    ),
    Case(
        "behind a hole nothing leaves",
        Recorded(_AGGREGATOR + "scenarios/PartialSequencesWithGapsTests", "gap"),
        Standard(),
        (at(0, "g", 6, 2, 1, leaves={"g": [1, 2]}), at(1, "g", 5, leaves={}), at(2, "g", 4, leaves={})),
        released={"g": [1, 2]},
        held={"g": [4, 5, 6]},
    ),
    Case(
        "each leaves as early as it can",
        Recorded(_AGGREGATOR + "SequenceSizeReleaseStrategyTests", "asEarlyAsPossible"),
        Standard(),
        (
            at(0, "g", 5, leaves={}),
            at(1, "g", 1, leaves={"g": [1]}),
            at(2, "g", 2, leaves={"g": [2]}),
            at(3, "g", 3, leaves={"g": [3]}),
            at(4, "g", 4, leaves={"g": [4, 5]}),
        ),
        released={"g": [1, 2, 3, 4, 5]},
    ),
    Case(
        "two holes, the second with two behind it",
        Recorded(_AGGREGATOR + "integration/ResequencerIntegrationTests", "light"),
        Standard(),
        (
            at(0, "g", 3, leaves={}),
            at(1, "g", 1, leaves={"g": [1]}),
            at(2, "g", 2, leaves={"g": [2, 3]}),
            at(3, "g", 5, leaves={}),
            at(4, "g", 6, leaves={}),
            at(5, "g", 4, leaves={"g": [4, 5, 6]}),
        ),
        released={"g": [1, 2, 3, 4, 5, 6]},
    ),
)

OTHERS = (
    Case(
        "already in order",
        Recorded(_WOLVERINE, "in order"),
        Standard(),
        (at(0, "g", 1, 2, 3, leaves={"g": [1, 2, 3]}),),
        released={"g": [1, 2, 3]},
    ),
    Case(
        "three waits for one and two",
        Recorded(_WOLVERINE, "queued"),
        Standard(),
        (at(0, "g", 3, leaves={}),),
        held={"g": [3]},
        states={"g": "waiting"},
    ),
    Case(
        "backwards",
        Recorded(_WOLVERINE, "gap fills"),
        Standard(),
        (at(0, "g", 3), at(1, "g", 2), at(2, "g", 1)),
        released={"g": [1, 2, 3]},
    ),
    Case(
        "no number",
        Recorded(_WOLVERINE, "null bypass"),
        Standard(),
        (at(0, "g", None, 1),),
        differs="the peer handles it at once, past the order; here it is invalid, kept, and blocks nothing",
        released={"g": [1]},
        invalid={"g": [None]},
    ),
    Case(
        "number zero",
        Recorded(_WOLVERINE, "zero bypass"),
        Standard(),
        (at(0, "g", 0, 1),),
        differs="the peer takes 0 for no number and handles it at once; here it is below the start, so invalid",
        released={"g": [1]},
        invalid={"g": [0]},
    ),
    Case(
        "what is set free leaves before what came behind it",
        Recorded("JasperFx/wolverine issues", "drain must not go behind a backlog"),
        Standard(),
        (at(0, "g", 3, leaves={}), at(1, "g", 1, 2, 4, 5, leaves={"g": [1, 2, 3, 4, 5]})),
        note="a release of the peer handled 1, 2, 4, 5, 3",
        released={"g": [1, 2, 3, 4, 5]},
    ),
    Case(
        "a window is sorted by time",
        Recorded(_KSTREAM, "sorted flush"),
        BestEffort(by="time", window=0.1, buffer=0),
        (at(0, "g", of(3.0, "C"), of(1.0, "A"), of(2.0, "B")), later(0.2)),
        released={"g": [1.0, 2.0, 3.0]},
        labels={"g": ["A", "B", "C"]},
        held={"clock": [1]},
    ),
    Case(
        "a message without a time",
        Recorded(_KSTREAM, "tombstone last/first"),
        BestEffort(by="time", window=0.1, buffer=0),
        (at(0, "g", of(None, "tombstone"), of(1.0, "A")), later(0.2)),
        differs="the peer sorts it first or last as configured; here what has no sequence has no place: invalid",
        released={"g": [1.0]},
        invalid={"g": [None]},
        held={"clock": [1]},
    ),
    Case(
        "no key",
        Recorded(_KSTREAM, "null key skipped"),
        BestEffort(by="time", window=0.1, buffer=0),
        (at(0, None, of(1.0, "A")), at(0, "valid", of(2.0, "B")), at(0, None, of(3.0, "C")), later(0.2)),
        differs="the peer drops them with a log line; here they are invalid and kept",
        released={"valid": [2.0]},
        invalid={None: [1.0, 3.0]},
        held={"clock": [1]},
    ),
    Case(
        "create before update before delete, then by time",
        Recorded("snekse/kstream-resequence-starter sample-app", "business order"),
        BestEffort(window=0.1, buffer=0),
        (
            at(
                0,
                "g",
                of(20_000, "delete"),
                of(13_000, "update at 3"),
                of(14_000, "update at 4, b"),
                of(14_000, "update at 4, a"),
                of(5_000, "create"),
                of(12_000, "update at 2"),
                of(11_000, "update at 1"),
            ),
            later(0.2),
        ),
        note="the producer's rank and time as one number: 10,000 times the rank + milliseconds; ties by arrival",
        released={"g": [5_000, 11_000, 12_000, 13_000, 14_000, 14_000, 20_000]},
        labels={
            "g": ["create", "update at 1", "update at 2", "update at 3", "update at 4, b", "update at 4, a", "delete"]
        },
        held={"clock": [1]},
    ),
    Case(
        "the last of three completes the set",
        Recorded("mulesoft ResequencerTestCase", "three"),
        UnitOfWork(size=3),
        (at(0, "g", of(2, "B"), of(3, "C"), leaves={}), at(1, "g", of(1, "A"))),
        released={"g": [1, 2, 3]},
        labels={"g": ["A", "B", "C"]},
    ),
)

RECORDED = SPRING + OTHERS

_TOKEN = "AxonFramework/AxonFramework GapAwareTrackingTokenTest"
_WORK = "confluentinc/parallel-consumer .../state/WorkManagerTest"
_PGMQ = "pgmq/pgmq pgmq-extension/test/sql/"
_JEPSEN = "jepsen-io/jepsen jepsen/test/jepsen/tests/kafka_test"

_CURSORS = "a cursor over a log that commits out of order: for reading the box"
_READING = "which message a reader gets next: for receive of the box"
_HISTORIES = "what a checker of histories must find: for the tests that kill processes"

#: Recorded cases that are not about putting one queue in order, and where they belong.
LATER: dict[Recorded, str] = {
    **{
        Recorded(_TOKEN, name): _CURSORS
        for name in (
            "noGaps",
            "initialGaps",
            "newGaps",
            "gapClearsOld",
            "oldGap",
            "higherClears",
            "lowerNotGap",
            "aheadKept",
            "hugeJump",
        )
    },
    **{
        Recorded(_WORK, name): _READING
        for name in ("inFlightBlocks", "orderedAndDelayed", "unorderedRetry", "byPartition", "byKey")
    },
    **{
        Recorded(_PGMQ + "fifo_tests.sql", name): _READING
        for name in ("batch fill", "sizes", "conditional", "lock expiry", "basic")
    },
    Recorded(_PGMQ + "fifo_rr_tests.sql", "round robin"): _READING,
    Recorded(_PGMQ + "fifo_per_group_tests.sql", "heads"): _READING,
    **{
        Recorded(_JEPSEN, name): _HISTORIES
        for name in (
            "g1a",
            "lost-write",
            "poll-skip",
            "poll-skip abort",
            "good abort",
            "nonmonotonic-poll",
            "nonmonotonic-send",
            "int-poll-skip",
            "int-nonmonotonic-poll",
            "duplicate",
            "inconsistent-offsets",
        )
    },
}
