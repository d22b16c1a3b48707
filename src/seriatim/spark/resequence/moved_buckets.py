"""The state of a stopped query cut into another number of buckets.

Spark's own state can only be written by a batch. So the groups are read from it, and put into a folder of the checkpoint, a file for each
new bucket; a bucket takes its file over in its first call, in place of what Spark has under its id.

A file is a packet of packets: the index of the bucket, under the number of no chunk, and the chunks of bodies that it holds.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from seriatim.errors import CheckpointMismatch
from seriatim.kernel.resequence import new_state
from seriatim.kernel.values.columns import Ints, empty_ints
from seriatim.spark.resequence.bucket import Plan
from seriatim.spark.resequence.held import state_variable
from seriatim.spark.resequence.operator import index_of
from seriatim.spark.session.requirements import use_this_python
from seriatim.spark.session.versions import spark_schema
from seriatim.spark.state.buckets import bucket_ids
from seriatim.spark.state.checkpoint_files import sync_folder
from seriatim.spark.state.cold_groups import ColdGroups
from seriatim.spark.state.group_index import Index, QueueState, joined
from seriatim.spark.state.held_bodies import MemoryChunks, chunk_of, first_ref, part_of, row_of
from seriatim.spark.state.moved_files import INDEX, write_moved
from seriatim.spark.state.packets import InArrow, from_bytes, pack_by

_INDEX, _BODY, _GROUPS = "index", "body", "groups"
_PARTS = pa.schema([("bucket", pa.int32()), ("former", pa.int32()), ("chunk", pa.int64()), ("packet", pa.binary())])


def move_buckets(session: SparkSession, place: str, operator: int, plan: Plan, after: Plan, folder: Path) -> None:
    """Write the state of an operator as that of another number of buckets."""
    use_this_python(session)
    variable = partial(state_variable, session, place, operator)
    ids = bucket_ids(plan.buckets)
    every = session.createDataFrame([(bucket,) for bucket in ids], "bucket int")
    index = variable("index").select(F.col("key.bucket").alias("bucket"), F.col("value.value").alias("packet"))
    index = every.join(index, "bucket", "left")
    chunks = variable("bodies").select(
        F.col("key.bucket").alias("bucket"),
        F.col("user_map_key.chunk").alias("chunk"),
        F.col("user_map_value.packet").alias("packet"),
    )
    bodies, cold = chunks.where("chunk >= 0"), chunks.where("chunk < 0")
    # Groups that have expired go with the others, and expire again.
    own = F.lit(None).cast("long").alias("chunk")
    whole = index.select("bucket", own, "packet").unionByName(cold).repartition("bucket")
    index = whole.mapInArrow(_whole, "bucket int, packet binary").persist()
    forgotten = _most([row.told for row in index.mapInArrow(_forgotten, "told string").collect()])
    groups = index.mapInArrow(_groups(plan), "bucket int, queue string, row long, key binary")
    number = F.pmod(F.xxhash64(F.lit(""), F.col("key")), F.lit(after.buckets)).cast("int")
    to = F.get(F.lit(bucket_ids(after.buckets)), number).alias("to")
    nth = (F.array_position(F.lit(ids), F.col("bucket")) - 1).cast("int").alias("nth")
    groups = groups.select(nth, "queue", "row", to).mapInArrow(pack_by("nth", ids), "bucket int, packet binary")
    nothing = F.lit(0).cast("long")
    state = index.select("bucket", F.lit(_INDEX).alias("kind"), nothing.alias("chunk"), "packet")
    state = state.unionByName(bodies.select("bucket", F.lit(_BODY).alias("kind"), "chunk", "packet"))
    state = state.unionByName(groups.select("bucket", F.lit(_GROUPS).alias("kind"), nothing.alias("chunk"), "packet"))
    parts = state.repartition("bucket").mapInArrow(_cut(plan, after), spark_schema(_PARTS)).repartition("bucket")
    parts = parts.mapInArrow(_written(after, str(folder), forgotten), "bucket int")
    written = {row.bucket for row in parts.collect()}
    index.unpersist()
    for bucket in set(bucket_ids(after.buckets)) - written if forgotten else ():
        write_moved(folder, bucket, {INDEX: _joined(after, [], forgotten)[0].to_bytes()})
    sync_folder(folder)


def _whole(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: the indexes of buckets with their cold groups in them, from both."""
    indexes: dict[int, bytes | None] = {}
    cold: dict[int, dict[int, bytes]] = defaultdict(dict)
    for batch in batches:
        for row in batch.to_pylist():
            if row["chunk"] is None:
                indexes[row["bucket"]] = row["packet"]
            else:
                cold[row["bucket"]][row["chunk"]] = row["packet"]
    for bucket, value in indexes.items():
        found = value
        if value is not None and bucket in cold:
            index = Index.from_bytes(value, None)
            ColdGroups(index, MemoryChunks(cold[bucket])).take_all_back()
            found = index.to_bytes()
        ids, packets = pa.array([bucket], pa.int32()), pa.array([found], pa.binary())
        yield pa.RecordBatch.from_arrays([ids, packets], ["bucket", "packet"])


