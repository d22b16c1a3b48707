"""Subscriptions."""

from __future__ import annotations

from seriatim.box.definitions.definition import BoxSubscription
from seriatim.operations.tables.table import Column, Table

SUBSCRIPTIONS: Table[BoxSubscription] = Table(
    "A subscription",
    Column("subscription", value=lambda one: one.declared.name, meaning="its name"),
    Column("queue", value=lambda one: one.declared.to, meaning="the queue to which it leads"),
    Column("state", meaning="`started`, `stopped` or `unenlisted`"),
    Column(
        "where",
        value=lambda one: one.declared.where,
        shown=lambda one: one.declared.where or "all messages",
        meaning="its filter; null: all messages",
    ),
    Column("role", optional=True, meaning="the role that it belongs to; the owner's subscriptions have none"),
    Column(
        "types",
        value=lambda one: None if one.role is None else list(one.types or ()),
        optional=True,
        meaning="the message types that are granted to the role now",
    ),
    row=BoxSubscription,
    lacks=("subscription_id", "declared"),
    nothing="there are no subscriptions",
)
