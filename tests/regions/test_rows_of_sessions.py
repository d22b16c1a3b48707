"""Why a box keeps its row of a session that the journal has forgotten: decision 132."""

from __future__ import annotations

import seriatim as sq
from tests.regions.away import away
from tests.regions.journal.given import let_pass
from tests.regions.two import NAME, Two, message
from tests.regions.working import Handled


def test_what_begins_a_session_anew_would_be_lost_where_one_box_alone_has_forgotten_it(two: Two) -> None:
    with sq.Regions(two.first, two.second, two.journal, name=NAME, prefer=0, patience="30s", retry_after=0) as regions:
        two.regions = regions
        handled = Handled(regions)
        regions.publish([message("s", 1), message("s", 2)])
        handled.work("a")
        handled.work("b")
        let_pass(two.journal, 1_000)
        for _ in range(2):
            regions.tend()  # which reports
        assert two.journal.purge(NAME, 100).sessions == 1

        for box in two.boxes:  # what is known of single numbers, and of the group
            two.rows(box, "DELETE FROM {0}.region_numbers RETURNING 1")
            two.rows(box, "DELETE FROM {0}.known_groups RETURNING 1")
        two.rows(
            two.first, "DELETE FROM {0}.region_sessions RETURNING 1"
        )  # by a process that is killed before it comes to box b
        with away(two, "b"):
            assert regions.publish(message("s", 1, "anew"))[0].known_by == ("a", "journal")
        regions.tend()
        assert handled.work("b") == []  # the journal believes that box: 1 and 2 are over
        assert handled.work("a") == []
        assert two.journal.done_through(NAME, "status", ["s"]) == {"s": 2}
