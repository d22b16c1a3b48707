"""Convert a group's state between the kernel's columns and its row in the table of groups."""

from __future__ import annotations

import numpy as np

from seriatim.kernel.groups.policy import Policy
from seriatim.kernel.groups.state import Groups
from seriatim.kernel.resequence import new_state
from seriatim.kernel.values.columns import Ints


def state_rows(groups: Groups) -> Ints:
    """Return for each group the columns of the kernel's state, in the order of the table; int64, of shape (groups, 11)."""
    columns = (
        groups.flags, groups.first, groups.next, groups.mark, groups.last, groups.ordinal, groups.since,
        groups.reports, groups.clock, groups.suspects, groups.suspect,
    )  # fmt: skip
    return np.stack(columns, axis=1)


def fresh_row(policy: Policy) -> list[int]:
    row: list[int] = state_rows(new_state(policy, 1).groups)[0].tolist()
    return row
