"""The example that replays a recorded log through windows of several lengths: what each leaves, counted three ways."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from examples.receipt import feed, plots
from examples.receipt.measure import Measured, delivered, measure
from examples.receipt.rounds import WINDOWS, behind, leave

from seriatim import BestEffort, Sequencer
from seriatim.cli.main import main

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/receipt"

PARTS = {
    "counter": lambda event: event.channel in {"Desk", "Post"},
    "customer-contact": lambda event: event.department == "Customer contact",
    "experts": lambda event: event.department == "Experts",
    "online": lambda event: event.channel in {"Internet", "e-mail"} and event.department == "General",
}


@pytest.fixture(scope="module")
def log(shared: Path) -> list[feed.Event]:
    return feed.read(shared / "data/receipt.csv")


@pytest.fixture(scope="module")
def outcome() -> dict[str, Measured]:
    """What the example says that comes out."""
    return {name: Measured(**told) for name, told in json.loads((EXAMPLE / "outcome.json").read_text()).items()}


def in_memory(events: list[feed.Event], policy: BestEffort) -> list[tuple[str, int, bool]]:
    """What a sequencer releases, in that order: case, task, late."""
    sequencer = Sequencer(policy)
    items = [(event.case, event.task, None, event.completed.timestamp()) for event in events]
    released = sequencer.replay(items).released + sequencer.finish().released
    return [(one.group, one.sequence, one.late) for one in released]


def cases(rows: list[tuple[str, int, bool]]) -> dict[str, list[tuple[int, bool]]]:
    found = defaultdict(list)
    for case, task, late in rows:
        found[case].append((task, late))
    return dict(found)


@pytest.mark.dear
def test_the_second_opinion_agrees_with_the_kernel(log: list[feed.Event]) -> None:
    for window in WINDOWS.values():
        policy = BestEffort(window=window.total_seconds(), late="deliver")
        other = [(left.event.case, left.event.task, left.late) for left in leave(log, window)]
        assert cases(in_memory(log, policy)) == cases(other)


def test_a_longer_window_leaves_fewer_inversions(
    log: list[feed.Event], outcome: dict[str, Measured], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: object
) -> None:
    feed.write(log, tmp_path / "inbox")
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["run", str(EXAMPLE / "pipeline.yaml"), "--finish", "--json"])
    assert done.exit_code == 0, done.output
    end = json.loads(done.stdout.splitlines()[-1])
    assert measure(tmp_path) == outcome
    left = [outcome[name].inversions for name in ("recorded", *WINDOWS)]
    assert left[0] == len(behind(log))
    assert left == sorted(left, reverse=True)
    assert left[-1] < left[0] / 50

    for name, window in WINDOWS.items():
        rows = list(delivered(tmp_path / "out" / name))
        policy = BestEffort(window=window.total_seconds(), late="deliver")
        assert cases([(row["case"], row["task"], row["late"]) for row in rows]) == cases(in_memory(log, policy))
        assert sum(row["late"] for row in rows) == outcome[name].inversions
    check_tickets(log, tmp_path)
    check_parts(log, tmp_path, end["accounts"])


def check_tickets(log: list[feed.Event], folder: Path) -> None:
    """The tickets number the log in the order in which it was recorded, without a gap."""
    rows = sorted(delivered(folder / "out/recorded"), key=lambda row: row["ticket"]["number"])
    assert [row["ticket"]["number"] for row in rows] == list(range(1, len(log) + 1))
    assert [(row["case"], row["task"]) for row in rows] == [(event.case, event.task) for event in log]


def check_parts(log: list[feed.Event], folder: Path, accounts: list[dict[str, Any]]) -> None:
    """By channel and department each destination has its part of the log, in order, and the rest is listed."""
    aside = list(delivered(folder / ".seriatim/pipelines/receipt/set-aside"))
    assert {row["disposition"] for row in aside} == {"late"}
    arrived = {one["destination"]: one["arrived"] for one in accounts}
    for name, belongs in PARTS.items():
        events = [event for event in log if belongs(event)]
        assert arrived[name] == len(events) > 0
        released = [(row["case"], row["task"], row["late"]) for row in delivered(folder / "out" / name)]
        assert cases(released) == cases(in_memory(events, BestEffort(window="1d")))
        late = [row["task"] for row in aside if row["destination"] == name]
        assert sorted(late + [task for _, task, _ in released]) == sorted(event.task for event in events)


def test_the_documented_table_is_what_came_out(outcome: dict[str, Measured]) -> None:
    text = (ROOT / "docs/explanation/receipt-log.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \|", text, re.MULTILINE)
    told = {("recorded" if name == "none" else f"window-{name}"): (int(left), int(of)) for name, left, of in rows}
    assert told == {name: (outcome[name].inversions, outcome[name].cases) for name in ("recorded", *WINDOWS)}


def test_the_pictures_are_those_of_the_documents(
    log: list[feed.Event], outcome: dict[str, Measured], tmp_path: Path
) -> None:
    plots.draw_lateness(behind(log), tmp_path / "receipt-lateness.svg")
    waited = {name: [left.waited for left in leave(log, window)] for name, window in WINDOWS.items()}
    plots.draw_windows(
        {name: one.inversions for name, one in outcome.items()}, waited, tmp_path / "receipt-windows.svg"
    )
    for drawn in sorted(tmp_path.iterdir()):
        kept = ROOT / "docs/explanation" / drawn.name
        assert shape(drawn) == shape(kept)
        assert kept.stat().st_size < 50_000


def shape(picture: Path) -> list[str]:
    """The words and numbers that a picture shows, without the coordinates, which may differ by a font's width."""
    return re.findall(r"<text[^>]*>([^<]+)</text>", picture.read_text(encoding="utf-8"))
