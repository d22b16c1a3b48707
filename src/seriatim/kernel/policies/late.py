"""Late messages that are held, and suspend their groups (``late="suspend"``), for `Standard` and `BestEffort`."""

from __future__ import annotations

import numpy as np

from seriatim.kernel.groups.arrivals import Arrivals
from seriatim.kernel.groups.policy import BestEffort, Policy, Standard
from seriatim.kernel.groups.state import Flag, State
from seriatim.kernel.values.columns import Ints, first_per_group
from seriatim.kernel.values.outcome import Decided, Disposition, EventKind, Events, Reason, no_events, no_messages


def may_suspend(policy: Policy) -> bool:
    if isinstance(policy, Standard) and policy.on_restart == "suspend":
        return True
    return isinstance(policy, Standard | BestEffort) and policy.late == "suspend"


def suspensions(before: State, after: State, arrivals: Arrivals) -> Events:
    """The events of groups that a late arrival has suspended; each has the number and the time of that arrival."""
    fresh = after.groups.has(Flag.SUSPENDED) & ~before.groups.has(Flag.SUSPENDED)
    if not fresh.any():
        return no_events()
    late = after.held.take(after.held.late & fresh[after.held.group] & np.isin(after.held.ref, arrivals.ref))
    late = late.by_arrival()
    first = late.take(first_per_group(late.group))
    order = np.argsort(arrivals.ref, kind="stable")
    at = arrivals.time[order[np.searchsorted(arrivals.ref[order], first.ref)]]
    return Events.of(EventKind.SUSPENDED, first.group, first.sequence, first.sequence, at)


def free_late(state: State, now: Ints) -> tuple[State, Decided]:
    """Release the held late messages of groups that are not stopped, flagged, in order of arrival."""
    groups, held = state.groups, state.held
    free = held.late & ~state.stopped()[held.group]
    if not free.any():
        return state, no_messages()
    leaving = held.take(free).by_arrival()
    ordinal, last_ordinal = groups.ordinals(leaving.group, leaving.weight)
    released = Decided.of(
        leaving, Disposition.RELEASED, Reason.LATE_HELD, now[leaving.group], ordinal=ordinal, late=True, timed=True,
        fingerprint=leaving.fingerprint, through=leaving.through,
    )  # fmt: skip
    last = groups.last.copy()
    last[leaving.group] = leaving.ends
    return state.having(groups.with_columns(last=last, ordinal=last_ordinal), held.take(~free), state.skipped), released
