"""A box of any size: each page reads a bounded number of messages, and what was counted long ago says so."""

from __future__ import annotations

from seriatim.console.live import Looks
from seriatim.operations import messages, queues
from seriatim.operations.find import find
from tests.box.console import define, publish
from tests.console.conftest import Client


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
    assert "after=" in address
    assert client.get(address).status_code == 200
    assert client.get("/messages?after=x").status_code == 400


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


def test_a_slow_count_is_shown_with_its_age_and_not_repeated_at_once(filled, monkeypatch):
    looks = Looks(filled)
    monkeypatch.setattr("seriatim.console.live._QUICK_S", 0.0)
    first = looks.counted()
    assert [one.queue for one in first.rows] == [one.queue for one in queues.queues(filled)]
    publish(filled, 77, group="new")
    assert looks.counted().rows == first.rows
    queues.turn_off(filled, "shop", actor="ann", reason="r")
    assert [one.enabled for one in looks.counted().rows if one.queue == "shop"] == [False]
    looks._counted_at -= 3600
    client = Client(filled)
    assert "Counted" not in client.get("/").text


def test_a_page_does_not_wait_for_a_count_that_takes_long(filled):
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
