"""The page of what commands print is what they declare, and the page of commands leads to it."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(ROOT / "scripts" / "command_tables_page.py"))


def test_the_page_is_drawn_from_the_declarations(script):
    written = script["PAGE"].read_text(encoding="utf-8")
    assert written == script["page"](), "run python scripts/command_tables_page.py"


def test_the_page_of_commands_leads_to_the_tables_of_each(script):
    """It names no column by hand: that is on the page that is drawn."""
    text = (ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    rows = {}
    for part in text.split("\n## ")[1:]:
        if found := re.search(r"^\| `--json` \| (.*) \|$", part, re.MULTILINE):
            name = re.match(r"`(seriatim [a-z-]+(?: (?!on\|)[a-z-]+)?)", part)[1]
            rows[name] = re.findall(r"\(command-tables\.md#([a-z0-9-]+)\)", found[1])
    assert rows == {name: [script["anchor_of"](one) for one in tables] for name, tables in script["printing"]()}


def test_a_link_leads_to_a_heading(script):
    page = script["page"]()
    headings = {
        re.sub(r"[^a-z0-9 -]", "", one.lower()).replace(" ", "-")
        for one in re.findall(r"^## (.*)$", page, re.MULTILINE)
    }
    assert set(re.findall(r"\(#([a-z0-9-]+)\)", page)) == headings
