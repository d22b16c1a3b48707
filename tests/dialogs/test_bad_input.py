"""What can't be: each with a stated error, after which the transaction goes on, or with a stated end of the dialog."""

from __future__ import annotations

import json
from uuid import UUID

import psycopg
import pytest

import seriatim as sq
from seriatim.operations import dialogs, messages
from tests.dialogs.talking import begun, far_of, states, taken

NOBODY = UUID(int=4711)
LONG = "x" * 300


@pytest.mark.dear
@pytest.mark.parametrize(
    ("wrong", "error", "why"),
    [
        (lambda tx, _h: tx.send(NOBODY, "AddItem"), sq.UsageError, f"there is no dialog with the handle {NOBODY}"),
        (lambda tx, _h: tx.send("no handle", "AddItem"), sq.UsageError, "'no handle' is not a handle"),
        (lambda tx, _h: tx.send(None, "AddItem"), sq.UsageError, "None is not a handle"),
        (lambda tx, h: tx.send(h, "Unheard"), sq.UsageError, 'no message type "Unheard".*AddItem, ItemAdded, Note'),
        (lambda tx, h: tx.send(h, "additem"), sq.UsageError, 'no message type "additem"'),
        (lambda tx, h: tx.send(h, LONG), sq.UsageError, "no message type"),
        (lambda tx, h: tx.send(h, ""), sq.UsageError, "no message type"),
        (lambda tx, h: tx.send(h, "a\0b"), sq.UsageError, "not a name"),
        (lambda tx, h: tx.send(h, "ItemAdded"), sq.UsageError, 'only the target sends "ItemAdded"'),
        (lambda tx, h: tx.send(h, "EndDialog"), sq.UsageError, "the box's own"),
        (lambda tx, h: tx.send(h, "AddItem", "text"), sq.UsageError, "encode it"),
        (lambda tx, h: tx.send_many([(h, "AddItem", b"1"), (h, "Unheard", b"2")]), sq.UsageError, "Unheard"),
        (lambda tx, h: tx.send_many([(h,)]), sq.UsageError, "handle, type, body"),
        (lambda tx, h: tx.send_many([(h, "AddItem", b"", None, "more")]), sq.UsageError, "handle, type, body"),
        (lambda tx, h: tx.send_many([(h, "AddItem", b"1"), h]), sq.UsageError, "handle, type, body"),
        (lambda tx, _h: tx.send_many(["abc"]), sq.UsageError, "handle, type, body"),
        (lambda tx, _h: tx.send_many([None]), sq.UsageError, "handle, type, body"),
        (lambda tx, _h: tx.end(NOBODY), sq.UsageError, "no dialog with the handle"),
        (lambda tx, h: tx.end(h, error=(0, "zero")), sq.UsageError, "a code above 0"),
        (lambda tx, h: tx.end(h, error=(1, "")), sq.UsageError, "a text of 1 to 3000"),
        (lambda tx, h: tx.end(h, error=(1, LONG * 11)), sq.UsageError, "a text of 1 to 3000"),
        (lambda tx, h: tx.end(h, error="why"), sq.UsageError, "code, text"),
        (lambda tx, h: tx.end(h, error=(1, "no"), cleanup=True), sq.UsageError, "cleanup"),
        (lambda tx, _h: tx.set_timer(NOBODY, 1), sq.UsageError, "no dialog"),
        (lambda tx, h: tx.set_timer(h, -1), sq.UsageError, "a timer can't be -1|negative"),
        (lambda tx, h: tx.set_timer(h, "20000d"), sq.UsageError, "10,000 days"),
        (lambda tx, h: tx.move(h, "here"), sq.UsageError, "not a conversation group"),
        (lambda tx, _h: tx.move(NOBODY, NOBODY), sq.UsageError, "no dialog"),
        (lambda tx, h: tx.receive("inventory", dialog=h), sq.UsageError, "elsewhere"),
        (lambda tx, h: tx.receive("orders", dialog=h, group="another"), sq.UsageError, "elsewhere"),
        (lambda tx, _h: tx.receive("orders", dialog=NOBODY), sq.UsageError, "no dialog"),
        (lambda tx, _h: tx.begin_dialog("Nobody", "Inventory", contract="AddItem"), sq.UsageError, 'service "Nobody"'),
        (lambda tx, _h: tx.begin_dialog("orders", "Inventory", contract="AddItem"), sq.UsageError, 'service "orders"'),
        (lambda tx, _h: tx.begin_dialog(LONG, "Inventory", contract="AddItem"), sq.UsageError, "no service"),
        (lambda tx, _h: tx.begin_dialog("Orders", LONG, contract="AddItem"), sq.UsageError, "1 to 128"),
        (lambda tx, _h: tx.begin_dialog("Orders", "", contract="AddItem"), sq.UsageError, "1 to 128"),
        (lambda tx, _h: tx.begin_dialog("Orders", "Inventory", contract=LONG), sq.UsageError, "no contract"),
        (lambda tx, _h: tx.begin_dialog("Orders", 7, contract="AddItem"), sq.UsageError, "by its name"),
        (lambda tx, _h: tx.begin_dialog("Orders", "Inventory", priority=11), sq.UsageError, "a priority"),
        (
            lambda tx, _h: tx.begin_dialog("Orders", "Inventory", encryption=True),
            sq.UsageError,
            "can't be encrypted yet",
        ),
        (
            lambda tx, _h: tx.begin_dialog("Orders", "Inventory", encryption=None),
            sq.UsageError,
            "can't be encrypted yet",
        ),
        (lambda tx, _h: tx.begin_dialog("Orders", "Inventory", lifetime=0), sq.UsageError, "a lifetime"),
        (lambda tx, _h: tx.begin_dialog("Orders", "Inventory", lifetime="soon"), sq.UsageError, "soon"),
        (lambda tx, h: tx.begin_dialog("Orders", "Inventory", handle=h), sq.UsageError, "already"),
        (lambda tx, _h: tx.begin_dialog("Orders", "Inventory", related_to=NOBODY), sq.UsageError, "no dialog"),
        (lambda tx, h: tx.begin_dialog("Inventory", "Orders", related_to=h), sq.UsageError, "another queue"),
        (lambda tx, h: tx.begin_dialog("Orders", "Inventory", related_to=h, group=h), sq.UsageError, "say the same"),
        (lambda tx, _h: tx.begin_monolog("Orders", "Inventory"), sq.UsageError, "by its name"),
        (lambda tx, _h: tx.begin_monolog("Orders", []), sq.UsageError, "no service that it goes to"),
        (lambda tx, _h: tx.begin_monolog("Orders", ["Inventory", "Inventory"]), sq.UsageError, "given once"),
        (lambda tx, _h: tx.receive("orders", wait=1), sq.UsageError, "can't wait in the middle"),
    ],
)
def test_a_verb_that_is_refused_leaves_the_transaction_as_it_was(talk, wrong, error, why):
    handle = begun(talk, b"1")
    with talk.session() as tx:
        tx.send(handle, "AddItem", b"2")
        with pytest.raises(error, match=why):
            wrong(tx, handle)
        tx.send(handle, "AddItem", b"3")
    assert taken(talk, "inventory") == [("AddItem", b"1"), ("AddItem", b"2"), ("AddItem", b"3")]
    assert len(states(talk)) == 2


