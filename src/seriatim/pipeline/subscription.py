"""The subscription: a filter, and where the messages go that pass it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from seriatim.errors import UsageError

__all__ = ["Subscription", "distinct"]


@dataclass(frozen=True, slots=True)
class Subscription:
    """Who wants which messages.

    Args:
        name: its name, unique among the subscriptions of one router.
        where: the filter, see ``docs/reference/filters.md``. It is parsed where the properties are known.
        to: the destination of the messages for which the filter is TRUE.

    Raises:
        UsageError: a name, filter or destination that is empty or no text.
    """

    name: str
    where: str
    to: str

    def __post_init__(self) -> None:
        for what, value in (("name", self.name), ("destination", self.to)):
            if not isinstance(value, str) or not value or len(value) > 128 or "\0" in value:
                raise UsageError(f"{value!r} is not a subscription's {what}", remedy="1 to 128 characters, without NUL")
        if not isinstance(self.where, str) or not self.where.strip():
            raise UsageError(
                f"{self.where!r} is not a filter",
                where=f"subscription {self.name!r}",
                remedy="write TRUE for all messages",
            )


def distinct(subscriptions: Iterable[Subscription]) -> tuple[Subscription, ...]:
    """The subscriptions, if no two have one name.

    Raises:
        UsageError: two have, or something in it is no subscription.
    """
    seen: dict[str, Subscription] = {}
    for one in subscriptions:
        if not isinstance(one, Subscription):
            raise UsageError(f"{one!r} is not a subscription", remedy="Subscription(name, where=…, to=…)")
        if one.name in seen:
            raise UsageError(f"two subscriptions are named {one.name!r}", remedy="give one of them another name")
        seen[one.name] = one
    return tuple(seen.values())
