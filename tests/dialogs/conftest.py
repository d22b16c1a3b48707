"""What the tests of dialogs share."""

from __future__ import annotations

import pytest

import seriatim as sq


@pytest.fixture
def talk(box):
    """A box with two services, each with a queue of its own."""
    box.define(
        sq.Contract("AddItem", {"AddItem": "initiator", "ItemAdded": "target", "Note": "any"}),
        sq.Service("Orders", queue="orders"),
        sq.Service("Inventory", queue="inventory", contracts=["AddItem"]),
    )
    return box