def test_sent_on_a_closed_dialog(talk):
    handle = begun(talk, b"1")
    with talk.session() as tx:
        tx.end(handle)
        with pytest.raises(sq.ActionRefused, match="this side has ended the dialog"):
            tx.send(handle, "AddItem")
    with talk.session() as tx:
        far = far_of(talk, handle)
        with pytest.raises(sq.ActionRefused, match="the other side has ended the dialog"):
            tx.send(far, "Note")
        tx.end(far)
        with pytest.raises(sq.ActionRefused, match="the dialog is closed"):
            tx.send(far, "Note")


@pytest.mark.parametrize(
    ("wrong", "error", "why"),
    [
        (lambda: sq.Contract(LONG, {"A": "any"}), sq.UsageError, "a contract's name"),
        (lambda: sq.Contract("C", {}), sq.UsageError, "types can't be"),
        (lambda: sq.Contract("C", {"A": "nobody"}), sq.UsageError, "'nobody' can't send 'A'"),
        (lambda: sq.Contract("C", {"A": "target"}), sq.UsageError, "the initiator may send nothing"),
        (lambda: sq.Contract("C", {"Error": "any"}), sq.UsageError, "of the box itself"),
        (lambda: sq.Contract("C", {LONG: "any"}), sq.UsageError, "a message type's name"),
        (lambda: sq.Contract("DEFAULT", {"A": "any"}), sq.ActionRefused, "can't change"),
        (lambda: sq.Contract("AddItem", {"AddItem": "any"}), sq.ActionRefused, "a new version is a new name"),
        (lambda: sq.Service(LONG, queue="q"), sq.UsageError, "a service's name"),
        (lambda: sq.Service("S", queue=""), sq.UsageError, "a queue"),
        (lambda: sq.Service("S", queue="q", contracts="C"), sq.UsageError, "a list of names"),
        (lambda: sq.Service("S", queue="q", contracts=["C", "C"]), sq.UsageError, "twice"),
        (lambda: sq.Service("S", queue="q", contracts=["AddItm"]), sq.UsageError, "did you mean 'AddItem'"),
        (lambda: sq.Service("S", queue="unordered"), sq.UsageError, "dialogs are Fifo"),
        (lambda: sq.Subscription("s", where="TRUE", to="orders"), sq.UsageError, "for the messages of dialogs alone"),
    ],
)
def test_what_cannot_be_defined(talk, wrong, error, why):
    talk.define(sq.Queue("unordered", policy=sq.Unordered()))
    before = talk.definitions()
    with pytest.raises(error, match=why):
        talk.define(wrong())
    assert talk.definitions().services == before.services
    assert talk.definitions().contracts == before.contracts


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ({"contract": "AddItem"}, "services accept it: Inventory"),
        ({"contract": "DEFAULT"}, "every box has it"),
        ({"service": "Orders"}, "it has 1 dialog"),
        ({"queue": "orders"}, "services use it: Orders|it has"),
    ],
)
def test_what_is_used_is_not_dropped(talk, what, why):
    begun(talk, b"1")
    with pytest.raises(sq.ActionRefused, match=why):
        talk.drop(**what)


