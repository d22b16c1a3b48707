"""Each page shows what the box has, and its JSON twin is what the command prints with `--json`."""

from __future__ import annotations

import json
import re
from html import unescape
from uuid import uuid4

import psycopg
import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.box.faults.faults import Fault
from seriatim.box.workers.heartbeat import Process, Report, beat
from seriatim.cli.main import main
from seriatim.console.pages import pages
from seriatim.kernel.operators.fault import FaultKind
from seriatim.operations import groups, queues
from tests.box.console import BY, define, failing, publish, rows
from tests.console.conftest import NASTY, Client, fill
from tests.databases import box_with

pytestmark = pytest.mark.telling

#: Pages only look.
filled = box_with(fill, scope="module")


@pytest.fixture(scope="module")
def client(filled):
    """One console for all: templates are made once."""
    return Client(filled)


MENU = [page.paths[0] for page in pages() if page.section]
#: The commands whose JSON is that of a page.
TWINS = {
    "/.json": "queues",
    "/groups.json?all=yes": "groups",
    "/groups.json?by=error": "groups --by error",
    "/groups/shop/c1.json": "group show c1 --queue shop",
    "/messages.json": "messages list",
    "/messages.json?queue=shop&status=held": "messages list --queue shop --status held",
    "/faults.json": "faults",
    "/faults.json?by=error": "faults --by error",
    "/dead-letters.json": "dead-letters list",
    "/bulk-operations.json": "bulk list",
    "/dialogs.json": "dialogs list",
    "/instances.json": "instances list",
    "/workers.json": "workers",
    "/events.json": "events",
    "/subscriptions.json": "subscriptions",
    "/schedules.json": "schedules",
    "/search.json?text=c1": "find c1",
    "/search.json?text=C1": "find C1 --similar",
    "/faults/1.json": "faults 1",
}


@pytest.mark.parametrize("path", MENU)
def test_every_page_of_the_menu_is_there_and_has_a_twin(client, path):
    page = client.get(f"/{path}")
    assert page.status_code == 200, page.text
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert '<main id="main"' in page.text
    assert client.get(f"/{path}.json").headers["content-type"] == "application/json"


@pytest.mark.parametrize(("path", "command"), TWINS.items(), ids=TWINS.values())
def test_a_twin_is_what_the_command_prints(client, filled, path, command):
    where = ["--dsn", filled.dsn, "--schema", filled.schema, "--json"]
    ran = CliRunner().invoke(main, [*command.split(), *where])
    assert ran.exit_code == 0, ran.output
    assert without_age(client.get(path).json()) == without_age(json.loads(ran.stdout))


def without_age(found):
    """The rows without what the clock changes between two looks."""
    rows = found if isinstance(found, list) else [found]
    return [{name: value for name, value in row.items() if not name.endswith(("age_s", "silent_s"))} for row in rows]


def test_a_group_says_why_it_stands_still_what_blocks_it_and_what_helps(client):
    text = client.get("/groups/shop/c1").text
    assert "the handler failed for good: ValueError: no such customer" in text
    assert text.index('name="action" value="retry"') < text.index('name="action" value="skip_message"')
    assert "cannot resume a group that is faulted: it has to be suspended" in text
    waits = client.get("/groups/shop/c2").text
    assert re.search(r'which is there since <time [^>]+ UTC">[^<]+ ago</time>', waits)
    assert "1 is missing" in waits
    assert "<strong>1</strong>" in waits
    assert "<strong>4..6</strong>" in waits
    assert "<strong>8</strong>" in waits


def test_a_key_is_one_part_of_the_address_whatever_is_in_it(client):
    found = [one["group"] for one in client.get("/messages.json?queue=shop").json()]
    assert NASTY in found
    address = "/groups/shop/a%2Fb%252F%3F%23%C3%BC%2Ejson"
    assert client.get(address).status_code == 200
    assert client.get(f"{address}.json").json()["view"]["group"] == NASTY
    assert f'href="{address}"' in client.get("/messages?queue=shop").text


def test_what_is_not_there_is_a_page_that_says_so(client):
    for path in (
        "/groups/shop/none",
        "/groups/none/c1",
        "/messages/none",
        "/faults/9999",
        "/faults/x",
        "/nothing",
        "/queues/none",
    ):
        page = client.get(path)
        assert page.status_code == 404, path
        assert "<h1>" in page.text
        assert set(client.get(f"{path}.json").json()) == {"error", "remedy"}, path
    assert client.get("/groups?limit=x").status_code == 400


def test_a_list_goes_on_where_it_ended(client):
    first = client.get("/messages?limit=1&queue=shop").text
    assert 'rel="next"' in first
    page = client.get("/groups?limit=1&all=yes").text
    assert "after_key=c1" in page
    assert ">c2</a>" in client.get("/groups?limit=1&all=yes&after_queue=shop&after_key=c1").text


def test_the_law_is_a_line_with_its_numbers_that_turns_red(box):
    fill(box)
    (line,) = [
        one.split("</p>")[0]
        for one in Client(box).get("/").text.split('class="law')
        if "The law of conservation" in one
    ]
    assert 'kept" role="status"' in line
    assert "The law of conservation holds: received 10 = released 4 + held 5 + duplicate 1." in re.sub(
        "<[^>]+>", "", line
    )
    rows(box, "UPDATE {schema}.known_groups SET arrivals = arrivals + 1 WHERE group_key = 'c2' RETURNING 1")
    page = Client(box).get("/").text
    assert 'class="law broken" role="alert"' in page
    assert "received 11 ≠ released 4 + held 5" in page
    assert "group &#39;c2&#39;: took in 5, but 0 are decided and 4 held" in page


