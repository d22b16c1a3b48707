"""A field of a value may be given by its own key, where it is all that is said."""

from __future__ import annotations

import inspect

import pytest

import seriatim as sq
from seriatim.kernel.fields import folded
from seriatim.pipeline.declared.work_limits import Lease, Limits, Pace
from seriatim.pipeline.files.box_file import load


def test_it_is_a_field_of_its_value():
    alone = sq.Queue(
        "q", sq.Fifo(), "g", attempts=3, retry_delay="2s", opens="n = 1", when_full="refuse", max_messages=9
    )
    whole = sq.Queue(
        "q",
        sq.Fifo(),
        group=sq.Group("g", opens="n = 1"),
        retry=sq.Retry(3, delay="2s"),
        max_messages=sq.Limit(9, when_full="refuse"),
    )
    assert alone == whole


def test_it_goes_into_the_value_that_is_given():
    assert sq.Queue("q", sq.Unordered(), retry=sq.Retry(delay=1), attempts=2).retry == sq.Retry(2, delay=1)
    assert folded(Limits, {"run_length": 3, "lease": "10s", "heartbeat": 1}) == {
        "pace": Pace(3),
        "lease": Lease("10s", heartbeat=1),
    }


def test_what_is_no_field_is_refused():
    with pytest.raises(sq.UsageError, match="unknown argument 'atempts'"):
        sq.Queue("q", sq.Unordered(), atempts=3)
    with pytest.raises(sq.UsageError, match="attempts can't be 0"):
        sq.Queue("q", sq.Unordered(), attempts=0)


def test_a_signature_names_the_values_alone():
    assert len(inspect.signature(sq.Queue).parameters) <= 15
    assert len(inspect.signature(sq.Worker).parameters) <= 12


def test_a_file_says_it_likewise(tmp_path):
    file = tmp_path / "box.yaml"
    file.write_text("queues:\n  q: {policy: fifo, group: {by: g}, opens: n = 1, attempts: 3, retry_delay: 2s}\n")
    (queue,) = load(file).queues
    assert queue == sq.Queue("q", sq.Fifo(), sq.Group("g", opens="n = 1"), retry=sq.Retry(3, delay="2s"))
    file.write_text("queues:\n  q: {policy: unordered, attempts: 0}\n")
    with pytest.raises(sq.DeclarationError, match="attempts"):
        load(file)
