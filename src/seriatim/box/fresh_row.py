"""The row of a group that nothing is remembered of."""

from __future__ import annotations

from seriatim.kernel.policy import Policy
from seriatim.kernel.resequence import new_state

__all__ = ["fresh_row"]


def fresh_row(policy: Policy) -> list[int]:
    """The columns of the kernel's state, in the order of the table: flags, first, next, mark, last, ordinal, since, reports, clock."""
    groups = new_state(policy, 1).groups
    columns = (
        groups.flags, groups.first, groups.next, groups.mark, groups.last, groups.ordinal, groups.since,
        groups.reports, groups.clock,
    )  # fmt: skip
    return [int(column[0]) for column in columns]
