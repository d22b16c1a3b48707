"""The index of a bucket: what it keeps, what it costs, and which layouts of its parts it reads."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from seriatim import CheckpointMismatch, Queue, Sequence, Standard
from seriatim.kernel import resequence as kernel
from seriatim.kernel.groups.arrivals import NOT_SAID, Arrivals
from seriatim.kernel.groups.numbers import with_numbers
from seriatim.kernel.groups.policy import StandardNumbers, with_stays
from seriatim.kernel.groups.state import NOTHING, State
from seriatim.spark.resequence.bucket import KEY, SEQUENCE, Bucket, Plan
from seriatim.spark.state import group_index
from seriatim.spark.state.destination_history import DestinationHistory
from seriatim.spark.state.group_index import Index, QueueState
from seriatim.spark.state.held_bodies import Bodies, MemoryChunks
from seriatim.spark.state.packets import EACH, from_bytes, to_bytes

KEYS = pa.array([b"a", b"b", b"c"], pa.binary())
PLAIN = Standard(remember=0, hole_timeout=5, on_hole="skip")


def arrivals(*rows: tuple[int, int, int, int]) -> Arrivals:
    """Messages: (group, sequence, weight, fingerprint), in order of arrival within a group."""
    group, sequence, weight, fingerprint = np.array(rows, np.int64).T
    count = len(rows)
    refs = np.arange(count)
    return Arrivals(group, sequence, refs, refs + 7, np.full(count, NOT_SAID), weight, fingerprint)


def state_of(policy: Standard, *rows: tuple[int, int, int, int]) -> State:
    return kernel.offer(policy, kernel.new_state(policy, 3), arrivals(*rows)).state


def index_of(**states: State) -> Index:
    return Index("of this test", {name: QueueState(KEYS, state) for name, state in states.items()}, now=9, chunk=1)


def columns(value: bytes) -> list[str]:
    return pa.ipc.open_stream(value).schema.names


def with_header(value: bytes, without: tuple[str, ...] = (), **header: Any) -> bytes:
    """The value with another header, without its parts if they are None, and without some columns."""
    table = pa.ipc.open_stream(value).read_all()
    found = {**json.loads(table.schema.metadata[b"seriatim"]), **header}
    if found["parts"] is None:
        del found["parts"]
    table = table.drop_columns([name for name in without if name in table.column_names])
    table = table.replace_schema_metadata({"seriatim": json.dumps(found)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def same(found: State, wanted: State, *, but: tuple[str, ...] = ()) -> None:
    for part in State.__slots__:
        one, other = getattr(found, part), getattr(wanted, part)
        if other is None:
            assert one is None
            continue
        for name in one.__match_args__:
            if name not in but:
                np.testing.assert_array_equal(getattr(one, name), getattr(other, name), f"{part}.{name}")


def test_every_rule_has_its_place():
    """Held voids, fingerprints, what is remembered, counts of restarts, groups that aren't opened, an incarnation."""
    ruled = Standard(remember=2, restart_after=2, hole_timeout=5)
    anew = state_of(ruled, *[(0, n, 1, 10 + n) for n in (1, 2, 3, 1, 2)], (1, 2, 0, 0), (1, 3, 1, 77), (2, 9, 1, -5))
    assert anew.groups.suspects.tolist() == [1, 0, 0]
    assert anew.remembered.sequence.tolist() == [2, 3]
    assert anew.held.weight.tolist() == [0, 1, 1]
    opened = with_stays(Standard(remember=0), opens=True, closes=True, unopened_timeout=60)
    assert isinstance(opened, Standard)
    waiting = kernel.offer(opened, kernel.new_state(opened, 3), arrivals((0, 1, 1, 0), (2, 4, 1, 0))).state
    assert waiting.held.aside.all()
    index = index_of(anew=anew, waiting=waiting)
    index.queues["waiting"].incarnation = 3
    again = Index.from_bytes(index.to_bytes(), "of this test")
    for name, one in index.queues.items():
        same(again.queues[name].state, one.state)
        assert again.queues[name].incarnation == one.incarnation
        assert again.queues[name].keys == KEYS
    assert again.to_bytes() == index.to_bytes()


