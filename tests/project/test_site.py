"""The site: every page is on it and in its navigation, and a link that leads nowhere ends the build."""

from __future__ import annotations

import runpy
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.console.browser import CHROMIUM, chromium

pytestmark = pytest.mark.dear

ROOT = Path(__file__).parents[2]


#: What users type, and a page that answers it.
QUESTIONS = {
    "my messages arrive out of order": "reference/sequence-numbers",
    "one customer blocks all others": "how-to/recipes",
    "a job ran twice": "how-to/unique-jobs",
    "how do I receive in Java": "how-to/receive-from-sql",
    "my box was restored from a backup": "how-to/move-a-box",
    "my messages are stuck": "how-to/what-to-do-when",
    "how do I retry failed jobs": "how-to/mend-a-group",
    "what happens when a worker crashes": "reference/worker",
    "is it safe to upgrade": "how-to/run-it-for-good",
    "can I use it without Docker": "how-to/install",
    "rename a queue": "how-to/change-a-queue",
    "delete a queue": "how-to/change-a-queue",
    "pause a queue": "how-to/change-a-queue",
    "rename a group": "how-to/change-a-queue",
    "move messages": "how-to/change-a-queue",
    "replay": "how-to/change-a-queue",
    "change partitions": "how-to/change-a-queue",
    "poison message": "how-to/mend-a-group",
    "dead letter": "how-to/what-to-do-when",
    "backup": "how-to/run-it-for-good",
    "upgrade": "how-to/run-it-for-good",
}
#: Asks the site's own search, as its page does.
ASK = """async ([worker, questions]) => {
    const index = await (await fetch("/search.json")).json();
    const search = new Worker(worker);
    const said = kind => new Promise(done => { search.onmessage = ({data}) => data.type === kind && done(data.data); });
    const ready = said(1);
    search.postMessage({type: 0, data: index});
    await ready;
    const found = {};
    for (const question of questions) {
        const answer = said(3);
        const all = {type: "operator", data: {operator: "and", operands: []}};
        const filter = {input: all, aggregation: {input: [{type: "term", data: {field: "tags"}}]}};
        search.postMessage({type: 2, data: {input: question, filter}});
        found[question] = (await answer).items.slice(0, 5).map(one => index.items[one.id]);
    }
    return found;
}"""
NARROW = 360


@pytest.fixture
def script(tmp_path, monkeypatch):
    """The script, which builds in a folder of the test's own."""
    found = runpy.run_path(str(ROOT / "scripts" / "site.py"))
    monkeypatch.setitem(found["main"].__globals__, "BUILD", tmp_path)
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The script that has built, and the site."""
    folder = tmp_path_factory.mktemp("site")
    found = runpy.run_path(str(ROOT / "scripts" / "site.py"))
    found["main"].__globals__["BUILD"] = folder
    assert found["main"]() == 0
    return found, folder / "site"


@pytest.fixture
def served(site):
    """The address of the site."""
    handler = partial(Quiet, directory=str(site[1]))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def test_every_page_is_there_and_in_the_navigation(site):
    script, folder = site
    pages = [
        folder / page.with_suffix("") if page.stem not in ("index", "README") else folder / page.parent
        for page in script["pages"]()
    ]
    assert [
        page for page in pages if not (page / "index.html").is_file() and not page.with_suffix(".html").is_file()
    ] == []
    assert len(pages) > 200
    home = (folder / "index.html").read_text(encoding="utf-8")
    assert all(
        f">{heading}<" in " ".join(home.split()).replace("> ", ">").replace(" <", "<") for heading in script["SECTIONS"]
    )
    assert "//fonts." not in home


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium isn't here")
def test_a_question_in_users_words_finds_its_answer(site, served):
    (worker,) = (site[1] / "assets" / "javascripts" / "workers").glob("search.*.js")
    with chromium() as browser:
        page = browser.new_page()
        page.goto(served)
        found = page.evaluate(ASK, [f"/assets/javascripts/workers/{worker.name}", list(QUESTIONS)])
    answers = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for question, answer in QUESTIONS.items():
        places = [one["location"] for one in found[question]]
        # The page itself, or the table of what users ask, which leads to it.
        assert any(answer in place or place == "docs/#what-happens-to-me" for place in places), (question, places)
        assert f"({answer}.md" in answers
        assert not any(place.startswith("CHANGELOG") for place in places)  # it has every word


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium isn't here")
def test_no_page_is_wider_than_a_narrow_screen(site, served):
    """Of all pages those with the longest lines."""
    script, _ = site
    pages = sorted(script["pages"](), key=lambda page: max(map(len, (ROOT / page).read_text("utf-8").splitlines())))
    with chromium() as browser:
        screen = browser.new_page(viewport={"width": NARROW, "height": 740})
        for page in pages[-12:]:
            name = "" if page.stem in ("index", "README") else f"{page.stem}/"
            screen.goto(f"{served}/{'' if page == Path('README.md') else page.parent.as_posix() + '/'}{name}")
            assert screen.evaluate("document.documentElement.scrollWidth") <= NARROW, page


def test_a_page_that_is_not_in_the_navigation_ends_the_build(script, monkeypatch):
    monkeypatch.delitem(script["SECTIONS"], "Decisions")
    with pytest.raises(SystemExit, match=r"docs/decisions/.*\.md is in no section"):
        script["main"]()


def test_a_link_that_leads_nowhere_ends_the_build(script, capfd, monkeypatch):
    lay_out = script["lay_out"]

    def with_two_more(stage):
        lay_out(stage)
        with (stage / "index.md").open("a", encoding="utf-8") as page:
            page.write("\n[no page](nowhere.md), [no place](docs/index.md#nothing)\n")

    monkeypatch.setitem(script["main"].__globals__, "lay_out", with_two_more)
    assert script["main"]() == 1
    told = "".join(capfd.readouterr())
    assert "page does not exist" in told
    assert "anchor does not exist" in told
