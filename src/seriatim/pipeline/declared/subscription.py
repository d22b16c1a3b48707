"""The subscription: a filter, and the destination of matching messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Literal

from seriatim.errors import UsageError, shown
from seriatim.kernel.arguments import refusing
from seriatim.kernel.fields import Choice, Declaration, Plain, Text, Texts, takes
from seriatim.pipeline.declared.function import checked_function
from seriatim.pipeline.declared.kinds import Name, OwnName

STATES = ("started", "stopped", "enlisted", "unenlisted")


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class Subscription(Declaration):
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

    _noun = "subscription"
    name: str = takes(OwnName("a subscription's name"))
    where: str = takes(Text("a filter; TRUE for all messages", blank=False))
    to: str = takes(Name("a subscription's destination"))
    state: Literal["started", "stopped", "enlisted", "unenlisted"] = takes(Choice(STATES), "started")
    _: KW_ONLY
    starts: str | None = takes(Text(further=checked_function), None)
    correlate: Plain[tuple[str, ...], Sequence[str]] = takes(
        Texts(Name("a property"), "a list of names of properties", once=True), ()
    )

    def __post_init__(self) -> None:
        self._check_fields()
        if self.starts is None and self.correlate:
            raise self._wrong(("correlate", "starts"), "correlate needs starts", "give starts, as module:function")
        if self.starts is not None and not self.correlate:
            raise self._wrong(
                ("starts", "correlate"),
                "starts needs correlate: the properties that lead messages to an instance",
                "name the properties by which messages find the instance: the group of the queue first",
            )

    @property
    def collects(self) -> bool:
        """Whether messages that pass the filter go to the destination."""
        return self.state != "unenlisted"


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
