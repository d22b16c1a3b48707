"""The subscription: a filter, and the destination of matching messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from seriatim.errors import Argument, UsageError, shown
from seriatim.kernel.arguments import refusing
from seriatim.pipeline.declared.function import checked_function
from seriatim.pipeline.text.name import checked_name

__all__ = ["STATES", "Subscription", "distinct"]

STATES = ("started", "stopped", "enlisted", "unenlisted")


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class Subscription:
    """A filter that leads matching messages to a queue.

    Args:
        name: its name, unique among the subscriptions of one router.
        where: the filter, see ``docs/reference/filters.md``. It is parsed later, when the properties are known.
        to: the destination of the messages for which the filter is TRUE.
        state: ``"started"``; ``"enlisted"`` (not started yet) or ``"stopped"``: it collects messages that the box doesn't
            hand out; ``"unenlisted"``: it collects nothing. On Spark the first three are the same.
        starts: the handler of instances, as ``module:name``; makes this a *starting subscription*. The first message of a
            group then starts an instance, which gets the group's messages until it ends. Only in a message box.
        correlate: the properties that lead messages to an instance: first the group of the queue, then the properties for
            which a running instance may add values. Only with `starts`.

    Raises:
        UsageError: a name, filter or destination is empty or no text; there is no such state; `starts` names no function;
            or `starts` is given without `correlate`.
    """

    name: str
    where: str
    to: str
    state: Literal["started", "stopped", "enlisted", "unenlisted"] = "started"
    _: KW_ONLY
    starts: str | None = None
    correlate: Sequence[str] = ()

    def __post_init__(self) -> None:
        checked_name(self.name, "a subscription's name", "name")
        checked_name(self.to, "a subscription's destination", "to")
        if not isinstance(self.where, str) or not self.where.strip():
            raise self._wrong("where", f"{shown(self.where)} is not a filter", "write TRUE for all messages")
        if self.state not in STATES:
            raise self._wrong("state", f"state can't be {shown(self.state)}", f"one of {', '.join(STATES)}")
        object.__setattr__(self, "correlate", self._checked_correlation())

    @property
    def collects(self) -> bool:
        """Whether messages that pass the filter go to the destination."""
        return self.state != "unenlisted"

    def _checked_correlation(self) -> tuple[str, ...]:
        names = self.correlate
        if isinstance(names, str) or not isinstance(names, Sequence):
            raise self._wrong("correlate", f"correlate can't be {shown(names)}", "a list of names of properties")
        for name in names:
            checked_name(name, f"a property (correlate of subscription {self.name!r})", "correlate")
        if len(set(names)) != len(names):
            raise self._wrong("correlate", "correlate names a property twice", "name each once")
        if self.starts is None and names:
            raise self._wrong(("correlate", "starts"), "correlate needs starts", "give starts, as module:function")
        if self.starts is not None:
            checked_function(self.starts, "starts")
            if not names:
                raise self._wrong(
                    ("starts", "correlate"),
                    "starts needs correlate: the properties that lead messages to an instance",
                    "name the properties by which messages find the instance: the group of the queue first",
                )
        return tuple(names)

    def _wrong(self, argument: Argument, what: str, remedy: str) -> UsageError:
        return UsageError(what, where=f"subscription {self.name!r}", remedy=remedy, argument=argument)


def distinct(subscriptions: Iterable[Subscription]) -> tuple[Subscription, ...]:
    """Check that all subscriptions have different names, and return the subscriptions that collect messages."""
    seen: dict[str, Subscription] = {}
    for one in subscriptions:
        if not isinstance(one, Subscription):
            raise UsageError(f"{shown(one)} is not a subscription", remedy="Subscription(name, where=…, to=…)")
        if one.name in seen:
            raise UsageError(f"two subscriptions are named {one.name!r}", remedy="give one of them another name")
        seen[one.name] = one
    return tuple(one for one in seen.values() if one.collects)
