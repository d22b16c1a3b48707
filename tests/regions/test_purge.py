"""What a box forgets of the numbers of sessions in two regions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import seriatim as sq
from seriatim.box.operators import purge
from tests.regions.away import away
from tests.regions.two import Two, message


def _numbers(two: Two, box: sq.MessageBox) -> list[int]:
    return [one for (one,) in two.rows(box, "SELECT number FROM {}.region_numbers ORDER BY 1")]


def test_numbers_that_are_over_are_forgotten_with_their_ids(two: Two) -> None:
    two.regions.publish([message("s", 1, "m1"), message("s", 2, "m2")])
    sq.RegionalWorker(two.regions, "status", lambda _, __: None, region="a").run(until_idle=True)
    with away(two, "b"):
        two.regions.publish(message("s", 3, "m3"))
    now = datetime.now(UTC)
    assert purge.run(two.first.access, now=now + timedelta(days=6)).region_numbers == 0
    first, second = (purge.run(box.access, now=now + timedelta(days=8)).region_numbers for box in two.boxes)
    assert (first, _numbers(two, two.first)) == (2, [3])  # number 3 waits, and the other box lacks it
    assert (second, _numbers(two, two.second)) == (0, [1, 2])  # this box doesn't know that they are over

    assert two.regions.publish(message("s", None, "m4"))[0].number == 4  # the session goes on
    two.regions.tend()
    assert [number for _, number, _ in two.has(two.first)] == [3, 4]
    assert [number for _, number, _ in two.has(two.second)] == [1, 2, 3, 4]
