"""A user who doesn't see properties and bodies can't find them out by asking, whatever page and filter is asked."""

from __future__ import annotations

import re
from itertools import chain
from urllib.parse import quote

import pytest

import seriatim as sq
from seriatim.console import acting
from seriatim.console.pages import pages
from seriatim.console.who import ROLES, Actor
from seriatim.operations import groups
from tests.box.console import BY, failing, publish
from tests.console.conftest import Client
from tests.databases import box_with

pytestmark = pytest.mark.dear

#: What a message has in its properties and its body, and nowhere else; and what none has.
SECRET, OTHER = "zebra-4711", "okapi-0815"
#: A text may be asked for as it is, or in another way; only these filters take any text.
_PARTS = (lambda text: text, lambda text: text.upper(), lambda text: f"*{text[2:8]}*")
_TEXTS = ("text=", "error=", "error_class=", "key=", "group=")


def _fill(box):
    box.define(
        sq.MessageType(
            "order", properties={"customer": "string", "version": "long", "secret": "string", "size": "long"}
        ),
        sq.MessageType("begin", properties={"customer": "string", "secret": "string"}),
    )
    box.define(
        sq.Queue("shop", policy=sq.Standard(), group="customer", sequence="version"),
        sq.Subscription("shop", where="type = 'order' OR type = 'loose'", to="shop"),
        sq.Queue("flow", group="customer", keep="everything"),
        sq.Subscription("begin", where="type = 'begin'", to="flow", starts="a:b", correlate=["customer", "secret"]),
    )
    publish(box, 1, 2, 4, group="c1", secret=SECRET)
    failing(box, group="c1")
    publish(box, 1, 1, group="c2", secret=SECRET)
    publish(box, 1, 2, group="c3", secret=SECRET)
    failing(box, group="c3")
    groups.skip_message(box, "shop", "c3", **BY)
    with box.session() as tx:
        tx.publish(
            [
                sq.Message(type="begin", body=b"{}", context={"customer": "i1", "secret": SECRET}),
                sq.Message(type="stray", body=SECRET.encode(), context={"secret": SECRET}),
                sq.Message(type="order", body=b"{}", context={"customer": "c4", "version": 1, "size": SECRET}),
                sq.Message(type="loose", body=b"{}", context={"customer": "c7", "version": SECRET}),
                sq.Message(type="order", body=SECRET.encode(), context={"customer": "c5", "version": 1}),
                sq.Message(type="order", body=b"{}", context={"customer": "c6", "version": SECRET}),
            ]
        )
    with box.session() as tx:
        for _ in tx.receive("flow"):
            tx.instance.state["secret"] = SECRET


told = box_with(_fill, scope="module")


def _asked() -> dict[str, tuple[str, str]]:
    """Each filter of each page, and of the previews of actions on many: the address, and the name."""
    found = {}
    for page in pages():
        path = re.sub(r"\{queue\}", "shop", page.paths[0])
        path = re.sub(r"\{group\}", "c1", path)
        path = re.sub(r"\{\w+\}", "1", path)
        for name in chain((one.name for one in page.fields), page.takes):
            found[f"/{path}?{name}="] = (path, name)
    for what, action in (
        ("groups", "retry"),
        ("dead-letters", "requeue"),
        ("set-aside", "requeue"),
        ("groups", "abort"),
    ):
        for name in acting.lot_of(what, action).filters:
            found[f"/bulk?what={what}&action={action}&{name}="] = ("bulk", name)
    return found


def _without(text: str, value: str) -> str:
    """An answer without what was asked for, and without what is another one each time."""
    text = re.sub(r'data-age="[^"]*"|\d[\d.,]* (?:ms|s|min|h) ago', "", text)
    return text.replace(value, "…").replace(quote(value, safe=""), "…")


@pytest.mark.parametrize("roles", [("see",), ("see", "mend"), ("see", "discard"), ("see", "switch"), ("see", "mend", "discard", "switch")], ids="+".join)  # fmt: skip
def test_no_filter_of_any_page_tells_properties_to_whom_does_not_see_them(told, roles):
    client = Client(told, identify=lambda _: Actor("joe", frozenset(roles)))
    for asked in _asked():
        for more in (
            "",
            "&state=all" if asked.startswith(("/groups?", "/bulk?what=groups")) and "state=" not in asked else "",
        ):
            for headers in ({}, {"accept": "application/json"}):
                for part in _PARTS if asked.rpartition("?")[2].endswith(_TEXTS) else _PARTS[:1]:
                    answers = [client.get(f"{asked}{part(one)}{more}", headers=headers) for one in (SECRET, OTHER)]
                    assert answers[0].status_code == answers[1].status_code, asked
                    one, other = (
                        _without(answer.text, part(value))
                        for answer, value in zip(answers, (SECRET, OTHER), strict=True)
                    )
                    assert one == other, asked


@pytest.mark.telling
def test_no_page_shows_properties_to_whom_does_not_see_them(told):
    client = Client(told, identify=lambda _: Actor("joe", frozenset(ROLES) - {"see-bodies"}))
    ids = [one["message_id"] for one in client.get("/messages.json").json()]
    addresses = [f"/{page.paths[0]}" for page in pages() if "{" not in page.paths[0]]
    addresses += [f"/messages/{one}" for one in ids] + [
        "/groups/shop/c1",
        "/groups/shop/c3",
        "/queues/shop",
        "/faults/1",
    ]
    for address in addresses:
        for headers in ({}, {"accept": "application/json"}):
            answer = client.get(address, headers=headers)
            assert answer.status_code < 500, address
            assert SECRET not in answer.text, address


def test_who_sees_properties_finds_by_them(told):
    client = Client(told, identify=lambda _: Actor("ann", frozenset({"see", "see-bodies"})))
    found = client.get(f"/search.json?text={SECRET}").json()
    assert {one["matched"] for one in found["messages"]} == {"secret", "size", "version"}
