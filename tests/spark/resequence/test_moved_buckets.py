"""The state of buckets, cut into another number of them: each group with what it knows and holds, in its order."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from seriatim import Queue, Standard
from seriatim.kernel.groups.state import State
from seriatim.kernel.resequence import new_state
from seriatim.spark.resequence.bucket import FINGERPRINT, KEY, SEQUENCE, Bucket, Plan
from seriatim.spark.resequence.moved_buckets import _forgotten, _joined, _most, _parts, _whole
from seriatim.spark.state.cold_groups import ColdGroups
from seriatim.spark.state.group_index import Index, QueueState
from seriatim.spark.state.held_bodies import Bodies, MemoryChunks, chunk_of, row_of
from seriatim.spark.state.moved_files import INDEX, read_moved, write_moved
from seriatim.spark.state.packets import EACH

BODY = pa.schema([("body", pa.string())])
POLICY = Standard(remember=2, hole_timeout=5, on_hole="skip")
KEYS = [f"k{n}" for n in range(9)]


def plan(buckets: int) -> Plan:
    queues = tuple(Queue(name, POLICY, "g", "n") for name in "ab")
    told = json.dumps({"buckets": buckets, "clock": "processing", "queues": {}})
    return Plan(queues, "destination", None, ("body", "destination"), "processing", (("body",),), "all", reports=True,
                fingerprint=told, buckets=buckets, by_key=True)  # fmt: skip


def bucket_of(key: str, buckets: int) -> int:
    return int(key[1:]) * 7 % buckets


def taken(buckets: int) -> dict[int, tuple[Index, dict[int, bytes]]]:
    """Buckets that have taken messages in, in several calls: holes, some skipped, some bodies in both queues."""
    found: dict[int, tuple[Index, MemoryChunks]] = {
        n: (Index(plan(buckets).fingerprint), MemoryChunks({})) for n in range(buckets)
    }
    told = pa.list_(
        pa.struct([("destination", pa.string()), (KEY, pa.binary()), (SEQUENCE, pa.int64()), (FINGERPRINT, pa.int64())])
    )
    for call, numbers in enumerate(([1, 2, 4, 5], [9, 7], [12, 11, 10])):
        for bucket, (index, chunks) in found.items():
            rows: list[dict[str, Any]] = []
            for key in (one for one in KEYS if bucket_of(one, buckets) == bucket):
                for number in numbers:
                    to = "ab" if (number + int(key[1:])) % 3 else "a"
                    rows.append({"body": f"{call}{key}-{number}", EACH: [
                        {"destination": name, KEY: key.encode(), SEQUENCE: number, FINGERPRINT: number} for name in to
                    ]})  # fmt: skip
            packet = pa.table(
                {"body": pa.array([row["body"] for row in rows]), EACH: pa.array([row[EACH] for row in rows], told)}
            )
            seconds = 4_000_000 * (call + 1)
            list(
                Bucket(plan(buckets), index, Bodies(chunks, index.chunks, BODY), [packet] if rows else []).take(seconds)
            )
    return {bucket: (index, chunks.packets) for bucket, (index, chunks) in found.items()}


def groups(buckets: dict[int, tuple[Index, dict[int, bytes]]]) -> dict[tuple[str, str], Any]:
    """Each group as it is, with the bodies that it holds in the order of their arrival; everything but where it is kept."""
    found: dict[tuple[str, str], Any] = {}
    for index, packets in buckets.values():
        bodies = Bodies(MemoryChunks(packets), dict(index.chunks), BODY)
        for name, known in index.queues.items():
            for row, (key, state) in enumerate(zip(known.keys.to_pylist(), known.state.split(), strict=True)):
                order = np.argsort(state.held.ref)
                held = [
                    bodies.table(chunk).column("body")[int(bodies.places(chunk, np.array([place]))[0])].as_py()
                    for chunk, place in zip(
                        chunk_of(state.held.ref).tolist(), row_of(state.held.ref).tolist(), strict=True
                    )
                ]
                assert (name, key.decode()) not in found, row
                found[name, key.decode()] = plain(state), [held[place] for place in order.tolist()]
    return found


def plain(state: State) -> dict[str, list[Any]]:
    parts = {part: of for part in State.__slots__ if (of := getattr(state, part)) is not None}
    told = {
        f"{part}.{name}": column.tolist()
        for part, of in parts.items()
        for name in type(of).__slots__
        if (column := getattr(of, name)) is not None
    }
    return {name: values for name, values in told.items() if name != "held.ref"}


def state_of(keys: list[bytes], forgotten: int = 0) -> QueueState:
    return QueueState(pa.array(keys, pa.binary()), new_state(POLICY, len(keys)), 1, forgotten)


def test_groups_that_have_expired_go_along():
    index, chunks = Index("whose"), MemoryChunks({})
    cold = ColdGroups(index, chunks)
    index.queues["a"] = state_of([b"back", b"warm"])
    cold.add({"a": state_of([b"back", *(b"old%d" % n for n in range(9))])})
    cold.add({"a": state_of([b"new"])})
    entries = [{"bucket": 7, "chunk": number, "packet": packet} for number, packet in chunks.packets.items()]
    schema = pa.schema([("bucket", pa.int32()), ("chunk", pa.int64()), ("packet", pa.binary())])
    rows = [{"bucket": 7, "chunk": None, "packet": index.to_bytes()}, {"bucket": 8, "chunk": None, "packet": None}]
    (seven, eight) = (
        row for batch in _whole([pa.RecordBatch.from_pylist([*entries, *rows], schema)]) for row in batch.to_pylist()
    )
    found = Index.from_bytes(seven["packet"], "whose")
    assert not found.cold
    keys = found.queues["a"].keys.to_pylist()
    assert sorted(keys) == sorted([b"back", b"warm", b"new", *(b"old%d" % n for n in range(9))])
    assert eight == {"bucket": 8, "packet": None}


def test_a_group_that_was_forgotten_begins_in_no_former_incarnation():
    values = []
    for times in (3, 0, 5):
        index = Index("whose")
        index.queues["a"] = state_of([b"k%d" % times], forgotten=times)
        values.append(index.to_bytes())
    batch = pa.record_batch({"packet": pa.array([*values, None], pa.binary())})
    most = _most([one for told in _forgotten([batch]) for one in told.column("told").to_pylist()])
    assert most == {"a": [1, 5]}
    empty, _ = _joined(plan(4), [], most)
    assert empty.queues["a"].enrolled(pa.array([b"k3"]), new_state(POLICY, 1)).incarnations().tolist() == [5]
    some, _ = _joined(plan(4), [{INDEX: values[0]}, {INDEX: values[1]}], most)
    assert some.queues["a"].keys.to_pylist() == [b"k3", b"k0"]
    assert some.queues["a"].forgotten == 5


@pytest.mark.parametrize(("before", "after"), [(2, 5), (5, 2), (3, 1), (1, 3)])
def test_each_group_is_in_one_bucket_with_what_it_holds(before, after, tmp_path):
    former = taken(before)
    for bucket, (index, packets) in former.items():
        to = [
            (name, row, bucket_of(key.decode(), after))
            for name, known in index.queues.items()
            for row, key in enumerate(known.keys.to_pylist())
        ]
        table = pa.table({what: [one[place] for one in to] for place, what in enumerate(("queue", "row", "to"))})
        for wanted, part, chunks in _parts(plan(after), index, packets, [table] if to else []):
            (tmp_path / f"{wanted}").mkdir(exist_ok=True)
            write_moved(tmp_path / f"{wanted}", bucket, {INDEX: part.to_bytes(), **chunks})
    found: dict[int, tuple[Index, dict[int, bytes]]] = {}
    for folder in tmp_path.iterdir():
        whole = [read_moved(folder, bucket) for bucket in former if (folder / f"{bucket}.arrow").exists()]
        index, chunks = _joined(plan(after), whole, {})
        again = Index.from_bytes(index.to_bytes(), plan(after).fingerprint)
        assert set(again.chunks) == set(chunks)
        assert {
            bucket_of(key.decode(), after) for known in again.queues.values() for key in known.keys.to_pylist()
        } == {int(folder.name)}
        found[int(folder.name)] = again, chunks
    assert groups(found) == groups(former)
    assert sum(map(len, (held for _, held in groups(former).values()))) > len(KEYS)
    shared = defaultdict(set)
    for (_, key), (_, held) in groups(found).items():
        shared[key].update(held)
    if before == 1:  # bodies that were shared still are
        kept = sum(
            Bodies(MemoryChunks(chunks), {}, BODY).table(chunk).num_rows
            for _, chunks in found.values()
            for chunk in chunks
        )
        assert kept == sum(map(len, shared.values()))
