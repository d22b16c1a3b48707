"""What becomes of a delivery: the table of its states holds, and an event that has no place in it is refused."""

from __future__ import annotations

import pytest

from seriatim.box.connection.in_hand import TRANSITIONS, DeliveryState, Event, InHand
from seriatim.errors import InvariantBroken


def test_every_state_is_in_the_table_and_can_be_reached():
    assert set(TRANSITIONS) == set(DeliveryState)
    reached = {DeliveryState.OPEN} | {after for events in TRANSITIONS.values() for after in events.values()}
    assert reached == set(DeliveryState)


@pytest.mark.parametrize("state", DeliveryState)
@pytest.mark.parametrize("event", Event)
def test_an_event_leads_where_the_table_says_or_is_refused(state, event):
    held = InHand()
    held.state = state
    if event in TRANSITIONS[state]:
        held.happens(event)
        assert held.state is TRANSITIONS[state][event]
    else:
        with pytest.raises(InvariantBroken):
            held.happens(event)
        assert held.state is state


@pytest.mark.parametrize("state", DeliveryState)
def test_what_is_over_is_over_for_good_but_for_a_rollback(state):
    """Nothing that was done, put back or lost is done once more: the only way back is that its end was rolled back."""
    if not state.is_open:
        assert set(TRANSITIONS[state]) <= {Event.ROLLED_BACK, Event.END_ROLLED_BACK}
