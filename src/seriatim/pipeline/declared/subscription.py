"""The subscription: a filter, and where the messages go that pass it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from seriatim.errors import UsageError, shown
from seriatim.pipeline.declared.function import checked_function
from seriatim.pipeline.text.name import checked_name

__all__ = ["STATES", "Subscription", "distinct"]

STATES = ("started", "stopped", "enlisted", "unenlisted")


@dataclass(frozen=True, slots=True)
class Subscription:
    """Who wants which messages.

    Args:
        name: its name, unique among the subscriptions of one router.
        where: the filter, see ``docs/reference/filters.md``. It is parsed where the properties are known.
        to: the destination of the messages for which the filter is TRUE.
        state: ``"started"``; ``"enlisted"`` (not started yet) or ``"stopped"``: it collects, and what it collects is
            not handed out; ``"unenlisted"``: it collects nothing. Handing out is the message box's: on Spark the first
            three are the same.
        starts: makes it a *starting subscription*: its first message of a group starts an instance there, for which the group's
            messages then are, until it ends. The function that works on them, as ``module:name``. The message box's.
        correlate: of a starting subscription the names of the properties by which messages find the instance: the group of the
            queue first, and then those of which the instance may add values while it runs.

    Raises:
        UsageError: a name, filter or destination that is empty or no text, a state that isn't one, no name of a
            function, or a starting subscription that doesn't say what it correlates by.
    """

    name: str
    where: str
    to: str
    state: Literal["started", "stopped", "enlisted", "unenlisted"] = "started"
    _: KW_ONLY
    starts: str | None = None
    correlate: Sequence[str] = ()

    def __post_init__(self) -> None:
        checked_name(self.name, "a subscription's name")
        checked_name(self.to, "a subscription's destination")
        if not isinstance(self.where, str) or not self.where.strip():
            raise UsageError(
                f"{shown(self.where)} is not a filter",
                where=f"subscription {self.name!r}",
                remedy="write TRUE for all messages",
            )
        if self.state not in STATES:
            raise UsageError(
                f"state can't be {shown(self.state)}",
                where=f"subscription {self.name!r}",
                remedy=f"one of {', '.join(STATES)}",
            )
        object.__setattr__(self, "correlate", self._checked_correlation())

    @property
    def collects(self) -> bool:
        """Whether messages that pass the filter go to the destination."""
        return self.state != "unenlisted"

    def _checked_correlation(self) -> tuple[str, ...]:
        where = f"subscription {self.name!r}"
        names = self.correlate
        if isinstance(names, str) or not isinstance(names, Sequence):
            raise UsageError(f"correlate can't be {shown(names)}", where=where, remedy="a list of names of properties")
        for name in names:
            checked_name(name, f"a property (correlate of {where})")
        if len(set(names)) != len(names):
            raise UsageError("correlate names a property twice", where=where, remedy="name each once")
        if self.starts is None and names:
            raise UsageError(
                "it correlates, and starts nothing", where=where, remedy="say what: starts, as module:function"
            )
        if self.starts is not None:
            checked_function(self.starts)
            if not names:
                remedy = "name the properties by which messages find the instance: the group of the queue first"
                raise UsageError(
                    "it starts instances, and doesn't say which messages are theirs", where=where, remedy=remedy
                )
        return tuple(names)


def distinct(subscriptions: Iterable[Subscription]) -> tuple[Subscription, ...]:
    """The subscriptions that collect, if no two have one name.

    Raises:
        UsageError: two have, or something in it is no subscription.
    """
    seen: dict[str, Subscription] = {}
    for one in subscriptions:
        if not isinstance(one, Subscription):
            raise UsageError(f"{shown(one)} is not a subscription", remedy="Subscription(name, where=…, to=…)")
        if one.name in seen:
            raise UsageError(f"two subscriptions are named {one.name!r}", remedy="give one of them another name")
        seen[one.name] = one
    return tuple(one for one in seen.values() if one.collects)
