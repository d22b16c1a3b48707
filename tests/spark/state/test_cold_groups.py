"""Cold groups: what leaves the index is found again by its key, the newest of it, and little else is read."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pyarrow as pa

from seriatim.kernel.groups.policy import Standard
from seriatim.kernel.resequence import new_state
from seriatim.spark.resequence.moved_buckets import _whole
from seriatim.spark.state import cold_groups
from seriatim.spark.state.cold_groups import ColdGroups, cold_counts, hashes, is_cold
from seriatim.spark.state.group_index import Index, QueueState
from seriatim.spark.state.held_bodies import MemoryChunks


class Counting(MemoryChunks):
    """A store that counts what is read."""

    def __init__(self):
        super().__init__({})
        self.read = 0

    def get(self, chunk):
        self.read += 1
        return super().get(chunk)


def groups(numbers, ordinal=1, incarnation=1):
    keys = pa.array([f"group-{number}".encode() for number in numbers], pa.binary())
    state = new_state(Standard(), len(numbers)).with_groups(ordinal=np.full(len(numbers), ordinal))
    return QueueState(keys, state, incarnation)


def found(cold, numbers, queue="q", incarnation=1):
    back = cold.take_back(queue, incarnation, groups(numbers).keys)
    if back is None:
        return {}
    return dict(zip(back.keys.to_pylist(), back.state.groups.ordinal.tolist(), strict=True))


def walked(cold, queue="q"):
    """By key the ordinals of all groups; each comes once."""
    parts = list(cold.walk(queue))
    keys = [key for part in parts for key in part.keys.to_pylist()]
    assert len(set(keys)) == len(keys)
    ordinals = (ordinal for part in parts for ordinal in part.state.groups.ordinal.tolist())
    return dict(zip(keys, ordinals, strict=True))


def again(index, chunks):
    """As the next call finds it: from the stored value."""
    index = Index.from_bytes(index.to_bytes(), None)
    return index, ColdGroups(index, chunks)


def test_each_group_is_found_as_it_was_last(monkeypatch):
    monkeypatch.setattr(cold_groups, "PAGE_GROUPS", 16)
    chance, chunks = Random(7), MemoryChunks({})
    index, truth = Index("of this test"), {}
    for round_ in range(30):
        index, cold = again(index, chunks)
        some = sorted(chance.sample(range(500), chance.randrange(1, 60)))
        # Those that come back are the index's, until they expire again.
        assert found(cold, some) == {f"group-{one}".encode(): truth[one] for one in some if one in truth}
        assert cold_counts(index.cold)["q"] == len(truth) - len(truth.keys() & set(some))
        truth |= dict.fromkeys(some, round_)
        cold.add({"q": groups(some, round_)})
        assert cold_counts(index.cold)["q"] == len(truth)
        if round_ % 5:
            continue
        at_hand = set(chance.sample(range(500), 20)) - truth.keys()
        index.queues["q"] = groups(sorted(at_hand))
        assert walked(cold) == {f"group-{one}".encode(): ordinal for one, ordinal in truth.items()}
        index.queues["q"] = groups(back := sorted(chance.sample(sorted(truth), 3)))
        assert walked(cold).keys() == {f"group-{one}".encode() for one in truth.keys() - set(back)}
    sizes = [run.groups for run in index.cold]
    assert all(one >= 2 * other for one, other in pairwise(sizes))
    assert all(is_cold(number) for number in chunks.packets)
    assert len(chunks.packets) == sum(1 + len(run.bounds) for run in index.cold)


def test_queues_and_incarnations_are_kept_apart():
    chunks = MemoryChunks({})
    index, cold = again(Index("of this test"), chunks)
    cold.add({"a": groups(range(10), 1), "b": groups(range(5, 15), 2), "c": groups([])})
    index, cold = again(index, chunks)
    index.queues |= {"a": groups([]), "b": groups([], incarnation=2)}
    assert walked(cold, "a").keys() == {f"group-{one}".encode() for one in range(10)}
    assert walked(cold, "b") == walked(cold, "none") == {}
    looked = cold.look_at("a", 1, groups([3, 12]).keys)
    assert looked.keys.to_pylist() == [b"group-3"]
    assert cold_counts(index.cold)["a"] == 10
    assert found(cold, [3, 12], "a") == {b"group-3": 1}
    assert found(cold, [3, 12], "b") == {b"group-12": 2}
    assert found(cold, [3, 12], "c") == {}
    assert found(cold, [4], "a", incarnation=2) == {}
    assert cold_counts(index.cold) == {"a": 9, "b": 9}


def test_a_former_incarnation_of_a_queue_doesn_t_come_back():
    chunks = MemoryChunks({})
    index, cold = again(Index("of this test"), chunks)
    cold.add({"a": groups(range(10), 1), "b": groups(range(10), 1)})
    cold.add({"a": groups(range(5, 16), 2, incarnation=2)})
    assert len(index.cold) == 1
    index, cold = again(index, chunks)
    assert found(cold, range(16), "a", incarnation=2) == {f"group-{number}".encode(): 2 for number in range(5, 16)}
    assert found(cold, range(16), "a") == {}
    assert len(found(cold, range(15), "b")) == 10


def test_a_bucket_that_is_moved_has_all_its_groups_at_hand():
    chunks = MemoryChunks({})
    index, cold = again(Index("of this test"), chunks)
    cold.add({"a": groups(range(20), 1), "b": groups(range(5), 1)})
    cold.add({"a": groups(range(5), 2)})
    index.queues["a"] = groups([3, 30], 3)
    rows = [{"bucket": 7, "chunk": None, "packet": index.to_bytes()}, {"bucket": 8, "chunk": None, "packet": None}]
    rows += [{"bucket": 7, "chunk": chunk, "packet": packet} for chunk, packet in chunks.packets.items()]
    schema = pa.schema([("bucket", pa.int32()), ("chunk", pa.int64()), ("packet", pa.binary())])
    batches = [pa.RecordBatch.from_pylist(rows[place : place + 2], schema) for place in range(0, len(rows), 2)]
    found = {row["bucket"]: row["packet"] for batch in _whole(batches) for row in batch.to_pylist()}
    assert found[8] is None
    whole = Index.from_bytes(found[7], None)
    assert (whole.cold, whole.next_run) == ([], 0)
    ordinals = {
        name: dict(zip(known.keys.to_pylist(), known.state.groups.ordinal.tolist(), strict=True))
        for name, known in whole.queues.items()
    }
    newest = dict.fromkeys(range(20), 1) | dict.fromkeys(range(5), 2) | {3: 3, 30: 3}
    assert ordinals["a"] == {f"group-{number}".encode(): ordinal for number, ordinal in newest.items()}
    assert len(ordinals["b"]) == 5


def test_keys_that_never_were_there_cost_the_filters_and_almost_no_page():
    chunks = Counting()
    index, cold = again(Index("of this test"), chunks)
    cold.add({"q": groups(range(100_000))})
    chunks.read = 0
    index, cold = again(index, chunks)
    pages = len(index.cold[0].bounds)
    assert pages == 49
    assert found(cold, range(200_000, 200_100)) == {}
    assert chunks.read <= 4
    assert len(found(cold, [17])) == 1


def test_a_hash_depends_on_the_key_alone():
    keys = pa.array([b"a", b"ab", b"ba", b"", b"\0", b"\0\0", b"a" * 1024, "ä".encode()], pa.binary())
    marks = hashes(keys)
    assert len(set(marks.tolist())) == len(keys)
    assert hashes(keys.slice(2, 3)).tolist() == marks[2:5].tolist()
    assert hashes(keys.take(pa.array([6, 0]))).tolist() == [marks[6], marks[0]]
    assert hashes(keys.slice(0, 0)).tolist() == []
    # Written down: a state is read again on another machine, and in another year.
    assert marks[:2].tolist() == [11107270297105313268, 6397625811917248937]
    spread = hashes(pa.array([str(one).encode() for one in range(64_000)], pa.binary())) >> np.uint64(58)
    assert np.bincount(spread.astype(np.int64), minlength=64).min() > 800
