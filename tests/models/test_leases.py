"""The door of leases: every state that two callers can bring about, and broken variants, each with the shortest way to its fault."""

from __future__ import annotations

import pytest

from tests.models.leases import Door
from tests.models.search import search

pytestmark = pytest.mark.dear


@pytest.mark.dear
def test_whatever_is_lost_repeated_or_late_no_law_is_broken(figures):
    found = search(Door())
    figures(str(found))
    assert found.fault is None, str(found)
    assert len(found.states) > 500_000
    assert any(state.times == (1, 1, 1) for state in found.states)


def test_two_leases_in_a_row_break_none():
    found = search(Door(leases=2))
    assert found.fault is None, str(found)
    assert len(found.states) > 1_000


class RelativeCount(Door):
    """A completion says how many more are done."""

    def _called(self, state, at, caller, verb, position):
        lease = state.leases[at]
        if verb != "complete":
            return super()._called(state, at, caller, verb, position)
        return state if lease.over else super()._called(state, at, caller, verb, lease.done + 1)


class ForgottenAnswer(Door):
    """What ended a lease is forgotten with it."""

    def stored(self, lease, verb, at):
        return not lease.over and super().stored(lease, verb, at)


class AttemptApart(Door):
    """The id of an attempt is committed after the hand-out, and may not be."""

    def handed_out(self, caller, attempt, start):
        for lease in super().handed_out(caller, attempt, start):
            yield lease
            yield lease._replace(noted=False)


class AnyPrincipal(Door):
    """Whoever knows its id may act on a lease."""

    def is_holder(self, lease, caller):
        return True


@pytest.mark.parametrize(
    ("model", "fault"),
    [
        (RelativeCount, "a message is done that its holder hasn't worked on"),
        (ForgottenAnswer, "a call that was applied is told that the lease is over"),
        (AttemptApart, "an attempt has two deliveries"),
        (AnyPrincipal, "another principal acts on a lease"),
    ],
)
def test_a_broken_variant_is_found(model, fault):
    found = search(model())
    assert found.fault == fault
    assert 0 < len(found.trace) < 12
