"""Groups that have expired: they have been idle for so long that the engine needn't keep them at hand, or at all.

A group is idle while it holds nothing, no clock of it runs, and it is neither suspended nor faulted nor told to close. It has expired when
the last that it has seen is `expire_after` ago. Then it leaves a *tombstone*: all that decides about a message which comes all the same,
that is its next number, its ordinal and its skipped ranges. Or it leaves nothing: then it begins as a new incarnation.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from seriatim.kernel.groups.policy import FifoMerged, Policy, UnitOfWork
from seriatim.kernel.groups.state import NOTHING, Flag, Remembered, State
from seriatim.kernel.resequence import due
from seriatim.kernel.values.columns import Ints
from seriatim.kernel.values.time import FOREVER, NEVER


def expired(policy: Policy, state: State, now: int, after: int) -> Ints:
    """The rows of groups that have expired. `now`: the time, microseconds; `NEVER`: it isn't known, and nothing expires. `after`: how long
    a group has to be idle, microseconds.
    """
    groups = state.groups
    if now == NEVER or not len(groups):
        return np.zeros(0, np.int64)
    old = groups.clock <= now - after
    if not old.any():
        return np.zeros(0, np.int64)
    old &= ~groups.has(Flag.SUSPENDED | Flag.FAULTED | Flag.CLOSING | Flag.LEAVING)
    old[state.held.group] = False
    if isinstance(policy, FifoMerged):  # copies may come as long as ids are remembered
        old[state.sights.group] = False
    old &= due(policy, state) == FOREVER
    # A group that has its first number and no message yet hasn't begun to be idle.
    old &= groups.clock != NEVER
    return np.flatnonzero(old)


def tombstones(policy: Policy, state: State) -> State:
    """Return what expired groups leave behind, without a producer's restart, and without contents unless these tell what is a part of the
    set before. Their time doesn't go back either.
    """
    count = len(state)
    none = np.zeros(count, np.int64)
    kept = state.with_groups(reports=none, suspects=none, suspect=np.full(count, NOTHING, np.int64))
    again = isinstance(policy, UnitOfWork) and not policy.once
    return kept if again else replace(kept, remembered=Remembered.empty())
