"""Tickets by counts: gap-free in order of arrival, whichever buckets messages go to, and whichever way tickets were given before."""

from __future__ import annotations

import json
import os
import random

import numpy as np
import pyarrow as pa
import pytest

from seriatim.errors import InvariantBroken
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines import checkpoint as made
from seriatim.runtime.pipelines.checkpoint import Checkpoint
from seriatim.runtime.pipelines.run import run
from seriatim.spark.front.places import bucket_numbers
from seriatim.spark.stamp.counts import BLOCK, COUNTS, NTH, TicketsByCounts
from seriatim.spark.stamp.operator import StampPlan
from seriatim.spark.state.buckets import bucket_ids, partition_keys
from seriatim.spark.state.packets import to_bytes
from seriatim.spark.state.ticket_counters import Counters
from tests.delivered import table_of

BUCKETS = 8
FILE = """
name: orders
checkpoint: {folder}/checkpoint
buckets: 8
trigger: 0s
receive:
  - location: crm
    source: {{format: json, path: {folder}/crm, options: {{maxFilesPerTrigger: 1}}}}
    promote: {{customer: $.customer, version: {{path: $.version, type: long}}}}
    stamp: {{last_number: 4}}
  - location: shop
    source: {{format: json, path: {folder}/shop, options: {{maxFilesPerTrigger: 2}}}}
    promote: {{customer: $.customer, version: {{path: $.version, type: long}}}}
route:
  - to: all
    where: {where}
    resequence: {{policy: fifo, group: customer}}
    deliver: {{format: parquet, path: {folder}/out}}
"""


def pipeline(folder, where="'TRUE'"):
    (folder / "pipeline.yaml").write_text(FILE.format(folder=folder, where=where))
    for location in ("crm", "shop"):
        (folder / location).mkdir(exist_ok=True)
    return load(folder / "pipeline.yaml")


def put(folder, location, *customers):
    (folder / location).mkdir(exist_ok=True)
    number = len(list((folder / location).glob("*.json")))
    hidden = folder / location / ".file"
    hidden.write_text(
        "".join(f"{json.dumps({'customer': one, 'version': 1})}\n" if one else "odd\n" for one in customers)
    )
    moment = 1_700_000_000 + number
    os.utime(hidden, (moment, moment))
    hidden.rename(folder / location / f"{number:03}.json")


def stamped(folder):
    """By location the tickets of its messages in order of their ids, which is the order of their arrival."""
    found = {}
    for row in sorted(table_of(folder / "out", "parquet").to_pylist(), key=lambda row: row["message_id"]):
        found.setdefault(row["location"], []).append((row["ticket"]["epoch"], row["ticket"]["number"]))
    return found


