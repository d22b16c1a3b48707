"""Connections that were idle and were dropped: no region is away for that, and nobody who can be reached is passed over."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace

import pytest

import seriatim as sq
from seriatim.regions import party
from seriatim.regions.journal.journal import Journal
from tests.box.cutting import Cutting
from tests.dropping import LOSSES, asked_at_once  # noqa: F401 -- a fixture
from tests.regions.away import away
from tests.regions.test_publish import numbers
from tests.regions.two import NAME, Two, message

pytestmark = [pytest.mark.dear, pytest.mark.usefixtures("asked_at_once")]


@dataclass
class Far:
    """Two regions and a journal, each behind a road."""

    two: Two
    roads: tuple[Cutting, ...]

    def lose(self, loss: str) -> None:
        for one in self.roads:
            LOSSES[loss](one)


@pytest.fixture
def far(two: Two, asked_at_once: None) -> Iterator[Far]:  # noqa: F811
    with ExitStack() as around:
        dsns = (two.first.dsn, two.second.dsn, two.journal_dsn)
        roads = tuple(around.enter_context(Cutting(dsn)) for dsn in dsns)
        a, b, journal = (one.dsn for one in roads)
        regions = around.enter_context(
            sq.Regions(a, b, journal, name=NAME, patience="30s", retry_after="1000s", schema=two.first.schema)
        )
        yield Far(replace(two, regions=regions), roads)


@pytest.mark.parametrize("loss", LOSSES)
def test_no_publish_fails_for_an_idle_connection(far: Far, loss: str) -> None:
    publish = far.two.regions.publish
    assert publish(message("s"))[0].known_by == ("a", "b")
    far.two.regions.journal.rules(NAME, "status")
    for number in (2, 3):
        far.lose(loss)
        assert numbers(publish(message("s"))) == [("s", number, ("a", "b"))]
    far.lose(loss)
    with away(far.two, "a"):  # the first message that needs the journal
        assert numbers(publish(message("s"))) == [("s", 4, ("b", "journal"))]


@pytest.mark.parametrize("loss", LOSSES)
def test_no_call_of_the_journal_fails_for_an_idle_connection(far: Far, loss: str) -> None:
    with Journal.open(far.roads[2].dsn, create=False, patience="30s") as journal:
        for _ in range(3):
            assert journal.rules(NAME, "status").attempts > 0
            journal.touch()
            far.lose(loss)


def test_who_is_believed_away_is_asked_before_nothing_is_promised(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(party, "_WARM_S", math.inf)  # a journal that was touched isn't believed away any more
    regions = far.two.regions
    publish, parties = regions.publish, [*regions._boxes.values(), regions._journal]
    publish(message("s"))

    def believe_away(*those: party.Party) -> None:
        for one in those:
            one._away_until = time.monotonic() + 1000

    believe_away(*parties)
    assert numbers(publish(message("s"))) == [("s", 2, ("a", "b"))]
    believe_away(*parties[1:])
    assert numbers(publish(message("s"))) == [("s", 3, ("a", "b"))]
    believe_away(parties[0])  # the others suffice, so that it isn't asked
    assert numbers(publish(message("s"))) == [("s", 4, ("b", "journal"))]
    assert parties[0].is_away
    believe_away(*parties)
    assert regions.rules("status").attempts > 0
    assert regions.region_of(far.two.first) == "a"
    with away(far.two, "a", "journal"):
        believe_away(*parties)
        with pytest.raises(sq.Unavailable):
            publish(message("s"))
    assert numbers(publish(message("s"))) == [("s", 5, ("a", "b"))]


def test_the_journal_is_kept_warm(far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
    touched = threading.Event()
    monkeypatch.setattr(Journal, "touch", lambda _: touched.set())
    monkeypatch.setattr(party, "_WARM_S", 0.0)
    far.two.regions.publish(message("s"))
    assert touched.wait(120)
    touched.clear()
    monkeypatch.setattr(party, "_WARM_S", 1000.0)
    far.two.regions.publish(message("s"))
    assert not touched.is_set()
