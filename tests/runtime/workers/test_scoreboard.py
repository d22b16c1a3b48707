"""The scoreboard: what is claimed of it is what is in hand."""

from __future__ import annotations

import pytest

from seriatim.runtime.workers.scoreboard import Scoreboard


@pytest.fixture
def slot():
    scoreboard = Scoreboard.make(1)
    yield scoreboard.slots[0]
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


def test_a_look_that_began_before_claims_nothing_of_the_turn_after(slot):
    before = begin(slot, 1)
    after = begin(slot, 2)
    assert not slot.claim(before.turn)
    assert slot.read().entry_id == 2
    assert slot.claim(after.turn)