def numbered(count, last_number=None):
    return [(0, n + 1) if last_number is None else (n // last_number, n % last_number + 1) for n in range(count)]


def in_each_bucket():
    """A customer for each bucket."""
    names = [f"c{n}" for n in range(200)]
    found = bucket_numbers(pa.array([name.encode() for name in names]), BUCKETS)
    return [names[int(np.flatnonzero(found == bucket)[0])] for bucket in range(BUCKETS)]


@pytest.mark.usefixtures("spark")
def test_a_bucket_without_messages_for_ten_batches_goes_on_with_the_others(tmp_path):
    first, *others = in_each_bucket()
    for _ in range(10):
        put(tmp_path, "crm", first)
    run(pipeline(tmp_path), once=True)
    # The checkpoint keeps its number of partitions, whatever the session's is.
    for customer in others:
        put(tmp_path, "crm", customer, None, first)
    run(pipeline(tmp_path), once=True, conf={"spark.sql.shuffle.partitions": "5"})
    put(tmp_path, "shop", *others)
    run(pipeline(tmp_path), once=True)
    assert stamped(tmp_path) == {"crm": numbered(10 + 2 * len(others), 4), "shop": numbered(len(others))}


@pytest.mark.usefixtures("spark")
def test_another_declaration_gives_tickets_in_another_way_and_goes_on_where_they_were(tmp_path):
    customers = in_each_bucket()
    # A filter that looks at tickets needs them before messages are routed.
    for count, where in enumerate(
        ("'TRUE'", "ticket > 0", "ticket > 0", "'TRUE'", "ticket > 0", "'TRUE'", "'TRUE'"), 1
    ):
        put(tmp_path, "crm", *customers, None)
        put(tmp_path, "shop", customers[count % 3])
        put(tmp_path, "shop", customers[count % 5])
        run(pipeline(tmp_path, where), once=True)
        known = Checkpoint(tmp_path / "checkpoint").check_as_it_is(pipeline(tmp_path, where))
        assert known.by_counts == (where == "'TRUE'")
        assert stamped(tmp_path) == {"crm": numbered(count * len(customers), 4), "shop": numbered(count * 2)}


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("before", [None, "a test"])
def test_a_batch_is_finished_in_the_way_in_which_it_was_begun(before, tmp_path, monkeypatch):
    customers = in_each_bucket()
    put(tmp_path, "crm", *customers)
    put(tmp_path, "crm", *customers)
    monkeypatch.setattr(made, "why_apart", lambda _: before)
    run(pipeline(tmp_path), once=True)
    found = Checkpoint(tmp_path / "checkpoint")
    last = found.last_committed()
    (found.query / "commits" / str(last)).unlink()
    (found.query / "commits" / f".{last}.crc").unlink(missing_ok=True)
    put(tmp_path, "crm", *customers)
    monkeypatch.setattr(made, "why_apart", lambda _: "another test" if before is None else None)
    assert found.former(pipeline(tmp_path)) == pipeline(tmp_path)
    run(pipeline(tmp_path), once=True)
    assert stamped(tmp_path) == {"crm": numbered(3 * len(customers), 4)}
    assert found.former(pipeline(tmp_path)) is None


def test_each_partition_has_a_key_before_those_of_its_buckets():
    for partitions in (1, 2, 5, 16, 200):
        keys = partition_keys(partitions)
        assert len(set(keys)) == partitions
        assert max(keys) < 0 <= min(bucket_ids(partitions))


PLAN = StampPlan((), {"crm": 10, "shop": 2**53 - 1}, "a test")


def test_partitions_count_alike_in_whatever_order_tasks_tell_them():
    chance = random.Random(3)
    blocks = [
        (number, location, time, file, start, chance.randrange(5))
        for number, (location, time, file, start) in enumerate(
            (location, time, file, start)
            for location in ("crm", "shop")
            for time in (7, 3)
            for file in ("b", "a", "Z", "ü", "\U0001f600", "\uffff")
            for start in (900, 0)
        )
    ]
    expected, following = {}, {}
    for number, location, *_, count in sorted(blocks, key=lambda one: one[1:5]):
        expected[number] = following.get(location, 1)
        following[location] = expected[number] + count
    value = None
    for _ in range(3):
        chance.shuffle(blocks)
        packets = [packet(blocks[part::4]) for part in range(4)]
        found = TicketsByCounts(PLAN)
        assert value is None or found.count(None, packets) == value
        value = found.count(None, packets)
        numbers = [one[0] for one in blocks if one[5]]
        table = pa.table({BLOCK: numbers, NTH: [0] * len(numbers), "location": [one[1] for one in blocks if one[5]]})
        positions = [
            one["epoch"] * PLAN.last_number[one["location"]] + one["number"]
            for one in TicketsByCounts.stamped(counted(packets), table).column("ticket").to_pylist()
        ]
        assert positions == [expected[number] for number in numbers]
    counters = Counters.from_bytes(value, PLAN.fingerprint)
    assert dict(zip(counters.locations.to_pylist(), counters.following.tolist(), strict=True)) == following


def counted(packets):
    found = TicketsByCounts(PLAN)
    found.count(None, packets)
    return found


def packet(blocks):
    columns = zip(*blocks, strict=True) if blocks else [[]] * len(COUNTS)
    return to_bytes(
        pa.table([pa.array(column, field.type) for column, field in zip(columns, COUNTS, strict=True)], schema=COUNTS)
    ).to_pybytes()


def test_positions_from_before_are_gone_beyond_and_never_back():
    plan = StampPlan((), 10, "a test", {"crm": 5, "old": 3})
    found = TicketsByCounts(plan)
    value = found.count(None, [packet([(0, "crm", 1, "a", 0, 4)])])
    again = TicketsByCounts(plan)
    value = again.count(value, [packet([(1, "crm", 1, "a", 0, 1), (2, "old", 1, "a", 0, 1)])])
    table = pa.table({BLOCK: [1, 2], NTH: [0, 0], "location": ["crm", "old"]})
    assert [one["number"] for one in again.stamped(table).column("ticket").to_pylist()] == [9, 3]


def test_a_message_without_a_ticket_needs_no_count_and_one_with_a_ticket_does():
    table = pa.table({BLOCK: [4, 4], NTH: [-1, -1], "location": ["crm", "crm"]})
    none = {"location": None, "epoch": None, "number": None}
    assert TicketsByCounts(PLAN).stamped(table).column("ticket").to_pylist() == [none, none]
    with pytest.raises(InvariantBroken, match="wasn't told how many messages"):
        TicketsByCounts(PLAN).stamped(pa.table({BLOCK: [4], NTH: [0], "location": ["crm"]}))
