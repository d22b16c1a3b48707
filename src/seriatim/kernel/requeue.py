"""The place of a requeued message: its old place in the order, if that is still possible."""

from __future__ import annotations

from enum import StrEnum

from seriatim.kernel.policy import BestEffort, Policy, Standard, UnitOfWork

__all__ = ["Place", "place"]


class Place(StrEnum):
    """Where it goes."""

    #: It leaves with the ordinal that it was given before.
    ORDINAL = "ordinal"
    #: It was never released: it is judged as if it came now.
    ARRIVAL = "arrival"
    #: Behind all that was released, with a new ordinal, and flagged as late.
    END = "end"


def place(
    policy: Policy, following: int, sequence: int | None, ordinal: int | None, *, intact: bool, rejected: bool = False
) -> Place:
    """Where a message goes that is dead, late, a duplicate or rejected.

    Args:
        policy: how its queue orders; not `Unordered`, which has no order to go back to.
        following: the `next` of its group: what is below it has left, or was passed over.
        sequence: its own; None where the queue doesn't go by that.
        ordinal: the one that it was given when it was released; None where it never was.
        intact: whether it is certain that nothing of its group was delivered that was released after it.
        rejected: its group had no room for it. Its number isn't remembered, so that it may have come again since: only
            the rules can tell.
    """
    if rejected:
        return Place.ARRIVAL
    if ordinal is not None:
        return Place.ORDINAL if intact else Place.END
    match policy:
        case Standard() | BestEffort():
            return Place.ARRIVAL if sequence is not None and sequence >= following else Place.END
        case UnitOfWork():
            return Place.ARRIVAL
    return Place.END