def test_what_numbers_mean_has_its_place():
    """Ends of what is held and of what is remembered, epochs, lives, and what was skipped in the epoch before; beside plain numbers."""
    policy = with_numbers(Standard(remember=2), Sequence("n", through="t", epoch="e"))
    assert isinstance(policy, StandardNumbers)
    came = arrivals((0, 1, 1, 5), (0, 5, 1, 6), (0, 1, 1, 7), (0, 4, 1, 8), (1, 2, 1, 0))
    came = came.with_columns(through=came.sequence + np.array([2, 0, 1, 3, 0]), epoch=np.array([1, 1, 2, 2, 4]))
    state = kernel.offer(policy, kernel.new_state(policy, 3), came).state
    assert (state.held.through.tolist(), state.held.epoch.tolist(), state.remembered.through.tolist()) == (
        [7, 2],
        [2, 4],
        [2],
    )
    assert state.known_lives.epoch.tolist()[:2] == [2, 4]
    assert (state.ended.first.tolist(), state.ended.last.tolist()) == ([NOTHING + 1, 4, 6], [0, 4, 2**63 - 1])
    index = index_of(odd=state, plain=state_of(PLAIN, (0, 1, 1, 0), (1, 2, 1, 0)), new=kernel.new_state(policy, 3))
    again = Index.from_bytes(index.to_bytes(), "of this test")
    for name, one in index.queues.items():
        same(again.queues[name].state, one.state)
    assert (again.queues["plain"].state.lives, again.queues["plain"].state.held.through) == (None, None)
    assert again.to_bytes() == index.to_bytes()
    plain = columns(index_of(plain=state_of(PLAIN, (0, 1, 1, 0), (1, 2, 1, 0))).to_bytes())
    assert not [name for name in plain if name.startswith(("lives", "ended")) or name.endswith((".through", ".epoch"))]


def test_a_rule_that_no_queue_uses_has_no_column():
    plain = index_of(plain=state_of(PLAIN, (0, 1, 1, 0), (1, 2, 1, 0), (1, 3, 1, 0))).to_bytes()
    unused = {"queues.incarnation", "groups.suspects", "held.weight", "held.fingerprint", "held.bits"}
    assert unused.isdisjoint(columns(plain))
    assert not [name for name in columns(plain) if name.startswith("remembered")]
    ruled = state_of(Standard(remember=2), (0, 1, 1, 5))
    assert "remembered.fingerprint" in columns(index_of(plain=ruled).to_bytes())


@pytest.mark.parametrize(
    ("header", "what"),
    [
        ({"layout": 1}, "the state has layout 1, this version of seriatim reads 2"),
        ({"layout": 9}, "the state has layout 9, this version of seriatim reads 2"),
        ({"parts": {**group_index.PARTS, "held": 9}}, "part 'held' of the state has layout 9, .* reads 3"),
        ({"parts": {**group_index.PARTS, "held": 2}}, "part 'held' of the state has layout 2, .* reads 3"),
        (
            {"parts": {**group_index.PARTS, "seen": 1}},
            "the state has a part 'seen', which this version .* doesn't know",
        ),
        ({"fingerprint": "another"}, "the state was written with another"),
    ],
)
def test_an_unknown_layout_is_refused(header, what):
    value = with_header(index_of(q=state_of(PLAIN, (0, 2, 1, 0))).to_bytes(), **header)
    with pytest.raises(CheckpointMismatch, match=what) as refused:
        Index.from_bytes(value, "of this test")
    assert refused.value.remedy


def test_a_part_that_is_missing_is_empty():
    value = index_of(q=state_of(Standard(remember=2), (0, 1, 1, 5))).to_bytes()
    gone = tuple(name for name in columns(value) if name.startswith("remembered."))
    parts = {name: layout for name, layout in group_index.PARTS.items() if name != "remembered"}
    found = Index.from_bytes(with_header(value, gone, parts=parts), "of this test")
    assert len(found.queues["q"].state.remembered) == 0


# ---- destinations that come and go

