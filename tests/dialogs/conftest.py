"""What the tests of dialogs share."""

from __future__ import annotations

import seriatim as sq
from tests.databases import box_with


def with_two_services(box):
    """A box with two services, each with a queue of its own."""
    box.define(
        sq.Contract("AddItem", {"AddItem": "initiator", "ItemAdded": "target", "Note": "any"}),
        sq.Service("Orders", queue="orders"),
        sq.Service("Inventory", queue="inventory", contracts=["AddItem"]),
    )


talk = box_with(with_two_services)
