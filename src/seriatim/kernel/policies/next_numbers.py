"""A `Standard` group whose next numbers have all come, while nothing waits: the usual case.

Whatever their order of arrival, all leave, and no other rule has a say: some comparisons of whole numbers find that out.
``standard.py`` comes to the same result; for one group most of its time is the fixed cost of operations on columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from seriatim.kernel.groups.policy import Policy, Standard
from seriatim.kernel.groups.state import Flag
from seriatim.kernel.values.time import NEVER

_BEGUN = int(Flag.BEGUN)
_MAX = 2**63 - 1


class OneGroup(NamedTuple):
    flags: int
    first: int
    next: int
    mark: int
    last: int
    ordinal: int
    since: int
    reports: int
    clock: int
    suspects: int
    suspect: int


def after_next_numbers(
    policy: Policy, group: OneGroup, messages: Sequence[int], voids: Sequence[int], clock: int
) -> OneGroup | None:
    """The group after numbers have come that are its next ones, each once; None if they aren't, or another rule may have a say.

    Args:
        group: a group that holds nothing, and has skipped nothing that it remembers.
        messages: the numbers of messages, ascending. They leave in this order.
        voids: the numbers of voids.
        clock: the latest time of arrival, microseconds.
    """
    if type(policy) is not Standard or policy.capacity is not None or group.since != NEVER:
        return None
    if group.flags != _BEGUN and (group.flags or policy.start == "first"):
        return None
    if voids and group.suspects:  # ``restarts.py`` decides whether they still count
        return None
    step, count = policy.increment, len(messages) + len(voids)
    beyond = group.next + step * count
    if beyond > _MAX or group.next < group.first or (group.next - group.first) % step:
        return None
    ordered = sorted([*messages, *voids]) if voids else messages
    if not messages or list(ordered) != list(range(group.next, beyond, step)):
        return None
    return group._replace(
        flags=_BEGUN,
        next=beyond,
        last=messages[-1],
        ordinal=group.ordinal + len(messages),
        reports=0,
        clock=max(group.clock, clock),
        suspects=0,
    )
