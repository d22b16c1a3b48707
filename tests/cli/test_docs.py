"""`seriatim docs`: the pages, by the names that messages and links give them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from seriatim.cli.main import main
from seriatim.operations.pages import page, pages

ROOT = Path(__file__).parents[2]


def told(*words, code=0):
    result = CliRunner().invoke(main, ["docs", *words])
    assert result.exit_code == code, result.output
    return result.output


def test_it_lists_all_pages_for_users():
    folders = [ROOT / "docs" / name for name in ("tutorials", "how-to", "reference", "explanation")]
    wanted = {f"{one.parent.name}/{one.stem}" for folder in folders for one in folder.glob("*.md")}
    assert {one["name"] for one in json.loads(told("--json"))} == wanted
    assert re.search(r"^explanation/glossary +Glossary$", told(), re.MULTILINE)


@pytest.mark.parametrize(
    "name",
    ["glossary", "glossary.md", "explanation/glossary", "docs/explanation/glossary.md", "../explanation/glossary.md"],
)
def test_a_page_has_the_names_of_links_and_messages(name):
    assert told(name).startswith("# Glossary\n")


def test_a_part_of_a_page():
    part = told("cli#exit-codes")
    assert part.startswith("## Exit codes\n")
    assert "## `seriatim check" not in part
    found = told("docs/how-to/what-to-do-when.md#faulted")
    assert found.startswith("### faulted\n")
    assert "seriatim group retry" in found
    assert "### unended" not in found


def test_each_heading_of_each_page_is_a_part():
    for one in pages():
        titles = re.findall(r"^#+ .*$", re.sub(r"(?ms)^ *```.*?^ *```$", "", one.text), re.MULTILINE)
        for title in titles:
            anchor = re.sub(r"[^\w\- ]", "", title.lstrip("#").lower()).strip().replace(" ", "-")
            assert one.part(anchor).startswith(title) or titles.count(title) > 1


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("glosary", "no page is named 'glosary' (did you mean 'glossary'?)"),
        ("dialogs", "several pages are named 'dialogs' (how-to/dialogs or reference/dialogs)"),
        ("/etc/passwd", "no page is named '/etc/passwd' (`seriatim docs` lists the pages)"),
        ("", "no page is named '' (`seriatim docs` lists the pages)"),
        ("glossary#nothing", "the page 'explanation/glossary' has no heading 'nothing' (it has "),
    ],
)
def test_a_page_that_is_not_there(name, error):
    assert f"error: {error}" in told(name, code=2)


def test_a_page_has_no_json():
    assert "--json lists pages, and prints none (leave out PAGE, or --json)" in told("glossary", "--json", code=2)


def test_messages_and_help_name_pages_that_are_there():
    source = "".join(one.read_text(encoding="utf-8") for one in (ROOT / "src").rglob("*.py"))
    named = {*re.findall(r"`(?:seriatim|\{_NAME\}) docs ([a-z-]+)`", source), "ports", "box-file", "pipeline-file"}
    assert len(named) > 4
    for name in named:
        assert page(name).text


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ("priority", "how-to/tune-workers#which-group-is-next"),
        ("hourly", "how-to/scheduled-publish"),
        ("retry", "reference/worker#faults"),
        ("outbox", "how-to/publish-from-a-transaction"),
        ("webhook", "how-to/recipes#a-webhook-in-one-worker-per-customer"),
        ("rate limit", "how-to/tune-workers#limits"),
        ("Celery", "how-to/recipes"),
        ("exit codes", "reference/cli#exit-codes-of-run"),
        ("an ordered port", "reference/box-file#queues"),
    ],
)
def test_words_of_the_field_are_found_first(words, place):
    found = json.loads(told("--search", words, "--json"))
    assert place in [one["page"] for one in found[:5]]
    assert told(place).startswith("#")


def test_a_search_finds_each_place_with_all_words():
    found = json.loads(told("--search", "HOLE_timeout capacity", "--json"))
    assert found
    for one in found:
        assert {"hole_timeout", "capacity"} <= set(re.findall(r"\w+", told(one["page"]).casefold()))
    assert told("--search", "xyzzyx", "--json") == "[]\n"
    assert "there is nothing to search for" in told("--search", " ", code=2)
    assert "--search looks in all pages (leave PAGE out)" in told("glossary", "--search", "x", code=2)
