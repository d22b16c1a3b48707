"""SIGKILL to a query of Spark's that has the format on both sides: each message is there once, in order."""

from __future__ import annotations

import sys
from collections import defaultdict

import pytest

import seriatim as sq
from seriatim.operations import invariants
from tests.faults import box_query
from tests.faults.process import started
from tests.faults.watch import GROUPS, MESSAGES, Watch, publish_backwards
from tests.soak import full


def moments(watch):
    """When to kill: at each moment once, or at one of them again."""

    def merged(after):
        """A batch is in the box, and Spark doesn't know it yet."""
        done = "SELECT coalesce(max(batch), -1) FROM {schema}.writers"
        return lambda _run: watch.one(done) > max(watch.last("commits"), after)

    return (watch.is_in_hand, watch.is_staged, merged(1), *[merged(3)] * full())


@pytest.mark.proves(
    "a user's own query between two queues, killed in hand, staged and merged, writes once and in order"
)
@pytest.mark.soak
def test_killed_again_and_again_a_query_writes_each_row_once_and_in_order(box, tmp_path, monkeypatch):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.MessageType("copy", properties={"customer": "string", "version": "long"}),
        sq.Queue("orders", policy=sq.Standard(), group="customer", sequence="version"),
        # It has no numbers by which one that came twice would be known.
        sq.Queue("copies", policy=sq.Fifo(), group="customer"),
        sq.Subscription("orders", where="type = 'order'", to="orders"),
        sq.Subscription("copies", where="type = 'copy'", to="copies"),
    )
    publish_backwards(box)
    monkeypatch.setenv("SERIATIM_DSN", box.dsn)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    checkpoint = tmp_path / "checkpoint"
    words = [sys.executable, box_query.__file__, box.schema, str(checkpoint)]
    with Watch(box, checkpoint) as watch:
        for number, moment in enumerate(moments(watch)):
            with started(words, tmp_path, tmp_path / f"{number}.out") as run:
                run.kill_when(moment)
        with started(words, tmp_path, tmp_path / "last.out") as run:
            assert run.wait() == 0, (tmp_path / "last.err").read_text()
    # What the killed runs had staged is gone, or on the list of open parts.
    assert invariants.broken(box) == []
    found = defaultdict(list)
    while True:
        with box.session() as tx:
            delivery = tx.receive("copies", limit=1000)
            if delivery is None:
                break
            found[delivery.group] += [one.context["version"] for one in delivery]
    assert dict(found) == {f"c{n}": list(range(1, MESSAGES // GROUPS + 1)) for n in range(GROUPS)}
