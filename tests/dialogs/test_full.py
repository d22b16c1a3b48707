"""Full queues: what is sent to a service whose queue is full waits in the transmission queue, and nothing is lost or reordered."""

from __future__ import annotations

import threading

import pytest

import seriatim as sq
from seriatim.operations import dialogs, invariants
from tests.box.given_up import given_up
from tests.dialogs.talking import begun, far_of, let_expire, states, taken


@pytest.fixture
def narrow(talk):
    """The queue of `Inventory` may have three messages."""
    limit(talk, 3)
    return talk


def limit(box, most):
    box.define(sq.Queue("inventory", group="conversation_group", max_messages=most))


def send(box, handle, *bodies):
    with box.session() as tx:
        tx.send_many([(handle, "AddItem", body) for body in bodies])


def waiting(box, handle):
    (side,) = dialogs.dialogs(box, handle=handle)
    return side.waiting, side.transmission_status


def drained(box, queue="inventory", limit=100):
    found = []
    while some := taken(box, queue, limit=limit):
        found += [body if kind == "AddItem" else kind for kind, body in some]
    return found


def test_what_does_not_fit_waits_and_says_why(narrow):
    handle = begun(narrow, b"0", b"1", b"2")
    assert waiting(narrow, handle) == (0, None)
    send(narrow, handle, b"3", b"4")
    assert waiting(narrow, handle) == (2, 'the queue of the service "Inventory" is full')
    assert taken(narrow, "inventory", limit=1) == [("AddItem", b"0")]
    send(narrow, handle, b"5")  # there is room, but others were before
    assert waiting(narrow, handle)[0] == 3
    assert drained(narrow) == [b"1", b"2", b"3", b"4", b"5"]
    assert waiting(narrow, handle) == (0, None)
    assert invariants.broken(narrow) == []


def test_a_queue_of_one_carries_any_number(narrow):
    limit(narrow, 1)
    handles = [begun(narrow, *(b"%d" % number for number in range(7))) for _ in range(3)]
    for handle in handles:
        with narrow.session() as tx:
            tx.end(handle)
    found = []
    with narrow.session() as tx:
        while (delivery := tx.receive("inventory", limit=10)) is not None:
            found += [(one.dialog.conversation_id, one.dialog.sequence, one.type) for one in delivery]
            tx.connection.commit()
    assert len(found) == 3 * 8
    for dialog in {one[0] for one in found}:
        rows = [(sequence, kind) for of, sequence, kind in found if of == dialog]
        assert rows == [*((number, "AddItem") for number in range(7)), (7, "EndDialog")]
    assert {states(narrow)[handle] for handle in handles} == {"DO"}
    assert list(states(narrow).values()).count("DI") == 3


def test_both_ends_end(narrow):
    handle = begun(narrow, *(b"%d" % number for number in range(6)))
    with narrow.session() as tx:
        tx.end(handle)
    side = far_of(narrow, handle)
    assert (states(narrow)[handle], states(narrow)[side]) == ("DO", "SI")
    assert drained(narrow)[-1] == "EndDialog"
    with narrow.session() as tx:
        tx.end(side)
    assert set(states(narrow).values()) == {"CD"}


@pytest.mark.parametrize("how", [{}, {"error": (1, "no")}, {"cleanup": True}])
def test_the_end_of_the_other_side_takes_away_what_was_on_its_way(narrow, how):
    handle = begun(narrow, b"0", b"1", b"2")
    send(narrow, handle, b"3")
    with narrow.session() as tx:
        tx.end(far_of(narrow, handle), **how)
    assert waiting(narrow, handle)[0] == 0
    assert drained(narrow) == []
    with narrow.session() as tx:
        tx.end(handle)
    assert states(narrow)[handle] == "CD" or how == {"cleanup": True}
    assert invariants.broken(narrow) == []


def test_both_have_ended_while_the_end_was_on_its_way(narrow):
    handle = begun(narrow, b"0", b"1", b"2")
    send(narrow, handle, b"3")
    with narrow.session() as tx:
        tx.end(handle)
    with narrow.session() as tx:
        tx.end(far_of(narrow, handle))
    assert set(states(narrow).values()) == {"CD"}
    assert waiting(narrow, handle)[0] == 0


def test_what_comes_for_a_side_whose_end_is_on_its_way_holds_up_neither(talk):
    talk.define(sq.Queue("orders", group="conversation_group", max_messages=1))
    handle = begun(talk, b"0")
    side = far_of(talk, handle)
    with talk.session() as tx:
        tx.send(side, "ItemAdded", b"1")
        tx.send(side, "ItemAdded", b"2")
        tx.end(side)
    assert waiting(talk, side)[0] == 2
    send(talk, handle, b"late")
    assert waiting(talk, handle) == (1, 'the service "Inventory" has ended the dialog')
    found = [one for _ in range(3) for one in taken(talk, "orders")]
    assert [kind for kind, _ in found] == ["ItemAdded", "ItemAdded", "EndDialog"]
    with talk.session() as tx:
        tx.end(handle)
    assert states(talk) == {handle: "CD", side: "CD"}
    assert waiting(talk, handle) == waiting(talk, side) == (0, None)
    assert invariants.broken(talk) == []


