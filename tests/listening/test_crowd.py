"""Who has to go where there is no room."""

from __future__ import annotations

import asyncio
import threading

import pytest

from seriatim.listening.crowd import ConnectionState, Crowd, Visitor, name_of
from seriatim.listening.threads import Busy, Shared, Threads


class Connections:
    """Connections, and which of them were closed, in that order."""

    def __init__(self, most, of_name):
        self.crowd, self.closed = Crowd(most, of_name), []

    def comes(self, name, state=ConnectionState.BEGINS):
        visitor = Visitor(name, 0.0, close=lambda: self.closed.append(visitor), state=state)
        return visitor, self.crowd.enter(visitor, name)


def test_the_first_one_of_the_name_that_has_most_of_them_goes():
    there = Connections(4, 4)
    (quiet, _), (first, _), (second, _), _ = (there.comes(name) for name in ("a", "b", "b", "b"))
    assert there.comes("c")[1]
    assert there.comes("c")[1]
    assert there.closed == [first, second]
    assert there.comes("c")[1]
    assert quiet not in there.closed


def test_a_name_that_has_all_that_it_may_have_makes_room_for_itself():
    there = Connections(10, 2)
    first, _ = there.comes("a")
    other, _ = there.comes("b")
    there.comes("a")
    assert there.comes("a")[1]
    assert there.closed == [first]
    assert other not in there.closed


def test_what_is_answered_stays_unless_nobody_takes_the_answer():
    there = Connections(2, 2)
    first, _ = there.comes("a", ConnectionState.ANSWERED)
    second, _ = there.comes("b", ConnectionState.ANSWERED)
    assert not there.comes("c")[1]
    assert there.closed == []
    second.is_unread = True
    assert there.comes("c")[1]
    assert there.closed == [second]
    there.crowd.leave(first)
    assert there.comes("d")[1]


def test_who_becomes_known_leaves_room_to_strangers():
    strangers, known = Connections(1, 1), Crowd(5, 5)
    first, _ = strangers.comes("a")
    assert known.enter(first, b"key")
    assert strangers.comes("b")[1]
    assert strangers.closed == []
    assert first.crowd is known


def test_a_network_of_ipv6_is_one_name():
    assert name_of("2001:db8::1") == name_of("2001:db8::ffff:1") == "2001:db8::/64"
    assert name_of("2001:db8:0:1::1") != name_of("2001:db8::1")
    assert name_of("10.0.0.1") == "10.0.0.1"
    assert name_of("") == ""


def test_more_calls_than_may_wait_are_refused_at_once():
    goes_on = threading.Event()

    async def use():
        threads = Threads(1, 1)
        calls = [asyncio.create_task(threads.call(goes_on.wait, 60)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(Busy):
            await threads.call(goes_on.wait, 60)
        goes_on.set()
        assert await asyncio.gather(*calls) == [True, True]
        assert await threads.call(goes_on.wait, 60)

    asyncio.run(use())


def test_who_asks_meanwhile_gets_the_same_answer():
    goes_on, calls = threading.Event(), []

    def answer():
        calls.append(goes_on.wait(180))
        return len(calls)

    async def use():
        shared = Shared(answer)
        asking = [asyncio.create_task(shared.get()) for _ in range(50)]
        await asyncio.sleep(0)
        asking[0].cancel()  # takes the answer away from nobody
        goes_on.set()
        assert await asyncio.gather(*asking[1:]) == [1] * 49
        assert await shared.get() == 2

    asyncio.run(use())
