"""Dialogs, from begin to end: what is sent is received once, in order, by the other side, in one transaction at a time."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import pytest

import seriatim as sq
from seriatim.box.dialogs import clock
from seriatim.operations import dialogs, invariants, messages, queues
from seriatim.operations.retention import purge
from tests.box.given_up import given_up
from tests.box.shop import rows
from tests.dialogs.talking import begun, far_of, let_expire, states, taken

pytestmark = pytest.mark.telling


def test_from_begin_to_end(talk):
    handle = begun(talk, b"1", b"2")
    with talk.session() as tx:
        delivery = tx.receive("inventory", limit=10)
        assert [(one.type, one.body) for one in delivery.messages] == [("AddItem", b"1"), ("AddItem", b"2")]
        first = delivery.messages[0]
        assert first.context == {}
        dialog = first.dialog
        assert isinstance(dialog.handle, UUID)
        assert dialog.handle != handle
        assert (dialog.service, dialog.far_service, dialog.contract) == ("Inventory", "Orders", "AddItem")
        assert [one.dialog.sequence for one in delivery.messages] == [0, 1]
        assert not dialog.is_initiator
        delivery.done()
        tx.send(dialog.handle, "ItemAdded", b"done", content_type="text/plain")
        tx.end(dialog.handle)
    assert states(talk) == {handle: "DI", dialog.handle: "DO"}
    with talk.session() as tx:
        (answer, end) = tx.receive("orders", limit=10)
        assert (answer.type, answer.body, answer.content_type) == ("ItemAdded", b"done", "text/plain")
        assert answer.dialog.handle == handle
        assert answer.dialog.conversation_id == dialog.conversation_id
        assert end.type == "EndDialog"
        tx.end(handle)
    assert states(talk) == {handle: "CD", dialog.handle: "CD"}
    assert invariants.broken(talk) == []
    assert [(one.queue, one.queued, one.arrived) for one in queues.queues(talk)] == [
        ("inventory", 0, 0),
        ("orders", 0, 0),
    ]


def test_a_rollback_takes_everything_back(talk):
    with given_up(talk.session()) as tx:
        handle = tx.begin_dialog("Orders", "Inventory", contract="AddItem")
        tx.send(handle, "AddItem", b"1")
    assert states(talk) == {}
    handle = begun(talk, b"1")
    with given_up(talk.session()) as tx:
        (message,) = tx.receive("inventory")
        tx.send(message.dialog.handle, "ItemAdded")
        tx.end(message.dialog.handle)
    assert list(states(talk).values()).count("SI") == 1
    assert taken(talk, "orders") == []
    assert taken(talk, "inventory") == [("AddItem", b"1")]
    assert sorted(states(talk).values()) == ["CO", "CO"]
    assert states(talk)[handle] == "CO"


def test_the_order_holds_over_many_transactions(talk):
    handle = begun(talk, b"0")
    for number in range(1, 20):
        with talk.session() as tx:
            tx.send_many([(handle, "AddItem", b"%d.%d" % (number, each)) for each in range(3)])
        if number % 5 == 0:
            taken(talk, "inventory", limit=2)
    with talk.session() as tx:
        rest = [one.dialog.sequence for one in tx.receive("inventory", limit=1000)]
    assert rest == list(range(6, 58))


def test_dialogs_of_one_group_come_to_one_worker(talk):
    first = begun(talk, b"1")
    second = begun(talk, b"2", related_to=first)
    third = begun(talk, b"3")
    with talk.session() as tx:
        for _ in range(3):
            (message,) = tx.receive("inventory")
            tx.send(message.dialog.handle, "ItemAdded", message.body)
    with talk.session() as tx, talk.session() as other:
        group = tx.next_group("orders")
        assert isinstance(group, UUID)
        assert tx.next_group("orders") == group
        delivery = tx.receive("orders", group=group, limit=10)
        assert {one.dialog.handle for one in delivery} == {first, second}
        assert delivery.group == str(group)
        (message,) = other.receive("orders", limit=10)
        assert message.dialog.handle == third
        assert other.receive("orders") is None


def test_moved_into_another_group(talk):
    first, second = begun(talk, b"1"), begun(talk, b"2")
    with talk.session() as tx:
        for _ in range(2):
            (message,) = tx.receive("inventory")
            tx.send_many([(message.dialog.handle, "ItemAdded", b"a"), (message.dialog.handle, "ItemAdded", b"b")])
    group = uuid4()
    with talk.session() as tx:
        tx.receive("orders", limit=2).put_back()  # judged, so that there is something queued
    with talk.session() as tx:
        tx.move(first, group)
        tx.move(second, str(group))
    with talk.session() as tx:
        delivery = tx.receive("orders", limit=10)
        assert delivery.group == str(group)
        assert [one.body for one in delivery] == [b"a", b"b", b"a", b"b"]
    assert invariants.broken(talk) == []


def test_a_wait_for_one_dialog_goes_on_behind_messages_of_another(talk):
    first = begun(talk, b"1")
    second = begun(talk, b"2", related_to=first)

    def answer(body):
        with talk.session() as tx:
            (message,) = tx.receive("inventory")
            tx.send(message.dialog.handle, "ItemAdded", body)

    answer(b"of the first")
    with talk.session() as tx:
        assert tx.receive("orders", dialog=second, wait=0.05) is None
    with ThreadPoolExecutor(1) as others, talk.session() as tx:
        sent = others.submit(answer, b"of the second")
        assert [one.body for one in tx.receive("orders", dialog=second, wait="forever")] == [b"of the second"]
        sent.result()


def test_only_of_one_dialog(talk):
    first = begun(talk, b"1")
    second = begun(talk, b"2", related_to=first)
    with talk.session() as tx:
        for _ in range(2):
            (message,) = tx.receive("inventory")
            tx.send_many([(message.dialog.handle, "ItemAdded", message.body + b"%d" % n) for n in range(3)])
    with talk.session() as tx:
        assert [one.body for one in tx.receive("orders", dialog=second, limit=2)] == [b"20", b"21"]
        assert [one.body for one in tx.receive("orders", dialog=first, limit=1)] == [b"10"]
    with talk.session() as tx:
        assert [one.body for one in tx.receive("orders", dialog=second, limit=9)] == [b"22"]
        assert tx.receive("orders", dialog=second) is None
        assert [one.body for one in tx.receive("orders", limit=9)] == [b"11", b"12"]
        ordinals = tx.connection.execute(
            f"SELECT ordinal FROM {talk.schema}.known_groups WHERE ready_rank IS NOT NULL"
        ).fetchall()
        assert ordinals == []
    with talk.session() as tx, pytest.raises(sq.UsageError, match="is elsewhere"):
        tx.receive("inventory", dialog=first)


def test_an_error_goes_ahead_and_the_end_is_last(talk):
    one, other = begun(talk, b"1", b"2"), begun(talk, b"3", b"4")
    with talk.session() as tx:
        tx.receive("inventory", limit=1).put_back()
    with talk.session() as tx:
        tx.end(one, error=(7, "out of stock"))
        tx.end(other)
    found = [taken(talk, "inventory", limit=1) for _ in range(6)]
    kinds = [kind for ((kind, _),) in found]
    assert kinds == ["Error", "AddItem", "AddItem", "AddItem", "AddItem", "EndDialog"]
    assert json.loads(found[0][0][1]) == {"code": 7, "text": "out of stock"}
    assert invariants.broken(talk) == []


def test_a_timer_goes_ahead_and_a_second_takes_its_place(talk):
    handle = begun(talk)
    with talk.session() as tx:
        tx.send(handle, "AddItem", b"1")
        tx.set_timer(handle, "1h")
        tx.set_timer(handle, 0)
    with talk.session() as tx:
        (message,) = tx.receive("inventory")
        tx.send(message.dialog.handle, "Note", b"a")
        tx.send(message.dialog.handle, "Note", b"b")
    assert [taken(talk, "orders", limit=1) for _ in range(4)] == [
        [("Timer", b"")], [("Note", b"a")], [("Note", b"b")], []
    ]  # fmt: skip
    with talk.session() as tx:
        tx.set_timer(handle, 0)
        tx.set_timer(handle, None)
    assert taken(talk, "orders") == []
    with talk.session() as tx:
        tx.set_timer(handle, 0.3)
    with talk.session() as tx:
        assert [one.type for one in tx.receive("orders", wait=10)] == ["Timer"]


def test_a_wait_ends_after_some_of_the_timers_that_are_due(talk, monkeypatch):
    monkeypatch.setattr(clock, "_DIALOGS", 2)
    handles = [begun(talk) for _ in range(6)]
    with talk.session() as tx:
        for handle in handles:
            tx.set_timer(handle, 0)
    due = "SELECT count(*) AS n FROM {schema}.endpoints WHERE timer_at IS NOT NULL"
    left = []
    while not left or left[-1]:
        with talk.session() as tx:
            assert tx.receive("inventory", wait=1e-6) is None
        left.append(rows(talk, due)[0].n)
    assert left == [4, 2, 0]


def test_a_lifetime_ends_for_both_sides(talk):
    handle = begun(talk, b"1", lifetime="1h")
    kept = begun(talk, b"2")
    let_expire(talk, handle)
    found = [taken(talk, "inventory") for _ in range(3)]
    assert [[kind for kind, _ in one] for one in found] == [["AddItem"], ["Error"], []]
    ((kind, body),) = taken(talk, "orders")
    assert kind == "Error"
    assert json.loads(body) == {"code": -1, "text": "the lifetime of the dialog has ended"}
    assert states(talk)[handle] == "ER"
    with talk.session() as tx:
        with pytest.raises(sq.ActionRefused, match="the dialog has failed"):
            tx.send(handle, "AddItem", b"2")
        tx.send(kept, "AddItem", b"3")  # the transaction goes on
        tx.end(handle)
    far = far_of(talk, handle)
    with talk.session() as tx:
        assert [(one.type, one.body, one.reason) for one in tx.history(far)] == [
            ("AddItem", b"1", "the lifetime of its dialog has ended")
        ]
    assert found[0] == [("AddItem", b"2")]
    assert taken(talk, "inventory") == [("AddItem", b"3")]
    assert invariants.broken(talk) == []


def test_what_is_not_defined_yet_waits_in_the_transmission_queue(talk):
    with talk.session() as tx:
        handle = tx.begin_dialog("Orders", "Shipping", contract="AddItem")
        tx.send(handle, "AddItem", b"1")
    with talk.session() as tx:
        tx.send(handle, "AddItem", b"2")
        tx.end(handle)
        (told,) = tx.connection.execute(f"SELECT waiting, transmission_status FROM {talk.schema}.dialogs").fetchall()
    assert told == (3, 'there is no service "Shipping"')
    talk.define(sq.Service("Shipping", queue="shipping"))
    with talk.session() as tx:
        (status,) = tx.connection.execute(f"SELECT transmission_status FROM {talk.schema}.dialogs").fetchone()
    assert status == 'the service "Shipping" doesn\'t accept the contract "AddItem"'
    talk.define(sq.Service("Shipping", queue="shipping", contracts=["AddItem"]))
    assert taken(talk, "shipping") == [("AddItem", b"1"), ("AddItem", b"2"), ("EndDialog", b"")]
    assert sorted(states(talk).values()) == ["DI", "DO"]
    assert invariants.broken(talk) == []


def test_what_waits_for_a_service_fails_with_the_lifetime(talk):
    with talk.session() as tx:
        handle = tx.begin_dialog("Orders", "Shipping", contract="AddItem", lifetime="1h")
        tx.send(handle, "AddItem", b"1")
    let_expire(talk, handle)
    with talk.session() as tx:
        assert [one.type for one in tx.receive("orders", wait=5)] == ["Error"]
    assert states(talk) == {handle: "ER"}


def test_a_message_that_is_not_what_its_type_says_ends_the_dialog(talk):
    schema = json.dumps({"type": "object", "required": ["sku"]})
    talk.define(sq.MessageType("AddItem", validation="valid_json", schema=schema))
    handle = begun(talk, b'{"sku": 1}', b'{"ksu": 1}', b'{"sku": 2}')
    with talk.session() as tx:
        assert [one.body for one in tx.receive("inventory", limit=9)] == [b'{"sku": 1}']
    ((kind, body),) = taken(talk, "orders")
    assert kind == "Error"
    told = json.loads(body)
    assert told["code"] == -2
    assert "the message 1 isn't a 'AddItem'" in told["text"]
    assert "sku" in told["text"]
    ((kind, body),) = taken(talk, "inventory")
    assert (kind, json.loads(body)) == ("Error", told)
    assert set(states(talk).values()) == {"ER"}
    assert [(one.status, one.type) for one in messages.messages(talk)] == [("invalid", "AddItem"), ("dead", "AddItem")]
    with talk.session() as tx, pytest.raises(sq.ActionRefused):
        tx.send(handle, "AddItem")
    assert invariants.broken(talk) == []


def test_retention_keeps_both_directions_until_the_end(talk):
    talk.define(sq.Service("Orders", queue="orders", retention=True))
    handle = begun(talk, b"1", b"2")
    with talk.session() as tx:
        (message,) = tx.receive("inventory", limit=1)
        tx.send(message.dialog.handle, "ItemAdded", b"3")
        assert tx.history(message.dialog.handle) == []
    with talk.session() as tx:
        assert [(one.sent, one.sequence, one.body) for one in tx.history(handle)] == [
            (True, 0, b"1"), (True, 1, b"2"), (False, 0, b"3")
        ]  # fmt: skip
        tx.end(handle)
        assert tx.history(handle) == []


@pytest.mark.parametrize("retention", [False, True])
def test_history_says_why_something_was_set_aside_wherever_its_dialog_is_moved(talk, retention):
    talk.define(
        sq.MessageType("Note", validation="well_formed_json"),
        sq.Service("Inventory", queue="inventory", contracts=["AddItem"], retention=retention),
    )
    with talk.session() as tx:
        handle = tx.begin_dialog("Orders", "Inventory", contract="AddItem")
        tx.send_many([(handle, "AddItem", b"0"), (handle, "Note", b"{"), (handle, "AddItem", b"2")])
    far = far_of(talk, handle)
    with talk.session() as tx:
        tx.set_timer(far, 0)
    assert [kind for kind, _ in taken(talk, "inventory")] == ["Timer", "AddItem"]
    assert [kind for kind, _ in taken(talk, "inventory")] == ["Error"]
    set_aside = [("Note", 1, True), ("AddItem", 2, True)]
    whole = [("AddItem", 0, False), *set_aside, ("Timer", None, False), ("Error", None, False)]
    for _ in range(2):
        with talk.session() as tx:
            found = [(one.type, one.sequence, one.reason is not None) for one in tx.history(far)]
            assert found == (whole if retention else set_aside)
            tx.move(far, uuid4())


def test_history_keeps_what_a_lifetime_set_aside_apart_from_what_came(talk):
    talk.define(sq.Service("Inventory", queue="inventory", contracts=["AddItem"], retention=True))
    handle = begun(talk, b"0", b"1", lifetime="1h")
    assert taken(talk, "inventory", limit=1) == [("AddItem", b"0")]
    let_expire(talk, handle)
    taken(talk, "inventory")
    with talk.session() as tx:
        assert [(one.body, one.reason) for one in tx.history(far_of(talk, handle))][:2] == [
            (b"0", None), (b"1", "the lifetime of its dialog has ended")
        ]  # fmt: skip


def test_an_end_takes_away_what_waits_but_not_what_is_in_hand(talk):
    handle = begun(talk, b"1", b"2", b"3")
    with talk.session() as tx:
        delivery = tx.receive("inventory", limit=1)
        tx.end(delivery.messages[0].dialog.handle)
        assert [one.body for one in delivery] == [b"1"]
    assert taken(talk, "inventory") == []
    begun(talk, b"1", b"2", b"3")
    with talk.session() as tx:
        delivery = tx.receive("inventory", limit=2)
        tx.end(delivery.messages[0].dialog.handle)
    assert taken(talk, "inventory") == []  # it was put back, and went
    assert taken(talk, "orders") == [("EndDialog", b"")]
    assert states(talk)[handle] == "DI"
    assert invariants.broken(talk) == []
    assert purge(talk).complete
    with talk.session() as tx:
        assert tx.connection.execute(f"SELECT count(*) FROM {talk.schema}.spool").fetchone() == (1,)


def test_cleaned_up_it_tells_nobody(talk):
    handle = begun(talk, b"1")
    message = far_of(talk, handle)
    with talk.session() as tx:
        tx.end(message, cleanup=True)
    assert states(talk) == {handle: "CO", message: "CD"}
    with talk.session() as tx:
        tx.send(handle, "AddItem", b"2")
        (status,) = tx.connection.execute(
            f"SELECT transmission_status FROM {talk.schema}.dialogs WHERE handle = %s", [handle]
        ).fetchone()
        assert status == 'the dialog was cleaned up at the service "Inventory"'
        tx.end(handle)
    assert states(talk) == {handle: "CD", message: "CD"}
    assert taken(talk, "orders") == []


def test_a_monolog_goes_to_each_at_its_own_pace(talk):
    talk.define(
        sq.Service("Shipping", queue="shipping", contracts=["AddItem"]),
        sq.Service("Accounts", queue="shipping", contracts=["AddItem"]),
    )
    with talk.session() as tx:
        handle = tx.begin_monolog("Orders", ["Inventory", "Shipping", "Accounts", "Later"], contract="AddItem")
        tx.send(handle, "AddItem", b"1")
    with talk.session() as tx:
        tx.send(handle, "AddItem", b"2")
        (message,) = tx.receive("shipping")
        with pytest.raises(sq.UsageError, match="a monolog"):
            tx.send(message.dialog.handle, "Note")
        tx.end(message.dialog.handle)
    with talk.session() as tx:
        tx.send(handle, "AddItem", b"3")
        tx.end(handle)
    everything = [("AddItem", b"1"), ("AddItem", b"2"), ("AddItem", b"3"), ("EndDialog", b"")]
    assert taken(talk, "inventory") == everything
    assert taken(talk, "shipping") == everything
    assert taken(talk, "shipping") == []
    assert states(talk)[handle] == "DO"
    talk.define(sq.Service("Later", queue="later", contracts=["AddItem"]))
    assert taken(talk, "later") == everything
    assert states(talk)[handle] == "CD"
    assert taken(talk, "orders") == []


def test_the_ends_in_one_queue(talk):
    talk.define(sq.Service("Self", queue="self", contracts=["DEFAULT"]))
    with talk.session() as tx:
        handle = tx.begin_dialog("Self", "Self")
        tx.send(handle, "DEFAULT", b"hello")
    with talk.session() as tx:
        (message,) = tx.receive("self")
        assert message.dialog.handle != handle
        tx.send(message.dialog.handle, "DEFAULT", b"hello back")
        tx.end(message.dialog.handle)
    assert taken(talk, "self") == [("DEFAULT", b"hello back"), ("EndDialog", b"")]


def test_what_is_closed_is_forgotten_with_its_conversation_group(talk):
    first = begun(talk, b"1")
    second = begun(talk, b"2", related_to=first)
    for _ in range(2):
        with talk.session() as tx:
            (message,) = tx.receive("inventory")
            tx.send(message.dialog.handle, "ItemAdded")
            tx.end(message.dialog.handle)
    assert len(taken(talk, "orders")) == 4
    with talk.session() as tx:
        tx.end(first)
        assert tx.connection.execute(f"SELECT {talk.schema}.forget_closed('0')").fetchone() == (2,)
        groups = f"SELECT count(*) FROM {talk.schema}.known_groups"
        assert tx.connection.execute(groups).fetchone() == (2,)  # the initiators', and that of the second target
        tx.end(second)
        assert tx.connection.execute(f"SELECT {talk.schema}.forget_closed('0')").fetchone() == (2,)
        assert tx.connection.execute(groups).fetchone() == (0,)
    assert dialogs.dialogs(talk) == []


def test_an_end_that_takes_messages_out_of_the_midst_of_a_group_breaks_no_law(talk):
    with talk.session() as tx:
        first = tx.begin_dialog("Orders", "Inventory", contract="AddItem")
        second = tx.begin_dialog("Orders", "Inventory", contract="AddItem", related_to=first)
        tx.send_many([(first, "AddItem", b""), (second, "AddItem", b"")])
    with talk.session() as tx:
        for handle in (first, second, first, first):
            tx.send(far_of(talk, handle), "Note", b"")
    with talk.session() as tx:
        assert len(tx.receive("orders", limit=1)) == 1
    with talk.session() as tx:
        tx.end(second)
    assert invariants.broken(talk) == []
