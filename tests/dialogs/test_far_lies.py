"""What a peer says that isn't so: each record is refused or makes the dialog end, on both sides, and nothing waits without a reason."""

from __future__ import annotations

import json
from uuid import uuid4

import psycopg
import pytest

import seriatim as sq
from seriatim.operations import dialogs, links
from seriatim.testing.clock import SEARCH_PATH, make_movable
from tests.dialogs.far_boxes import ORDER, begun, exchange, received
from tests.dialogs.talking import let_expire, states

pytestmark = pytest.mark.dear


def header(south, **said):
    """What a record of the north looks like that begins a dialog; with a lie in it."""
    with south.session() as tx:
        (types,) = tx.connection.execute(
            f"SELECT encode(sha256(convert_to((definition -> 'types')::text, 'UTF8')), 'hex') FROM {south.schema}.known_contracts"
            " WHERE contract = 'PurchaseOrder'"
        ).fetchone()
        conversation = uuid4()
        (chain,) = tx.connection.execute(
            f"SELECT encode({south.schema}.first_dialog_chain(%s, TRUE), 'hex')", [conversation]
        ).fetchone()
    return {
        "kind": "number", "conversation": str(conversation), "initiator": True, "number": [1, 1], "service": "Buyer",
        "far_service": "Seller", "contract": "PurchaseOrder", "types": types, "priority": 5, "lifetime": None, "sealed": False,
        "sequence": 0, "chain": chain, "got": 0, "type": "Header", "content_type": None, "code": None, "text": None, **said,
    }  # fmt: skip


def stops(south, record):
    """Why the south takes no such record: empty, it never does; None: it does."""
    with south.session() as tx:
        return tx.connection.execute(
            f"SELECT {south.schema}.link_stops(link_id, %s) FROM {south.schema}.known_links", [json.dumps(record)]
        ).fetchone()[0]


def taken(south, record, body=b""):
    """The south takes a record, and obeys it."""
    with south.session() as tx:
        tx.connection.execute(
            f"SELECT {south.schema}.link_take_record(link_id, %s, %s, FALSE) FROM {south.schema}.known_links",
            [json.dumps(record), body],
        )
    south.tick()


@pytest.mark.telling
def test_the_truth_is_taken(boxes):
    _, south = boxes
    record = header(south)
    assert stops(south, record) is None
    taken(south, record, b"1")
    assert received(south, "sales") == [("Header", 0, b"1")]


@pytest.mark.parametrize(
    ("lie", "why"),
    [
        ({"lifetime": -1}, "other fields"), ({"lifetime": "long"}, "other fields"), ({"sequence": -1}, "other fields"),
        ({"sequence": 10**16}, "other fields"), ({"priority": 11}, "other fields"), ({"type": "Error"}, "other fields"),
        ({"type": "Timer"}, "other fields"), ({"type": ""}, "other fields"), ({"number": [1]}, "other fields"),
        ({"number": [0, 1]}, "other fields"), ({"number": 7}, "other fields"), ({"priority": 5.5}, "other fields"), ({"number": ["x", 1]}, "other fields"), ({"chain": "00"}, "other fields"),
        ({"conversation": "'; DROP TABLE"}, "other fields"), ({"kind": "begin"}, "other fields"), ({"initiator": "yes"}, "other fields"),
        ({"contract": ""}, "other fields"), ({"service": None}, "other fields"),
        ({"service": "Bank"}, ""), ({"service": "Seller"}, ""),
        ({"far_service": "Bank"}, 'there is no service "Bank"'), ({"contract": "Other"}, 'doesn\'t accept the contract "Other"'),
        ({"types": "00"}, 'the contract "PurchaseOrder" has other types in the two boxes'),
    ],
)  # fmt: skip
def test_a_lie_isnt_taken_and_says_why(boxes, lie, why):
    _, south = boxes
    found = stops(south, header(south, **lie))
    assert found is not None
    assert (why in found) if why else found == ""


@pytest.mark.parametrize("code", [2**31 - 1, -(2**31), 2**31, -(2**31) - 1, 10**10, 1.5, "1", None])
def test_an_error_has_an_integer_of_four_bytes_as_its_code(boxes, code):
    _, south = boxes
    found = stops(south, header(south, kind="error", code=code, text="no money"))
    assert (found is None) == (isinstance(code, int) and -(2**31) <= code < 2**31)


@pytest.mark.parametrize("text", ["", "[]", "null", '{"kind": "number"}', '{"kind": "gone", "kind": "gone"}', "{"])
def test_what_is_no_record_isnt_taken(boxes, text):
    _, south = boxes
    with south.session() as tx:
        (found,) = tx.connection.execute(
            f"SELECT {south.schema}.link_stops(link_id, %s) FROM {south.schema}.known_links", [text]
        ).fetchone()
    assert "other fields" in found


