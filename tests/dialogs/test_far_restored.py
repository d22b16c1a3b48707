"""Many dialogs between two boxes, of which one is restored: each goes on whole on both sides, or has an error on both."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from tests.box.links.backups import back_up, restore
from tests.dialogs.far_boxes import two_boxes
from tests.dialogs.far_orders import Orders
from tests.soak import sized

pytestmark = pytest.mark.dear

DIALOGS = sized(200, 40)


@contextmanager
def _orders(databases, keep_sent):
    with two_boxes(databases, keep_sent=keep_sent) as (north, south):
        yield Orders(north, south)


@pytest.mark.proves("a dialog goes on after a restore of one of its boxes, or fails on both sides")
@pytest.mark.soak
@pytest.mark.parametrize("keep_sent", ["1d", "0s"])
def test_a_restored_receiver_gets_all_again_where_it_had_said_nothing(databases, keep_sent):
    with _orders(databases, keep_sent) as orders:
        orders.begin(DIALOGS)
        third = DIALOGS // 4
        # To the restored side only; both ways; nothing; and what leaves only after the restore.
        towards, both = orders.handles[: DIALOGS // 2], orders.handles[DIALOGS // 2 :][:third]
        idle = orders.handles[DIALOGS // 2 + third :]
        back_up(orders.south)
        orders.keep("south")
        orders.say(towards)
        orders.say(both)
        orders.answer(both)
        orders.carry()
        restore(orders.south)
        orders.go_back("south")
        orders.carry(5)
        orders.say(idle)
        orders.carry()
        whole = orders.end()
        for handle in orders.handles:
            said = 2 if handle in towards + both + idle else 1
            orders.check(handle, said, 1 if handle in both else 0, whole=whole[handle])
        assert all(whole[handle] for handle in idle)
        if keep_sent == "1d":
            assert all(whole[handle] for handle in towards)
            for handle in towards:
                marks = [one[2] for one in orders.got["south"][orders.conversations[handle]] if one[0] == "Line"]
                assert marks == [True]
        # What the restored side had said itself is unknown to it now.
        assert not any(whole[handle] for handle in both)


@pytest.mark.proves("a restored box whose application sends first loses nothing of a dialog in silence")
@pytest.mark.soak
@pytest.mark.parametrize("which", ["north", "south"])
def test_the_application_of_the_restored_box_sends_first(databases, which):
    with _orders(databases, "1d") as orders:
        orders.begin(DIALOGS)
        half = orders.handles[: DIALOGS // 2]
        back_up(getattr(orders, which))
        orders.keep(which)
        say = orders.say if which == "north" else orders.answer
        say(half)
        orders.carry()
        restore(getattr(orders, which))
        orders.go_back(which)
        say(orders.handles)
        orders.carry(6)
        whole = orders.end()
        for handle in orders.handles:
            said, answered = (2, 0) if which == "north" else (1, 1)
            orders.check(handle, said, answered, whole=whole[handle])
        assert not any(whole[handle] for handle in half)
        assert all(whole[handle] for handle in orders.handles[DIALOGS // 2 :])
