"""The scoreboard: what is claimed of it is what is in hand."""

from __future__ import annotations

import pytest

from seriatim.runtime.workers.scoreboard import Scoreboard


@pytest.fixture
def slot():
    scoreboard = Scoreboard.make(1)
    yield scoreboard.take()
    scoreboard.close()


def begin(slot, entry_id):
    slot.begin("shop", "c1", 0)
    slot.call(entry_id)
    return slot.read()


def test_a_turn_is_claimed_once(slot):
    work = begin(slot, 1)
    assert slot.claim(work.turn)
    assert slot.read() is None
    assert not slot.claim(work.turn)


def test_a_turn_that_has_ended_is_not_claimed(slot):
    work = begin(slot, 1)
    slot.end()
    assert not slot.claim(work.turn)


def test_a_claimed_turn_goes_on_until_it_ends(slot):
    first = begin(slot, 1)
    assert slot.claim(first.turn)
    assert slot.goes_on(first.turn)
    slot.end()
    assert not slot.goes_on(first.turn)
    second = begin(slot, 2)
    assert slot.goes_on(second.turn)
    assert not slot.goes_on(first.turn)


def test_a_look_that_began_before_claims_nothing_of_the_turn_after(slot):
    before = begin(slot, 1)
    after = begin(slot, 2)
    assert not slot.claim(before.turn)
    assert slot.read().entry_id == 2
    assert slot.claim(after.turn)


def test_whoever_reads_sees_the_slots_that_were_taken_and_they_are_taken_again():
    written = Scoreboard.make(1000)
    try:
        read = Scoreboard.of(written.file)
        assert read.slots == []
        first, second = written.take(), written.take()
        begin(second, 7)
        assert [one.read() and one.read().entry_id for one in read.slots] == [None, 7]
        written.give_back(first)
        assert written.take() is first
        assert len(read.slots) == 2
    finally:
        written.close()


def test_there_are_no_more_slots_than_were_made():
    scoreboard = Scoreboard.make(2)
    assert scoreboard.take() is not scoreboard.take()
    assert scoreboard.take() is None
    scoreboard.close()


def test_a_pulse_is_seen():
    scoreboard = Scoreboard.make(1)
    read = Scoreboard.of(scoreboard.file)
    assert read.pulse == 0
    scoreboard.beat()
    before = read.pulse
    scoreboard.beat()
    assert read.pulse > before > 0
    scoreboard.close()
