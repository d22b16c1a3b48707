"""What was answered is over with any one of the three parts away for good: nobody brings it back, and workers in what is left finish."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

import seriatim as sq
from seriatim.kernel.regions.claims import Action
from seriatim.regions.journal.journal import Journal
from tests.regions.away import away
from tests.regions.two import NAME, STATUS, Two, message
from tests.regions.working import Handled

_WHO = {"actor": "ann", "reason": "it is gone"}
#: Sessions by who is away while their second message is sent; the copies don't come afterwards.
_SESSIONS = {"whole": (), "without a": ("a",), "without b": ("b",), "without the journal": ("journal",)}


@pytest.fixture
def two(two: Two) -> Iterator[Two]:
    """Copies may be handed out at once in both regions."""
    with sq.Regions(two.first, two.second, two.journal, name=NAME, prefer=0, patience="30s", retry_after=0) as regions:
        yield replace(two, regions=regions)


def _answered(two: Two) -> Handled:
    """Send three messages of each session, and handle the first ones in region a."""
    handled = Handled(two.regions)
    two.regions.publish([message(session, 1) for session in _SESSIONS])
    handled.work("a")
    for session, absent in _SESSIONS.items():
        with away(two, *absent):
            assert len(two.regions.publish(message(session, 2))[0].known_by) == 2
    two.regions.publish([message(session, 3) for session in _SESSIONS])
    return handled


@pytest.mark.parametrize(("gone", "left"), [("a", "b"), ("b", "a")])
def test_a_region_is_gone(two: Two, gone: str, left: str) -> None:
    handled = _answered(two)
    lost = f"without {left}"  # its second message was in the lost box, and in the journal
    with away(two, gone):
        handled.work(left)
        for session in _SESSIONS.keys() - {lost}:
            assert handled.of(session) == [1, 2, 3]
        assert handled.of(lost) == [1]
        (standing,) = two.regions.status().standing
        assert (standing.session, standing.next_number) == (lost, 2)
        assert standing.message_id is not None
        assert "was sent" in str(standing.waits_for)
        two.journal.act(NAME, "status", lost, Action.SKIP, **_WHO)
        assert handled.work(left) == [(lost, 3)]
        assert two.regions.publish(message("whole", 4))[0].known_by == (left, "journal")
        assert handled.work(left) == [("whole", 4)]
        assert two.has(two.first if left == "a" else two.second) == []


def test_the_journal_is_gone_and_a_new_one_learns_from_the_boxes(two: Two, databases) -> None:
    before = _answered(two)
    with (
        databases.clone(databases.template("empty database", lambda _: None)) as dsn,
        Journal.open(dsn) as journal,
        sq.Regions(two.first, two.second, journal, name=NAME, prefer=0, patience="30s", retry_after=0) as regions,
    ):
        regions.define(*STATUS)
        assert regions.recover(**_WHO).raised == len(_SESSIONS)
        regions.tend()  # what only one box had
        handled = Handled(regions, before.got)
        handled.work("b")
        assert handled.work("a") == []
        for session in _SESSIONS:
            assert handled.of(session) == [1, 2, 3]
        assert regions.publish(message("whole"))[0].number == 4
        assert two.rows(two.first, "SELECT count(*) FROM {}.region_outbox") == [(0,)]
