"""Packets: a message that goes to several places is packed once for each bucket."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seriatim.spark.state import packets
from seriatim.spark.state.packets import EACH, from_bytes, opened, pack_by

BUCKETS = 3
TO = st.fixed_dictionaries({"to": st.sampled_from("abc"), "bucket": st.integers(0, BUCKETS - 1)})
BATCHES = st.lists(st.lists(st.lists(TO, max_size=4), max_size=5), max_size=4)
IDS = [10 * (n + 1) for n in range(BUCKETS)]


def packed(batches: list[pa.RecordBatch]) -> list[tuple[int, pa.Table]]:
    found = []
    for batch in pack_by("bucket", IDS)(batches):
        (row,) = batch.to_pylist()
        found.append((row["bucket"], from_bytes(row["packet"])))
    return found


def told(tables: list[pa.Table]) -> list[dict[str, Any]]:
    """A row for each place to which a message goes, with the message's columns."""
    places, messages, rows = opened(tables)
    if rows is None:
        return places.to_pylist()
    alone = messages.to_pylist()
    return [{**alone[row], **place} for place, row in zip(places.to_pylist(), rows.tolist(), strict=True)]


@given(lists=BATCHES, at_once=st.sampled_from([1, 100, 2**20]))
def test_a_row_is_packed_once_for_each_bucket_with_its_structs_there(
    lists: list[list[list[dict[str, Any]]]], at_once: int
) -> None:
    each = pa.list_(pa.struct([("to", pa.string()), ("bucket", pa.int32())]))
    schema = pa.schema([("body", pa.binary()), (EACH, each)])
    batches, expected = [], Counter()
    for nth, batch in enumerate(lists):
        rows = [{"body": f"{nth}-{row}".encode(), EACH: to} for row, to in enumerate(batch)]
        batches.append(pa.RecordBatch.from_pylist(rows, schema))
        expected += Counter((IDS[to["bucket"]], row["body"], to["to"]) for row in rows for to in row[EACH])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(packets, "_GATHER_BYTES", at_once)
        found = packed(batches)
    by_bucket = {bucket: [table for one, table in found if one == bucket] for bucket in IDS}
    rows = {bucket: told(tables) for bucket, tables in by_bucket.items() if tables}
    assert all(row.keys() == {"body", "to"} for some in rows.values() for row in some)
    assert Counter((bucket, row["body"], row["to"]) for bucket, some in rows.items() for row in some) == expected
    if at_once == 2**20:  # all in one piece
        assert sum(table.num_rows for _, table in found) == len({(bucket, body) for bucket, body, _ in expected})


def test_a_message_for_a_thousand_places_is_in_each_bucket_once() -> None:
    to = [{"to": str(n), "bucket": n % BUCKETS} for n in range(999)]
    found = packed([pa.RecordBatch.from_pylist([{"body": bytes(2**20), EACH: to}])])
    assert len(told([table for _, table in found])) == 999
    assert [(bucket, table.num_rows) for bucket, table in found] == [(bucket, 1) for bucket in IDS]


def test_messages_for_many_buckets_are_packed_in_portions() -> None:
    to = [{"to": str(n), "bucket": n % BUCKETS} for n in range(2 * BUCKETS)]
    sizes = [
        table.num_rows for _, table in packed([pa.RecordBatch.from_pylist([{"body": bytes(2**20), EACH: to}] * 20)])
    ]
    assert sum(sizes) == 20 * BUCKETS
    assert max(sizes) <= 16


def test_rows_may_have_nothing_but_their_structs() -> None:
    to = [{"to": "a", "bucket": 0}, {"to": "b", "bucket": 2}]
    found = packed([pa.RecordBatch.from_pylist([{EACH: to}])])
    assert [(bucket, told([table])) for bucket, table in found] == [(10, [{"to": "a"}]), (30, [{"to": "b"}])]