def test_both_end_while_both_have_something_on_its_way(talk):
    for queue in ("orders", "inventory"):
        talk.define(sq.Queue(queue, group="conversation_group", max_messages=1))
    handle = begun(talk, b"0", b"1")
    side = far_of(talk, handle)
    with talk.session() as tx:
        tx.send(side, "ItemAdded", b"2")
        tx.send(side, "ItemAdded", b"3")
    with talk.session() as tx:
        tx.end(side)
    send(talk, handle, b"late")
    with talk.session() as tx:
        tx.end(handle)
    assert states(talk) == {handle: "CD", side: "CD"}
    assert waiting(talk, handle) == waiting(talk, side) == (0, None)


def test_an_error_and_the_end_of_a_lifetime_wait_for_no_room(narrow):
    handle = begun(narrow, b"0", b"1", b"2")
    send(narrow, handle, b"3")
    with narrow.session() as tx:
        tx.end(handle, error=(7, "no"))
    assert taken(narrow, "inventory", limit=1)[0][0] == "Error"
    other = begun(narrow, b"0", b"1", b"2")
    let_expire(narrow, other)
    narrow.tick()
    assert states(narrow)[other] == "ER"


def test_a_rollback_leaves_nothing_on_its_way(narrow):
    handle = begun(narrow, b"0", b"1", b"2")
    with given_up(narrow.session()) as tx:
        tx.send(handle, "AddItem", b"3")
    assert waiting(narrow, handle)[0] == 0
    assert drained(narrow) == [b"0", b"1", b"2"]


def test_a_tick_and_a_wider_queue_deliver_too(narrow):
    handle = begun(narrow, b"0", b"1", b"2")
    send(narrow, handle, b"3", b"4", b"5", b"6")
    taken(narrow, "inventory", limit=2)
    narrow.tick()
    assert waiting(narrow, handle)[0] == 2
    limit(narrow, None)
    assert waiting(narrow, handle) == (0, None)
    assert drained(narrow) == [b"2", b"3", b"4", b"5", b"6"]


def test_who_receives_while_he_is_in_the_midst_of_the_dialog_waits_for_nobody(narrow):
    """What he has in his hands himself is passed over until he is done."""
    handle = begun(narrow, b"0", b"1", b"2")
    send(narrow, handle, b"3")
    assert taken(narrow, "inventory", limit=2) == [("AddItem", b"0"), ("AddItem", b"1")]
    with narrow.session() as tx:
        (message,) = tx.receive("inventory")
        tx.send(message.dialog.handle, "ItemAdded", b"0")
        assert tx.receive("inventory") is None
    assert drained(narrow) == [b"3"]


def test_who_waits_gets_what_was_on_its_way(narrow):
    limit(narrow, 1)
    handle = begun(narrow, b"0")
    send(narrow, handle, b"1")
    found = []

    def wait():
        with narrow.session() as tx:
            found.extend(one.body for one in tx.receive("inventory", limit=10, wait=60.0))

    with narrow.session() as tx:
        delivery = tx.receive("inventory", limit=10)
        waiter = threading.Thread(target=wait)
        waiter.start()
        delivery.done()
    waiter.join(120)
    assert found == [b"1"]


def test_a_monolog_waits_where_it_has_to(narrow):
    narrow.define(sq.Service("Listener", queue="listener", contracts=["AddItem"]))
    with narrow.session() as tx:
        handle = tx.begin_monolog("Orders", ["Inventory", "Listener"], contract="AddItem")
    for number in range(5):
        send(narrow, handle, b"%d" % number)
    with narrow.session() as tx:
        tx.end(handle)
    assert drained(narrow, "listener") == [b"0", b"1", b"2", b"3", b"4", "EndDialog"]
    assert states(narrow)[handle] == "DO"
    assert drained(narrow) == [b"0", b"1", b"2", b"3", b"4", "EndDialog"]
    assert states(narrow)[handle] == "CD"


def test_an_end_that_waits_is_said_also_after_an_end_with_an_error(narrow):
    handle = begun(narrow, b"0", b"1", b"2", b"3")
    with narrow.session() as tx:
        tx.end(handle)
        tx.end(handle, error=(1, "too late: it has ended"))
    assert drained(narrow) == [b"0", b"1", b"2", b"3", "EndDialog"]
