"""Python's collector of garbage passes over what a worker has loaded."""

from __future__ import annotations

import gc
import subprocess
import sys

import pyarrow as pa
import pytest

MUCH = 20_000


def frozen(batches):
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"objects": [gc.get_freeze_count()] * batch.num_rows})


def test_in_the_workers_of_our_session(spark):
    (row,) = spark.range(1).mapInArrow(frozen, "objects long").collect()
    assert row["objects"] > MUCH


@pytest.mark.parametrize(
    "call",
    [
        "from seriatim.spark.state.packets import pack_by; list(pack_by('bucket', [0])([]))",
        "from seriatim.spark.resequence.operator import Resequencer; Resequencer(MagicMock(tickets=None), b'').init(MagicMock())",
        "from seriatim.spark.stamp.operator import Stamper; Stamper(None).init(MagicMock())",
    ],
    ids=["packing", "resequence", "stamp"],
)
def test_in_a_worker_of_another_session(call):
    code = f"import gc; from unittest.mock import MagicMock; assert not gc.get_freeze_count(); {call}; print(gc.get_freeze_count())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) > MUCH
