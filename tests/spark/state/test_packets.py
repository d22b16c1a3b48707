"""Packets: a message that goes to several places is repeated where it is packed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seriatim.spark.state import packets
from seriatim.spark.state.packets import EACH, from_bytes, pack_by

BUCKETS = 3
TO = st.fixed_dictionaries({"to": st.sampled_from("abc"), "bucket": st.integers(0, BUCKETS - 1)})
BATCHES = st.lists(st.lists(st.lists(TO, max_size=4), max_size=5), max_size=4)
IDS = [10 * (n + 1) for n in range(BUCKETS)]


def packed(batches: list[pa.RecordBatch]) -> list[tuple[int, list[dict[str, Any]]]]:
    found = []
    for batch in pack_by("bucket", IDS)(batches):
        (row,) = batch.to_pylist()
        found.append((row["bucket"], from_bytes(row["packet"]).to_pylist()))
    return found


@given(lists=BATCHES, at_once=st.sampled_from([1, 100, 2**20]))
def test_a_row_is_packed_once_for_each_of_its_structs(lists: list[list[list[dict[str, Any]]]], at_once: int) -> None:
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
    assert all(row.keys() == {"body", "to"} for _, rows in found for row in rows)
    assert Counter((bucket, row["body"], row["to"]) for bucket, rows in found for row in rows) == expected


def test_a_message_for_a_thousand_places_is_repeated_in_portions() -> None:
    to = [{"to": str(n), "bucket": 0} for n in range(1000)]
    found = packed([pa.RecordBatch.from_pylist([{"body": bytes(2**20), EACH: to}])])
    sizes = [len(rows) for _, rows in found]
    assert sum(sizes) == 1000
    assert max(sizes) <= 17


def test_rows_may_have_nothing_but_their_structs() -> None:
    to = [{"to": "a", "bucket": 0}, {"to": "b", "bucket": 2}]
    assert packed([pa.RecordBatch.from_pylist([{EACH: to}])]) == [(10, [{"to": "a"}]), (30, [{"to": "b"}])]
