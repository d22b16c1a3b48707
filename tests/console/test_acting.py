"""What is done is what was seen, by somebody who may, with a reason; and what has changed meanwhile is left alone."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import quote

import pytest

import seriatim as sq
from seriatim.box.faults.faults import Fault
from seriatim.console.who import Actor
from seriatim.kernel.operators.fault import FaultKind
from seriatim.operations import dead_letters, faults, groups, queues
from seriatim.operations.looking import open_to_look
from seriatim.operations.operator_log import operator_log
from seriatim.testing.work import work_off
from tests.box.console import TRANSIENT, define, failing, publish
from tests.console.conftest import Client
from tests.console.story import ADDRESS, orders, shop, stop
from tests.console.test_guard import form_of


@pytest.fixture
def shopping(box):
    shop(box, faulted=3, refused=1)
    return Client(box)


def state(box, group, queue="shop"):
    return groups.group_view(box, queue, group).state


def test_the_one_button_mends_and_the_page_says_what_was_done(client, filled):
    answer = client.post("/act", form_of(client, reason="the customer is there now"))
    assert answer.status_code == 303
    page = client.get(answer.headers["location"]).text
    assert "Retry is done: faulted → waiting" in page
    entry = operator_log(filled)[0]
    assert (entry.action, entry.group, entry.reason) == ("retry", "c1", "the customer is there now")


def test_every_action_of_a_group_is_there(client, filled):
    for action, more in (
        ("skip_message", {}), ("skip_hole", {}), ("reset", {"next": "9"}), ("suspend", {}), ("resume", {}), ("restart", {}), ("close", {}), ("abort", {}),
    ):  # fmt: skip
        answer = client.post("/act", form_of(client, action, **more))
        assert answer.status_code in (303, 409), (action, answer.text)
    done = [one.action for one in operator_log(filled) if one.group == "c1"]
    assert {"skip_message", "suspend", "resume", "reset", "abort"} <= set(done)


@pytest.mark.parametrize(
    ("more", "status", "told"),
    [
        ({"reason": "  "}, 422, "the reason is missing"),
        ({"reason": "x" * 5000}, 422, "the reason is too long"),
        ({"action": "fly"}, 400, "there is no action"),
        ({"action": "requeue"}, 400, "there is no action"),
        ({"action": "resume"}, 409, "cannot resume a group that is faulted"),
        ({"action": "reset"}, 422, "the next number is missing"),
        ({"action": "reset", "next": "1e9"}, 422, "next can&#39;t be"),
        ({"group": "none"}, 404, "there is no group"),
        ({"seen": "another"}, 409, "has changed since you looked"),
    ],
)
def test_what_can_not_be_done_is_told_of_and_not_done(client, filled, more, status, told):
    before = len(operator_log(filled))
    answer = client.post("/act", form_of(client) | more)
    assert (answer.status_code, told in answer.text) == (status, True), answer.text
    assert len(operator_log(filled)) == before


def test_a_group_that_was_mended_meanwhile_is_left_alone(client, filled):
    form = form_of(client)
    groups.skip_message(filled, "shop", "c1", actor="bob", reason="I was faster")
    answer = client.post("/act", form)
    assert answer.status_code == 409
    assert "has changed since you looked: it is waiting now. Nothing was done" in answer.text
    assert [one.actor for one in operator_log(filled) if one.group == "c1"] == ["bob"]


def test_messages_that_come_behind_do_not_hinder(client, filled):
    form = form_of(client)
    publish(filled, 3, group="c1")
    assert client.post("/act", form).status_code == 303


def test_a_body_is_edited_in_the_page_and_checked_against_its_type(box):
    shop(box, faulted=1, refused=0)
    client = Client(box)
    page = client.get("/groups/fulfilment/c1").text
    assert "&#34;postcode&#34;: null" in page
    seen = re.search(r'name="seen" value="([^"]+)"', page)[1]
    form = {
        "action": "retry",
        "queue": "fulfilment",
        "group": "c1",
        "reason": "the postcode",
        "seen": seen,
        "body_before": "x",
    }
    wrong = client.post("/act", form | {"body": '{"item": "teapot"}'})
    assert wrong.status_code == 422
    assert "amount" in wrong.text
    assert "{&#34;item&#34;: &#34;teapot&#34;}</textarea>" in wrong.text
    mended = '{"item": "teapot",\r\n "amount": 2}'
    assert client.post("/act", form | {"body": mended}).status_code == 303
    with box.session() as tx:
        (message, *_) = tx.receive("fulfilment", group="c1", limit=1)
        assert message.body == b'{"item": "teapot",\n "amount": 2}'
        tx.connection.rollback()
    diff = client.get(f"/messages/{message.message_id}").text
    assert "Edited in fulfilment" in diff
    assert '<span class="added">' in diff


def test_a_body_that_is_not_changed_is_not_edited(box):
    shop(box, faulted=1, refused=0)
    client = Client(box)
    page = client.get("/groups/fulfilment/c1").text
    seen = re.search(r'name="seen" value="([^"]+)"', page)[1]
    form = {"action": "retry", "queue": "fulfilment", "group": "c1", "reason": "again", "seen": seen}
    assert client.post("/act", form | {"body": "same", "body_before": "same"}).status_code == 303
    assert "edit" not in str(operator_log(box)[0].details)


# ---- on the page of a message


def posted(client, address, action):
    """What comes of the form of an action on a page, filled in with a reason."""
    forms = [one for one in client.get(address).text.split("<form ")[1:] if f'name="action" value="{action}"' in one]
    fields = re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', forms[0].split("</form>")[0])
    # A browser sends ends of lines so.
    sent = {name: re.sub(r"\r\n|\r|\n", "\r\n", unescape(value)) for name, value in fields}
    return client.post("/act", sent | {"reason": "as it should be"})


@pytest.mark.parametrize("key", ["a\nb", "a\rb", "a\r\nb", "100%25"])
def test_a_group_is_mended_on_its_page_and_on_that_of_its_message_whatever_its_key_is(box, key):
    define(box, sq.Standard())
    publish(box, 1, 2, group=key)
    client, address = Client(box), f"/groups/shop/{quote(key, safe='')}"
    for at in (address, None):
        failing(box, group=key)
        (fault, *_) = faults.faults(box, "shop")
        assert posted(client, at or f"/messages/{fault.message_id}", "retry").status_code == 303
        assert state(box, key) == "ready"


def test_a_message_that_stops_its_group_is_retried_on_its_page_and_on_that_of_its_fault(shopping, box):
    (first, second) = (one for one in faults.faults(box, "fulfilment", error="4711") if one.group in ("c1", "c2"))
    for group, address in (
        (first.group, f"/messages/{first.message_id}"),
        (second.group, f"/faults/{second.fault_id}"),
    ):
        answer = posted(shopping, address, "retry")
        assert answer.headers["location"].startswith(f"/groups/fulfilment/{group}?done=")
        assert state(box, group, "fulfilment") == "ready"
        assert "What helps" not in shopping.get(address).text
    behind = shopping.get("/messages.json?queue=fulfilment&group=c3").json()[1]["message_id"]
    assert "What helps" not in shopping.get(f"/messages/{behind}").text


def test_a_dead_letter_is_put_back_or_deleted_on_the_page_of_its_message(shopping, box):
    groups.skip_message(box, "fulfilment", "c1", actor="bob", reason="gone")
    one, other = dead_letters.dead_letters(box)
    assert f'href="/messages/{one.message_id}">{one.entry_id}</a>' in shopping.get("/dead-letters").text
    answer = posted(shopping, f"/messages/{one.message_id}", "letter.requeue")
    page = shopping.get(answer.headers["location"]).text
    assert "Requeue is done. It is in the operator log as number" in page
    assert "What helps" not in page
    (fault,) = faults.faults(box, message_id=other.message_id)
    assert ">Requeue<" in shopping.get(f"/faults/{fault.fault_id}").text
    assert posted(shopping, f"/faults/{fault.fault_id}", "letter.delete").headers["location"] == "/dead-letters"
    assert dead_letters.dead_letters(box) == []
    assert [entry.reason for entry in operator_log(box)[:2]] == ["as it should be"] * 2
    assert "no queue has it any more" in shopping.get(f"/faults/{fault.fault_id}").text
    again = shopping.post("/act", {"action": "letter.requeue", "name": str(other.entry_id), "reason": "r"})
    assert (again.status_code, "there is no dead letter" in again.text) == (404, True)


def test_a_message_that_waits_by_itself_is_retried_on_its_page(box):
    define(box, policy=sq.Unordered(), group=None, sequence=None, retry=sq.Retry(delay=3600))
    (message_id,) = publish(box, 1)
    failing(box, TRANSIENT, group=None)
    client = Client(box)
    assert posted(client, f"/messages/{message_id}", "message.retry").status_code == 303
    assert "What helps" not in client.get(f"/messages/{message_id}").text
    with box.session() as tx:
        assert [one.message_id for one in tx.receive("shop", limit=1)] == [message_id]


def test_a_message_that_failed_by_itself_before_a_gate_is_skipped_on_its_page(box):
    box.define(
        sq.MessageType("request", properties={"customer": "string"}),
        sq.Queue("work", sq.Unordered(), group="customer", gate=sq.Gate("out"), retry=sq.Retry(1)),
        sq.Queue("out", sq.Standard(), group="origin_group", sequence="origin_ordinal"),
        sq.Subscription("requests", where="type = 'request'", to="work"),
    )
    message = sq.Message(type="request", context={"customer": "c"})
    box.publish(message)

    def handler(one, tx):
        raise sq.Business("it has no price")

    work_off(box, "work", handler, fails=True)
    client, address = Client(box), f"/messages/{message.message_id}"
    assert "for an operator: its handler failed for good, handed out 1 time before" in client.get(address).text
    assert posted(client, address, "message.skip").status_code == 303
    assert [letter.message_id for letter in dead_letters.dead_letters(box, queue="work")] == [message.message_id]
    assert "message.skip" not in client.get(address).text


# ---- many


def test_many_are_retried_by_the_filter_and_what_changed_is_left_out_and_said(shopping, box):
    where = "what=groups&action=retry&error=ValueError"
    page = shopping.get(f"/bulk?{where}").text
    assert "Retry 3 groups?" in page
    seen = re.search(r'name="seen" value="([^"]+)"', page)[1]
    groups.skip_message(box, "fulfilment", "c2", actor="bob", reason="gone")
    orders(box, "c99", 1)
    stop(box, "c99", ADDRESS)
    form = {"what": "groups", "do": "retry", "error": "ValueError", "reason": "mended", "seen": seen}
    done = shopping.post("/bulk", form)
    assert done.status_code == 200
    assert "Retry: 2 groups" in done.text
    assert "Left out: 1" in done.text
    assert ">c99</a>" in done.text
    assert "1 that you saw are in another state now" in done.text
    assert state(box, "c99", "fulfilment") == "faulted"
    assert {state(box, one, "fulfilment") for one in ("c1", "c3")} == {"ready"}
    assert sorted(one.group for one in operator_log(box) if one.action == "retry") == ["c1", "c3"]
    again = shopping.post("/bulk", form | {"seen": ""})
    assert "Retry: 0 groups" in again.text
    # What is left leads on from there.
    assert 'href="/bulk?what=groups&amp;action=retry&amp;error_class=ValueError">Retry 1 group…</a>' in again.text


def test_groups_are_chosen_by_the_class_of_their_error_and_its_text(box):
    shop(box, faulted=2, refused=0)
    for name, kind, text in (("x1", "Wrapped", "ValueError: order 4711"), ("x2", "ValueError", "no street")):
        orders(box, name, 1)
        stop(box, name, Fault(FaultKind.BUSINESS, kind, text, "w1"))
    groups.suspend(box, "fulfilment", "x2", actor="ann", reason="later")
    client = Client(box)
    page = client.get("/groups").text
    assert "state=faulted" not in page.partition("Retry all that failed")[0].rpartition("<a ")[0]
    # Not all that nothing chooses are shown, so that nothing is offered for all of them.
    assert "All groups that this filter finds" not in page
    assert "All groups that this filter finds" in client.get("/groups?error_class=ValueError").text
    mixed = client.get("/bulk?what=groups&action=skip_message&error=order+4711").text
    assert "They failed in 2 ways" in mixed
    assert "<strong>2</strong> ValueError: order … has no postcode" in mixed
    assert "They failed in" not in client.get("/bulk?what=groups&action=skip_message&error_class=ValueError").text
    assert 'href="/groups?error_class=ValueError"><strong>2 groups</strong>' in page
    for given, wanted in (
        ("error_class=ValueError", ["c1", "c2"]),
        ("error=order+4711", ["c1", "c2", "x1"]),
        ("error_class=Wrapped&error=order+4711", ["x1"]),
        ("error_class=valueerror", []),
    ):
        assert [one["group"] for one in client.get(f"/groups.json?{given}").json()] == wanted, given
        preview = client.get(f"/bulk.json?what=groups&action=retry&{given}").json()
        assert [one[1] for one in preview["found"]] == wanted, given
    assert [one["group"] for one in client.get("/faults.json?error_class=Wrapped").json()] == ["x1"]
    groups.skip_message(box, "fulfilment", "x1", actor="ann", reason="gone")
    (letter,) = client.get("/dead-letters.json?error_class=Wrapped&error=order+4711").json()
    assert letter["group"] == "x1"
    assert client.get("/dead-letters.json?error_class=ValueError").json() == []


def test_what_failed_in_several_ways_is_retried_at_once(box):
    shop(box, faulted=2, refused=3)
    client = Client(box)
    assert "Retry all that failed" not in client.get("/groups?error_class=ValueError").text
    address = "/bulk?what=groups&amp;action=retry&amp;queue=fulfilment&amp;state=faulted"
    assert f'href="{address}">Retry all that failed…</a>' in client.get("/groups?queue=fulfilment&all=yes").text
    preview = client.get(address.replace("&amp;", "&")).text
    assert "Retry 3 groups?" in preview
    assert "They failed in 2 ways" in preview


def test_a_preview_says_what_is_left_out_and_why(shopping):
    page = shopping.get("/bulk?what=groups&action=retry").text
    assert "Retry 3 groups?" in page
    assert "Left out: 2" in page
    assert "cannot retry a group that is suspended" in page
    twin = shopping.get("/bulk.json?what=groups&action=retry").json()
    assert (len(twin["found"]), len(twin["left_out"])) == (3, 2)


def test_the_number_on_a_button_is_that_of_its_filter(shopping):
    page = shopping.get("/groups").text
    numbered = re.findall(r'class="button" href="([^"]+)">\D+ (\d+) group', page)
    for address, number in numbered:
        assert f"{number} group" in shopping.get(address.replace("&amp;", "&")).text.split("</h1>")[0]
    actions = [re.search(r"action=(\w+)", address)[1] for address, _ in numbered]
    assert sorted(actions) == ["resume", "retry", "skip_message"]


def test_dead_letters_are_put_back_or_deleted_by_the_filter(shopping, box):
    (letter,) = dead_letters.dead_letters(box)
    page = shopping.get("/bulk?what=dead-letters&action=requeue").text
    seen = re.search(r'name="seen" value="([^"]+)"', page)[1]
    form = {"what": "dead-letters", "do": "requeue", "reason": "after all", "seen": seen}
    assert "Requeue: 1 dead letter" in shopping.post("/bulk", form).text
    assert dead_letters.dead_letters(box) == []
    assert letter.group == "p1"
    assert "Nothing was done." in shopping.post("/bulk", form).text


@pytest.mark.parametrize(
    "form",
    [{"what": "groups", "do": "reset"}, {"what": "x", "do": "retry"}, {"what": "groups", "do": "retry", "seen": "!"},
     {"what": "groups", "do": "retry", "seen": "abc"}, {"what": "groups", "do": "retry", "seen": "a" * 12_012}],
)  # fmt: skip
def test_an_odd_action_on_many_is_refused(shopping, form):
    assert shopping.post("/bulk", {"reason": "r", "seen": ""} | form).status_code == 400


def test_each_action_needs_its_role(box):
    shop(box, faulted=1, refused=1)
    may = {"see": [], "mend": ["retry", "unrouted.resubmit"], "discard": ["abort"], "switch": ["queue.off"]}
    for role, can in may.items():
        client = Client(box, identify=lambda _, role=role: Actor("ann", frozenset({"see", role})))
        for action in ("retry", "unrouted.resubmit", "abort", "queue.off"):
            form = {"action": action, "queue": "fulfilment", "group": "none", "name": "none", "seen": "", "reason": "r"}
            answer = client.post("/act", form)
            assert (answer.status_code == 403) is (action not in can), (role, action, answer.status_code)
        status = client.post("/bulk", {"what": "groups", "do": "retry", "seen": "", "reason": "r"}).status_code
        assert status == (200 if role == "mend" else 403)


def test_a_queue_is_turned_off_and_on_with_a_reason(shopping, box):
    form = {"action": "queue.off", "name": "billing", "reason": "the bank is closed"}
    assert shopping.post("/act", form).headers["location"] == "/queues/billing"
    assert [one.enabled for one in queues.queues(box) if one.queue == "billing"] == [False]
    entry = operator_log(box)[0]
    assert (entry.action, entry.queue, entry.reason) == ("turn_off", "billing", "the bank is closed")


def test_a_console_that_only_looks_changes_nothing_and_postgresql_sees_to_it(box):
    shop(box, faulted=1, refused=0)
    before = len(operator_log(box))
    with open_to_look(box.dsn, schema=box.schema, reads_only=True) as looking:
        client = Client(looking, reads_only=True)
        page = client.get("/groups/fulfilment/c1")
        assert "read-only" in page.text
        assert "<form" not in page.text.split("<main")[1]
        for path in (
            "/",
            "/groups",
            "/messages",
            "/faults",
            "/dead-letters",
            "/workers",
            "/log",
            "/search?text=c1",
            "/events",
        ):
            assert client.get(path).status_code == 200, path
        form = {"action": "retry", "queue": "fulfilment", "group": "c1", "seen": "", "reason": "r"}
        assert client.post("/act", form).status_code == 403
        assert client.post("/bulk", {"what": "groups", "do": "retry", "seen": "", "reason": "r"}).status_code == 403
        with pytest.raises(Exception, match="read-only"):
            groups.retry(looking, "fulfilment", "c1", actor="ann", reason="r")
    assert len(operator_log(box)) == before


def test_a_form_that_is_too_large_or_none_is_refused(client):
    assert client.post("/act", {"reason": "x" * 2_000_000}).status_code == 413
    headers = {"sec-fetch-site": "same-origin", "content-type": "application/json"}
    assert client.request("POST", "/act", content=b"{}", headers=headers).status_code == 415
    headers["content-type"] = "application/x-www-form-urlencoded"
    for content in (b"a=1&a=2", b"a=%ff", b"\xff", b"&".join(b"x%d=1" % one for one in range(200))):
        assert client.request("POST", "/act", content=content, headers=headers).status_code == 400


def test_messages_that_are_routed_again_are_in_the_operator_log_with_the_reason(shopping, box):
    form = {"action": "unrouted.resubmit", "name": "", "reason": "the subscription is there now"}
    assert shopping.post("/act", form).status_code == 303
    entry = operator_log(box)[0]
    assert (entry.action, entry.reason, entry.details) == (
        "resubmit", "the subscription is there now", {"routed": 0, "left": 1},
    )  # fmt: skip
