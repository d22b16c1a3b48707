"""`seriatim serve --regions`: beside the readers of its box it works off the outboxes of both, and reports to the journal."""

from __future__ import annotations

import re
import threading
from typing import Any

import seriatim as sq
from seriatim.metrics.watched import Watched
from seriatim.regions.outbox import Copied
from seriatim.runtime.processes.serve import Serve
from seriatim.runtime.regional.tending import TendingThread
from tests.regions.away import away
from tests.regions.two import NAME, Two, message

_DEADLINE_S = 180.0


class Told(sq.Regions):
    """Regions that say when a round has ended."""

    ended: threading.Event

    def tend(self, **options: Any) -> list[Copied]:
        found = super().tend(**options)
        self.ended.set()
        return found


def test_the_serve_of_one_region_fetches_what_lies_in_the_outbox_of_the_other(two: Two, caplog) -> None:
    caplog.set_level("INFO", "seriatim.regions")
    with away(two, "b"):
        two.regions.publish([message("s", 1, "m1"), message("s", 2, "m2")])
    assert [one.reported_at for one in two.regions.status().regions] == [None, None]
    with Told(two.first, two.second, two.journal, name=NAME, patience="30s") as regions:
        regions.ended = threading.Event()
        serving = Serve(two.second, regions=regions)
        thread = threading.Thread(target=serving.run)
        thread.start()
        assert regions.ended.wait(_DEADLINE_S)
        assert serving.late() == []
        serving.stop()
        thread.join(_DEADLINE_S)
        assert not thread.is_alive()
    assert two.has(two.second) == [("s", 1, "m1"), ("s", 2, "m2")]
    assert two.outbox(two.first) == []
    assert None not in [one.reported_at for one in two.regions.status().regions]
    (line,) = [one for one in caplog.records if getattr(one, "event", "") == "region_copied"]
    assert (line.region, line.copied, line.over) == ("a", 2, 0)


def test_what_stands_still_is_told_to_health_and_a_region_that_is_away_is_not(two: Two, caplog) -> None:
    tending = TendingThread(two.regions)
    assert Watched(beside=tending.late).late() == []
    tending._moved -= 61
    (told,) = Watched(beside=tending.late).late()
    assert re.search(r"the regions 'shop' weren't tended for 6\d s", told)
    with away(two, "b"):
        found = two.regions.tend()
        for one in [*found, *found]:
            tending._tell(one)
        tending._moves()
    assert tending.late() == []
    lines = [one.getMessage() for one in caplog.records if getattr(one, "event", "") == "region_not_tended"]
    assert len(lines) == len([one for one in found if one.why])  # once, however often it is tried
    assert "cut off" in lines[0]
