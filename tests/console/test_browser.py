"""The console in a real browser: a fault is seen, understood and mended; and nobody is shut out."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import seriatim as sq
from seriatim.operations import bulk_operations, groups
from seriatim.operations.groups import Action, GroupFilter
from seriatim.operations.looking import open_to_look
from seriatim.operations.operator_log import operator_log
from tests.console.browser import CHROMIUM, chromium, served
from tests.console.story import ADDRESS, orders, shop, stop

if CHROMIUM is None:
    pytest.skip("there is no Chromium: scripts/chromium installs it", allow_module_level=True)

from playwright.sync_api import expect

pytestmark = pytest.mark.dear

AXE = (Path(__file__).parent / "axe-4.14.1.min.js").read_text(encoding="utf-8")
WILD = "<img src=x onerror=document.title='owned'><script>document.title='owned'</script>"


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture
def page(browser):
    """A page, which is to log nothing: no refused script, no file that isn't there."""
    with browser.new_context() as context:
        found, told = context.new_page(), []
        found.on("console", lambda message: told.append(message.text))
        found.on("pageerror", lambda error: told.append(str(error)))
        yield found
        assert [one for one in told if "status of 4" not in one] == []


@pytest.mark.telling
def test_a_fault_is_seen_understood_and_mended(box, page):
    shop(box, faulted=2, refused=0)
    with served(box) as address:
        page.goto(address)
        page.get_by_role("row", name="fulfilment").get_by_role("link", name="3 groups").click()
        page.get_by_role("row", name="fulfilment c1 ").get_by_role("link", name="c1").click()
        expect(page.get_by_text("the handler failed for good: ValueError: order 4711 has no postcode")).to_be_visible()
        since = page.locator(".about time")
        title = since.get_attribute("title")
        assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC · .+", title), title
        since.click()
        expect(since).to_have_text(title)
        body = page.get_by_role("textbox", name="Body of message")
        body.fill(body.input_value().replace("null", '"3011"'))
        page.get_by_label("Reason to retry").fill("the customer told us, ticket 12")
        page.get_by_role("button", name="Retry: group c1").click()
        expect(page.get_by_role("status").filter(has_text="Retry is done: faulted → ready")).to_be_visible()
    with box.session() as tx:
        (message, *_) = tx.receive("fulfilment", group="c1", limit=1)
        assert json.loads(message.body)["address"]["postcode"] == "3011"
    assert operator_log(box)[0].reason == "the customer told us, ticket 12"


def test_many_are_retried_with_a_change_in_between(box, page):
    shop(box, faulted=4, refused=0)
    with served(box) as address:
        page.goto(f"{address}/groups")
        page.get_by_role("link", name="Retry 4 groups…").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Retry 4 groups?")
        groups.skip_message(box, "fulfilment", "c2", actor="bob", reason="gone")
        orders(box, "c9", 1)
        stop(box, "c9", ADDRESS)
        page.get_by_label("Reason").fill("the postcode isn't needed any more")
        page.get_by_role("button", name="Retry 4 groups").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Retry: 3 groups")
        expect(page.get_by_role("alert")).to_contain_text("Left out: 1")
        expect(page.get_by_role("alert").get_by_role("link")).to_have_text("c9")


def test_more_than_a_thousand_are_gathered_begun_and_followed_live(box, page, monkeypatch):
    monkeypatch.setattr("seriatim.console.acting.MOST_SEEN", 2)
    monkeypatch.setattr("seriatim.box.operators.bulk_operations.PORTION", 1)
    shop(box, faulted=6, refused=0)
    with served(box) as address:
        page.goto(f"{address}/groups")
        page.get_by_role("link", name="Retry 6 groups…").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Retry more than 2 groups?")
        page.get_by_label("Reason").fill("the postcode isn't needed any more")
        page.get_by_role("button", name="Gather all groups").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("Retry 6 groups")
        groups.skip_message(box, "fulfilment", "c2", actor="bob", reason="gone")
        page.get_by_role("button", name="Begin: retry 6 groups").click()
        expect(page.locator("h1 .badge")).to_contain_text("ended", timeout=20_000)  # live, without a reload by hand
        expect(page.locator("progress")).to_have_attribute("value", "6")
        expect(page.get_by_role("row").filter(has_text="c2")).to_contain_text("not as it was seen")
        expect(page.get_by_role("row").filter(has_text="c3")).to_have_count(0)


def test_a_page_is_live_and_does_not_change_under_somebodys_hands(box, page):
    shop(box, faulted=1, refused=0)
    with served(box) as address:
        page.goto(f"{address}/groups/fulfilment/c1")
        expect(page.locator("#live")).to_have_text("live")
        reason = page.get_by_label("Reason to retry")
        reason.fill("I am typing")
        groups.skip_message(box, "fulfilment", "c1", actor="bob", reason="gone")
        expect(page.locator("h1 .badge")).to_contain_text("faulted")
        reason.fill("")
        page.locator("h1").click()
        expect(page.locator("h1 .badge")).to_contain_text("ready", timeout=20_000)