KIND = {"policy": "standard", "group": "g"}
BODY = pa.schema([("body", pa.string())])


def fingerprint(buckets: int = 4, **queues: Any) -> str:
    return json.dumps({"buckets": buckets, "clock": "processing", "queues": queues})


def written(fingerprint_: str, *, holds: bool = True, incarnation: int = 1) -> bytes:
    """A state with the groups of two queues."""
    state = state_of(PLAIN, (0, 1, 1, 0), *([(1, 2, 1, 0)] if holds else []))
    queues = {name: QueueState(KEYS, state, incarnation) for name in ("stays", "goes")}
    return Index(fingerprint_, queues).to_bytes()


def test_a_queue_that_is_not_declared_any_more_is_taken_out():
    value = written(fingerprint(stays=KIND, goes=KIND), holds=False)
    now = fingerprint(stays=KIND, comes=KIND)
    found = Index.from_bytes(value, now, DestinationHistory({"stays": 1, "goes": 1, "comes": 1}))
    assert (list(found.queues), list(found.departed), found.fingerprint) == (["stays"], ["goes"], now)
    again = Index.from_bytes(found.to_bytes(), now, DestinationHistory())
    assert (list(again.queues), list(again.departed)) == (["stays"], [])
    with pytest.raises(CheckpointMismatch, match="but the declaration now is"):  # of a query without a history
        Index.from_bytes(value, now)


def test_a_queue_that_holds_messages_is_taken_out_only_if_it_was_abandoned():
    value, now = written(fingerprint(stays=KIND, goes=KIND)), fingerprint(stays=KIND)
    with pytest.raises(CheckpointMismatch, match="destination 'goes' holds messages"):
        Index.from_bytes(value, now, DestinationHistory({"stays": 1, "goes": 1}))
    found = Index.from_bytes(value, now, DestinationHistory({"stays": 1, "goes": 1}, {"goes": 1}))
    assert len(found.departed["goes"].state.held) == 1


def test_a_queue_that_came_again_begins_anew_and_may_be_another_one():
    value = written(fingerprint(stays=KIND, goes=KIND), holds=False)
    now = fingerprint(stays=KIND, goes={"policy": "fifo", "group": "g"})
    found = Index.from_bytes(value, now, DestinationHistory({"stays": 1, "goes": 2}))
    assert (list(found.queues), list(found.departed)) == (["stays"], ["goes"])
    with pytest.raises(CheckpointMismatch, match=r"queue 'goes' .*standard.* but the declaration now is .*fifo"):
        Index.from_bytes(value, now, DestinationHistory())
    with pytest.raises(CheckpointMismatch, match="is of incarnation 3, the manifest knows 2"):
        Index.from_bytes(written(now, incarnation=3), now, DestinationHistory({"stays": 3, "goes": 2}))


@pytest.mark.parametrize(
    "other", [fingerprint(8, stays=KIND, goes=KIND), fingerprint(stays=KIND, goes=KIND).replace("processing", "event")]
)
def test_buckets_and_clock_stay_whatever_comes_and_goes(other):
    with pytest.raises(CheckpointMismatch, match="the state was written with"):
        Index.from_bytes(written(fingerprint(stays=KIND, goes=KIND)), other, DestinationHistory())


