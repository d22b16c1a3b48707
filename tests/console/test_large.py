"""A box of any size: each page reads a bounded number of messages, and what was counted long ago says so."""

from __future__ import annotations

import re

import pytest

import seriatim as sq
from seriatim.console.live import Looks
from seriatim.operations import dead_letters, groups, messages, queues
from seriatim.operations.find import find
from seriatim.operations.set_aside import set_aside
from tests.box.console import define, failing, publish, received
from tests.console.conftest import Client
from tests.console.test_guard import form_of

pytestmark = pytest.mark.dear


def ids(rows):
    return [one.message_id for one in rows]


def test_pages_of_messages_follow_each_other_and_none_is_left_out_or_twice(filled):
    whole = messages.messages(filled)
    found, after = [], None
    while True:
        page = messages.page(filled, limit=2, after=after, seconds=60)
        found += page.rows
        if page.following is None:
            break
        assert after is None or page.following > after
        after = page.following
    assert sorted(ids(found)) == sorted(ids(whole))
    for status in ("held", "dead", "faulted", "unrouted", "queued", "done"):
        assert ids(messages.page(filled, status=status, seconds=60).rows) == ids(
            messages.messages(filled, status=status)
        ), status


def test_a_page_that_finds_nothing_in_time_says_that_there_are_more(filled):
    page = messages.page(filled, group="none", limit=1, seconds=0)
    assert (page.rows, page.read, page.following is None) == ([], 1, False)
    following = messages.page(filled, group="none", limit=1000, after=page.following, seconds=0)
    assert following.following is None


def test_the_console_goes_on_where_a_page_of_messages_ended(client):
    first = client.get("/messages?limit=1").text
    address = first.split('rel="next" href="')[1].split('"')[0].replace("&amp;", "&")
    assert "after_arrival=" in address
    assert client.get(address).status_code == 200
    assert client.get("/messages?after=x").status_code == 400


def test_pages_of_dead_letters_follow_each_other_and_say_how_far_they_have_come(box):
    define(box)
    for name in ("c1", "c2", "c3", "c4", "c5"):
        publish(box, 1, group=name)
        failing(box, group=name)
        groups.skip_message(box, "shop", name, actor="ann", reason="r")
    whole = [one.entry_id for one in dead_letters.dead_letters(box)]
    found, after = [], 0
    while after is not None:
        page = dead_letters.page(box, limit=2, after=after, seconds=60)
        found += [one.entry_id for one in page.rows]
        after = page.following
    assert found == whole
    last = dead_letters.page(box, key="c5", limit=1, seconds=60)
    assert [one.group for one in last.rows] == ["c5"]
    none = dead_letters.page(box, error="nothing", limit=1, seconds=0)
    assert (none.rows, none.read, none.following) == ([], 1, whole[0])
    client = Client(box)
    listed = walked(client, "/dead-letters?limit=2&error=no+such", r">(\d+)</a></td>")
    assert sorted(set(map(int, listed))) == sorted(whole)


def test_groups_in_all_states_are_asked_for_by_all(client, filled):
    page = client.get("/groups?state=all")
    assert page.status_code == 200
    assert {one["group"] for one in client.get("/groups.json?state=all").json()} > {"c1", "c2"}


def test_a_search_reads_the_newest_messages_and_finds_remembered_ids_among_all(box):
    define(box)
    (first,) = publish(box, 1, group="c1")
    publish(box, 2, 3, group="c2")
    assert ids(find(box, "c1", newest=1).messages) == [first]  # the key of a group has an index
    assert ids(find(box, first, newest=1).messages) == [first]
    assert find(box, first, newest=1).messages[0].matched == "message id"
    assert ids(find(box, "1", newest=1).messages) == []
    assert ids(find(box, "1").messages) == [first]


def test_a_search_finds_parts_whatever_the_capital_letters_where_nothing_is_just_that(box):
    define(box)
    (first,) = publish(box, 1, group="Order-17")
    publish(box, 2, group="x")
    (newer,) = publish(box, 3, group="order-18")

    def similar(text, **given):
        found = find(box, text, similar=True, **given)
        assert not found.is_anything
        return [one.group or (one.message_id, one.matched) for one in found.similar]

    assert find(box, "Order-17", similar=True).similar is None  # it is just that
    assert similar("ORDER-1") == ["Order-17", "order-18"]
    assert similar("Order-") == ["Order-17", "order-18"]
    assert similar("o*8") == ["order-18"]
    assert similar("*8") == []  # that would read all keys
    assert similar(first[-12:]) == [(first, "message id")]
    assert similar(first[-12:].upper()) == [(first, "message id")]
    assert similar(first[-12:], newest=1) == []
    assert similar(first[:30], newest=1) == [(first, "message id")]  # remembered ids are found by their beginning
    assert similar(first[:30], since="2030-01-01") == []
    assert similar("order-18".upper())[-1] == (newer, "customer")
    assert similar(first[-3:]) == []
    assert similar("%") == similar("_") == similar("\\") == []


