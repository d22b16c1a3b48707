"""Numbers as producers have them, on Spark: what goes through a checkpoint, which columns there are, and what is refused.

That each rule does what it does in memory: `tests/conformance`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

from seriatim import (
    BestEffort,
    ColumnError,
    Fifo,
    FilterError,
    Group,
    PolicyError,
    Queue,
    Sequence,
    Standard,
    UnitOfWork,
    UsageError,
)
from seriatim.kernel.groups.verbs import Action
from seriatim.kernel.values.time import micros
from seriatim.operations.pipelines.groups import Group as Group_
from seriatim.spark import held, merge, resequence
from seriatim.spark.resequence.group_views import views
from seriatim.spark.state.group_index import Index
from tests.conformance.case import Case, at, of
from tests.conformance.on_bucket import OnBucket
from tests.spark.resequence.test_resequence import put, run_until, stream_of

_QUEUES = [
    Queue("book", Standard(start="told"), "g", Sequence("n", through="last", base="kind = 'snapshot'")),
    Queue("node", Standard(start=0, remember=4), "g", Sequence("n", epoch="birth", modulus=5), compare="v"),
    Queue(
        "link", Standard(start="first"), "g", Sequence("n", modulus=100, restarts="kind = 'anew'", unnumbered="n = 0")
    ),
    Queue("round", BestEffort(max_rows=100, late="suspend"), "g", Sequence("n", modulus=10, void="kind = 'nothing'")),
]
_SCHEMA = "to string, g string, n long, last long, birth long, kind string, v string, at long"


def test_a_query_goes_on_with_all_that_its_numbers_mean(spark: SparkSession, tmp_path: Path) -> None:
    """Ends of what is held, epochs and what was skipped in the one before, the highest numbers, the last bases and markers."""
    source, checkpoint = stream_of(spark, tmp_path / "in", _SCHEMA), tmp_path / "checkpoint"
    ordered = resequence(source, queues=_QUEUES, destination="to", arrival="at", output="all", buckets=2)

    def batch(number: int, rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        told = [{"g": "a", "kind": "", "v": "", "at": number * 100 + at, **row} for at, row in enumerate(rows)]
        put(tmp_path / "in", number, told)
        decided = run_until(ordered, checkpoint, {1: 14, 2: 19}[number])
        shown = [(row.to, row.ordinal or 0, row.n, row.disposition, row.overlaps, row.unwrapped) for row in decided]
        return sorted(shown, key=lambda one: (one[0], one[1], str(one[2])))

    def of(to: str, *rows: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"to": to, **row} for row in rows]

    first = batch(
        1,
        [
            *of("book", {"n": 5, "last": 8}, {"n": 12, "last": 15}, {"n": 2, "last": 4}),
            *of(
                "node",
                *({"n": n, "birth": 1} for n in (0, 1, 3)),
                *({"n": n, "birth": 2} for n in (0, 1, 2, 3, 4, 0, 2)),
            ),
            *of("link", {"n": 98}, {"n": 0}, {"n": 1}),
            *of("round", {"n": 9}, {"n": 1}, {"n": 0}),
        ],
    )
    assert first == [
        ("link", 1, 98, "released", False, 98),
        ("link", 2, 0, "released", False, None),
        *[("node", ordinal, n, "released", False, at) for ordinal, (n, at) in enumerate([(0, 0), (1, 1), (3, 3)], 1)],
        *[
            ("node", ordinal, n, "released", False, at)
            for ordinal, (n, at) in enumerate([(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (0, 5)], 4)
        ],
        *[
            ("round", ordinal, n, "released", False, at)
            for ordinal, (n, at) in enumerate([(9, 9), (0, 10), (1, 11)], 1)
        ],
    ]
    waits = held(checkpoint, spark=spark).orderBy("destination", "sequence").select("destination", "sequence", "reason")
    assert [tuple(row) for row in waits.collect()] == [
        *[
            ("book", n, "waits for the base, or for an operator's reset, that says where its group begins")
            for n in (2, 5, 12)
        ],
        ("link", 101, "waits behind a missing number"),
        ("node", 7, "waits behind a missing number"),
    ]
    second = batch(
        2,
        [
            *of("book", {"n": 6, "kind": "snapshot"}, {"n": 9, "last": 11}, {"n": 1, "last": 3}),
            *of(
                "node",
                {"n": 2, "birth": 1},
                {"n": 1, "birth": 1},
                {"n": 1, "birth": 2},
                {"n": 0, "birth": 2, "v": "other"},
            ),
            *of("link", {"n": 99}, {"kind": "anew", "v": "x"}, {"kind": "anew", "v": "x"}, {"n": 100}, {"n": 7}),
            *of("round", {"n": 2}, {"n": 3, "kind": "nothing"}),
        ],
    )
    assert second == [
        ("book", 0, 1, "duplicate", False, None),
        ("book", 0, 2, "duplicate", False, None),
        ("book", 1, 6, "released", False, None),
        ("book", 2, 5, "released", True, None),
        ("book", 3, 9, "released", False, None),
        ("book", 4, 12, "released", False, None),
        ("link", 0, 100, "invalid", False, None),
        ("link", 0, None, "duplicate", False, None),
        ("link", 3, 99, "released", False, 99),
        ("link", 4, 1, "released", False, 101),
        ("link", 5, None, "released", False, None),
        ("link", 6, 7, "released", False, 7),
        ("node", 0, 0, "duplicate", False, 5),
        ("node", 0, 1, "duplicate", False, 1),
        ("node", 0, 2, "late", False, 2),
        ("node", 10, 1, "released", False, 6),
        ("node", 11, 2, "released", False, 7),
        ("round", 0, 3, "void", False, 13),
        ("round", 4, 2, "released", False, 12),
    ]


def test_a_query_goes_on_with_positions(spark: SparkSession, tmp_path: Path) -> None:
    """Ranks move with what comes, and in a checkpoint are the positions of what is held and of the highest that has left."""
    source = stream_of(
        spark, tmp_path / "in", "to string, g string, lsn string, i int, number string, at timestamp, n long"
    )
    rounds = BestEffort(by="position", window=10, buffer=0)
    queues = [
        Queue("log", rounds, "g", Sequence(["lsn", "i"])),
        Queue("shard", rounds, "g", Sequence("number", format="digits")),
        Queue("ulid", BestEffort(by="position", late="deliver"), "g", "number"),
    ]
    ordered = resequence(
        source, queues=queues, destination="to", arrival="n", output="all", buckets=2, clock="event", time="at", watermark=0,
    )  # fmt: skip
    checkpoint = tmp_path / "checkpoint"

    def batch(number: int, second: int, rows: list[tuple[str, str | None, int | None, str | None]]) -> list[Any]:
        told = [
            {
                "to": to,
                "g": g,
                "lsn": lsn,
                "i": i,
                "number": digits,
                "at": f"2026-01-01T00:00:{second:02d}Z",
                "n": number * 100 + n,
            }
            for n, (to, lsn, i, digits) in enumerate(rows)
            for g in "a"
        ]
        put(tmp_path / "in", number, told)
        decided = run_until(ordered, checkpoint, {1: 4, 2: 10}[number])
        return sorted(
            ((row.to, row.ordinal or 0, row.lsn or row.number, row.disposition, row.late) for row in decided), key=str
        )

    first = batch(
        1, 1,
        [
            *[("log", lsn, i, None) for lsn, i in (("0/A", 2), ("0/9", 5), ("1/0", 0), ("0/A", 1), (None, 1))],
            *[("shard", None, None, digits) for digits in ("1" * 56, "9", "x")],
            *[("ulid", None, None, text) for text in ("01B", "01A")],
        ],
    )  # fmt: skip
    assert first == [
        ("log", 0, None, "invalid", False),
        ("shard", 0, "x", "invalid", False),
        ("ulid", 1, "01A", "released", False),
        ("ulid", 2, "01B", "released", False),
    ]
    second = batch(
        2,
        30,
        [("log", "0/B", 0, None), ("shard", None, None, "010"), ("ulid", None, None, "0"), ("ulid", None, None, "02")],
    )
    assert second == [
        ("log", 0, "0/B", "late", False),
        *[("log", ordinal, lsn, "released", False) for ordinal, lsn in enumerate(("0/9", "0/A", "0/A", "1/0"), 1)],
        ("shard", 0, "010", "late", False),
        ("shard", 1, "9", "released", False),
        ("shard", 2, "1" * 56, "released", False),
        ("ulid", 3, "0", "released", True),
        ("ulid", 4, "02", "released", False),
    ]


_COLUMNS = "select 'a' as g, 1 as n, 2 as last, 3 as birth, 'x' as kind, map('a', 1) as m, 7 as at"


def _frame(sequence: Sequence, policy: Any = None, **more: Any) -> Callable[[DataFrame], DataFrame]:
    return lambda frame: resequence(
        frame, group="g", sequence=sequence, policy=policy or Standard(), **{"arrival": "at", **more}
    )


REFUSED: dict[str, tuple[Callable[[DataFrame], Any], type[Exception], str]] = {
    "a span without arrival": (_frame(Sequence("n", through="last"), arrival=None), UsageError, r"through=….*needs the order of arrival"),
    "a modulus without arrival": (
        _frame(Sequence("n", modulus=8), BestEffort(), arrival=None), UsageError, r"modulus=….*needs the order of arrival",
    ),
    "lowest without arrival": (
        lambda frame: resequence(frame, group="g", sequence="n", policy=Standard(start="lowest", settle=1)),
        UsageError, 'start="lowest" needs the order of arrival',
    ),
    "sets of one key without arrival": (
        lambda frame: resequence(frame, group="g", sequence="n", policy=UnitOfWork(size=2, once=False), compare="kind"),
        UsageError, "once=False needs the order of arrival",
    ),
    "what is missing where a column is named so": (
        lambda frame: resequence(
            frame.withColumnRenamed("kind", "missing"), group="g", sequence="n", policy=UnitOfWork(size=2, timeout=1, on_timeout="deliver"),
        ),
        ColumnError, "missing",
    ),
    "no such column": (_frame(Sequence("n", through="x")), ColumnError, "'x'"),
    "an epoch that is none": (_frame(Sequence("n", epoch="m")), ColumnError, "epoch can't be a map"),
    "a number that is none": (_frame(Sequence("n", through="m")), ColumnError, "map"),
    "no such property": (_frame(Sequence("n", base="kinds = 'x'")), FilterError, "kinds"),
    "a function": (_frame(Sequence("n", base=lambda value: True)), UsageError, "functions of a value are for a Sequencer"),
    "our column": (
        lambda frame: _frame(Sequence("n", through="last"))(frame.withColumnRenamed("kind", "overlaps")), ColumnError, "overlaps",
    ),
    "no number": (_frame(Sequence(through="last")), UsageError, "standard needs a sequence"),
    "a policy without the rule": (_frame(Sequence("n", through="last"), Fifo()), UsageError, "through is for the policy standard"),
    "two regions": (
        lambda frame: merge(frame, frame, session="g", message_id="kind", number="n", policy=Standard(start="told"), arrival="at"),
        PolicyError, "where two regions send messages",
    ),
    "a gate": (
        lambda _: Queue("q", Standard(), "g", Sequence("n", epoch="birth"), gate="out"), UsageError, "together with gate",
    ),
    "opens": (
        lambda _: Queue("q", Standard(start="told"), Group("g", opens="n = 1"), "n"), UsageError, "together with opens",
    ),
    "tickets": (lambda _: Queue("q", Standard(), "g", Sequence("ticket", epoch="birth")), UsageError, "tickets turn over"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_said_together_is_refused_at_once(spark: SparkSession, name: str) -> None:
    build, kind, told = REFUSED[name]
    with pytest.raises(kind, match=told):
        build(spark.sql(_COLUMNS))


def test_columns_say_what_left_before_and_the_number_through_all_turns(spark: SparkSession) -> None:
    rows = [("a", 6, 1, 0), ("a", 0, 2, 1), ("a", 3, 3, 2), ("a", 4, 7, 3)]
    frame = spark.createDataFrame(rows, "g string, n long, last long, at long")
    ordered = resequence(
        frame,
        group="g",
        sequence=Sequence("n", through="last", modulus=8),
        policy=Standard(start="first"),
        arrival="at",
    )
    assert ordered.columns == ["g", "n", "last", "at", "ordinal", "late", "overlaps", "unwrapped"]
    assert [(row.n, row.overlaps, row.unwrapped) for row in ordered.collect()] == [
        (6, False, 6), (0, True, 8), (3, False, 11), (4, False, 12),
    ]  # fmt: skip
    plain = resequence(frame, group="g", sequence="n", policy=Standard(start="first"), arrival="at")
    assert plain.columns == ["g", "n", "last", "at", "ordinal", "late"]


def test_a_column_of_voids_and_a_filter_go_together(spark: SparkSession) -> None:
    rows = [("a", 1, "", False, 0), ("a", 2, "nothing", False, 1), ("a", 3, "", True, 2), ("a", 4, "", None, 3)]
    frame = spark.createDataFrame(rows, "g string, n long, kind string, skip boolean, at long")
    says = Sequence("n", void="kind = 'nothing'")
    found = resequence(frame, group="g", sequence=says, policy=Standard(), void="skip", output="all").collect()
    assert [(row.n, row.disposition) for row in sorted(found, key=lambda row: row.n)] == [
        (1, "released"), (2, "void"), (3, "void"), (4, "released"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "told"),
    [
        (
            Standard(start="lowest", settle=10),
            "settles until 1970-01-01 00:00:13.000000Z, and then begins at the lowest number",
        ),
        (Standard(start="told"), "waits for the base, or for an operator's reset, that says where its group begins"),
    ],
    ids=["lowest", "told"],
)
def test_a_group_says_why_it_waits_for_its_beginning(policy: Standard, told: str) -> None:
    engine = OnBucket(Case("a group", "", policy, (at(3.0, "g", 5, 4),)))
    engine.call(range(2), micros(3))
    (view,) = engine.report["stopped"]["first"]
    found = Group_.of(view)
    assert found.reason.startswith(told)
    assert (str(found.state), found.next, found.held, found.missing_first) == ("waiting", None, 2, None)
    assert found.allows(Action.RESET)
    assert not found.allows(Action.SKIP_HOLE)


def test_a_set_that_begins_at_0_says_what_it_misses(spark: SparkSession) -> None:
    rows = [("a", 0, False, 0), ("a", 2, True, 1), ("b", 0, False, 2), ("b", 1, True, 3)]
    frame = spark.createDataFrame(rows, "g string, n long, final boolean, at long")
    policy = UnitOfWork(last="final", start=0)
    found = resequence(frame, group="g", sequence="n", policy=policy, output="all").collect()
    assert {(row.g, row.n): row.disposition for row in found} == {
        ("a", 0): "held", ("a", 2): "held", ("b", 0): "released", ("b", 1): "released",
    }  # fmt: skip


def test_a_query_goes_on_with_sets(spark: SparkSession, tmp_path: Path) -> None:
    """The parts of the set before, what is held, and the time of a set are in a checkpoint; what is missing is told by each part."""
    source = stream_of(spark, tmp_path / "in", "to string, g string, n long, size long, v string, at timestamp, i long")
    queues = [
        Queue("once", UnitOfWork(size="size", timeout=10, on_timeout="deliver"), "g", "n"),
        Queue("again", UnitOfWork(size="size", timeout=10, once=False, on_timeout="deliver"), "g", "n", compare="v"),
    ]
    ordered = resequence(
        source, queues=queues, destination="to", arrival="i", output="all", buckets=2, clock="event", time="at", watermark=0,
    )  # fmt: skip

    def batch(number: int, second: int, wanted: int, *parts: tuple[int, str]) -> list[Any]:
        told = [
            {
                "to": to,
                "g": "a",
                "n": n,
                "size": 4,
                "v": v,
                "at": f"2026-01-01T00:00:{second:02d}Z",
                "i": number * 100 + i,
            }
            for i, (n, v) in enumerate(parts)
            for to in ("once", "again")
        ]
        put(tmp_path / "in", number, told)
        decided = run_until(ordered, tmp_path / "checkpoint", wanted)
        return sorted((one.to, one.v, one.disposition, one.ordinal, one.partial, one.missing) for one in decided)

    assert batch(1, 1, 2, (3, "a3"), (1, "a1"), (3, "a3")) == [
        ("again", "a3", "duplicate", None, False, []),
        ("once", "a3", "duplicate", None, False, []),
    ]
    first = [(v, "released", ordinal, True, [2, 4]) for v, ordinal in (("a1", 1), ("a3", 2))]
    # The time of the first set is over before these.
    assert batch(2, 31, 8, (1, "a1"), (3, "b3"), (2, "b2")) == [
        ("again", "a1", "duplicate", None, False, []),
        *[("again", *one) for one in first],
        ("once", "a1", "late", None, False, []),
        *[("once", *one) for one in first],
        *[("once", v, "late", None, False, []) for v in ("b2", "b3")],
    ]


def test_what_a_set_lacks_is_told_in_portions(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """10,000 numbers at most, however many parts and numbers there are."""
    frame = spark.range(1, 301).selectExpr("'a' as g", "id * 100 as n", "if(id = 1, 30000, null) as size", "id as at")
    ordered = resequence(
        frame, group="g", sequence="n", policy=UnitOfWork(size="size", timeout=1, on_timeout="deliver"), arrival="at", finish=True,
    )  # fmt: skip
    assert ordered.columns == ["g", "n", "size", "at", "ordinal", "late", "partial", "missing"]
    told = ordered.selectExpr(
        "n", "partial", "size(missing) as many", "missing[0] as first", "missing[99] as last"
    ).collect()
    assert sorted((row.n, row.partial, row.many, row.first, row.last) for row in told) == [
        (100 * nth, True, 10_000, 1, 101) for nth in range(1, 301)
    ]


def test_a_group_shows_the_position_that_left_last() -> None:
    policy = BestEffort(by="position", window=1, buffer=0)
    engine = OnBucket(Case("a group", "", policy, (at(0, "g", of(1, position="b")),), numbers=Sequence("position")))
    engine.call(range(1), micros(0))
    engine.call(range(0), micros(5))
    known = Index.from_bytes(engine.stored, None).queues["a group"]
    (shown,) = views("a group", policy, known, np.arange(1))
    assert shown["last_released"] == "b"