def test_what_an_abandoned_queue_held_is_dead():
    queues = (Queue("stays", PLAIN, "g", "n"), Queue("goes", PLAIN, "g", "n"))
    plan = Plan(queues, "destination", None, ("destination", "body"), "processing", (("body",),), "all", reports=True,
                fingerprint=fingerprint(stays=KIND, goes=KIND), buckets=4)  # fmt: skip
    index, chunks = Index(plan.fingerprint), MemoryChunks({})
    rows = [("stays", 2, "s2"), ("goes", 3, "g3"), ("goes", 2, "g2"), ("goes", 1, "other"), ("goes", 5, "other5")]
    keys = [b"k", b"k", b"k", b"done", b"done"]
    packet = pa.table({
        "destination": pa.array([name for name, _, _ in rows]), "body": pa.array([body for _, _, body in rows]),
        KEY: pa.array(keys, pa.binary()), SEQUENCE: pa.array([number for _, number, _ in rows], pa.int64()),
    })  # fmt: skip
    list(Bucket(plan, index, Bodies(chunks, index.chunks, BODY), [packet]).take(1))

    after = replace(plan, queues=queues[:1], fingerprint=fingerprint(stays=KIND),
                    history=DestinationHistory({"stays": 1, "goes": 1}, {"goes": 1}))  # fmt: skip
    index = Index.from_bytes(index.to_bytes(), after.fingerprint, after.history)
    bucket = Bucket(after, index, Bodies(chunks, index.chunks, BODY), [])
    told = [row for table in bucket.take(2) for row in table.to_pylist()]
    assert sorted((one["destination"], one["body"], one["disposition"], one["ordinal"]) for one in told) == [
        ("goes", body, "dead", None) for body in ("g2", "g3", "other5")
    ]
    assert {one["reason"] for one in told} == {"its destination was taken away"}
    report = json.loads(bucket.report(0))
    assert (report["held"], report["groups"]) == ({"stays": 1}, {"stays": 1})
    again = Index.from_bytes(index.to_bytes(), after.fingerprint, after.history)
    assert (list(again.queues), again.departed) == (["stays"], {})


def test_what_is_held_has_the_present_columns():
    held = pa.table({"number": ["7", "x", None, "8"], "gone": [1, 2, 3, 4], "amount": [1, 2, 3, 4]})
    chunks = MemoryChunks({1: to_bytes(held).to_pybytes()})
    schema = pa.schema([("number", pa.int64()), ("new", pa.string()), ("amount", pa.float64())])
    found = Bodies(chunks, {1: 4}, schema).table(1).to_pydict()
    assert found == {"number": [7, None, None, 8], "new": [None] * 4, "amount": [1.0, 2.0, 3.0, 4.0]}


def test_a_message_that_several_queues_hold_has_one_body():
    queues = tuple(Queue(name, PLAIN, "g", "n") for name in "ab")
    plan = Plan(queues, "destination", None, ("body", "destination"), "processing", (("body",),), "all", reports=True,
                fingerprint="f", buckets=4)  # fmt: skip
    index, chunks = Index(plan.fingerprint), MemoryChunks({})

    def call(now: int, *messages: tuple[str, int, str]) -> list[tuple[str, str]]:
        """Messages (queues, number, body) of one group; which bodies leave from which queue."""
        to = [[{"destination": name, KEY: b"k", SEQUENCE: number} for name in names] for names, number, _ in messages]
        told = pa.list_(pa.struct([("destination", pa.string()), (KEY, pa.binary()), (SEQUENCE, pa.int64())]))
        packet = pa.table({"body": pa.array([body for _, _, body in messages]), EACH: pa.array(to, told)})
        again = Index.from_bytes(index.to_bytes(), plan.fingerprint)
        index.queues, index.chunk, index.chunks = again.queues, again.chunk, again.chunks
        bucket = Bucket(plan, index, Bodies(chunks, index.chunks, BODY), [packet] if messages else [])
        return [(row["destination"], row["body"]) for table in bucket.take(now) for row in table.to_pylist()]

    def kept() -> list[str]:
        return sorted(
            body for packet in chunks.packets.values() for body in from_bytes(packet).column("body").to_pylist()
        )

    assert call(1, ("ab", 3, "c"), ("a", 4, "d"), ("ab", 2, "b"), ("ba", 5, "e")) == []
    assert kept() == ["b", "c", "d", "e"]
    assert call(1, ("b", 4, "other d"), ("a", 7, "g")) == []  # a small chunk is merged with the former
    assert kept() == ["b", "c", "d", "e", "g", "other d"]
    assert call(2, ("a", 1, "a")) == [("a", body) for body in "abcde"]
    assert kept() == ["b", "c", "d", "e", "g", "other d"]  # the other queue holds most of them
    assert call(2, ("b", 1, "a")) == [("b", body) for body in ("a", "b", "c", "other d", "e")]
    assert call(3, ("a", 6, "f")) == [("a", "f"), ("a", "g")]
    assert kept() == []
