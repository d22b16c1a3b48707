"""What is refused isn't lost: a filter or a form that can't be used is shown as it was typed, with the reason beside it."""

from __future__ import annotations

import re
from html import unescape

import pytest

from seriatim.console.pages import pages
from seriatim.operations import dead_letters, groups
from seriatim.operations.operator_log import operator_log
from tests.console.conftest import Client, fill
from tests.databases import box_with

#: What is refused changes nothing.
filled = box_with(fill, scope="module")


@pytest.fixture(scope="module")
def client(filled):
    """One console for all: templates are made once."""
    return Client(filled)


FILTERED = [(page, one) for page in pages() if page.section and not page.of_pipelines for one in page.fields]
#: A value that no filter of its kind can have.
WRONG = {"queue": "nope", "since": "odd", "until": "odd", "older_than": "odd"}


@pytest.mark.parametrize(
    ("page", "field"),
    [one for one in FILTERED if one[1].choices or one[1].name in WRONG],
    ids=lambda one: getattr(one, "name", ""),
)
def test_a_filter_that_can_not_be_used_is_an_error_beside_it_and_in_the_twin(client, page, field):
    value = WRONG.get(field.name, "nope")
    status = 404 if field.name == "queue" else 400
    path = f"{page.paths[0]}.json?{field.name}={value}"
    twin = client.get(f"/{path}")
    assert (twin.status_code, set(twin.json())) == (status, {"error", "remedy"}), twin.text
    shown = client.get(f"/{path.replace('.json', '')}")
    assert shown.status_code == status
    label = next(one for one in shown.text.split("<label")[1:] if field.label in unescape(one))
    assert len(field.choices) == 1 or f'value="{value}"' in label
    assert "aria-invalid" in label
    assert twin.json()["error"] in unescape(label)
    assert "Nothing is listed" in shown.text


def test_a_filter_that_no_page_has_finds_not_everything(client):
    for address in ("/groups?qeue=shop", "/groups.json?qeue=shop", "/bulk?what=groups&action=retry&qeue=shop"):
        answer = client.get(address)
        assert answer.status_code == 400, address
        assert "this page has no filter" in answer.text
    assert client.get("/bulk?what=dead-letters&action=requeue&queue=nope").status_code == 404


def test_a_queue_without_a_key_leads_to_its_groups(client):
    answer = client.get("/groups/shop")
    assert (answer.status_code, answer.headers["location"]) == (303, "/groups?queue=shop")
    assert client.get("/groups/shop.json").headers["location"] == "/groups.json?queue=shop"
    assert client.get("/groups/nope").status_code == 404
    assert "<h1>Overview</h1>" in client.get("/queues").text
    assert "there is no queue" in client.get("/groups/nope.json").json()["error"]


def forms(page):
    """The forms of a page that act, by their action and what they act on: their hidden fields."""
    found = {}
    for rest in page.split("<form ")[1:]:
        form = rest.split("</form>")[0]
        if 'method="post"' in form:
            fields = {
                name: unescape(value)
                for name, value in re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)">', form)
            }
            found[fields.get("action", fields.get("do")), fields.get("quoted_name", "")] = (fields, form)
    return found


#: Pages with forms; the number of their forms is that of `filled`.
ACTING = {
    "/groups/shop/c1": 6, "/groups/shop/c2": 6, "/queues/shop": 1, "/subscriptions": 1, "/unrouted": 1,
    "/bulk?what=groups&action=retry": 1, "/bulk?what=dead-letters&action=delete": 1,
}  # fmt: skip


@pytest.mark.parametrize("address", ACTING)
def test_a_form_that_is_refused_keeps_what_was_typed(client, filled, address):
    said = 'said <twice> & "so"'
    on_page = forms(client.get(address).text)
    assert len(on_page) >= ACTING[address]
    logged = len(operator_log(filled))
    for key, (fields, _) in on_page.items():
        reason = said.ljust(5000, ".")
        where, status = ("/bulk", 400) if "do" in fields else ("/act", 422)
        answer = client.post(where, fields | {"reason": reason, "next": "12"})
        assert answer.status_code == status, answer.text
        again = forms(answer.text)
        assert set(again) == set(on_page)
        _, form = again[key]
        assert reason in unescape(form)
        assert "the reason is too long" in form
        assert "autofocus" in form
        assert sum(said in unescape(one) for _, one in again.values()) == 1
        if key[0] == "reset":
            assert 'name="next" inputmode="numeric" required pattern="-?[0-9]+" value="12"' in form
        assert answer.text.count('role="alert"') == 1
        assert "data-live" not in answer.text
    assert len(operator_log(filled)) == logged


def test_the_page_of_a_form_that_is_gone_shows_what_was_typed(client):
    form = {"action": "letter.requeue", "name": "4711", "reason": "I thought it over", "page": "/messages/gone"}
    answer = client.post("/act", form)
    assert answer.status_code == 404
    assert "What you typed" in answer.text
    assert "I thought it over" in answer.text
    for page in ("https://evil.example/", "//evil.example", "nonsense", "/%ff", "/log?limit=x", ""):
        answer = client.post("/act", form | {"page": page})
        assert (answer.status_code, "I thought it over" in answer.text) == (404, True), page


def test_a_form_on_the_page_of_a_message_keeps_what_was_typed(client, filled):
    (letter,) = dead_letters.dead_letters(filled)
    address = f"/messages/{letter.message_id}"
    on_page = forms(client.get(address).text)
    assert [action for action, _ in on_page] == ["letter.requeue", "letter.delete"]
    for key, (fields, _) in on_page.items():
        answer = client.post("/act", fields | {"reason": "why not".ljust(5000)[:4999] + "!"})
        assert answer.status_code == 422
        assert "why not" in forms(answer.text)[key][1]


def test_what_discards_says_what_is_lost_before_its_button(client, filled):
    page = client.get("/groups/shop/c1").text
    view = groups.group_view(filled, "shop", "c1")
    for action, told in (
        ("abort", f"Group c1 has {view.held + view.queued} held or queued messages: each becomes a dead letter"),
        ("skip_message", "becomes a dead letter: no handler gets it, and group c1 goes on without it"),
        ("close", "Group c1 doesn&#39;t open again"),
    ):  # fmt: skip
        at = page.index(f'name="action" value="{action}"')
        step = page.rindex("<details", 0, at)
        assert told in page[step:at], action
        assert page.index("</details>", at) < page.find("<details", at) or action == "abort"
    assert "<details" not in page[page.index('id="acts"') : page.index('name="action" value="retry"')]
    (letter,) = dead_letters.dead_letters(filled)
    page = client.get(f"/messages/{letter.message_id}").text
    assert "nobody can requeue it then" in page
    assert "What fails again may stop its group again" in page


def test_a_group_that_changed_meanwhile_shows_what_was_typed_where_the_action_is_gone(box):
    fill(box)
    client = Client(box)
    (fields, _) = forms(client.get("/groups/shop/c1").text)["retry", ""]
    groups.skip_message(box, "shop", "c1", actor="bob", reason="I was faster")
    answer = client.post("/act", fields | {"reason": "the customer is there now"})
    assert answer.status_code == 409
    assert "What you typed" in answer.text
    assert "the customer is there now" in answer.text


def test_a_read_only_console_keeps_what_was_typed_too(filled):
    answer = Client(filled, reads_only=True).post(
        "/act", {"action": "retry", "queue": "shop", "group": "c1", "reason": "it was long to write"}
    )
    assert (answer.status_code, "it was long to write" in answer.text) == (403, True)
