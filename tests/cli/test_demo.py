"""`seriatim demo` tells the whole story: a pipeline, and a message box whose handler fails and is mended."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from seriatim.cli.commands.demo import DEMO
from seriatim.cli.commands.demo_box import BoxStory
from seriatim.cli.main import main
from seriatim.cli.shown.show import line_of
from seriatim.cli.shown.table import as_json_line
from seriatim.runtime.pipelines.progress import Account, Progress, Routing, RunSummary
from tests.box.embedding import has_gone


def test_the_line_of_a_batch_obeys_the_law_and_tells_received_from_entered():
    accounts = (
        Account("a", held_before=2, arrived=10, released=5, held=3, late=1, duplicate=2, invalid=1),
        Account("b", arrived=12, released=11, rejected=1),
    )
    told = line_of(Progress(3, 1.5, 14, 9.3, accounts, 1, Routing(14, 12, unrouted=1, invalid=1)))
    assert told == (
        "batch 3: received 14 · held before 2 + in 22 = released 16 + held 3 + late 1 + duplicate 2 + invalid 1 + rejected 1"
        " · holes 1 · unrouted 1 · invalid without a destination 1 · 9.3 rows/s · 1.5 s"
    )
    left, right = told.split(" · ")[1].split(" = ")
    assert [sum(map(int, re.findall(r"\d+", side))) for side in (left, right)] == [24, 24]


@pytest.mark.usefixtures("spark")
def test_the_whole_story(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SERIATIM_DSN", "postgresql://nowhere.invalid/none")  # it has a box of its own
    told = CliRunner().invoke(main, ["demo", "--messages", "400", "--keep", "shown"])
    assert told.exit_code == 0, told.output
    # At once, before Spark is there; and something while it starts, where there is no terminal.
    assert told.stdout.startswith("seriatim demo: a pipeline and a message box")
    assert told.stderr.splitlines()[0] == "demo: starting Spark"
    lines = " ".join(told.stdout.split())
    for part in (
        "invalid not JSON: ",
        "duplicate its number was taken in before",
        "late its number was skipped before",
        "customer-3 shipped 1 2 customer-4 shipped 1 2 3 4 5",
        "attempt 1 failed (business): Business: 'ten' is no amount; group faulted",
        "customer-3 faulted 3 Business: 'ten' is no amount",
        "goes on: customer-3 shipped 1 2 3 4 5 20 orders, each once",
    ):
        assert part in lines
    assert has_gone(tmp_path / "shown")
    pasted = re.findall(r"^  (?:\(cd (\S+) && )?seriatim (.*?)\)?$", told.stdout, re.MULTILINE)
    monkeypatch.delenv("SERIATIM_DSN")
    pasted.remove(("shown", "console"))  # which goes on until it is stopped; see test_demo_console
    for folder, words in pasted:
        monkeypatch.chdir(tmp_path / folder)
        again = CliRunner().invoke(main, words.split())
        assert again.exit_code == 0, again.output
    assert [folder for folder, _ in pasted] == ["", "shown", "shown"]


def test_as_one_json_object():
    told = BoxStory(20, 20, "customer-3", "Business: 'ten' is no amount")
    summary = RunSummary("demo", "finished", 1.0, 2, (Account("orders"),), 0)
    given = {"ok": True, "inversions_before": 9, "inversions_after": 0, "delivered": 7}
    found = json.loads(as_json_line(DEMO.object_of(summary, box=told, **given)))
    assert found.items() >= given.items()
    assert found["box"] == {
        "published": 20,
        "handled": 20,
        "stopped": "customer-3",
        "error": "Business: 'ten' is no amount",
    }
