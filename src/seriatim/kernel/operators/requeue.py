"""The place of a requeued message: its old place in the order, if that is still possible."""

from __future__ import annotations

from enum import StrEnum

from seriatim.kernel.groups.policy import BestEffort, FifoStays, Policy, Standard, UnitOfWork


class RequeuePosition(StrEnum):
    #: It leaves with its former ordinal.
    ORDINAL = "ordinal"
    #: It was never released: it is judged as a new arrival.
    ARRIVAL = "arrival"
    #: After all released messages, with a new ordinal, and flagged as late.
    END = "end"


def place(
    policy: Policy, following: int, sequence: int | None, ordinal: int | None, *, intact: bool, rejected: bool = False
) -> RequeuePosition:
    """The place of a message that is dead, late, a duplicate or rejected.

    Args:
        policy: the queue's policy; not `Unordered`, which has no order to go back to.
        following: the `next` of its group: lower numbers have left, or were skipped.
        sequence: its sequence; None if the queue's policy doesn't use it.
        ordinal: its ordinal from its release; None if it was never released.
        intact: whether certainly no message of its group was delivered that was released after it.
        rejected: whether its group had no room for it. Its number isn't remembered, so that it may have come again
            since: only the rules can decide.
    """
    if rejected:
        return RequeuePosition.ARRIVAL
    if ordinal is not None:
        return RequeuePosition.ORDINAL if intact else RequeuePosition.END
    match policy:
        case Standard() | BestEffort():
            return RequeuePosition.ARRIVAL if sequence is not None and sequence >= following else RequeuePosition.END
        case UnitOfWork() | FifoStays():  # which waits where its group isn't opened
            return RequeuePosition.ARRIVAL
    return RequeuePosition.END
