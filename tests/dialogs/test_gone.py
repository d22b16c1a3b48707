"""What a side sends to one that has ended, was cleaned up, or is forgotten: it is never made anew in the midst of a stream."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.operations import dialogs, invariants
from tests.dialogs.talking import begun, far_of, states, taken


@pytest.fixture
def two(talk):
    """A second service that listens."""
    talk.define(sq.Service("Listener", queue="listener", contracts=["AddItem"]))
    return talk


def forget(box):
    """Closed sides aren't known any more, as after half an hour."""
    with box.session() as tx:
        (forgotten,) = tx.connection.execute(f"SELECT {box.schema}.forget_closed('0')").fetchone()
    return forgotten


def monolog(box, *services):
    with box.session() as tx:
        handle = tx.begin_monolog("Orders", services, contract="AddItem")
        tx.send(handle, "AddItem", b"0")
    return handle


def send(box, handle, *bodies):
    with box.session() as tx:
        tx.send_many([(handle, "AddItem", body) for body in bodies])


def end(box, handle, **how):
    with box.session() as tx:
        tx.end(handle, **how)


def end_listener(box, service):
    (side,) = dialogs.dialogs(box, service=service)
    end(box, side.handle)


def waiting(box, handle):
    (side,) = dialogs.dialogs(box, handle=handle)
    return side.waiting, side.transmission_status


def test_a_listener_that_ended_stays_away_once_it_is_forgotten(two):
    handle = monolog(two, "Inventory", "Listener")
    end_listener(two, "Listener")
    assert forget(two) == 1
    send(two, handle, b"1", b"2")
    two.tick()
    assert waiting(two, handle) == (0, None)
    assert dialogs.dialogs(two, service="Listener") == []
    end(two, handle)
    assert taken(two, "listener") == []
    assert [body for _, body in taken(two, "inventory")] == [b"0", b"1", b"2", b""]
    assert states(two)[handle] == "CD"
    assert invariants.broken(two) == []


def test_a_listener_of_a_dropped_service_stays_away(two):
    handle = monolog(two, "Inventory", "Listener")
    end_listener(two, "Listener")
    two.drop(service="Listener")
    send(two, handle, b"1")
    two.define(sq.Service("Listener", queue="listener", contracts=["AddItem"]))
    send(two, handle, b"2")
    two.tick()
    assert dialogs.dialogs(two, service="Listener") == []
    assert waiting(two, handle) == (0, None)


def test_who_comes_later_begins_with_the_first_though_another_is_gone(two):
    handle = monolog(two, "Inventory", "Listener", "Later")
    end_listener(two, "Listener")
    forget(two)
    send(two, handle, b"1")
    two.define(sq.Service("Later", queue="later", contracts=["AddItem"]))
    send(two, handle, b"2")
    two.tick()
    end(two, handle)
    assert [body for _, body in taken(two, "later")] == [b"0", b"1", b"2", b""]
    assert dialogs.dialogs(two, service="Listener") == []
    assert states(two)[handle] == "CD"


def test_another_dialog_that_begins_brings_no_listener_back(two):
    handle = monolog(two, "Inventory", "Listener")
    end_listener(two, "Listener")
    forget(two)
    with two.session() as tx:
        other = tx.begin_dialog("Orders", "Inventory", contract="AddItem")
        tx.send_many([(other, "AddItem", b"a"), (handle, "AddItem", b"1")])
    assert dialogs.dialogs(two, service="Listener") == []


def test_a_listener_that_ended_before_a_full_queue_stays_away(two):
    two.define(sq.Queue("listener", group="conversation_group", max_messages=1))
    handle = monolog(two, "Inventory", "Listener")
    send(two, handle, b"1")
    end_listener(two, "Listener")
    forget(two)
    send(two, handle, b"2")
    two.tick()
    assert dialogs.dialogs(two, service="Listener") == []
    assert waiting(two, handle) == (0, None)


def test_a_side_that_was_cleaned_up_stays_away_once_it_is_forgotten(talk):
    handle = begun(talk, b"0", b"1")
    end(talk, far_of(talk, handle), cleanup=True)
    assert forget(talk) == 1
    send(talk, handle, b"2")
    talk.tick()
    assert taken(talk, "inventory") == []
    assert list(states(talk)) == [handle]
    assert waiting(talk, handle) == (1, 'the dialog was cleaned up at the service "Inventory"')
    end(talk, handle)
    assert states(talk) == {handle: "CD"}
    assert waiting(talk, handle) == (0, None)
    assert invariants.broken(talk) == []


def test_the_side_that_began_stays_away_too(talk):
    handle = begun(talk, b"0")
    side = far_of(talk, handle)
    end(talk, handle, cleanup=True)
    forget(talk)
    with talk.session() as tx:
        tx.send(side, "ItemAdded", b"")
    assert waiting(talk, side) == (1, 'the dialog was cleaned up at the service "Orders"')
    end(talk, side)
    assert states(talk) == {side: "CD"}


def test_a_dialog_that_nobody_takes_yet_ends_behind_its_first_message(talk):
    with talk.session() as tx:
        handle = tx.begin_dialog("Orders", "Later", contract="AddItem")
        tx.send(handle, "AddItem", b"0")
    end(talk, handle)
    assert states(talk) == {handle: "DO"}
    talk.define(sq.Service("Later", queue="later", contracts=["AddItem"]))
    talk.tick()
    assert [body for _, body in taken(talk, "later")] == [b"0", b""]
