"""A worker of Spark keeps a box open between its tasks."""

from __future__ import annotations

import gc

import pytest

import seriatim as sq
from seriatim.runtime.pipelines.box_format import DefaultSource
from seriatim.spark.box.format import BoxOptions
from seriatim.spark.box.opening import _OPEN, Opening
from tests.box.fed import define


@pytest.fixture
def opening(box):
    define(box)
    yield lambda queue: Opening(DefaultSource.feed, BoxOptions(box.dsn, box.schema, queue))
    while _OPEN:
        _OPEN.popitem()[1].close()
    gc.unfreeze()  # this process is no worker


def test_equal_openings_share_a_box_and_few_stay_open(opening):
    with opening("orders").kept() as orders:
        assert orders.waiting() == 0
    with opening("orders").kept() as again, opening("loose").kept() as loose:
        assert again is orders
        assert loose is not orders
    with opening(None).kept() as spool:
        assert spool.parts_now() == []
    with pytest.raises(sq.UsageError, match="is closed"):
        loose.waiting()
    with opening("orders").kept() as again:
        assert again is orders


def test_a_task_that_fails_leaves_no_box_open(opening):
    with pytest.raises(RuntimeError, match="of the task"), opening("orders").kept() as failed:
        raise RuntimeError("of the task")
    with pytest.raises(sq.UsageError, match="is closed"):
        failed.waiting()
    with opening("orders").kept() as orders:
        assert orders.waiting() == 0
