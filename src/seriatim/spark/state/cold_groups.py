"""The cold part of a bucket: expired groups, in a log of runs; a batch reads only the entries of its keys.

A run has the groups that left the index together, as pages in the order of a hash of their keys, and a filter that tells without reading a
page that a key isn't in it. Runs don't change. When a run is written and the one before it isn't at least twice as large, both are written
as one. So there are as many runs as the number of groups has bits, and a group is written anew as often at most.

    run 7     a filter of 16 bits a group (a Bloom filter with eight probes)
              page 0, 1, 2 …: up to 2,048 groups each, as an index of its own (`group_index.py`)

A group that comes back is in the index again, and the entry of the run is stale: a look-up asks the index first, and then the runs
from the newest to the oldest. The entries lie beside the chunks of held bodies, under numbers below 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seriatim.kernel.values.columns import Ints
from seriatim.spark.state.group_index import Index, QueueState, Run, joined
from seriatim.spark.state.held_bodies import Chunks

#: How many groups a page has at most.
PAGE_GROUPS = 2_048
_PAGE_BITS = 24
_BITS_A_GROUP, _PROBES = 16, 8
_LONGEST_KEY = 1_024
#: A run is at least this many times as large as the one after it.
_FACTOR = 2

_Hashes = np.ndarray


class ColdGroups:
    """The cold groups of a bucket during one call; an entry is read at most once."""

    def __init__(self, index: Index, chunks: Chunks) -> None:
        #: The index of the bucket; its list of runs is changed in place.
        self._index = index
        self._chunks = chunks
        self._filters: dict[int, np.ndarray] = {}
        self._pages: dict[tuple[int, int], Index] = {}

    def take_back(self, queue: str, incarnation: int, keys: pa.BinaryArray) -> QueueState | None:
        """Return the groups of a queue with these keys, as far as they exist; from now on they belong to the index."""
        states = self._found(queue, incarnation, keys)
        for place, state in states:
            run = self._index.cold[place]
            live = {**run.live, queue: max(0, run.live[queue] - len(state.keys))}
            self._index.cold[place] = replace(run, live=live)
        return joined([state for _, state in states]) if states else None

    def look_at(self, queue: str, incarnation: int, keys: pa.BinaryArray) -> QueueState | None:
        """The groups that `take_back` would find, which stay where they are."""
        states = self._found(queue, incarnation, keys)
        return joined([state for _, state in states]) if states else None

    def walk(self, queue: str) -> Iterator[QueueState]:
        """Yield all cold groups of a queue, each once, in parts by the hashes of their keys; one page of a run is in memory at a time."""
        known = self._index.queues.get(queue)
        runs = [run for run in reversed(self._index.cold) if run.live.get(queue)]
        if known is None or not runs:
            return
        marks = hashes(known.keys)
        order = np.argsort(marks, kind="stable")
        marks = marks[order]
        pages: dict[int, tuple[int, QueueState | None, _Hashes]] = {}
        bounds = np.unique(np.concatenate([np.array(run.bounds, np.uint64) for run in runs]))
        for nth, low in enumerate(bounds):
            high = bounds[nth + 1] if nth + 1 < len(bounds) else None
            first, last = _between(marks, low, high)
            seen = known.keys.take(pa.array(order[first:last]))
            for run in runs:
                page = int(np.searchsorted(np.array(run.bounds, np.uint64), low, side="right")) - 1
                if pages.get(run.id, (-1,))[0] != page:
                    state = self._read(run, page).queues.get(queue)
                    if state is None or state.incarnation != known.incarnation:
                        pages[run.id] = (page, None, np.zeros(0, np.uint64))
                    else:
                        pages[run.id] = (page, state, hashes(state.keys))
                _, state, theirs = pages[run.id]
                rows = np.flatnonzero((theirs >= low) & (theirs < high) if high is not None else theirs >= low)
                if state is None or not len(rows):
                    continue
                strange = pc.invert(pc.is_in(state.keys.take(pa.array(rows)), value_set=seen))
                part = state.take(rows[strange.to_numpy(zero_copy_only=False)])
                if len(part.keys):
                    seen = pa.concat_arrays([seen, part.keys])
                    yield part

    def _found(self, queue: str, incarnation: int, keys: pa.BinaryArray) -> list[tuple[int, QueueState]]:
        """The groups of a queue with these keys, by the places of their runs, the newest first."""
        states: list[tuple[int, QueueState]] = []
        for place, run in reversed(list(enumerate(self._index.cold))):
            if not len(keys):
                break
            state = self._in_run(run, queue, incarnation, keys) if queue in run.live else None
            if state is not None:
                states.append((place, state))
                keys = keys.filter(pc.invert(pc.is_in(keys, value_set=state.keys)))
        return states

    def take_all_back(self) -> None:
        """Move all groups to the index, so that no runs are left."""
        for run in reversed(self._index.cold):
            for name, state in self._all_of(run).items():
                known = self._index.queues.get(name)
                if known is None:
                    self._index.queues[name] = state
                elif known.incarnation == state.incarnation:
                    strange = pc.invert(pc.is_in(state.keys, value_set=known.keys)).to_numpy(zero_copy_only=False)
                    more = state.take(np.flatnonzero(strange))
                    self._index.queues[name] = joined([known, more])
        self._index.cold.clear()
        self._index.next_run = 0

    def add(self, queues: Mapping[str, QueueState]) -> None:
        """Write expired groups as a run, and merge it with earlier runs that are too small."""
        queues = {name: queue for name, queue in queues.items() if len(queue.keys)}
        if not queues:
            return
        runs = self._index.cold
        runs.append(self._made(queues, {name: len(queue.keys) for name, queue in queues.items()}))
        while len(runs) > 1 and runs[-2].groups < _FACTOR * runs[-1].groups:
            newer, older = runs.pop(), runs.pop()
            both = _merged(self._all_of(newer), self._all_of(older))
            for state in (newer, older):
                self._delete(state)
            live = {name: newer.live.get(name, 0) + older.live.get(name, 0) for name in both}
            runs.append(self._made(both, {name: min(live[name], len(state.keys)) for name, state in both.items()}))

    def _in_run(self, run: Run, queue: str, incarnation: int, keys: pa.BinaryArray) -> QueueState | None:
        marks = hashes(keys)
        maybe = np.flatnonzero(_may_have(self._filter(run), marks))
        pages = np.searchsorted(np.array(run.bounds, np.uint64), marks[maybe], side="right") - 1
        queue_states: list[QueueState] = []
        for page in np.unique(pages).tolist():
            known = self._page(run, page).queues.get(queue)
            if known is None or known.incarnation != incarnation:
                continue
            wanted = keys.take(pa.array(maybe[pages == page]))
            rows = pc.drop_null(pc.index_in(wanted, value_set=known.keys)).to_numpy().astype(np.int64)
            if len(rows):
                queue_states.append(known.take(np.sort(rows)))
        return joined(queue_states) if queue_states else None

    def _filter(self, run: Run) -> np.ndarray:
        if run.id not in self._filters:
            self._filters[run.id] = np.frombuffer(self._chunks.get(_number(run.id, 0)), np.uint8)
        return self._filters[run.id]

    def _page(self, run: Run, page: int) -> Index:
        if (run.id, page) not in self._pages:
            self._pages[run.id, page] = self._read(run, page)
        return self._pages[run.id, page]

    def _read(self, run: Run, page: int) -> Index:
        return Index.from_bytes(self._chunks.get(_number(run.id, page + 1)), None)

    def _all_of(self, run: Run) -> dict[str, QueueState]:
        pages = [self._page(run, page) for page in range(len(run.bounds))]
        return {name: joined([page.queues[name] for page in pages if name in page.queues]) for name in run.live}

    def _delete(self, run: Run) -> None:
        for page in range(len(run.bounds) + 1):
            self._chunks.delete(_number(run.id, page))
            self._pages.pop((run.id, page - 1), None)
        self._filters.pop(run.id, None)

    def _made(self, queues: Mapping[str, QueueState], live: Mapping[str, int]) -> Run:
        """A run that is written. A page has a range of hashes, of all queues together."""
        number = self._index.next_run
        self._index.next_run = number + 1
        marks = {name: hashes(queue.keys) for name, queue in queues.items()}
        every = np.sort(np.concatenate(list(marks.values())))
        bounds = np.unique(every[::PAGE_GROUPS])
        bounds[0] = 0
        orders = {name: np.argsort(mark, kind="stable") for name, mark in marks.items()}
        edges = {name: np.searchsorted(marks[name][order], bounds) for name, order in orders.items()}
        self._chunks.put(_number(number, 0), _filter_of(every).tobytes())
        for page in range(len(bounds)):
            part = Index(self._index.fingerprint)
            for name, queue in queues.items():
                end = edges[name][page + 1] if page + 1 < len(bounds) else None
                rows = orders[name][edges[name][page] : end]
                if len(rows):
                    part.queues[name] = queue.take(np.sort(rows))
            self._chunks.put(_number(number, page + 1), part.to_bytes())
        return Run(number, len(every), live, tuple(bounds.tolist()))


def cold_counts(runs: Iterable[Run]) -> Counter[str]:
    counter: Counter[str] = Counter()
    for run in runs:
        counter.update(run.live)
    return counter


def is_cold(number: int) -> bool:
    """Whether an entry with that number is of cold groups, and not a chunk of bodies."""
    return number < 0


def run_of(number: int) -> tuple[int, int]:
    """The run of an entry, and its page; -1: its filter."""
    run, page = divmod(-number - 1, 1 << _PAGE_BITS)
    return run, page - 1


def _number(run: int, place: int) -> int:
    return -1 - (run << _PAGE_BITS) - place


def _merged(newer: Mapping[str, QueueState], older: Mapping[str, QueueState]) -> dict[str, QueueState]:
    """Return the groups of two runs: the newer state of a group in both, and none of a former incarnation of a queue."""
    both = dict(newer)
    for name, state in older.items():
        if name in newer and state.incarnation != newer[name].incarnation:
            continue
        if name in newer:
            rows = np.flatnonzero(
                pc.invert(pc.is_in(state.keys, value_set=newer[name].keys)).to_numpy(zero_copy_only=False)
            )
            both[name] = joined([newer[name], state.take(rows)])
        else:
            both[name] = state
    return both


@cache
def _weights() -> _Hashes:
    """A fixed odd number for each place in a key."""
    state = np.uint64(0x9E3779B97F4A7C15)
    with np.errstate(over="ignore"):
        return _mixed(np.arange(1, _LONGEST_KEY + 1, dtype=np.uint64) * state) | np.uint64(1)


def _mixed(values: _Hashes) -> _Hashes:
    """Each bit of a result depends on each bit of a value (the end of MurmurHash3 by Austin Appleby)."""
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
        values = (values ^ (values >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return values ^ (values >> np.uint64(33))


def hashes(keys: pa.BinaryArray) -> _Hashes:
    """A hash of 64 bits for each key, the same on every machine: a sum of its bytes with a weight for each place."""
    if not len(keys):
        return np.zeros(0, np.uint64)
    _, offsets, content = keys.buffers()
    ends = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    data = np.frombuffer(content, np.uint8)[ends[0] : ends[-1]]
    starts, lengths = ends[:-1] - ends[0], np.diff(ends)
    places = np.arange(len(data)) - np.repeat(starts, lengths)
    with np.errstate(over="ignore"):
        terms = (data.astype(np.uint64) + np.uint64(1)) * _weights()[places]
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(terms)])
        return _mixed(sums[starts + lengths] - sums[starts] + lengths.astype(np.uint64))


def _filter_of(marks: _Hashes) -> np.ndarray:
    size = _size(len(marks))
    bits = np.zeros(size, np.uint8)
    for place in _probes(marks, size):
        bits[place] = 1
    return np.packbits(bits)


def _may_have(packed: np.ndarray, marks: _Hashes) -> np.ndarray:
    size = len(packed) * 8
    may = np.ones(len(marks), np.bool_)
    for place in _probes(marks, size):
        may &= (packed[place >> 3] >> (7 - (place & 7))) & 1 == 1
    return may


def _between(marks: _Hashes, low: np.uint64, high: np.uint64 | None) -> tuple[int, int]:
    """Where hashes that ascend are in a range."""
    last = len(marks) if high is None else int(np.searchsorted(marks, high))
    return int(np.searchsorted(marks, low)), last


def _size(groups: int) -> int:
    """The bits of a filter: a power of two, so that a probe is cut out of a hash."""
    return 1 << max(6, int(groups * _BITS_A_GROUP - 1).bit_length())


def _probes(marks: _Hashes, size: int) -> Iterator[Ints]:
    """The places of hashes in a filter. Pages go by the high bits of the same hash."""
    with np.errstate(over="ignore"):
        again = _mixed(marks + np.uint64(0x632BE59BD9B4E019)) | np.uint64(1)
        for nth in range(_PROBES):
            yield ((marks + np.uint64(nth) * again) & np.uint64(size - 1)).astype(np.int64)
