"""What the driver knows of the moments at which buckets have something to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from seriatim.kernel.values.time import FOREVER
from seriatim.spark.control.clock import _Clock
from seriatim.spark.control.due import MOST_SLOTS, Due, bit_at, buckets_of, place_of, told_by, width
from seriatim.spark.state.buckets import bucket_ids


@pytest.mark.parametrize("buckets", [1, 2, 16, 63, 64, 65, 100, 1000, 4096])
def test_every_bucket_has_one_slot(buckets: int) -> None:
    slots = len(Due.unknown(buckets).moments)
    assert slots <= MOST_SLOTS
    assert (width(buckets) == 1) == (buckets <= MOST_SLOTS)
    assert buckets_of(range(slots), buckets) == bucket_ids(buckets)
    for bucket in bucket_ids(buckets):
        slot, place = place_of(bucket, buckets)
        assert buckets_of([slot], buckets)[place] == bucket
        assert -(2**63) <= bit_at(place) < 2**63


def test_a_bucket_that_took_no_part_keeps_its_moment() -> None:
    assert told_by({"due_0": None, "due_1": 7, "due_2": FOREVER}, 3, [5, 6, 8]) == [5, 7, FOREVER]


@pytest.mark.parametrize("wide", [2, 64])
def test_a_range_that_took_part_in_part_keeps_what_is_earlier(wide: int) -> None:
    buckets = wide * MOST_SLOTS
    before = [5, 9, 5, *[FOREVER] * (MOST_SLOTS - 3)]
    observed = dict.fromkeys(f"{what}_{slot}" for what in ("due", "buckets") for slot in range(MOST_SLOTS))
    some, every = bit_at(wide - 1), sum(bit_at(place) for place in range(wide))
    # Of slots 0 and 1 one bucket took part, and that of slot 1 is due earlier; of slot 2 all.
    observed |= {"due_0": 8, "buckets_0": some, "due_1": 8, "buckets_1": some, "due_2": 8, "buckets_2": every}
    assert told_by(observed, buckets, before)[:3] == [5, 8, 8]


def test_what_is_due_by_now() -> None:
    due = Due(3, (10, 11, FOREVER, 9))
    assert due.slots_until(10) == [0, 3]
    assert Due.unknown(4).slots_until(2**61) == []


def test_it_is_told_as_a_file_that_is_replaced_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "due"
    for due in (Due(1, (5, FOREVER)), Due(2, (6, 7))):
        due.write(file)
        assert Due.from_json(file.read_text()) == due
    assert list(tmp_path.iterdir()) == [file]


def test_the_progress_of_a_query_without_observed_metrics_is_passed_over() -> None:
    assert _Clock().take_in({"runId": "1", "sources": []}) == []
