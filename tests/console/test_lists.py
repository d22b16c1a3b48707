"""What the lists of the console say of their rows, and in place of rows."""

from __future__ import annotations

import re

import pytest

import seriatim as sq
from seriatim.operations import groups, queues, subscriptions
from seriatim.operations.tables.meanings import meanings
from seriatim.operations.tables.pipelines import COUNTS
from seriatim.operations.tables.schedules import SCHEDULES
from tests.box.console import BY, TRANSIENT, define, failing, publish
from tests.console.conftest import Client, fill


def text_of(page):
    """The page without its marks."""
    return re.sub(r"\s+", " ", re.sub("<[^>]+>", " ", page.text))


def test_an_instance_shows_its_status_and_never_the_state_of_the_application(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string"}),
        sq.Queue("work", policy=sq.Fifo(), group="customer"),
        sq.Subscription("orders", "type = 'order'", "work", starts="orders.work:handle", correlate=["customer"]),
    )
    box.publish(sq.Message(type="order", context={"customer": "c1"}))
    with box.session() as tx:
        for _ in tx.receive("work", limit=1):
            tx.instance.state["card"] = "4711"
    client = Client(box)
    for path in ("/instances", "/instances/1"):
        page = client.get(path)
        assert '<span class="badge running">' in page.text, path
        assert "4711" not in page.text, path
    assert "orders.work:handle" in client.get("/subscriptions").text


def test_a_dialog_has_its_state_in_words_and_says_why_it_waits_or_failed(box):
    box.define(
        sq.Contract("AddItem", {"AddItem": "initiator"}),
        sq.Service("Orders", queue="orders", contracts=["AddItem"]),
        sq.Service("Inventory", queue="inventory", contracts=["AddItem"]),
    )
    with box.session() as tx:
        tx.send(tx.begin_dialog("Orders", "Nowhere", contract="AddItem"), "AddItem", b"1")
    with box.session() as tx:
        failed = tx.begin_dialog("Orders", "Inventory", contract="AddItem")
        tx.send(failed, "AddItem", b"2")
        tx.end(failed, error=(17, "out of stock"))
    client = Client(box)
    page = client.get("/dialogs")
    told = text_of(page)
    assert "error 17: out of stock" in told
    assert "there is no service" in told
    assert "CO" not in re.findall(r"\w+", told.split("This page as JSON")[0])
    group = re.search(r'data-title="unread" class="n"><a href="(/groups/inventory/[^"]+)"', page.text)[1]
    assert client.get(group).status_code == 200


def test_no_heading_stands_twice_in_a_table_of_pipelines():
    assert len(set(COUNTS.headings)) == len(COUNTS.headings)


def test_the_log_says_what_one_entry_was_about(box):
    define(box)
    queues.set_queue(box, "shop", workers=2, rate=100, **BY)
    subscriptions.stop(box, "shop", **BY)
    told = text_of(Client(box).get("/log"))
    assert "workers 2" in told
    assert "rate 100" in told
    assert "subscription shop" in told


@pytest.mark.parametrize(
    "path", ["dialogs", "instances", "schedules", "links", "transmission", "events", "subscriptions", "workers", "log"]
)
def test_an_empty_page_says_what_would_be_there_and_not_while_a_filter_is_set(box, path):
    client = Client(box)
    nothing = re.search('<p class="nothing">(.*?)</p>', client.get(f"/{path}").text, re.DOTALL)[1]
    assert nothing.count(".") >= 2 or "<code>" in nothing
    if path in ("dialogs", "instances"):
        filtered = client.get(f"/{path}?{'service=x' if path == 'dialogs' else 'group=x'}").text
        assert f'A filter is set: <a href="/{path}">show all</a>.' in filtered
        assert "seriatim docs" not in filtered


def test_a_filter_that_is_set_is_a_line_and_leaves_the_room_to_the_list(box):
    fill(box)
    page = Client(box).get("/groups?queue=shop&all=yes").text
    assert '<details class="filters"><summary>Filter<span>: queue shop, with groups that' in page


def test_the_columns_of_a_list_are_explained(box):
    told = dict(meanings(SCHEDULES))
    assert told["last"] == "the due time of its last message; empty: it has published none"
    assert "schedule" not in told  # its name: the heading says it
    fill(box)
    page = Client(box).get("/dead-letters").text
    assert "<dt>attempts</dt><dd>the number of times it was handed out, as far as the box knows</dd>" in page


def test_messages_that_wait_for_the_same_reason_are_told_once(box):
    define(box, sq.Fifo())
    publish(box, *range(1, 11))
    failing(box, size=10)
    page = Client(box).get("/groups/shop/c1").text
    timeline = page.split('id="timeline"')[1]
    assert timeline.count('<li class="waits">') == 4
    assert "and 7 messages more for the same reason" in timeline


def test_the_next_attempt_is_told_from_now_and_its_error_is_left_as_it_is(box):
    define(box, sq.Fifo())
    publish(box, 1)
    failing(box, TRANSIENT)
    page = Client(box).get("/groups/shop/c1").text
    assert re.search(r"TimeoutError: try later; again <time [^>]+>[^<]+</time>", page)


def test_events_are_filtered_by_their_kinds(box):
    fill(box)
    groups.resume(box, "shop", "c3", **BY)
    client = Client(box)
    assert '<option value="suspended">suspended</option>' in client.get("/events").text
    assert {one["kind"] for one in client.get("/events.json").json()} >= {"suspended", "resumed"}
    assert {one["kind"] for one in client.get("/events.json?kind=suspended").json()} == {"suspended"}
    assert client.get("/events.json?kind=6").status_code == 400


def test_a_filter_that_a_link_has_set_is_shown_as_set(box):
    fill(box)
    page = Client(box).get("/faults?message=x").text
    assert '<details class="filters"><summary>Filter<span>: message x</span></summary>' in page