def test_dropped_when_nothing_uses_it(talk):
    handle = begun(talk)
    with talk.session() as tx:
        tx.end(handle)
        tx.connection.execute(f"SELECT {talk.schema}.forget_closed('0')")
    dropped = talk.drop(contract="AddItem", service=["Orders", "Inventory"], queue=["orders", "inventory"])
    assert {str(one) for one in dropped} == {
        "dropped contract AddItem", "dropped service Orders", "dropped service Inventory", "dropped queue orders",
        "dropped queue inventory",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("validation", "schema", "body", "why"),
    [
        ("empty", None, b"x", "should be empty"),
        ("well_formed_json", None, b"{", "JSON"),
        ("well_formed_xml", None, b"<a>", "XML|tag|Premature"),
        ("valid_json", '{"type": "object"}', b"[]", "object"),
        ("valid_xml", None, b"<b/>", "b"),
    ],
)
def test_a_body_that_is_not_valid(talk, validation, schema, body, why):
    if validation == "valid_xml":
        schema = '<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="a"/></xs:schema>'
    talk.define(sq.MessageType("AddItem", validation=validation, schema=schema))
    handle = begun(talk, body)
    assert taken(talk, "inventory") == []
    ((kind, told),) = taken(talk, "inventory")
    assert kind == "Error"
    assert "isn't a 'AddItem'" in json.loads(told)["text"]
    assert why.split("|")[0] in told.decode() or any(one in told.decode() for one in why.split("|"))
    assert taken(talk, "orders") == [("Error", told)]
    assert set(states(talk).values()) == {"ER"}
    assert [one.status for one in messages.messages(talk, status="invalid")] == ["invalid"]
    with talk.session() as tx:
        tx.end(handle)


@pytest.mark.parametrize("schema", ['{"$ref": "http://somewhere/else.json"}', '{"$ref": "file:///etc/passwd"}'])
def test_a_schema_that_refers_to_something_outside_is_refused(schema):
    with pytest.raises(sq.UsageError):
        sq.MessageType("AddItem", validation="valid_json", schema=schema)


def test_refused_in_sql_with_what_is_wrong_and_what_to_do(talk):
    handle = begun(talk, b"1")
    calls = [
        (f"send('{NOBODY}', 'AddItem', '')", psycopg.errors.InvalidParameterValue, "no dialog with the handle"),
        (f"send('{handle}', 'Unheard', '')", psycopg.errors.InvalidParameterValue, "its types"),
        ("begin_dialog('Nobody', 'Inventory')", psycopg.errors.InvalidParameterValue, "no service"),
        ("begin_monolog('Orders', '{}')", psycopg.errors.InvalidParameterValue, "no service that it goes to"),
        ("begin_monolog('Orders', NULL)", psycopg.errors.InvalidParameterValue, "no service that it goes to"),
        ("begin_dialog('Orders', NULL)", psycopg.errors.InvalidParameterValue, "1 to 128"),
        (f"end_dialog('{NOBODY}')", psycopg.errors.InvalidParameterValue, "no dialog"),
        (f"set_dialog_timer('{NOBODY}', '1 s')", psycopg.errors.InvalidParameterValue, "no dialog"),
        (f"move_dialog('{NOBODY}', '{NOBODY}')", psycopg.errors.InvalidParameterValue, "no dialog"),
    ]
    with psycopg.connect(talk.dsn, autocommit=True) as connection:
        for call, error, why in calls:
            with pytest.raises(error) as caught:
                connection.execute(f"SELECT {talk.schema}.{call}")
            said = caught.value.diag
            assert why in f"{said.message_primary} {said.message_hint}"
        connection.execute(f"SELECT {talk.schema}.end_dialog(%s)", [handle])
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="this side has ended"):
            connection.execute(f"SELECT {talk.schema}.send(%s, 'AddItem', '')", [handle])


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (lambda box: dialogs.dialogs(box, limit=-1), "cannot list -1 dialogs"),
        (lambda box: dialogs.dialogs(box, limit="many"), "cannot list 'many' dialogs"),
        (lambda box: dialogs.dialogs(box, limit=True), "cannot list True dialogs"),
        (lambda box: dialogs.dialogs(box, state="XX"), "'XX' is not a state of dialogs"),
        (lambda box: dialogs.clean_up_dialogs(box, state=None, older_than=0), "without a state"),
        (lambda box: dialogs.clean_up_dialogs(box, older_than=None), "older_than"),
    ],
)
def test_what_an_operator_cannot_ask_changes_nothing(talk, wrong, why):
    handle = begun(talk, b"1")
    with pytest.raises(sq.UsageError, match=why):
        wrong(talk)
    assert states(talk)[handle] == "CO"
