"""Two boxes with a stream each way: every state that the model can reach, and broken variants, each with the shortest way to its fault."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import soak
from tests.models.links import Box, Boxes, Calm, Links, Reply, Request
from tests.models.search import Label, search, stranded

pytestmark = pytest.mark.dear

_QUIET = (False, False)
#: What each search contains; those that take longer than seconds run at full size only.
_SMALL = {
    "the network and a crash, two transmitters": {"sends": (2, 0), "transmitters": (2, 1), "crashes": 1},
    # What a crash takes back first is an acknowledgement that was applied: that isn't waited for.
    "acknowledgements are lost in two crashes": {"sends": (2, 0), "crashes": 2, "copies": _QUIET},
    "the sender is restored": {"sends": (2, 0), "restores": (1, 0), "copies": _QUIET},
    "the receiver is restored": {"sends": (2, 0), "restores": (0, 1), "copies": _QUIET},
    "the receiver is restored, what was sent is kept": {
        "sends": (2, 0),
        "restores": (0, 1),
        "keeps": True,
        "copies": _QUIET,
    },
    "both are restored": {"sends": (1, 0), "restores": (1, 1), "copies": _QUIET},
}
_LARGE = {
    "late batches, two messages and two crashes, two transmitters": {
        "sends": (2, 0),
        "transmitters": (2, 1),
        "crashes": 2,
    },
    "both ways, and two crashes": {"sends": (1, 1), "crashes": 2},
    "three messages and two crashes": {"sends": (3, 0), "crashes": 2},
    "late batches, a crash, and the sender is restored": {"sends": (2, 0), "crashes": 1, "restores": (1, 0)},
    "a crash, and the sender is restored": {"sends": (2, 0), "crashes": 1, "restores": (1, 0), "copies": _QUIET},
    "a crash, and the receiver is restored": {"sends": (2, 0), "crashes": 1, "restores": (0, 1), "copies": _QUIET},
    "late batches, and the sender is restored": {"sends": (2, 0), "restores": (1, 0)},
    "late batches, and the receiver is restored": {"sends": (2, 0), "restores": (0, 1)},
    "late batches, the receiver is restored, all is kept": {"sends": (2, 0), "restores": (0, 1), "keeps": True},
    "late batches, and both are restored": {"sends": (1, 0), "restores": (1, 1)},
    "three messages, and the sender is restored": {"sends": (3, 0), "restores": (1, 0)},
    "three messages, and the receiver is restored": {"sends": (3, 0), "restores": (0, 1)},
    "both ways, and one is restored": {"sends": (1, 1), "restores": (1, 0), "copies": (True, False)},
    "two transmitters, and the sender is restored": {"sends": (1, 0), "transmitters": (2, 1), "restores": (1, 0)},
}
_SEARCHED = _SMALL | (_LARGE if soak.full() else {})


@pytest.mark.soak
@pytest.mark.parametrize("name", _SEARCHED)
def test_what_was_sent_is_handled_once_in_order_or_an_event_says_not(name, figures):
    model, calm = Links(**_SEARCHED[name]), Calm(**_SEARCHED[name])
    found = search(model)
    figures(f"{name}: {found}")
    assert found.fault is None, str(found)
    # From every state, the faults over, one can be reached in which nothing waits.
    assert stranded(calm, found.states, calm.done) == []


def test_the_searches_reach_what_they_are_about():
    found = search(Links((2, 0), restores=(0, 1), copies=_QUIET))
    boxes = [state.memory for state in found.states]
    assert any(
        near.named and near.out.number > 1 for near, _ in boxes
    )  # goes on in a new stream, and an event says why
    assert any(len(far.handled) == 2 and len({content for content, _ in far.handled}) == 2 for _, far in boxes)
    kept = search(Links((2, 0), restores=(0, 1), copies=_QUIET, keeps=True))
    assert any(replayed for state in kept.states for _, replayed in state.memory[1].handled)
    assert not any(state.memory[0].named for state in kept.states if len(state.memory[0].out.over) == 0)
    crashed = search(Links((1, 0), crashes=1, copies=_QUIET))
    # An acknowledgement is applied, and a crash may take it back.
    assert any(state.crashes and state.memory[0].out.acked > state.disk[0].out.acked for state in crashed.states)


# ---- broken variants


class NumbersWithoutTheChain(Links):
    """Two boxes that have the same number are taken to have the same messages."""

    def is_equal(self, told: bytes, here: bytes) -> bool:
        return True

    def is_acked(self, here: bytes, told: bytes) -> bool:
        return True


class AckBeforeItIsOnDisk(Links):
    """A receiver acknowledges what a crash may take from it."""

    writes_before_answer = False


class BatchBeforeItIsOnDisk(Links):
    """A sender sends what it has concluded from an answer while a crash may still take that back."""

    writes_before_asking = False


class ForgetsByTime(Links):
    """A receiver forgets which numbers are over."""

    def calm(self, state: Boxes) -> Iterator[tuple[Label, Boxes]]:
        yield from super().calm(state)
        far = state.memory[1]
        if far.over:
            forgotten = far._replace(over=())
            yield (("{} forgets what is over",), "B"), self._remember(state, 1, forgotten)


class OldTransmitterBelieved(Links):
    """A sender takes every answer for one to its last question."""

    def is_current(self, current: bool) -> bool:
        return True


class AckByNumber(Links):
    """A sender takes an acknowledged number for an acknowledged history."""

    def is_acked(self, here: bytes, told: bytes) -> bool:
        return True


class TakesWhatIsOver(Links):
    """A receiver takes batches of streams that are over."""

    def _takes(self, box: Box, request: Request) -> tuple[Box, Reply]:
        return super()._takes(box._replace(over=()), request)


@pytest.mark.parametrize(
    ("broken", "sizes", "says"),
    [
        (NumbersWithoutTheChain, {"restores": (1, 0), "copies": _QUIET}, "neither it nor an event"),
        (AckBeforeItIsOnDisk, {"crashes": 1, "sends": (1, 0)}, "neither it nor an event"),
        (BatchBeforeItIsOnDisk, {"crashes": 1, "sends": (1, 0)}, "nothing was restored"),
        (ForgetsByTime, {"sends": (1, 0)}, "twice"),
        (OldTransmitterBelieved, {"transmitters": (2, 1)}, "nothing was restored"),
        (AckByNumber, {"sends": (4, 0), "restores": (1, 0), "copies": _QUIET}, "neither it nor an event"),
        (TakesWhatIsOver, {"sends": (1, 0)}, "twice"),
    ],
)
def test_each_broken_variant_is_caught(broken, sizes, says, figures):
    found = search(broken(**sizes))
    figures(f"{broken.__name__}: {found}")
    assert says in str(found.fault)
