"""A run of a pipeline that another one has superseded writes no more into a box."""

from __future__ import annotations

import pyarrow as pa
import pytest

import seriatim as sq
from seriatim.box.pipelines.incoming import Incoming
from seriatim.box.pipelines.staging import Staging
from seriatim.errors import CheckpointMismatch
from tests.box.pipelines.test_wrong_rows import queued
from tests.databases import box_with


def with_one_queue(box):
    box.define(sq.Queue("all", policy=sq.Unordered()), sq.Subscription("all", where="TRUE", to="all"))


queue = box_with(with_one_queue)


def written(box, fence, number, *names):
    rows = pa.RecordBatch.from_pydict({"message_id": list(names), "type": ["t"] * len(names)})
    with Staging(box.dsn, box.schema, incoming=Incoming(), fence=fence) as staging:
        return staging.merge("w", number, [staging.stage("w", number, [rows])])


def test_an_earlier_run_is_refused_once_a_later_one_has_written(queue):
    assert written(queue, 7, 0, "a", "b") == 2
    assert written(queue, 7, 1, "c") == 1
    assert written(queue, 9, 1, "c") == 0  # a replay counts, too
    with pytest.raises(CheckpointMismatch, match="a later run of this pipeline has taken over"):
        written(queue, 7, 2, "d")
    assert written(queue, 9, 2, "d") == 1
    with pytest.raises(CheckpointMismatch, match="a later run of this pipeline has taken over"):
        written(queue, 7, 3, "e")
    assert written(queue, 9, 3, "e") == 1
    assert written(queue, 12, 4, "f") == 1
    assert queued(queue) == list("abcdef")
