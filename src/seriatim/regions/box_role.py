"""The role of a box as a region: which region it is, which queues belong to the regions, and whether it votes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.errors import UsageError

#: The value of `learned` at which a box votes: it has taken over the numbers of the others.
VOTES = 2


@dataclass(frozen=True, slots=True)
class Role:
    region: str
    #: The incarnation of the region, higher after each restore of its box.
    incarnation: int
    #: 2: it votes; 0: it was restored, or stands in for a box that is lost; 1: it has taken over the journal's numbers since.
    learned: int
    #: The incarnation of the other region from which on its votes count.
    fence: int
    #: Whether the box has gone back in time since, so that it must first begin a new incarnation.
    is_restored: bool
    #: The ids of the queues of the regions in the box.
    queue_ids: frozenset[int] = frozenset()

    @property
    def votes(self) -> bool:
        return self.learned == VOTES and not self.is_restored


def role_of(transaction: Transaction, name: str, region: str, *, holds: bool = False) -> Role:
    role = transaction.maybe("region_role_held" if holds else "region_role", of_name=name)
    if role is None:
        raise UsageError(
            f"the box isn't region {region} of {name!r}",
            where=transaction.access.place,
            remedy="Regions.define(…), or seriatim regions apply FILE",
        )
    if role.region != region:
        raise UsageError(
            f"the box is region {role.region} of {name!r}, and was given as region {region}",
            where=transaction.access.place,
            remedy="give the primary first, as when they were defined",
        )
    return Role(role.region, role.incarnation, role.learned, role.fence, role.is_restored, frozenset(role.queue_ids))


def begin(transaction: Transaction, name: str, region: str, known: int) -> Role:
    """Make the box a region, if it isn't one yet."""
    transaction.do("region_begin", of_name=name, as_region=region, known=known)
    return role_of(transaction, name, region)


def take_queues(transaction: Transaction, name: str, queues: Iterable[str]) -> None:
    wrong = transaction.maybe("region_take_queues", of_name=name, queues=list(queues))
    if wrong is None:
        return
    where = transaction.access.place
    if wrong.why == "used":
        raise UsageError(
            f"the queue {wrong.queue!r} has had messages, of whose numbers the other region knows nothing",
            where=where,
            remedy="take a new queue, and let the old one run empty",
        )
    raise UsageError(
        f"the queue {wrong.queue!r} belongs to other regions",
        where=where,
        remedy=f"name the regions as they were named, or take another queue than {wrong.queue!r}",
    )


def bounds_of(name: str) -> Callable[[Transaction], list[Any]]:
    """Read the keys before which sessions of queues take no messages any more, and before which all are over."""
    return lambda transaction: transaction.rows("region_bounds", of_name=name)


def take_bounds(transaction: Transaction, name: str, befores: Mapping[str, str]) -> None:
    """Let the sessions of queues take no messages any more before these keys."""
    transaction.do("region_take_bounds", of_name=name, queues=list(befores), befores=list(befores.values()))
