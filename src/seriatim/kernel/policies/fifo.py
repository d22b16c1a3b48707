"""`Fifo` and `Unordered`: by arrival, or in no order. They hold no message unless the group is stopped."""

from __future__ import annotations

import numpy as np

from seriatim.kernel.groups.arrivals import Arrivals
from seriatim.kernel.groups.policy import Fifo, FifoMerged, Unordered
from seriatim.kernel.groups.state import Flag, Held, State
from seriatim.kernel.policies import copies
from seriatim.kernel.policies.closing import OVER
from seriatim.kernel.values.columns import Bools, Ints, order_by_group
from seriatim.kernel.values.outcome import Decided, Disposition, Events, Reason, no_events, no_messages
from seriatim.kernel.values.time import FOREVER


def quiet(policy: Fifo | Unordered, state: State, arrivals: Arrivals, *, clocked: bool) -> Bools:
    """Return all arrivals: there are no timers. Where regions send them, as many as the horizon allows."""
    if isinstance(policy, FifoMerged):
        return copies.within_horizon(policy, arrivals)
    return np.ones(len(arrivals), np.bool_)


def take(policy: Fifo | Unordered, state: State, arrivals: Arrivals) -> tuple[State, Decided, Events]:
    """Release all arrivals of groups that aren't stopped."""
    known = np.zeros(len(arrivals), np.bool_)
    decided: list[Decided] = []
    if isinstance(policy, FifoMerged):
        state, disposition, reason = copies.by_identity(policy, state, arrivals)
        known = disposition != Disposition.HELD
        again = arrivals.take(known)
        decided.append(Decided.of(again, disposition[known], reason[known]))
    groups, group = state.groups, arrivals.group
    closed = groups.has(OVER)[group] & ~known
    aside = known | closed | (arrivals.weight == 0)
    stopped = state.stopped()[group] & ~aside
    goes = np.flatnonzero(~(aside | stopped))
    state, released = _leave(state, arrivals.take(goes), arrivals.ref[goes], timed=False)

    waiting = arrivals.take(stopped)
    waiting = waiting.with_columns(sequence=waiting.ref)
    held = Held.concat([state.held, waiting.held(waiting.bits)])
    flags, clock = groups.flags.copy(), groups.clock_after(group, arrivals.time)
    flags[group] |= Flag.BEGUN
    late = arrivals.take(closed)
    decided += [released, Decided.of(late, Disposition.LATE, Reason.GROUP_CLOSED)]
    if not arrivals.weight.all():
        none = arrivals.take(aside & ~closed & ~known)
        decided.append(Decided.of(none, Disposition.VOID, Reason.LEAVES_NOTHING))
    state = state.having(
        state.groups.with_columns(flags=flags, clock=clock), held.take(order_by_group(held.group)), state.skipped
    )
    return state, Decided.concat(decided), no_events()


def _leave(state: State, rows: Arrivals | Held, cause: Ints, *, timed: bool) -> tuple[State, Decided]:
    ordinal, after = state.groups.ordinals(rows.group, rows.weight)
    released = Decided.of(rows, Disposition.RELEASED, Reason.NONE, cause, ordinal=ordinal, timed=timed)
    return state.with_groups(ordinal=after), released


def due(policy: Fifo | Unordered, state: State) -> Ints:
    return np.full(len(state), FOREVER, np.int64)


def fire(policy: Fifo | Unordered, state: State, until: Ints) -> tuple[State, Decided, Events]:
    return state, no_messages(), no_events()


def settle(policy: Fifo | Unordered, state: State, now: Ints) -> tuple[State, Decided, Events]:
    """After a group was resumed: messages that arrived meanwhile leave."""
    free = ~state.stopped()[state.held.group]
    leaving = state.held.take(free)
    state, released = _leave(state, leaving, now[leaving.group], timed=True)
    return state.having(state.groups, state.held.take(~free), state.skipped), released, no_events()
