"""What a process measures: added over processes, and kept in memory that outlives a process."""

from __future__ import annotations

import pytest

from seriatim.box.measures import BOUNDS, Measure, Measures, Snapshot
from seriatim.runtime.workers.measures_page import MeasuresPage


def test_values_are_counted_and_put_into_buckets():
    measures = Measures()
    measures.count(Measure.RELEASED, "orders", by=3)
    measures.count(Measure.RELEASED, "orders", by=0)
    measures.set_aside("orders", ["late", "duplicate", "late"])
    measures.observe(Measure.TURN, "orders", [1, 2, 3, 5000])
    measures.observe(Measure.WAIT, "orders", [-3.0])
    measures.observe(Measure.HOLD, "orders", [])
    found = measures.snapshot()
    assert found.counts == {
        ("released", "orders", ""): 3, ("set_aside", "orders", "late"): 2, ("set_aside", "orders", "duplicate"): 1,
    }  # fmt: skip
    turns = found.distributions["turn", "orders", ""]
    assert turns.counts == [1, 1, 1, *[0] * 7, 1]
    assert (turns.number, turns.total) == (4, 5006)
    assert found.distributions["wait", "orders", ""].counts[0] == 1
    assert found.distributions["wait", "orders", ""].total == 0
    assert ("hold", "orders", "") not in found.distributions


def test_a_snapshot_is_a_copy_and_snapshots_are_added():
    measures = Measures()
    measures.observe(Measure.PROCESS, "orders", [0.2], "done")
    measures.looked("orders")
    first = measures.snapshot()
    measures.observe(Measure.PROCESS, "orders", [0.3], "done")
    assert first.distributions["process", "orders", "done"].number == 1
    both = Snapshot()
    both.add(first)
    both.add(measures.snapshot())
    assert both.distributions["process", "orders", "done"].number == 3
    assert both.distributions["process", "orders", "done"].total == pytest.approx(0.7)
    assert both.looked == first.looked
    assert Snapshot.of(both.as_object()) == both


def test_every_distribution_has_ascending_bounds():
    assert all(list(one) == sorted(set(one)) for one in BOUNDS.values())


def test_a_page_keeps_what_was_written_last_also_where_a_write_breaks_off():
    written = MeasuresPage.make()
    read = MeasuresPage.of(written.file)
    assert read.read() == Snapshot()
    measures = Measures()
    for number in range(1, 4):
        measures.count(Measure.HANDLED, "queue \u20ac", by=1)
        written.write(measures.snapshot())
        assert read.read().counts == {("handled", "queue \u20ac", ""): number}
    kept = read.read()
    # A process that is killed in the middle of its next write has written some bytes, and no number in front.
    written._memory[4096 : 4096 + 4 * 1024 * 1024] = b"x" * (4 * 1024 * 1024)
    assert read.read() == kept


def test_too_many_values_leave_the_former_ones():
    page, measures = MeasuresPage.make(), Measures()
    measures.count(Measure.HANDLED, "orders")
    page.write(measures.snapshot())
    before = page.read()
    page.write(Snapshot({("handled", "q" * 500 + str(n), ""): n for n in range(20_000)}))
    assert page.read() == before