def test_nothing_needs_javascript(box, browser):
    shop(box, faulted=1, refused=0)
    with served(box, prefix="/ops") as address, browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{address}/ops/groups")
        page.get_by_role("link", name="c1", exact=True).click()
        page.get_by_label("Reason to retry").fill("again")
        page.get_by_role("button", name="Retry: group c1").click()
        expect(page.locator("main")).to_contain_text("Retry is done")
        assert "/ops/groups/fulfilment/c1?done=" in page.url


def test_a_console_that_only_looks_has_no_buttons(box, page):
    shop(box, faulted=1, refused=0)
    with (
        open_to_look(box.dsn, schema=box.schema, reads_only=True) as looking,
        served(looking, reads_only=True) as address,
    ):
        page.goto(f"{address}/groups/fulfilment/c1")
        expect(page.get_by_text("This console is read-only")).to_be_visible()
        assert page.locator("main form").count() == 0


def test_a_hostile_message_is_text(box, page):
    box.define(
        sq.MessageType(WILD, properties={"who": "string"}), sq.Queue("shop", policy=sq.Fifo(), group="who"),
        sq.Subscription("all", where="TRUE", to="shop"),
    )  # fmt: skip
    with box.session() as tx:
        (message_id,) = tx.publish([sq.Message(type=WILD, body=WILD.encode() * 1000, context={"who": WILD})])
    with served(box) as address:
        for path in ("/messages", f"/messages/{message_id}", "/groups?state=ready"):
            page.goto(address + path)
            expect(page.get_by_text("onerror").first).to_be_visible()
            assert "owned" not in page.title()
        page.get_by_role("link", name=WILD).click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("onerror")
        assert "owned" not in page.title().partition("·")[0] or page.title().startswith("Group <img")


def test_nobody_is_shut_out(box, browser):
    shop(box, faulted=2, refused=2)
    message_id = orders(box, "c7", 1)[0]
    where = GroupFilter("fulfilment", error="ValueError")
    bulk_operations.gather_chosen(box, Action.RETRY, where, chosen_by={"error": "ValueError"}, actor="ann", reason="r")
    paths = ["/", "/groups?all=yes", "/groups/fulfilment/c1", "/groups/fulfilment/hole", f"/messages/{message_id}", "/messages",
             "/faults", "/faults/1", "/dead-letters", "/set-aside", "/unrouted", "/dialogs", "/links", "/transmission", "/workers", "/log", "/subscriptions",
             "/bulk-operations", "/bulk-operations/1", "/search?text=c1", "/bulk?what=groups&action=retry", "/queues/fulfilment", "/nothing"]  # fmt: skip
    with served(box) as address:
        for scheme, width, some in (("light", 1280, paths), ("dark", 400, paths[:5])):
            with browser.new_context(
                color_scheme=scheme, viewport={"width": width, "height": 800}, bypass_csp=True
            ) as context:
                page = context.new_page()
                for path in some:
                    page.goto(address + path)
                    assert page.locator("nav a").first.is_visible() == (width > 400), (
                        "the menu is folded where it is narrow"
                    )
                    page.locator("nav details").evaluate("one => one.open = true")
                    for one in page.locator("main details").all():
                        one.evaluate("one => one.open = true")
                    page.evaluate(AXE)
                    found = page.evaluate(
                        "async () => (await axe.run()).violations.map(one => [one.id, one.nodes.map(at => at.html.slice(0, 120))])"
                    )
                    assert found == [], (scheme, path)
                    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (width, path)


def test_the_keyboard_is_enough(box, page):
    shop(box, faulted=1, refused=0)
    with served(box) as address:
        page.goto(f"{address}/groups/fulfilment/c1")
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        page.keyboard.press("Enter")
        for _ in range(20):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.name") == "reason":
                break
        page.keyboard.type("by hand")
        page.keyboard.press("Enter")
        expect(page.get_by_role("status").filter(has_text="Retry is done")).to_be_visible()


def show(page, *, is_seen):
    """Playwright has all its pages in the foreground."""
    page.evaluate("seen => Object.defineProperty(document, 'hidden', {value: !seen, configurable: true})", is_seen)
    page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


def test_pages_that_nobody_sees_leave_the_connections_to_others_and_are_live_again_later(box, browser):
    shop(box, faulted=1, refused=0)
    with served(box) as address, browser.new_context() as context:
        pages = [context.new_page() for _ in range(8)]  # a browser opens six connections to a server
        for one in pages:
            with one.expect_response("**/live"):
                one.goto(f"{address}/groups/fulfilment/c1", timeout=20_000)
            show(one, is_seen=False)
        groups.skip_message(box, "fulfilment", "c1", actor="bob", reason="gone")
        expect(pages[0].locator("h1 .badge")).to_contain_text("faulted")
        with pages[0].expect_response("**/live"):
            show(pages[0], is_seen=True)
        expect(pages[0].locator("h1 .badge")).to_contain_text("ready", timeout=20_000)


def test_ten_look_at_once_and_the_server_stops_while_they_do(box, browser):
    shop(box, faulted=1, refused=0)
    with browser.new_context() as context:
        with served(box) as address:
            pages = [context.new_page() for _ in range(5)]
            for one in pages:
                one.goto(address)
                expect(one.locator("#live")).to_have_text("live")
            for one in [context.new_page() for _ in range(5)]:  # a browser opens six streams to a server
                one.goto(f"{address}/groups.json")
        expect(pages[0].locator("#live")).to_contain_text("not live")
