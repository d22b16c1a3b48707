"""A link that is removed ends its dialogs: each side says so, and nothing stands still, here or in the other box."""

from __future__ import annotations

import json
import logging
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

import seriatim as sq
from seriatim.box.definitions.links import linked
from seriatim.box.dialogs.clock import forget_closed
from seriatim.operations import links
from tests.blocked import wait_until_blocked
from tests.box.links.backups import back_up, restore
from tests.dialogs.far_boxes import begun, exchange, received, two_boxes
from tests.dialogs.talking import let_expire, states

pytestmark = pytest.mark.dear


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


def removed(box, link, **options):
    return links.remove(box, link, actor="ann", reason="they part", **options)


def made_anew(north, south):
    """The south forgets the north with all its dialogs, and accepts it again; returns how many messages are gone."""
    with south.session() as tx:
        ((role,),) = tx.connection.execute(f"SELECT role::text FROM {south.schema}.known_links").fetchall()
    gone = removed(south, "north", force=True)
    links.accept(south, "north", role=role, other=str(north.id), services=["Buyer"], actor="ann", reason="they make up")
    return gone


def settled(north, south):
    """All that waits is carried both ways, and obeyed."""
    for _ in range(4):
        exchange(north)
        for one in (north, south):
            one.tick()


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


@pytest.mark.parametrize("who", ["north", "south"])
def test_a_link_is_removed_with_its_open_dialogs_only_if_forced(boxes, who):
    north, south = boxes
    box, link, queue, own = (
        (north, "south", "bought", talking(boxes)[0])
        if who == "north"
        else (south, "north", "sales", talking(boxes)[1])
    )
    if who == "north":
        north.drop(service="Seller")
        with pytest.raises(sq.ActionRefused, match="it has 1 open dialog"):
            north.drop(link="south")
    with pytest.raises(sq.ActionRefused, match="it has 1 open dialog"):
        removed(box, link)
    assert removed(box, link, force=True) == 0
    assert errors(box, queue) == [-4]
    assert states(box) == {own: "ER"}
    with box.session() as tx:
        tx.end(own)
    assert states(box) == {own: "CD"}


def test_messages_that_came_and_have_no_side_yet_keep_their_link(boxes):
    north, south = boxes
    begun(north, "Header", "Line")
    exchange(north, 1)
    with pytest.raises(sq.ActionRefused, match="messages wait: 2"):
        removed(south, "north")
    assert removed(south, "north", force=True) == 2


def test_a_side_that_begins_while_its_link_is_removed_fails_as_the_others_do(boxes):
    north, south = boxes
    begun(north, "Header")
    exchange(north)
    with ThreadPoolExecutor(1) as threads, psycopg.connect(south.dsn) as obeying:
        obeying.execute(f"SELECT {south.schema}.fire_dialogs(10)")
        removal = threads.submit(removed, south, "north", force=True)
        wait_until_blocked(south.dsn, obeying)
        obeying.commit()
        assert removal.result() == 1
    assert set(states(south).values()) == {"ER"}
    assert errors(south, "sales") == [-4]


def test_messages_that_havent_left_keep_their_link(boxes):
    north, _ = boxes
    begun(north, "Header", "Line")
    north.drop(service="Seller")
    with pytest.raises(sq.ActionRefused, match="messages wait: 2"):
        removed(north, "south")
    assert removed(north, "south", force=True) == 2
    assert errors(north, "bought") == [-4]


@pytest.mark.parametrize("ends", [False, True], ids=["it goes on", "it ends with an error"])
def test_the_other_side_of_a_dialog_whose_link_was_made_anew_fails_and_stops_no_other_one(boxes, ends):
    north, south = boxes
    handle, own = talking(boxes)
    assert made_anew(north, south) == 0
    with north.session() as tx:
        if ends:
            tx.end(handle, error=(7, "no money"))
        else:
            tx.send(handle, "Line", b"more")
    settled(north, south)
    assert states(south) == {own: "ER"}
    assert states(north) == {handle: "CD" if ends else "ER"}
    assert errors(north, "bought") == ([] if ends else [-4])
    other = begun(north, "Header")
    exchange(north)
    assert errors(south, "sales") == [-4]
    assert received(south, "sales") == [("Header", 0, b"Header")]
    with north.session() as tx:
        tx.end(other, error=(8, "the control stream goes on"))
    exchange(north)
    assert errors(south, "sales") == [8]


def test_a_begin_that_is_sent_again_over_a_link_that_was_made_anew_begins_no_second_dialog(databases):
    with two_boxes(databases, keep_sent="1d") as (north, south):
        handle, own = talking((north, south))
        made_anew(north, south)
        with north.session() as tx:
            tx.send(handle, "Line", b"more")
        settled(north, south)
        assert states(south) == {own: "ER"}
        assert errors(north, "bought") == [-4]


@pytest.mark.parametrize("how", ["the link is made anew", "the box is restored"])
def test_a_dialog_has_a_number_above_those_that_are_forgotten(boxes, how):
    north, south = boxes
    back_up(north)
    handle, own = talking(boxes)
    for box, one in ((north, handle), (south, own)):
        with box.session() as tx:
            tx.end(one)
        exchange(north)
    south.tick()
    with south.access.transaction() as transaction:
        assert forget_closed(transaction, 0) == 1
    if how == "the box is restored":
        restore(north)
    else:
        with north.access.transaction() as transaction:
            link = linked(transaction)["south"]
        north.drop(service="Seller")
        north.drop(link="south")
        north.define(link, sq.Service("Seller", at="south"))
    begun(north, "Header")
    exchange(north, 5)
    assert received(south, "sales") == [("Header", 0, b"Header")]
