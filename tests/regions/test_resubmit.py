"""A dead letter of two regions comes back by a command: its content is published under another id and number, and handled once."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.cli.main import main
from seriatim.errors import NotFound
from seriatim.operations import dead_letters
from tests.databases import SCHEMA
from tests.regions.away import away
from tests.regions.two import NAME, Two, message
from tests.regions.working import Handled

_WHO = {"actor": "ann", "reason": "the parcel is found"}


def _given_up(two: Two) -> None:
    """The first message of a session is a dead letter of region a, the second one is done."""

    def handle(received, _):
        if received.sequence == 1:
            raise sq.DeadLetter("no such parcel")

    two.regions.publish([message("1Z9", 1, "m1", b"lost"), message("1Z9", 2, "m2")])
    sq.RegionalWorker(two.regions, "status", handle, region="a").run(until_idle=True)
    two.regions.tend()


def _letters(two: Two) -> list[list[str]]:
    return [[one.message_id for one in dead_letters.dead_letters(box)] for box in two.boxes]


def test_it_is_handled_under_another_number_and_is_gone_as_a_dead_letter(two: Two) -> None:
    _given_up(two)
    assert _letters(two) == [["m1"], []]
    done = two.regions.resubmit("m1", **_WHO)
    assert (done.queue, done.session, done.number, done.regions, done.left) == ("status", "1Z9", 3, ("a",), None)
    assert _letters(two) == [[], []]
    got = []
    sq.RegionalWorker(two.regions, "status", lambda one, _: got.append((one.message_id, one.body)), region="a").run(
        until_idle=True
    )
    assert got == [(done.new_id, b"lost")]
    (logged,) = two.journal.log(name=NAME, session="1Z9")
    assert (logged.action, logged.actor, logged.reason) == ("resubmit", "ann", "the parcel is found")
    with pytest.raises(NotFound, match="no region has a dead letter 'm1'"):
        two.regions.resubmit("m1", **_WHO)


def test_a_call_that_was_interrupted_is_repeated_and_nothing_comes_twice(two: Two, monkeypatch) -> None:
    _given_up(two)
    with monkeypatch.context() as patch, suppress(KeyboardInterrupt):
        patch.setattr("seriatim.regions.resubmitting.delete", _killed)
        two.regions.resubmit("m1", **_WHO)
    assert _letters(two) == [["m1"], []]
    done = two.regions.resubmit("m1", **_WHO)
    assert (done.number, done.regions) == (3, ("a",))
    handled = Handled(two.regions)
    assert handled.work("a") == [("1Z9", 3)]


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_region_that_is_away_is_named(two: Two) -> None:
    _given_up(two)
    with away(two, "b"):
        done = two.regions.resubmit("m1", **_WHO)
        assert done.regions == ("a",)
        assert "region b is away" in str(done.left)
    with away(two, "a"), pytest.raises(NotFound, match="region a is away"):
        two.regions.resubmit("m1", **_WHO)


def test_the_command(two: Two, tmp_path) -> None:
    _given_up(two)
    file = tmp_path / "regions.yaml"
    file.write_text(
        f"name: {NAME}\nprimary: {two.first.dsn}\nsecondary: {two.second.dsn}\njournal: {two.journal_dsn}\n"
        f"schema: {SCHEMA}\npatience: 30s\n"
    )
    words = ["journal", "resubmit", str(file), "m1", "--number", "7", "--reason", "found", "--json"]
    told = CliRunner().invoke(main, words)
    assert told.exit_code == 0, told.output
    assert (json.loads(told.stdout)["number"], _letters(two)) == (7, [[], []])
    told = CliRunner().invoke(main, words)
    assert (told.exit_code, "seriatim dead-letters list" in told.stderr) == (2, True)
