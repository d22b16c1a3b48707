"""Dialogs, from begin to end: what is sent is received once, in order, by the other side, in one transaction at a time.

Each test runs with both services in one box, in two databases of a server, and in two boxes over HTTPS.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID, uuid4

import pytest

import seriatim as sq
from seriatim.operations import messages, queues
from seriatim.operations.retention import purge
from tests.box.given_up import given_up
from tests.dialogs.everywhere import ROADS, talking_over

pytestmark = pytest.mark.dear


@pytest.fixture(params=[pytest.param(ROADS[0], marks=pytest.mark.telling), *ROADS[1:]])
def talk(request, databases, tmp_path):
    """The services Orders and Inventory, wherever they are."""
    with talking_over(request.param, databases, tmp_path) as found:
        yield found


@pytest.mark.telling
def test_from_begin_to_end(talk):
    handle = talk.begun(b"1", b"2")
    with talk.session("inventory") as tx:
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
    assert talk.states() == {handle: "DI", dialog.handle: "DO"}
    with talk.session("orders") as tx:
        (answer, end) = tx.receive("orders", limit=10)
        assert (answer.type, answer.body, answer.content_type) == ("ItemAdded", b"done", "text/plain")
        assert answer.dialog.handle == handle
        assert answer.dialog.conversation_id == dialog.conversation_id
        assert end.type == "EndDialog"
        tx.end(handle)
    assert talk.states() == {handle: "CD", dialog.handle: "CD"}
    assert talk.broken() == []
    found = [(one.queue, one.queued, one.arrived) for box in talk.boxes for one in queues.queues(box)]
    assert sorted(found) == [("inventory", 0, 0), ("orders", 0, 0)]


def test_a_rollback_takes_everything_back(talk):
    with given_up(talk.session("orders")) as tx:
        handle = tx.begin_dialog("Orders", "Inventory", contract="AddItem")
        tx.send(handle, "AddItem", b"1")
    assert talk.states() == {}
    handle = talk.begun(b"1")
    with given_up(talk.session("inventory")) as tx:
        (message,) = tx.receive("inventory")
        tx.send(message.dialog.handle, "ItemAdded")
        tx.end(message.dialog.handle)
    assert list(talk.states().values()).count("SI") == 1
    assert talk.taken("orders") == []
    assert talk.taken("inventory") == [("AddItem", b"1")]
    assert sorted(talk.states().values()) == ["CO", "CO"]
    assert talk.states()[handle] == "CO"


def test_the_order_holds_over_many_transactions(talk):
    handle = talk.begun(b"0")
    for number in range(1, 20):
        with talk.session("orders") as tx:
            tx.send_many([(handle, "AddItem", b"%d.%d" % (number, each)) for each in range(3)])
        if number % 5 == 0:
            talk.taken("inventory", limit=2)
    with talk.session("inventory") as tx:
        rest = [one.dialog.sequence for one in tx.receive("inventory", limit=1000)]
    assert rest == list(range(6, 58))


def test_dialogs_of_one_group_come_to_one_worker(talk):
    first = talk.begun(b"1")
    second = talk.begun(b"2", related_to=first)
    third = talk.begun(b"3")
    with talk.session("inventory") as tx:
        for _ in range(3):
            (message,) = tx.receive("inventory")
            tx.send(message.dialog.handle, "ItemAdded", message.body)
    with talk.session("orders") as tx, talk.session("orders") as other:
        group = tx.next_group("orders")
        assert isinstance(group, UUID)
        assert tx.next_group("orders") == group
        delivery = tx.receive("orders", group=group, limit=10)
        assert delivery.group == str(group)
        mine, others = ({one.dialog.handle for one in found} for found in (delivery, other.receive("orders", limit=10)))
        assert [mine, others] in ([{first, second}, {third}], [{third}, {first, second}])
        assert other.receive("orders") is None


def test_moved_into_another_group(talk):
    first, second = talk.begun(b"1"), talk.begun(b"2")
    with talk.session("inventory") as tx:
        for _ in range(2):
            (message,) = tx.receive("inventory")
            tx.send_many([(message.dialog.handle, "ItemAdded", b"a"), (message.dialog.handle, "ItemAdded", b"b")])
    group = uuid4()
    with talk.session("orders") as tx:
        tx.receive("orders", limit=2).put_back()  # judged, so that there is something queued
    with talk.session("orders") as tx:
        tx.move(first, group)
        tx.move(second, str(group))
    with talk.session("orders") as tx:
        delivery = tx.receive("orders", limit=10)
        assert delivery.group == str(group)
        assert [one.body for one in delivery] == [b"a", b"b", b"a", b"b"]
    assert talk.broken() == []


def test_a_wait_for_one_dialog_goes_on_behind_messages_of_another(talk):
    first = talk.begun(b"1")
    second = talk.begun(b"2", related_to=first)

    def answer(body):
        with talk.session("inventory") as tx:
            (message,) = tx.receive("inventory")
            tx.send(message.dialog.handle, "ItemAdded", body)
        talk.carry()

    answer(b"of the first")
    with talk.session("orders") as tx:
        assert tx.receive("orders", dialog=second, wait=0.05) is None
    with ThreadPoolExecutor(1) as others, talk.session("orders") as tx:
        sent = others.submit(answer, b"of the second")
        assert [one.body for one in tx.receive("orders", dialog=second, wait="forever")] == [b"of the second"]
        sent.result()


def test_only_of_one_dialog(talk):
    first = talk.begun(b"1")
    second = talk.begun(b"2", related_to=first)
    with talk.session("inventory") as tx:
        for _ in range(2):
            (message,) = tx.receive("inventory")
            tx.send_many([(message.dialog.handle, "ItemAdded", message.body + b"%d" % n) for n in range(3)])
    with talk.session("orders") as tx:
        assert [one.body for one in tx.receive("orders", dialog=second, limit=2)] == [b"20", b"21"]
        assert [one.body for one in tx.receive("orders", dialog=first, limit=1)] == [b"10"]
    with talk.session("orders") as tx:
        assert [one.body for one in tx.receive("orders", dialog=second, limit=9)] == [b"22"]
        assert tx.receive("orders", dialog=second) is None
        assert [one.body for one in tx.receive("orders", limit=9)] == [b"11", b"12"]
        ordinals = tx.connection.execute(
            f"SELECT ordinal FROM {talk.orders.schema}.known_groups WHERE ready_rank IS NOT NULL"
        ).fetchall()
        assert ordinals == []
    with talk.session("inventory") as tx, pytest.raises(sq.UsageError, match=r"is elsewhere|there is no dialog"):
        tx.receive("inventory", dialog=first)


def test_an_error_goes_ahead_and_the_end_is_last(talk):
    one, other = talk.begun(b"1", b"2"), talk.begun(b"3", b"4")
    with talk.session("inventory") as tx:
        tx.receive("inventory", limit=1).put_back()
    with talk.session("orders") as tx:
        tx.end(one, error=(7, "out of stock"))
        tx.end(other)
    found = [talk.taken("inventory", limit=1) for _ in range(6)]
    kinds = [kind for ((kind, _),) in found]
    assert kinds == ["Error", "AddItem", "AddItem", "AddItem", "AddItem", "EndDialog"]
    assert json.loads(found[0][0][1]) == {"code": 7, "text": "out of stock"}
    assert talk.broken() == []


def test_a_timer_goes_ahead_and_a_second_takes_its_place(talk):
    handle = talk.begun()
    with talk.session("orders") as tx:
        tx.send(handle, "AddItem", b"1")
        tx.set_timer(handle, "1h")
        tx.set_timer(handle, 0)
    with talk.session("inventory") as tx:
        (message,) = tx.receive("inventory")
        tx.send(message.dialog.handle, "Note", b"a")
        tx.send(message.dialog.handle, "Note", b"b")
    assert [talk.taken("orders", limit=1) for _ in range(4)] == [
        [("Timer", b"")], [("Note", b"a")], [("Note", b"b")], []
    ]  # fmt: skip
    with talk.session("orders") as tx:
        tx.set_timer(handle, 0)
        tx.set_timer(handle, None)
    assert talk.taken("orders") == []
    with talk.session("orders") as tx:
        tx.set_timer(handle, 0.3)
    with talk.session("orders") as tx:
        assert [one.type for one in tx.receive("orders", wait=60)] == ["Timer"]


def test_a_lifetime_ends_for_both_sides(talk):
    handle = talk.begun(b"1", lifetime="1h")
    kept = talk.begun(b"2")
    talk.let_expire(handle)
    found = [talk.taken("inventory") for _ in range(3)]
    assert [[kind for kind, _ in one] for one in found] == [["AddItem"], ["Error"], []]
    ((kind, body),) = talk.taken("orders")
    assert kind == "Error"
    assert json.loads(body) == {"code": -1, "text": "the lifetime of the dialog has ended"}
    assert talk.states()[handle] == "ER"
    with talk.session("orders") as tx:
        with pytest.raises(sq.ActionRefused, match="the dialog has failed"):
            tx.send(handle, "AddItem", b"2")
        tx.send(kept, "AddItem", b"3")  # the transaction goes on
        tx.end(handle)
    far = talk.far_of(handle)
    with talk.session("inventory") as tx:
        assert [(one.type, one.body, one.reason) for one in tx.history(far)] == [
            ("AddItem", b"1", "the lifetime of its dialog has ended")
        ]
    assert found[0] == [("AddItem", b"2")]
    assert talk.taken("inventory") == [("AddItem", b"3")]
    assert talk.broken() == []


def test_a_message_that_is_not_what_its_type_says_ends_the_dialog(talk):
    schema = json.dumps({"type": "object", "required": ["sku"]})
    talk.inventory.define(sq.MessageType("AddItem", validation="valid_json", schema=schema))
    handle = talk.begun(b'{"sku": 1}', b'{"ksu": 1}', b'{"sku": 2}')
    with talk.session("inventory") as tx:
        assert [one.body for one in tx.receive("inventory", limit=9)] == [b'{"sku": 1}']
    ((kind, body),) = talk.taken("orders")
    assert kind == "Error"
    told = json.loads(body)
    assert told["code"] == -2
    assert "the message 1 isn't a 'AddItem'" in told["text"]
    assert "sku" in told["text"]
    ((kind, body),) = talk.taken("inventory")
    assert (kind, json.loads(body)) == ("Error", told)
    assert set(talk.states().values()) == {"ER"}
    assert [(one.status, one.type) for one in messages.messages(talk.inventory)] == [
        ("invalid", "AddItem"),
        ("dead", "AddItem"),
    ]
    with talk.session("orders") as tx, pytest.raises(sq.ActionRefused):
        tx.send(handle, "AddItem")
    assert talk.broken() == []


def test_retention_keeps_both_directions_until_the_end(talk):
    talk.orders.define(sq.Service("Orders", queue="orders", retention=True))
    handle = talk.begun(b"1", b"2")
    with talk.session("inventory") as tx:
        (message,) = tx.receive("inventory", limit=1)
        tx.send(message.dialog.handle, "ItemAdded", b"3")
        assert tx.history(message.dialog.handle) == []
    with talk.session("orders") as tx:
        assert [(one.sent, one.sequence, one.body) for one in tx.history(handle)] == [
            (True, 0, b"1"), (True, 1, b"2"), (False, 0, b"3")
        ]  # fmt: skip
        tx.end(handle)
        assert tx.history(handle) == []


@pytest.mark.parametrize("retention", [False, True])
def test_history_says_why_something_was_set_aside_wherever_its_dialog_is_moved(talk, retention):
    talk.inventory.define(
        sq.MessageType("Note", validation="well_formed_json"),
        sq.Service("Inventory", queue="inventory", contracts=["AddItem"], retention=retention),
    )
    with talk.session("orders") as tx:
        handle = tx.begin_dialog("Orders", "Inventory", contract="AddItem")
        tx.send_many([(handle, "AddItem", b"0"), (handle, "Note", b"{"), (handle, "AddItem", b"2")])
    far = talk.far_of(handle)
    with talk.session("inventory") as tx:
        tx.set_timer(far, 0)
    assert [kind for kind, _ in talk.taken("inventory")] == ["Timer", "AddItem"]
    assert [kind for kind, _ in talk.taken("inventory")] == ["Error"]
    set_aside = [("Note", 1, True), ("AddItem", 2, True)]
    whole = [("AddItem", 0, False), *set_aside, ("Timer", None, False), ("Error", None, False)]
    for _ in range(2):
        with talk.session("inventory") as tx:
            found = [(one.type, one.sequence, one.reason is not None) for one in tx.history(far)]
            assert found == (whole if retention else set_aside)
            tx.move(far, uuid4())


def test_history_keeps_what_a_lifetime_set_aside_apart_from_what_came(talk):
    talk.inventory.define(sq.Service("Inventory", queue="inventory", contracts=["AddItem"], retention=True))
    handle = talk.begun(b"0", b"1", lifetime="1h")
    assert talk.taken("inventory", limit=1) == [("AddItem", b"0")]
    talk.let_expire(handle)
    talk.taken("inventory")
    with talk.session("inventory") as tx:
        assert [(one.body, one.reason) for one in tx.history(talk.far_of(handle))][:2] == [
            (b"0", None), (b"1", "the lifetime of its dialog has ended")
        ]  # fmt: skip


def test_an_end_takes_away_what_waits_but_not_what_is_in_hand(talk):
    handle = talk.begun(b"1", b"2", b"3")
    with talk.session("inventory") as tx:
        delivery = tx.receive("inventory", limit=1)
        tx.end(delivery.messages[0].dialog.handle)
        assert [one.body for one in delivery] == [b"1"]
    assert talk.taken("inventory") == []
    talk.begun(b"1", b"2", b"3")
    with talk.session("inventory") as tx:
        delivery = tx.receive("inventory", limit=2)
        tx.end(delivery.messages[0].dialog.handle)
    assert talk.taken("inventory") == []  # it was put back, and went
    assert talk.taken("orders") == [("EndDialog", b"")]
    assert talk.states()[handle] == "DI"
    assert talk.broken() == []
    assert all(purge(box).complete for box in talk.boxes)
    assert talk.count("spool") == 1


def test_what_is_closed_is_forgotten_with_its_conversation_group(talk):
    first = talk.begun(b"1")
    second = talk.begun(b"2", related_to=first)
    for _ in range(2):
        with talk.session("inventory") as tx:
            (message,) = tx.receive("inventory")
            tx.send(message.dialog.handle, "ItemAdded")
            tx.end(message.dialog.handle)
    assert len(talk.taken("orders")) == 4
    for handle, groups in ((first, 2), (second, 0)):  # after the first: the initiators', and that of the second target
        with talk.session("orders") as tx:
            tx.end(handle)
        assert talk.forgotten() == 2
        assert talk.count("known_groups") == groups
    assert talk.states() == {}


def test_an_end_that_takes_messages_out_of_the_midst_of_a_group_breaks_no_law(talk):
    with talk.session("orders") as tx:
        first = tx.begin_dialog("Orders", "Inventory", contract="AddItem")
        second = tx.begin_dialog("Orders", "Inventory", contract="AddItem", related_to=first)
        tx.send_many([(first, "AddItem", b""), (second, "AddItem", b"")])
    far = {handle: talk.far_of(handle) for handle in (first, second)}
    with talk.session("inventory") as tx:
        for handle in (first, second, first, first):
            tx.send(far[handle], "Note", b"")
    with talk.session("orders") as tx:
        assert len(tx.receive("orders", limit=1)) == 1
    with talk.session("orders") as tx:
        tx.end(second)
    assert talk.broken() == []
