"""What the tests of dialogs share."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.operations import invariants
from tests.databases import box_with
from tests.dialogs.far_boxes import two_boxes


def with_two_services(box):
    """A box with two services, each with a queue of its own."""
    box.define(
        sq.Contract("AddItem", {"AddItem": "initiator", "ItemAdded": "target", "Note": "any"}),
        sq.Service("Orders", queue="orders"),
        sq.Service("Inventory", queue="inventory", contracts=["AddItem"]),
    )


talk = box_with(with_two_services)


@pytest.fixture
def boxes(databases):
    with two_boxes(databases) as both:
        yield both
        for one in both:
            assert invariants.broken(one) == []
