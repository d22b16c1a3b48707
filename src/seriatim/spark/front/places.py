"""Where messages go: their destinations, and for each what the operator needs of them, as columns.

What `route` and `resequence` write as Spark's expressions is computed here over Arrow's arrays; the tests compare both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from seriatim.kernel.filters.filter import Expression, Type
from seriatim.kernel.filters.filter_eval import Filters, Values
from seriatim.kernel.groups.policy import Fifo, UnitOfWork, Unordered
from seriatim.kernel.groups.sequence import MAX_KEY_BYTES
from seriatim.kernel.match import Matcher
from seriatim.kernel.policies.stays import CLOSES, OPENS
from seriatim.kernel.values.columns import Ints
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.queue_parts import WHOLE_QUEUE
from seriatim.spark.resequence.bucket import KEY, SEQUENCE, SIZE
from seriatim.spark.route.arrow_filters import values_of

#: The column with the number of a message's bucket, which the packets are cut by.
BUCKET = "__sq_bucket"
#: Spark's seed of its hashes; seriatim's are of an empty text and the key.
_SEED = xxhash.xxh64_intdigest(b"", 42)
_KINDS = {KEY: pa.binary(), SEQUENCE: pa.int64(), SIZE: pa.int64()}

_Column = Callable[["_Batch"], pa.Array]


class Placed(NamedTuple):
    """For each message its places, a list of structs; and how many messages go to each destination, and to none."""

    each: pa.ListArray
    counts: Ints


class _Batch:
    """Messages, and the columns of them that filters look at."""

    def __init__(self, messages: pa.RecordBatch) -> None:
        self.messages = messages
        self._values: dict[str, Values] = {}
        self._keys: dict[object, tuple[pa.Array, Ints]] = {}

    def keys(self, named: object, column: _Column, buckets: int) -> tuple[pa.Array, Ints]:
        if named not in self._keys:
            found = column(self)
            self._keys[named] = found, bucket_numbers(found, buckets)
        return self._keys[named]

    def values(self, properties: Mapping[str, Type]) -> dict[str, Values]:
        for name, kind in properties.items():
            if name not in self._values:
                self._values[name] = values_of(self.messages.column(name), kind)
        return self._values


@dataclass(frozen=True, slots=True)
class Places:
    """How messages find their places; it is sent to the workers. `filters`: by destination. `queues`: the destinations' in the same order,
    and last the one of messages without destination. `opens`, `closes` and `last`: by queue the filters that tell what a message does to
    its group.
    """

    filters: Sequence[Expression]
    queues: Sequence[Queue]
    buckets: int
    opens: Mapping[str, Expression]
    closes: Mapping[str, Expression]
    last: Mapping[str, Expression]

    def finder(self) -> Callable[[pa.RecordBatch], Placed]:
        matcher = Matcher(self.filters)
        names = pa.array([queue.name for queue in self.queues], pa.string())
        nowhere = len(self.filters)
        columns = {
            KEY: [self._key(queue) for queue in self.queues],
            SEQUENCE: [_sequence(queue) for queue in self.queues],
            SIZE: [self._size(queue) for queue in self.queues],
        }
        spread = self._spread()

        def find(messages: pa.RecordBatch) -> Placed:
            count = messages.num_rows
            batch = _Batch(messages)
            rows, to = matcher.matches(batch.values(matcher.properties), count)
            alone = np.flatnonzero(np.bincount(rows, minlength=count) == 0)
            if len(alone):
                rows, to = np.append(rows, alone), np.append(to, np.full(len(alone), nowhere))
                order = np.argsort(rows, kind="stable")
                rows, to = rows[order], to[order]
            fields = {"destination": names.take(pa.array(to))}
            for name, by_queue in columns.items():
                if any(column is not None for column in by_queue):
                    fields[name] = _chosen(batch, by_queue, rows, to, _KINDS[name])
            fields[BUCKET] = pa.array(_chosen_ints(batch, spread, rows, to))
            ends = np.zeros(count + 1, np.int32)
            np.cumsum(np.bincount(rows, minlength=count), out=ends[1:])
            each = pa.StructArray.from_arrays(list(fields.values()), list(fields))
            counts = np.bincount(to, minlength=len(names))
            return Placed(pa.ListArray.from_arrays(pa.array(ends), each), counts)

        return find

    def _key(self, queue: Queue) -> tuple[object, _Column] | None:
        """What tells the group of a message; a value that is equal for queues that find it in the same way, and how."""
        if queue.group.by is None or isinstance(queue.policy, Unordered):
            return None
        return (queue.group.by, queue.group.default), lambda batch: _keys(batch.messages, queue)

    def _size(self, queue: Queue) -> tuple[object, _Column] | None:
        """What the kernel takes as the size of a message."""
        policy = queue.policy
        if queue.has_stays:
            told = [
                (bit, found[queue.name])
                for bit, found in ((OPENS, self.opens), (CLOSES, self.closes))
                if queue.name in found
            ]
            return (queue.group.opens, queue.group.closes), lambda batch: _bits(batch, told)
        if not isinstance(policy, UnitOfWork):
            return None
        if queue.name in self.last:
            last = self.last[queue.name]
            return (policy.last, queue.numbered_by), lambda batch: _where(
                _true(batch, last), batch.messages.column(queue.numbered_by)
            )
        size = policy.size
        # Each number below 1 is invalid: the lowest number has another meaning in the kernel.
        return (size,), lambda batch: pc.max_element_wise(batch.messages.column(size), 0, skip_nulls=False)

    def _spread(self) -> list[tuple[object, Callable[[_Batch], Ints]]]:
        """For each queue the buckets of its messages: by the key; without groups where the first queue with groups would have them."""
        keys = [self._key(queue) for queue in self.queues]
        first = next((key for key in keys if key is not None), None)
        return [self._by(key or first, is_alone=key is None) for key in keys]

    def _by(self, key: tuple[object, _Column] | None, *, is_alone: bool) -> tuple[object, Callable[[_Batch], Ints]]:
        if key is None:
            return None, lambda batch: _anywhere(batch, self.buckets)
        named, column = key

        def numbers(batch: _Batch) -> Ints:
            found, by_key = batch.keys(named, column, self.buckets)
            if not is_alone or not found.null_count:
                return by_key
            return np.where(found.is_null().to_numpy(zero_copy_only=False), _anywhere(batch, self.buckets), by_key)

        return (named, is_alone), numbers


def bucket_numbers(keys: pa.BinaryArray, buckets: int) -> Ints:
    """The numbers of the buckets of groups, as Spark computes them elsewhere: by the hash of an empty text and the key. A null changes no
    hash.
    """
    coded = keys.dictionary_encode()
    hashes = [
        _SEED if key is None else xxhash.xxh64_intdigest(key, _SEED) for key in [*coded.dictionary.to_pylist(), None]
    ]
    # Spark's hashes are signed.
    numbers = np.array([(one - 2**64 if one >= 2**63 else one) % buckets for one in hashes], np.int64)
    return numbers[pc.fill_null(coded.indices, -1).to_numpy()]


def _anywhere(batch: _Batch, buckets: int) -> Ints:
    """Buckets for messages without groups: any, but the same when a batch runs again."""
    return batch.messages.column("_position").to_numpy() % buckets


def _keys(messages: pa.RecordBatch, queue: Queue) -> pa.BinaryArray:
    if queue.group.by == WHOLE_QUEUE:
        return pa.array([str(queue.group.default).encode()], pa.binary()).take(
            pa.array(np.zeros(messages.num_rows, np.int8))
        )
    text = messages.column(queue.group.by).cast(pa.string())
    if queue.group.default is None:
        return text.cast(pa.binary())
    size = pc.binary_length(text)
    fits = pc.and_(
        pc.and_(pc.greater_equal(size, 1), pc.less_equal(size, MAX_KEY_BYTES)),
        pc.invert(pc.match_substring(text, "\0")),
    )
    return pc.if_else(pc.fill_null(fits, False), text, queue.group.default).cast(pa.binary())


def _sequence(queue: Queue) -> tuple[object, _Column] | None:
    if queue.numbered_by is None or isinstance(queue.policy, Fifo | Unordered):
        return None
    return queue.numbered_by, lambda batch: batch.messages.column(queue.numbered_by).cast(pa.int64())


def _true(batch: _Batch, expression: Expression) -> np.ndarray:
    named = Matcher([expression]).properties
    (true,) = Filters([expression]).true(batch.values(named), batch.messages.num_rows)
    return true


def _where(true: np.ndarray, values: pa.Array) -> pa.Array:
    return pc.if_else(pa.array(true), values, pa.scalar(None, values.type))


def _bits(batch: _Batch, told: Sequence[tuple[int, Expression]]) -> pa.Array:
    bits = np.zeros(batch.messages.num_rows, np.int64)
    for bit, expression in told:
        bits += np.where(_true(batch, expression), bit, 0)
    return pa.array(bits)


def _chosen(
    batch: _Batch, by_queue: Sequence[tuple[object, _Column] | None], rows: Ints, to: Ints, kind: pa.DataType
) -> pa.Array:
    """A column that differs by queue, for messages `rows` and their queues `to`."""
    count = batch.messages.num_rows
    places: dict[object, int] = {}
    arrays: list[pa.Array] = []
    of = np.zeros(len(by_queue), np.int64)
    for number, one in enumerate(by_queue):
        source, column = one or (None, lambda _: pa.nulls(count, kind))
        if source not in places:
            places[source] = len(arrays)
            arrays.append(column(batch).cast(kind))
        of[number] = places[source]
    if len(arrays) == 1:
        return arrays[0].take(pa.array(rows))
    return pa.concat_arrays(arrays).take(pa.array(of[to] * count + rows))


def _chosen_ints(
    batch: _Batch, by_queue: Sequence[tuple[object, Callable[[_Batch], Ints]]], rows: Ints, to: Ints
) -> Ints:
    found: dict[object, Ints] = {}
    places = []
    for source, numbers in by_queue:
        if source not in found:
            found[source] = numbers(batch)
        places.append(list(found).index(source))
    return np.stack(list(found.values()))[np.array(places)[to], rows]