def test_a_conversation_of_a_third_box_isnt_touched(boxes):
    north, south = boxes
    with south.session() as tx:
        south_only = tx.begin_dialog("Seller", "Seller", contract="PurchaseOrder")
        tx.send(south_only, "Header", b"inside")
        (conversation,) = tx.connection.execute(
            f"SELECT conversation_id FROM {south.schema}.endpoints LIMIT 1"
        ).fetchone()
    for record in (
        header(south, conversation=str(conversation)),
        {
            "kind": "error",
            "conversation": str(conversation),
            "initiator": True,
            "number": [1, 1],
            "code": 1,
            "text": "mine",
        },
        {
            "kind": "gone",
            "conversation": str(conversation),
            "initiator": False,
            "number": [1, 1],
            "code": 1,
            "text": "mine",
        },
    ):
        assert stops(south, record) == ""
        taken(south, record)
    exchange(north)
    assert received(south, "sales") == [("Header", 0, b"inside")]
    assert states(south)[south_only] == "CO"


def test_a_sequence_that_jumps_is_another_history_on_both_sides(boxes):
    north, south = boxes
    handle = begun(north, "Header")
    exchange(north)
    with north.session() as tx:  # It has a message less than it says.
        tx.connection.execute(
            f"UPDATE {north.schema}.endpoints SET send_sequence = send_sequence + 5 WHERE handle = %s", [handle]
        )
        tx.send(handle, "Line", b"6")
    exchange(north, 4)
    assert [one[0] for one in received(south, "sales")] == ["Error", "Header"]
    exchange(north)
    ((kind, _, body),) = received(north, "bought")
    assert (kind, json.loads(body)["code"]) == ("Error", -4)
    assert "one has sent 6, and 1 of them came" in json.loads(body)["text"]
    for one in boxes:
        assert set(states(one).values()) == {"ER"}


@pytest.mark.parametrize("ahead", ["north", "south"])
def test_clocks_an_hour_apart_change_no_lifetime(boxes, ahead):
    """What is left of the lifetime travels, and each box counts by its own clock: moments of the two are never compared."""
    name, schema = boxes[["north", "south"].index(ahead)].dsn, boxes[0].schema
    make_movable(name, schema)
    with psycopg.connect(name) as connection:
        connection.execute("UPDATE seriatim_clock.moved SET by = '1 hour'")
        database = psycopg.sql.Identifier(connection.info.dbname)
        connection.execute(psycopg.sql.SQL(f"ALTER DATABASE {{}} SET search_path = {SEARCH_PATH}").format(database))
    with (
        sq.MessageBox.open(boxes[0].dsn, schema=schema) as north,
        sq.MessageBox.open(boxes[1].dsn, schema=schema) as south,
    ):
        _expires(north, south)


def _expires(north, south):
    handle = begun(north, "Header", lifetime="30m")
    exchange(north)
    for one in (north, south):
        one.tick()
        with one.session() as tx:
            (lives,) = tx.connection.execute(
                f"SELECT extract(epoch FROM expires_at - began_at) FROM {one.schema}.endpoints"
            ).fetchone()
        assert 1500 < lives <= 1801
    assert received(south, "sales") == [("Header", 0, b"Header")]
    let_expire(north, handle)
    north.tick()
    exchange(north)
    for box, queue in ((north, "bought"), (south, "sales")):
        assert [json.loads(body)["code"] for _, _, body in received(box, queue)] == [-1]
        assert received(box, queue) == []


def test_a_contract_that_differs_waits_and_goes_on_when_it_is_mended(boxes):
    north, south = boxes
    north.define(sq.Contract("Other", {"Header": "any"}))
    south.define(
        sq.Contract("Other", {"Header": "initiator"}), sq.Service("Seller", queue="sales", contracts=["PurchaseOrder", "Other"])
    )  # fmt: skip
    with north.session() as tx:
        handle = tx.begin_dialog("Buyer", "Seller", contract="Other")
        tx.send(handle, "Header", b"1")
    exchange(north)
    assert (
        'the contract "Other" has other types in the two boxes'
        in dialogs.dialogs(north, handle=handle)[0].transmission_status
    )
    south.define(sq.Service("Seller", queue="sales", contracts=["PurchaseOrder"]))
    south.drop(contract="Other")
    south.define(
        sq.Contract("Other", {"Header": "any"}), sq.Service("Seller", queue="sales", contracts=["PurchaseOrder", "Other"])
    )  # fmt: skip
    exchange(north)
    assert received(south, "sales") == [("Header", 0, b"1")]
    assert ORDER.name == "PurchaseOrder"


def test_a_service_that_may_not_speak_any_more_is_told_so_at_its_sender(boxes):
    north, south = boxes
    handle = begun(north, "Header")
    exchange(north)
    assert received(south, "sales") == [("Header", 0, b"Header")]
    with south.session() as tx:
        tx.connection.execute(f"UPDATE {south.schema}.known_links SET services = '{{}}'")
    with north.session() as tx:
        tx.send(handle, "Line", b"1")
    exchange(north)
    (view,) = dialogs.dialogs(north, handle=handle)
    assert view.waiting == 1
    assert "refuses it" in view.transmission_status
    assert links.transmission(north, waiting=True)[0].last_error