def test_the_first_page_begins_with_what_needs_a_hand(box):
    fill(box)
    publish(box, 1, group="stopped")
    groups.suspend(box, "shop", "stopped", actor="ann", reason="a look")
    page = Client(box).get("/").text
    before = page[: page.index("<table")]
    assert "What needs a look" in before
    assert "<strong>suspended</strong>: queue &#39;shop&#39;: " in before
    assert 'href="/groups?state=suspended">Show them, and resume</a>' in before
    assert "<strong>unrouted</strong>: " in before
    assert page.index("The law of conservation holds") > page.index("</table>")  # a small line, while it holds


def test_a_queue_that_is_off_or_full_has_a_link_too(box):
    define(box, max_messages=2)
    publish(box, 1, 2)
    box.define(sq.Queue("idle", sq.Unordered()))
    queues.turn_off(box, "idle", **BY)
    page = Client(box).get("/").text
    assert 'href="/queues/idle">Show it, and turn it on</a>' in page
    assert 'href="/queues/shop">Show it</a>' in page
    assert "Show it, and turn it on" not in Client(box).get("/queues/idle").text


def test_nothing_needs_a_hand_in_an_empty_box(box):
    page = Client(box).get("/").text
    assert "Nothing needs a hand" in page
    assert "What needs a look" not in page


def test_a_forgotten_connection_is_listed_and_ended(box):
    client = Client(box)
    with psycopg.connect(box.dsn, application_name="a notebook") as forgotten:
        forgotten.execute("SELECT 1")
        pid = forgotten.info.backend_pid
        assert "a notebook" in client.get("/connections").text
        form = {"action": "connection.end", "name": str(pid), "reason": "it was forgotten"}
        assert client.post("/act", form).status_code == 303
        with pytest.raises(psycopg.OperationalError):
            forgotten.execute("SELECT 1")
    assert "a notebook" not in client.get("/connections").text
    assert client.post("/act", form | {"name": "1"}).status_code in (400, 404)


def test_a_message_has_its_properties_its_body_and_its_way(client, filled):
    one = client.get("/messages.json?queue=shop&group=c1").json()[0]
    text = client.get(f"/messages/{one['message_id']}").text
    assert "customer" in text
    assert "shown as json" in text
    assert "received" in text
    (stray,) = client.get("/unrouted.json").json()
    assert "00 01 ff" in client.get(f"/messages/{stray['message_id']}").text


def test_a_worker_is_shown_with_what_it_has_in_hand(client, filled):
    (entry_id, *_) = [one.entry_id for one in [groups.standing(filled, "shop", "c1").blocks]]
    with filled.session() as tx:
        report = Report("shop", "leased", 8, 8, 50, None, [("c1", entry_id, 2.0)])
        beat(tx.transaction, Process(uuid4(), "far:4711", "far", 4711), [report])
    page = client.get("/workers").text
    assert "far:4711" in page
    assert 'href="/groups/shop/c1"' in page
    assert "under a lease" in page


def test_a_key_that_browsers_take_for_a_step_has_an_address(client, filled):
    publish(filled, 1, group="..")
    page = client.get("/messages?queue=shop&group=..").text
    assert 'href="/group?queue=shop&amp;key=.."' in page
    assert client.get("/group?queue=shop&key=..").status_code == 200
    assert client.get("/group.json?queue=shop&key=..").json()["view"]["group"] == ".."


def test_a_long_reason_is_its_first_line_with_the_rest_behind_it(box):
    define(box)
    publish(box, 1, group="c1")
    publish(box, 1, group="c2")
    text = "<b>no</b> connection: " + "address after address refused it, " * 20 + "\nHINT: <try> again"
    failing(box, Fault(FaultKind.BUSINESS, "DatabaseError", text, "w1"), group="c1")
    failing(box, Fault(FaultKind.BUSINESS, "ValueError", "short", "w1"), group="c2")
    client = Client(box)
    for address in ("/groups?all=yes", "/groups/shop/c1", "/messages?queue=shop&group=c1", "/faults/1"):
        page = client.get(address).text
        summary, rest = re.search(
            r'<details class="fold"><summary>(.*?)</summary><div>(.*?)</div>', page, re.DOTALL
        ).groups()
        assert len(unescape(summary)) < 260, address
        assert summary.endswith(" …")
        assert "&lt;b&gt;no&lt;/b&gt; connection" in summary
        assert "\nHINT: &lt;try&gt; again" in rest
        assert "<try>" not in page
    assert "fold" not in client.get("/groups/shop/c2").text


def test_each_cell_says_to_which_column_it_belongs(client):
    for address in ("/", "/groups?all=yes", "/messages", "/faults", "/log"):
        table = client.get(address).text.split('<div class="scroll"')[1].split("</table>")[0]
        heads = [one.strip() for one in re.findall(r"<th scope=\"col\"[^>]*>([^<]*)", table)]
        cells = re.findall(r'<td data-title="([^"]+)"', table)
        assert cells, address
        assert set(cells) <= set(heads), address
        assert table.count("<td") == len(cells), address
