"""Subscriptions, which can be stopped and started."""

from __future__ import annotations

from markupsafe import Markup

from seriatim.console.lists import list_page
from seriatim.operations import subscriptions
from seriatim.operations.tables.subscriptions import SUBSCRIPTIONS
from seriatim.operations.tables.table import text_only

_TABLE = SUBSCRIPTIONS.extended(
    "A subscription",
    text_only("starts", lambda one: one.declared.starts, "the handler of the instances that it starts"),
)
PAGE = list_page(
    "subscriptions",
    "Subscriptions",
    subscriptions.subscriptions,
    SUBSCRIPTIONS,
    shown=_TABLE,
    links={"queue": lambda one: ("queues", one.declared.to)},
    nothing="There are no subscriptions.",
    hint=Markup("Define one with <code>sq.Subscription</code>: <code>seriatim docs how-to/subscribe</code>."),
    template="subscriptions.html",
    section="Box",
)
