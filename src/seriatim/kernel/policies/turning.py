"""`BestEffort` with numbers that turn over: they are unwrapped, and then the rules of ``best_effort.py`` apply."""

from __future__ import annotations

from seriatim.kernel.groups.arrivals import Arrivals
from seriatim.kernel.groups.policy import BestEffortNumbers
from seriatim.kernel.groups.state import State
from seriatim.kernel.policies import best_effort
from seriatim.kernel.policies.best_effort import due, fire, settle
from seriatim.kernel.policies.numbers import raised, unwrapped
from seriatim.kernel.values.columns import Bools, Ints
from seriatim.kernel.values.outcome import Decided, Disposition, Events

__all__ = ["due", "fire", "quiet", "settle", "take"]


def _understood(policy: BestEffortNumbers, state: State, arrivals: Arrivals) -> tuple[Arrivals, Ints, Bools]:
    return unwrapped(policy.modulus or 0, arrivals, state.known_lives.top)


def quiet(policy: BestEffortNumbers, state: State, arrivals: Arrivals, *, clocked: bool) -> Bools:
    """The arrivals that can be judged together, a prefix of each group: no timer can fire between them, and their numbers are sure."""
    understood, _, sure = _understood(policy, state, arrivals)
    return sure & best_effort.quiet(policy, state, understood, clocked=clocked)


def take(policy: BestEffortNumbers, state: State, arrivals: Arrivals) -> tuple[State, Decided, Events]:
    """Collect arrivals between which no timer fires (see `quiet`)."""
    arrivals, reason, _ = _understood(policy, state, arrivals)
    wrong = reason > 0
    gone = arrivals.take(wrong)
    arrivals = arrivals.take(~wrong)
    state, decided, events = best_effort.take(policy, state, arrivals)
    state = raised(state, arrivals, decided, state.known_lives.top)
    invalid = Decided.of(gone, Disposition.INVALID, reason[wrong])
    return state, Decided.concat([decided, invalid]), events
