"""Subscriptions, which can be stopped and started."""

from __future__ import annotations

from markupsafe import Markup

from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.operations.tables.subscriptions import SUBSCRIPTIONS
from seriatim.operations.tables.table import text_only

__all__ = ["PAGE"]

_TABLE = SUBSCRIPTIONS.extended(
    "A subscription",
    text_only("starts", lambda one: one.declared.starts, "the handler of the instances that it starts"),
)
_TEMPLATE = "subscriptions.html"


def _read(asked: Asked) -> Answer:
    rows = [one for _, one in sorted(asked.box.definitions().subscriptions.items())]
    links = {"queue": lambda one: ("queues", one.declared.to)}
    listing = Listing(
        _TABLE,
        rows,
        "Subscriptions",
        links=links,
        nothing="There are no subscriptions.",
        hint=Markup("Define one with <code>sq.Subscription</code>: <code>seriatim docs how-to/subscribe</code>."),
    )
    return Answer(SUBSCRIPTIONS.objects_of(rows), listing=listing)


PAGE = Page(("subscriptions",), "Subscriptions", _read, _TEMPLATE, section="Box")