def test_a_search_that_finds_nothing_says_what_is_searched(client):
    page = client.get("/search?text=+nothing+").text
    assert "Nothing found for “nothing”" in page
    assert "newest 100,000 messages" in page
    assert 'href="/faults?error=nothing"' in page
    assert ">c1</a>" in client.get("/search?text=+c1%20").text
    page = client.get("/search?text=C1").text
    assert "Nothing is just “C1”" in page
    assert ">c1</a>" in page
    assert client.get("/search.json?text=C1").json()["similar"][0]["group"] == "c1"


def test_a_slow_count_is_shown_with_its_age_and_not_repeated_at_once(filled, monkeypatch):
    looks = Looks(filled)
    monkeypatch.setattr("seriatim.console.live._QUICK_S", 0.0)
    monkeypatch.setattr("seriatim.console.live._SHARE", 1_000_000)
    first = looks.counted()
    assert [one.queue for one in first.rows] == [one.queue for one in queues.queues(filled)]
    publish(filled, 77, group="new")
    assert looks.counted().rows == first.rows
    queues.turn_off(filled, "shop", actor="ann", reason="r")
    assert [one.enabled for one in looks.counted().rows if one.queue == "shop"] == [False]
    looks._counts.at -= 3600
    client = Client(filled)
    assert "Counted" not in client.get("/").text


def test_what_was_done_in_the_console_is_counted_at_once(filled, monkeypatch):
    monkeypatch.setattr("seriatim.console.live._QUICK_S", 0.0)
    client = Client(filled)
    monkeypatch.setattr("seriatim.console.live._SHARE", 1_000_000)
    before = client.get("/.json").json()[0]["stopped"]
    assert client.post("/act", form_of(client, reason="mended")).status_code == 303
    assert client.get("/.json").json()[0]["stopped"] == before - 1


def test_a_page_does_not_wait_for_a_count_that_takes_long(filled, monkeypatch):
    monkeypatch.setattr("seriatim.console.live._FIRST_S", 0.5)
    client = Client(filled)
    with filled.session() as tx:  # nobody may read a table that is being changed
        tx.connection.execute(f"LOCK TABLE {filled.schema}.entries IN ACCESS EXCLUSIVE MODE")
        page = client.get("/")
        assert page.status_code == 200
        assert "being counted" in page.text
        assert ">shop</a>" in page.text
        assert client.get("/.json").json() == [{"queue": "shop", "enabled": True}]
        tx.connection.rollback()


def test_the_rate_is_what_was_released_since_the_last_look(filled, monkeypatch):
    monkeypatch.setattr("seriatim.console.live._LOOK_S", 0.0)
    monkeypatch.setattr("seriatim.console.live._SHARE", 0)
    looks = Looks(filled)
    looks.look()
    assert looks.rates_of("shop") == []
    publish(filled, 1, group="new")
    with filled.session() as tx:
        assert len(list(tx.receive("shop", group="new"))) == 1
    looks.look()
    (rate,) = looks.rates_of("shop")
    assert rate > 0
    looks.look()
    assert looks.rates_of("shop")[1] == 0


def walked(client, address, pattern):
    """What all pages of a list have, one after another."""
    found = []
    while address is not None:
        page = client.get(address)
        assert page.status_code == 200, page.text
        found += re.findall(pattern, page.text)
        more = re.search(r'rel="next" href="([^"]+)"', page.text)
        address = more and more[1].replace("&amp;", "&")
    return found


def test_lists_of_what_was_set_aside_done_and_said_go_on_where_a_page_ended(box):
    define(box, sq.Standard(start=10))
    box.define(
        sq.Contract("Hello", {"Hi": "any"}), sq.Service("here", queue="talk", contracts=["Hello"]),
        sq.Service("there", queue="talk", contracts=["Hello"]),
    )  # fmt: skip
    aside = publish(box, 1, 2, 3, group="c1")  # below its beginning: set aside at one moment
    assert received(box) == []
    aside += publish(box, "x", group="c2")
    with box.session() as tx:
        aside += tx.publish([sq.Message(type="stray", body=b"") for _ in range(2)])
        sides = {str(tx.begin_dialog("here", "there", contract="Hello")) for _ in range(3)}
    for name in ("c3", "c4", "c5"):
        publish(box, 10, group=name)
        groups.suspend(box, "shop", name, actor="ann", reason=f"ticket {name}")
    client = Client(box)
    messages = r'href="/messages/([0-9a-f-]{36})"'
    for limit in (1, 2, 6):
        listed = walked(client, f"/set-aside?limit={limit}", messages)
        assert sorted(listed) == sorted(aside)
        assert listed == [one.message_id for one in set_aside(box)]
        assert walked(client, f"/log?limit={limit}", r"ticket (c\d)") == ["c5", "c4", "c3"]
        handles = walked(client, f"/dialogs?limit={limit}", r">([0-9a-f-]{36})</code></td>")
        assert sides <= set(handles)
        assert len(handles) == len(set(handles))
    for address in (
        "/set-aside?after=x",
        "/set-aside?after=2026-01-01,1,2",
        "/dialogs?after=2026-01-01,x",
        "/log?before=x",
    ):
        assert client.get(address).status_code == 400, address
