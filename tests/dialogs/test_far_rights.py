"""Who may talk to services of other boxes, in Python and in SQL, and what of them a role sees in SQL."""

from __future__ import annotations

from contextlib import contextmanager
from uuid import uuid4

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import sql

import seriatim as sq
from seriatim.cli.main import main
from seriatim.operations import dialogs
from seriatim.operations.grants import grant, grants, revoke
from tests.box import roles
from tests.dialogs.far_boxes import exchange, received, two_boxes


@pytest.fixture
def boxes(databases):
    with two_boxes(databases) as both:
        yield both


@contextmanager
def clerk(box, **rights):
    """A role with rights in a box."""
    name = f"clerk_{uuid4().hex[:12]}"
    roles.make(box, name)
    try:
        grant(box, name, **rights)
        yield name
    finally:
        with psycopg.connect(box.dsn, autocommit=True) as connection:
            connection.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(name)))


def test_a_role_needs_the_right_to_send_to_a_service_elsewhere(boxes):
    north, south = boxes
    with clerk(north, receive=["bought"]) as name, roles.as_role(north, name) as theirs:
        with theirs.session() as tx:
            handle = tx.begin_dialog("Buyer", "Seller", contract="PurchaseOrder")
        with (
            pytest.raises(sq.EnvironmentProblem, match=r'may not send to the service "Seller" of another box'),
            theirs.session() as tx,
        ):
            tx.send(handle, "Header", b"0")
        grant(north, name, send=["Seller"])
        assert [one.send for one in grants(north) if one.role == name] == [["Seller"]]
        with theirs.session() as tx:
            tx.send(handle, "Header", b"1")
        revoke(north, name, send=["Seller"])
        with pytest.raises(sq.EnvironmentProblem, match="may not send"), theirs.session() as tx:
            tx.send(handle, "Line", b"2")
    exchange(north)
    assert received(south, "sales") == [("Header", 0, b"1")]


def test_a_role_answers_a_service_elsewhere_with_the_right_to_send_there(boxes):
    north, south = boxes
    with north.session() as tx:
        tx.send(tx.begin_dialog("Buyer", "Seller", contract="PurchaseOrder"), "Header", b"0")
    exchange(north)
    with (
        clerk(south, receive=["sales"], send=["Buyer"]) as name,
        roles.as_role(south, name) as theirs,
        theirs.session() as tx,
    ):
        (message,) = tx.receive("sales")
        tx.send(message.dialog.handle, "Answer", b"yes")
        tx.end(message.dialog.handle)
    exchange(north)
    assert received(north, "bought") == [("Answer", 0, b"yes"), ("EndDialog", 1, b"")]


@pytest.mark.parametrize("service", ["Buyer", "Nobody"])
def test_only_services_elsewhere_are_granted(boxes, service):
    north, _ = boxes
    with (
        clerk(north, receive=["bought"]) as name,
        pytest.raises(sq.NotFound, match=r"there is no service .* of another box"),
    ):
        grant(north, name, send=[service])


def test_sql_talks_to_a_service_elsewhere(boxes):
    north, south = boxes
    with clerk(north, receive=["bought"], send=["Seller"]) as name:
        ((handle,),) = roles.in_sql(north, name, "SELECT box.begin_dialog('Buyer', 'Seller', 'PurchaseOrder')")
        roles.in_sql(north, name, "SELECT box.send(%s, 'Header', 'from SQL')", [handle])
        exchange(north)
        assert received(south, "sales") == [("Header", 0, b"from SQL")]
        roles.in_sql(north, name, "SELECT box.end_dialog(%s)", [handle])
    exchange(north)
    assert received(south, "sales") == [("EndDialog", 1, b"")]


def test_what_a_role_sees_of_the_catalogue(boxes):
    north, _ = boxes
    exchange(north)
    north.define(
        sq.MessageType("Header", properties={"customer": "string"}),
        sq.Service("Own", queue="own", contracts=["PurchaseOrder"]),
    )
    with north.session() as tx:
        handle = tx.begin_dialog("Buyer", "Seller", contract="PurchaseOrder")
        tx.send(handle, "Header", b"123")
        other = tx.begin_dialog("Own", "Seller", contract="PurchaseOrder")
        tx.send(other, "Header", b"4")
    waiting = (
        "SELECT handle, to_service, link, sequence, type, body_bytes, status FROM box.transmission ORDER BY body_bytes"
    )
    status = 'it waits for the link "south"'
    mine = (handle, "Seller", "south", 0, "Header", 3, status)
    listed = CliRunner().invoke(main, ["dialogs", "list", "--waiting", "--dsn", north.dsn, "--schema", north.schema])
    assert status in listed.output
    with clerk(north, receive=["bought"]) as name:

        def seen(statement):
            return roles.in_sql(north, name, statement)

        assert seen("SELECT service, queue, at FROM box.services") == [("Buyer", "bought", [])]
        assert seen("SELECT link FROM box.links") == []
        grant(north, name, send=["Seller"])
        assert seen("SELECT service, queue, at FROM box.services ORDER BY 1") == [
            ("Buyer", "bought", []),
            ("Seller", None, ["south"]),
        ]
        assert seen("SELECT link, has_address FROM box.links") == [("south", True)]
        assert seen("SELECT message_type, properties FROM box.message_types") == [("Header", {"customer": "string"})]
        assert ("PurchaseOrder", "Answer", "target") in seen(
            "SELECT contract, message_type, sent_by FROM box.contracts"
        )
        assert seen(waiting) == [mine]
        assert roles.rows(north, waiting) == [(other, "Seller", "south", 0, "Header", 1, status), mine]
        exchange(north)
        assert seen(waiting) == []
        ((left, *_, refused),) = roles.rows(north, waiting)  # the south knows no such service
        assert left == other
        assert "refuses it" in refused
        mine = [("south", "out", "Seller", True)]
        assert seen("SELECT link, direction, destination, sent = acknowledged FROM box.link_streams") == mine
        assert len(roles.rows(north, "SELECT key FROM box.link_streams")) == 2
        for one in roles.CATALOGUE:
            seen(f"SELECT * FROM box.{one}")
    stranger = f"stranger_{uuid4().hex[:12]}"
    roles.make(north, stranger)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        roles.in_sql(north, stranger, "SELECT * FROM box.services")


def test_a_side_shows_where_it_is_and_since_when_nobody_answers(boxes):
    north, south = boxes
    with north.session() as tx:
        handle = tx.begin_dialog("Buyer", "Seller", contract="PurchaseOrder")
        tx.send_many([(handle, "Header", b"1"), (handle, "Line", b"2")])
    (view,) = dialogs.dialogs(north, unanswered=0)
    assert (view.link, view.stream, view.acknowledged, view.waiting) == ("south", None, 0, 2)
    assert view.unanswered_since is not None
    assert dialogs.dialogs(north, unanswered="1h") == []
    exchange(north)
    (view,) = dialogs.dialogs(north, handle=handle)
    assert (view.far_box, view.acknowledged, view.waiting, view.unanswered_since) == (south.id, 2, 0, None)
    assert view.stream.count("/") == 1
    assert view.last_contact is not None
    assert dialogs.dialogs(north, unanswered=0) == []
    with north.session() as tx:
        tx.end(handle, error=(3, "no"))
    (view,) = dialogs.dialogs(north, unanswered=0)
    assert (view.waiting, view.acknowledged) == (1, 2)