def _forgotten(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For ``mapInArrow``: for each bucket in which groups of a queue were forgotten, the number of times, by queue and incarnation, as
    JSON.
    """
    for batch in batches:
        for value in filter(None, batch.column("packet").to_pylist()):
            queues = Index.from_bytes(value, None).queues
            incarnations = {
                name: [known.incarnation, known.forgotten] for name, known in queues.items() if known.forgotten
            }
            if incarnations:
                yield pa.RecordBatch.from_arrays([pa.array([json.dumps(incarnations)])], ["told"])


def _most(reports: Iterable[str]) -> dict[str, list[int]]:
    """Return by queue its incarnation, and the highest number of times that its groups were forgotten in one bucket. A group that was
    forgotten may come back in any new bucket, and begins there in an incarnation that it hasn't had.
    """
    most: dict[str, list[int]] = {}
    for report in map(json.loads, reports):
        for name, highest in report.items():
            most[name] = max(most.get(name, [0, 0]), highest)
    return most


def _index_of(plan: Plan, bucket: int, value: bytes | None) -> Index:
    """A bucket's state, with the groups of first numbers that it would add in its next call."""
    index = index_of(plan, bucket, value)
    if any(len(known.state.held) for known in index.departed.values()):
        raise CheckpointMismatch(
            "messages of a destination that was taken away aren't set aside yet", remedy="run the pipeline once before"
        )
    return index


def _groups(plan: Plan) -> InArrow:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in batch.to_pylist():
                index = _index_of(plan, row["bucket"], row["packet"])
                for name, known in index.queues.items():
                    count = len(known.keys)
                    columns = [pa.array(np.full(count, row["bucket"], np.int32)), pa.repeat(name, count)]
                    columns += [pa.array(np.arange(count)), known.keys]
                    yield pa.RecordBatch.from_arrays(columns, ["bucket", "queue", "row", "key"])

    return run


def _cut(plan: Plan, after: Plan) -> InArrow:
    """Whole former buckets, cut into their parts for new ones."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        indexes: dict[int, bytes | None] = {}
        bodies: dict[int, dict[int, bytes]] = defaultdict(dict)
        groups: dict[int, list[pa.Table]] = defaultdict(list)
        for batch in batches:
            for row in batch.to_pylist():
                match row["kind"]:
                    case "index":
                        indexes[row["bucket"]] = row["packet"]
                    case "body":
                        bodies[row["bucket"]][row["chunk"]] = row["packet"]
                    case _:
                        groups[row["bucket"]].append(from_bytes(row["packet"]))
        for bucket, value in indexes.items():
            index = _index_of(plan, bucket, value)
            for to, part, chunks in _parts(after, index, bodies[bucket], groups[bucket]):
                for chunk, packet in {INDEX: part.to_bytes(), **chunks}.items():
                    row = {"bucket": to, "former": bucket, "chunk": chunk, "packet": packet}
                    yield pa.RecordBatch.from_pylist([row], _PARTS)

    return run


def _parts(
    after: Plan, index: Index, bodies: Mapping[int, bytes], groups: list[pa.Table]
) -> Iterator[tuple[int, Index, dict[int, bytes]]]:
    to = {name: np.full(len(known.keys), -1, np.int64) for name, known in index.queues.items()}
    for table in groups:
        names = table.column("queue").combine_chunks().dictionary_encode()
        rows, wanted = table.column("row").to_numpy(), table.column("to").to_numpy()
        for code, name in enumerate(names.dictionary.to_pylist()):
            is_mine = names.indices.to_numpy() == code
            to[name][rows[is_mine]] = wanted[is_mine]
    for bucket in np.unique(np.concatenate([empty_ints(), *to.values()])).tolist():
        part = Index(after.fingerprint, now=index.now, steps=index.steps, obeyed=index.obeyed)
        for name, known in index.queues.items():
            rows = np.flatnonzero(to[name] == bucket)
            part.queues[name] = known.take(rows)
        yield bucket, part, _chunks(part, bodies)


def _chunks(part: Index, bodies: Mapping[int, bytes]) -> dict[int, bytes]:
    """The bodies that are held in a part, in chunks; the refs are changed to them."""
    refs = _refs(part)
    chunks, old, new = {}, [empty_ints()], [empty_ints()]
    for nth, chunk in enumerate(np.unique(chunk_of(refs)).tolist()):
        rows = refs[chunk_of(refs) == chunk]
        chunks[nth] = part_of(bodies[chunk], row_of(rows))
        old.append(rows)
        new.append(first_ref(nth) + np.arange(len(rows)))
    _renumber(part, np.concatenate(old), np.concatenate(new))
    return chunks


def _refs(index: Index) -> Ints:
    return np.sort(np.concatenate([empty_ints(), *(known.state.held.ref for known in index.queues.values())]))


def _renumber(index: Index, old: Ints, new: Ints) -> None:
    """Put other refs in place of the present ones, which are all in `old`, ascending."""
    for name, known in index.queues.items():
        held = known.state.held
        if len(held):
            moved = held.with_columns(ref=new[np.searchsorted(old, held.ref)])
            index.queues[name] = replace(known, state=known.state.having(held=moved))


def _written(after: Plan, folder: str, forgotten: Mapping[str, list[int]]) -> InArrow:
    """Writes the file of each new bucket from its parts, which are all in one task."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parts: dict[int, dict[int, dict[int, bytes]]] = defaultdict(lambda: defaultdict(dict))
        for batch in batches:
            for row in batch.to_pylist():
                parts[row["bucket"]][row["former"]][row["chunk"]] = row["packet"]
        for bucket, by_former in parts.items():
            index, chunks = _joined(after, [by_former[former] for former in sorted(by_former)], forgotten)
            write_moved(Path(folder), bucket, {INDEX: index.to_bytes(), **chunks})
            yield pa.RecordBatch.from_arrays([pa.array([bucket], pa.int32())], ["bucket"])

    return run


def _joined(
    after: Plan, parts: list[dict[int, bytes]], forgotten: Mapping[str, list[int]]
) -> tuple[Index, dict[int, bytes]]:
    """Return the index and the chunks of a new bucket. Refs of a later part are higher, and a group's refs are in one part."""
    whole = Index(after.fingerprint)
    chunks: dict[int, bytes] = {}
    states: dict[str, list[QueueState]] = defaultdict(list)
    for part in parts:
        index = Index.from_bytes(part[INDEX], None)
        refs = _refs(index)
        _renumber(index, refs, refs + first_ref(len(chunks)))
        chunks |= {len(chunks) + nth: part[nth] for nth in range(len(part) - 1)}
        for name, known in index.queues.items():
            states[name].append(known)
        whole.now, whole.steps = max(whole.now, index.now), index.steps or whole.steps
        whole.obeyed = (*whole.obeyed, *(command for command in index.obeyed if command not in whole.obeyed))
    for name, state in states.items():
        whole.queues[name] = joined(state)
    policies = {queue.name: queue.policy for queue in after.queues}
    for name, (incarnation, times) in forgotten.items():
        if name in policies:
            none = QueueState(pa.array([], pa.binary()), new_state(policies[name], 0), incarnation)
            whole.queues[name] = replace(whole.queues.get(name, none), forgotten=times)
    held, counts = np.unique(chunk_of(_refs(whole)), return_counts=True)
    whole.chunk, whole.chunks = len(chunks), dict(zip(held.tolist(), counts.tolist(), strict=True))
    return whole, chunks
