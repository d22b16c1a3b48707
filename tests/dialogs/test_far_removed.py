"""Dialogs whose link is gone end as others do, and a dialog that can't be ended stops no other one."""

from __future__ import annotations

import json
import logging

import psycopg
import pytest

from seriatim.operations import invariants
from tests.dialogs.far_boxes import exchange, received, two_boxes
from tests.dialogs.talking import let_expire, states

pytestmark = pytest.mark.dear


@pytest.fixture
def boxes(databases):
    with two_boxes(databases) as both:
        yield both
        for one in both:
            assert invariants.broken(one) == []


def begun(north, *kinds):
    with north.session() as tx:
        handle = tx.begin_dialog("Buyer", "Seller", contract="PurchaseOrder")
        for kind in kinds:
            tx.send(handle, kind, kind.encode())
    return handle


def talking(boxes):
    """A dialog in which both boxes have received something: its handles in the north and in the south."""
    north, south = boxes
    handle = begun(north, "Header")
    exchange(north)
    with south.session() as tx:
        (first,) = tx.receive("sales").messages
        tx.send(first.dialog.handle, "Answer", b"yes")
    exchange(north)
    assert received(north, "bought") == [("Answer", 0, b"yes")]
    return handle, first.dialog.handle


def without_link(box):
    """The links of a box are gone, as older versions removed them: their dialogs stay as they are."""
    with box.session() as tx:
        tx.connection.execute(f"DELETE FROM {box.schema}.known_links")


def errors(box, queue):
    """The codes of the errors that a queue gives next."""
    return [json.loads(body)["code"] for kind, _, body in received(box, queue) if kind == "Error"]


def test_the_lifetime_of_a_dialog_without_its_link_ends(boxes):
    _, south = boxes
    _, own = talking(boxes)
    without_link(south)
    let_expire(south, own)
    assert south.tick().dialogs == 1
    assert errors(south, "sales") == [-1]
    assert states(south) == {own: "ER"}


@pytest.mark.parametrize("how", [{"cleanup": True}, {"error": (7, "no money")}, {}], ids=str)
def test_a_dialog_without_its_link_can_be_ended(boxes, how):
    _, south = boxes
    _, own = talking(boxes)
    without_link(south)
    with south.session() as tx:
        tx.end(own, **how)
    with south.session() as tx:
        tx.end(own, cleanup=True)
    assert states(south) == {own: "CD"}


def test_a_dialog_that_cannot_be_ended_stops_no_other_one(boxes, caplog):
    north, _ = boxes
    bad, good = begun(north, "Header"), begun(north, "Header")
    for one in (bad, good):
        let_expire(north, one)
    with psycopg.connect(north.dsn, autocommit=True) as connection:
        connection.execute(
            f"CREATE FUNCTION {north.schema}.refuse_rows() RETURNS trigger LANGUAGE plpgsql"
            " AS $$ BEGIN RAISE EXCEPTION 'it cannot fail'; END $$;"
            f"CREATE TRIGGER refuses BEFORE UPDATE ON {north.schema}.endpoints FOR EACH ROW"
            f" WHEN (NEW.handle = '{bad}' AND NEW.state = 'ER') EXECUTE FUNCTION {north.schema}.refuse_rows()"
        )
        with caplog.at_level(logging.ERROR, "seriatim.box"):
            assert north.tick().dialogs == 1
            assert north.tick().dialogs == 0
            assert errors(north, "bought") == [-1]
            assert errors(north, "bought") == []
        assert [one.getMessage() for one in caplog.records] == [
            f"the timer or the end of the lifetime of dialog {bad} fails, and is tried again: it cannot fail"
        ]
        connection.execute(f"DROP FUNCTION {north.schema}.refuse_rows CASCADE")
    assert north.tick().dialogs == 1
    assert errors(north, "bought") == [-1]
