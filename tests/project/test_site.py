"""The site: every page is on it and in its navigation, and a link that leads nowhere ends the build."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def script(tmp_path, monkeypatch):
    """The script, which builds in a folder of the test's own."""
    found = runpy.run_path(str(ROOT / "scripts" / "site.py"))
    monkeypatch.setitem(found["main"].__globals__, "BUILD", tmp_path)
    return found


def test_every_page_is_there_and_can_be_searched(script, tmp_path, capfd):
    assert script["main"]() == 0, capfd.readouterr()
    site = tmp_path / "site"
    pages = [
        site / page.with_suffix("") if page.stem not in ("index", "README") else site / page.parent
        for page in script["pages"]()
    ]
    assert [
        page for page in pages if not (page / "index.html").is_file() and not page.with_suffix(".html").is_file()
    ] == []
    assert len(pages) > 200
    index = json.loads((site / "search.json").read_text(encoding="utf-8"))
    assert "resequence" in json.dumps(index)
    home = (site / "index.html").read_text(encoding="utf-8")
    assert all(
        f">{heading}<" in " ".join(home.split()).replace("> ", ">").replace(" <", "<") for heading in script["SECTIONS"]
    )


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
