"""A dialog between two boxes: every state that the model can reach, and broken variants, each with the shortest way to its fault."""

from __future__ import annotations

import pytest

from tests import soak
from tests.models.far_dialogs import BROKEN, FarDialogs
from tests.models.search import search, stranded

pytestmark = pytest.mark.dear

_SMALL: dict[str, dict[str, object]] = {
    "both talk, and end": {"sends": (2, 1)},
    "a number is repeated late": {"sends": (1, 1), "copies": 1},
    "ends with an error": {"sends": (1, 1), "errors": (1, 1)},
    "clean-ups": {"sends": (1, 1), "cleanups": (1, 1)},
    "lifetimes": {"sends": (1, 1), "lifetimes": (1, 1)},
    "the initiator is restored": {"sends": (1, 0), "restores": (1, 0), "receives": False},
    "the target is restored": {"sends": (1, 0), "restores": (0, 1), "receives": False},
}
_LARGE: dict[str, dict[str, object]] = {
    "the target is restored, and receives": {"sends": (1, 0), "restores": (0, 1)},
    "the target is restored, what was sent is kept": {"sends": (1, 0), "restores": (0, 1), "keeps": True},
    "the initiator is restored, and receives": {"sends": (1, 0), "restores": (1, 0)},
    "the initiator is restored, two numbers": {"sends": (2, 0), "restores": (1, 0), "receives": False},
    "an error, and the target is restored": {"sends": (1, 0), "errors": (0, 1), "restores": (0, 1), "receives": False},
    "an error, and the initiator is restored": {
        "sends": (1, 0),
        "errors": (1, 0),
        "restores": (1, 0),
        "receives": False,
    },
    "errors and clean-ups": {"sends": (1, 1), "errors": (1, 1), "cleanups": (1, 1)},
}
_SEARCHED = _SMALL | (_LARGE if soak.full() else {})

#: In which search each broken variant shows.
_SHOWN = {
    "an error waits behind its numbers": "ends with an error",
    "an end is dropped without a word": "lifetimes",
    "a side is forgotten early": "both talk, and end",
    "a late number is handed out": "ends with an error",
    "an early record is dropped": "ends with an error",
    "a forgotten side is silent": "ends with an error",
    "a closed side is silent": "ends with an error",
    "no chains": "the initiator is restored",
    "no numbers that are over": "a number is repeated late",
    "no checks": "the target is restored",
    "verbs come before the inbox": "both talk, and end",
    "the end of the second isn't told": "both talk, and end",
}


@pytest.mark.soak
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.dear] * ("restores" in world)) for name, world in _SEARCHED.items()]
)
def test_every_number_is_handed_out_once_and_no_side_stays_open(name, figures):
    model = FarDialogs(**_SEARCHED[name])
    found = search(model)
    figures(f"{name}: {found}")
    assert found.fault is None, str(found)
    assert all(model.done(state) for state in found.ends)
    # From every state both sides can come to their end, with nothing left of them.
    assert stranded(model, found.states, model.done) == []


@pytest.mark.parametrize("broken", BROKEN)
def test_each_rule_is_needed(broken):
    model = FarDialogs(**_SMALL[_SHOWN[broken]], broken=broken)
    found = search(model)
    left = [] if found.fault else stranded(model, found.states, model.done)
    assert found.fault is not None or left
