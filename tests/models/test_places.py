"""The places of a group at its gate: every state that the model can reach, and broken variants, each with the shortest way to its fault."""

from __future__ import annotations

from itertools import permutations, product

import pytest

from tests.models.places import Look, Place, Places, offered, parts
from tests.models.search import search, stranded


@pytest.mark.dear
def test_no_order_of_ends_crashes_requeues_and_skips_breaks_a_law(figures):
    # Three messages, and one number more for a message that goes to the end.
    model = Places(3, 1)
    found = search(model)
    figures(str(found))
    assert found.fault is None, str(found)
    assert len(found.states) > 150_000
    assert all(model.empty(state) for state in found.ends)


@pytest.mark.dear
def test_between_any_two_reads_of_the_gate_anything_may_happen():
    by_reads, by_transactions = search(Places(2, 1, by_reads=True)), search(Places(2, 1))
    assert by_reads.fault is None, str(by_reads)
    committed = [state for state in by_reads.states if state.looks is None]
    assert {part for state in committed for part in parts(state)} == set(by_transactions.states)


@pytest.mark.dear
def test_from_every_state_all_places_can_leave():
    model = Places(2, 1, by_reads=True)
    assert stranded(model, search(model).states, lambda state: model.quiet(state) and model.empty(state)) == []


def test_places_that_are_offered_together_leave_as_if_one_came_after_the_other():
    for following in (1, 2, 3):
        ahead = range(following + 1, 4)
        for weights in product((None, 0, 1, 2), repeat=len(ahead)):
            waiting = tuple(
                (number, weight) for number, weight in zip(ahead, weights, strict=True) if weight is not None
            )
            missing = [number for number in range(following, 4) if number not in dict(waiting)]
            for numbers in permutations(missing, 2):
                for two in product((0, 1, 2), repeat=2):
                    first, second = zip(numbers, two, strict=True)
                    one_by_one = offered(*offered(following, waiting, (first,)), (second,))
                    assert offered(following, waiting, (first, second)) == one_by_one


# ---- broken variants


class ResultsFirst(Places):
    """The gate's turn reads the results before it looks what is alive: with the older snapshot."""

    reads = ("results", "alive")


class SilentEnd(Places):
    """A message that has published something asks nobody to look when it ends."""

    def asks(self, *, published: bool, read: bool) -> bool:
        return not published


class EndThatCountsOnAnother(Places):
    """A message that ends doesn't ask, if it sees a request for its place that a turn has read and not deleted yet."""

    def asks(self, *, published: bool, read: bool) -> bool:
        return not read


class TurnThatDeletesAll(Places):
    """The gate's turn deletes the requests that there are for the place when it commits, and not those that it has read."""

    def looked_at(self, place: Place) -> Place:
        return place._replace(asked=False)


class FirstResult(Places):
    """The gate closes a place when its first result is there."""

    reads = ("results", "alive")

    def closed(self, look: Look) -> bool:
        return look.results > 0 or not look.alive


class RequeueThatLeavesTheVoid(Places):
    """A requeue into a place that waits as a void leaves it as it is."""

    def reopened(self, place: Place) -> Place:
        return place if place.gate == 0 else super().reopened(place)


class RequeueThatLeavesTheResults(Places):
    """A requeue into a place that waits with results leaves it as it is."""

    def reopened(self, place: Place) -> Place:
        return place if place.gate > 0 else super().reopened(place)


class RequeueWithoutLock(Places):
    """A requeue doesn't wait for the lock of the gate's group."""

    requeue_locks = False


_LEFT_TOO_EARLY = "place {} has left the gate, nobody skipped it, and something of it is alive"
_LEFT_WITHOUT = "place {} has left the gate, nobody skipped it, and a result of it is late"
_WAITS = "nothing of place {} is alive, and nobody has asked the gate to look: it waits for ever"

BROKEN = [
    (
        ResultsFirst,
        _LEFT_WITHOUT.format(1),
        """
        message 1 comes
        message 1 ends in Q with a child in T
        the gate reads the request for place 1
        the gate reads the results of place 1
        a child of 1 ends in T with a result
        the gate looks what is alive of place 1
        the gate closes place 1 and commits
        """,
    ),
    (
        SilentEnd,
        _WAITS.format(1),
        """
        message 1 comes
        message 1 ends in Q with a result
        """,
    ),
    (
        EndThatCountsOnAnother,
        _WAITS.format(1),
        """
        message 1 comes
        message 1 ends in Q with a child in T
        the gate reads the request for place 1
        the gate looks what is alive of place 1
        a child of 1 ends in T with nothing, or is skipped
        the gate leaves place 1 open and commits
        """,
    ),
    (
        TurnThatDeletesAll,
        _WAITS.format(1),
        """
        message 1 comes
        message 1 ends in Q with a child in T
        the gate reads the request for place 1
        the gate looks what is alive of place 1
        a child of 1 ends in T with nothing, or is skipped
        the gate leaves place 1 open and commits
        """,
    ),
    (
        FirstResult,
        _LEFT_TOO_EARLY.format(1),
        """
        message 1 comes
        message 1 ends in Q with a child in T and a result
        the gate reads the request for place 1
        the gate reads the results of place 1
        the gate looks what is alive of place 1
        the gate closes place 1 and commits
        """,
    ),
    (
        RequeueThatLeavesTheVoid,
        _LEFT_TOO_EARLY.format(2),
        """
        message 1 comes
        message 2 comes
        message 1 ends in Q with nothing, or is skipped
        message 2 becomes a dead letter of Q
        the gate reads the request for place 2
        the gate looks what is alive of place 2
        the gate reads the results of place 2
        the gate closes place 2 and commits
        the dead letter of Q goes back to place 2
        the gate reads the request for place 1
        the gate looks what is alive of place 1
        the gate reads the results of place 1
        the gate closes place 1 and commits
        """,
    ),
    (
        RequeueThatLeavesTheResults,
        _LEFT_TOO_EARLY.format(2),
        """
        message 1 comes
        message 2 comes
        message 2 ends in Q with a child in T and a result
        a child of 2 becomes a dead letter of T
        the gate reads the request for place 2
        the gate looks what is alive of place 2
        the gate reads the results of place 2
        the gate closes place 2 and commits
        a dead letter of T goes back to place 2
        an operator locks the gate to skip 1, and reads its results
        the operator's skip of 1 commits
        """,
    ),
    (
        RequeueWithoutLock,
        _LEFT_TOO_EARLY.format(1),
        """
        message 1 comes
        message 1 becomes a dead letter of Q
        the gate reads the request for place 1
        the gate looks what is alive of place 1
        the dead letter of Q goes back to place 1
        the gate reads the results of place 1
        the gate closes place 1 and commits
        """,
    ),
]


@pytest.mark.parametrize(("variant", "fault", "trace"), BROKEN, ids=[variant.__name__ for variant, *_ in BROKEN])
def test_a_broken_variant_is_caught_on_the_shortest_way(variant, fault, trace):
    found = search(variant(2, 0, by_reads=True))
    assert found.fault == fault
    assert found.trace == tuple(line.strip() for line in trace.strip().splitlines()), str(found)
