"""Late messages that are held (``late="suspend"``), for `Standard` and `BestEffort`."""

from __future__ import annotations

import numpy as np

from seriatim.kernel.columns import Ints, sum_before, sum_per_group
from seriatim.kernel.outcome import Decided, Disposition, Reason, no_messages
from seriatim.kernel.state import State

__all__ = ["free_late"]


def free_late(state: State, now: Ints) -> tuple[State, Decided]:
    """Release the held late messages of groups that are not stopped, flagged, in order of arrival."""
    groups, held = state.groups, state.held
    free = held.late & ~state.stopped()[held.group]
    if not free.any():
        return state, no_messages()
    leaving = held.take(free)
    leaving = leaving.take(np.lexsort((leaving.ref, leaving.group)))
    released = Decided.of(
        leaving.group,
        leaving.sequence,
        leaving.ref,
        Disposition.RELEASED,
        Reason.LATE_HELD,
        now[leaving.group],
        ordinal=groups.ordinal[leaving.group] + sum_before(leaving.group, leaving.weight) + 1,
        late=True,
        timed=True,
    )
    last = groups.last.copy()
    last[leaving.group] = leaving.sequence
    ordinal = groups.ordinal + sum_per_group(leaving.group, leaving.weight, len(state))
    return State(groups.with_columns(last=last, ordinal=ordinal), held.take(~free), state.skipped), released
