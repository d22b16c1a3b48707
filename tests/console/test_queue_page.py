"""The page of a queue: its state in words, what helps, its groups, and what is set for it, shown and changed there."""

from __future__ import annotations

import getpass

import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.cli.main import main
from seriatim.operations import groups, queues
from seriatim.operations.queue_standing import queue_standing
from tests.box.console import BY, define, failing, publish, rows
from tests.console.conftest import Client, fill
from tests.databases import box_with

filled = box_with(fill)


@pytest.fixture
def client(filled):
    return Client(filled)


def test_the_state_is_told_in_words_with_what_helps_and_its_groups(box):
    define(box)
    page = Client(box).get("/queues/shop").text
    assert "On, nobody works on it, no group stands still." in page
    assert "Nothing in it needs a hand." in page
    publish(box, 1, 2)
    page = Client(box).get("/queues/shop").text
    assert "On, nobody works on it, and there are messages, no group stands still." in page
    assert "What helps: <code>seriatim work shop --handler MODULE:FUNCTION</code>" in page
    failing(box)
    page = Client(box).get("/queues/shop").text
    assert "1 group stands still" in page
    assert "<strong>faulted</strong>" in page
    assert "seriatim group retry c1 --queue shop" in page
    assert ">Retry 1 group…</a>" in page
    assert 'href="/groups/shop/c1"' in page
    queues.turn_off(box, "shop", **BY)
    page = Client(box).get("/queues/shop").text
    assert "Off: it takes messages in, and hands none out" in page
    assert "seriatim queue on shop" in page
    assert '<button class="primary">Turn on queue shop</button>' in page
    box.define(sq.Queue("other", sq.Unordered()))
    assert "c1" not in Client(box).get("/queues/other").text


def test_a_queue_without_groups_tells_its_failed_messages(box):
    define(box, sq.Unordered(), group=None, sequence=None)
    publish(box, 1)
    rows(box, "UPDATE {schema}.entries SET status = 'faulted' RETURNING 1")
    page = Client(box).get("/queues/shop").text
    assert "1 message failed for good" in page
    assert "status=faulted" in page
    assert "<h2>Groups</h2>" not in page
    assert 'href="/messages?status=faulted">Show them, and retry</a>' in Client(box).get("/").text


@pytest.mark.parametrize(("action", "more"), [("suspend", {}), ("reset", {"next": "7"})])
def test_a_group_begins_with_what_is_done_to_it(box, action, more):
    define(box)
    client = Client(box)
    assert "A group that isn&#39;t there yet" in client.get("/queues/shop").text.replace("n't", "n&#39;t")
    form = {"action": action, "queue": "shop", "group": "new", "begins": "yes", "page": "/queues/shop"} | more
    refused = client.post("/act", form)
    assert refused.status_code == 422
    assert "the reason is missing" in refused.text
    assert 'name="group" required autocomplete="off" value="new"' in refused.text
    assert client.post("/act", form | {"reason": "r"}).status_code == 303
    view = groups.group_view(box, "shop", "new")
    assert (view.state, view.next) == (("suspended", 1) if action == "suspend" else ("ready", 7))


def test_a_group_that_came_meanwhile_is_not_acted_on_unseen(box):
    define(box)
    publish(box, 1)
    failing(box)  # c1
    form = {"action": "suspend", "queue": "shop", "group": "c1", "begins": "yes", "reason": "r"}
    assert Client(box).post("/act", form).status_code == 409
    assert groups.group_view(box, "shop", "c1").state == "faulted"


def test_the_command_tells_the_same(filled):
    told = CliRunner().invoke(main, ["queue", "show", "shop", "--dsn", filled.dsn, "--schema", filled.schema]).stdout
    it = queue_standing(filled, "shop")
    assert f"state: {it.words}\n" in told
    assert f"helps: {it.helps}\n" in told
    assert it.words in Client(filled).get("/queues/shop").text.replace("On,", "on,")


def test_settings_are_shown_and_changed_there(client, filled):
    assert client.get("/queues/shop").text.count('placeholder="not set" value=""') == 4
    form = {
        "action": "queue.set",
        "name": "shop",
        "workers": "8",
        "in_flight": "",
        "rate": "30/m",
        "run_length": "20",
        "reason": "slow",
    }
    answer = client.post("/act", form)
    assert (answer.status_code, answer.headers["location"]) == (303, "/queues/shop")
    found = queues.settings(filled, "shop")
    assert (found.workers, found.in_flight, found.rate, found.run_length, found.set_by) == (
        8,
        None,
        0.5,
        20,
        getpass.getuser(),
    )
    page = client.get("/queues/shop").text
    assert 'name="rate" size="8" autocomplete="off" placeholder="not set" value="30/m"' in page
    assert client.get("/queues/shop.json").json()["settings"]["workers"] == 8
    assert client.post("/act", form | {"workers": "", "rate": "", "run_length": ""}).status_code == 303
    assert queues.settings(filled, "shop").values == {}
    assert [row[0] for row in rows(filled, "SELECT action FROM {schema}.operator_log WHERE reason = 'slow'")] == [
        "set",
        "set",
    ]


@pytest.mark.parametrize(
    ("field", "typed", "told"),
    [
        ("workers", "many", "workers can&#39;t be &#39;many&#39;"),
        ("workers", "0", "1 to 1,000"),
        ("rate", "fast", "fast"),
        ("run_length", "-1", "run_length"),
        ("reason", "", "the reason is missing"),
    ],
)
def test_what_was_typed_stays_with_the_error(client, filled, field, typed, told):
    form = {"action": "queue.set", "name": "shop", "workers": "3", "reason": "r", "page": "/queues/shop"} | {
        field: typed
    }
    answer = client.post("/act", form)
    assert answer.status_code == 422
    assert told in answer.text
    if typed:
        assert f'value="{typed}"' in answer.text
    assert queues.settings(filled, "shop").values == {}


def test_settings_are_for_those_who_may_switch(filled):
    looking = Client(filled, reads_only=True)
    page = looking.get("/queues/shop").text
    assert "not set</dd>" in page
    assert "queue.set" not in page
    assert (
        looking.post("/act", {"action": "queue.set", "name": "shop", "workers": "3", "reason": "r"}).status_code == 403
    )
    assert queues.settings(filled, "shop").values == {}
