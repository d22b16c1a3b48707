"""What is made from the list of metrics is up to date, names no metric that isn't there, and Prometheus takes it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from scripts.metrics_pages import DOCS, alert_cases, pages

from seriatim.metrics.alerts import ALERTS
from seriatim.metrics.board import PANELS, board
from seriatim.metrics.catalogue import METRICS, MetricKind

SAMPLES = {one.name for one in METRICS} | {
    f"{one.name}_{part}" for one in METRICS if one.kind is MetricKind.HISTOGRAM for part in ("bucket", "count", "sum")
}
NAME = re.compile(r"\bseriatim_[a-z_]+")


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_a_file_is_made_from_the_list(path):
    assert path.read_text(encoding="utf-8") == pages()[path], "run: python scripts/metrics_pages.py"


def test_alerts_and_board_name_only_metrics_that_are_there():
    told = [one.expression for one in ALERTS] + [query for one in PANELS for _, query in one.queries]
    assert {name for text in told for name in NAME.findall(text)} <= SAMPLES
    assert {
        name for one in ALERTS for case in (one.fires, one.quiet) for text in case for name in NAME.findall(text)
    } <= SAMPLES


@pytest.mark.parametrize("alert", ALERTS, ids=lambda one: one.name)
def test_an_alert_says_what_is_wrong_and_what_helps(alert):
    assert alert.severity in ("critical", "warning")
    assert alert.summary
    assert alert.helps
    assert alert.fires != alert.quiet


def test_the_board_has_its_panels_side_by_side():
    panels = board()["panels"]
    places = [(one["gridPos"]["x"], one["gridPos"]["y"]) for one in panels]
    assert len(set(places)) == len(panels) == len({one["id"] for one in panels})
    assert all(target["expr"] and target["refId"] for one in panels for target in one["targets"])
    assert json.loads(json.dumps(board())) == board()


@pytest.fixture(scope="module")
def promtool():
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool isn't installed (scripts/promtool)")

    def run(*words):
        done = subprocess.run([found, *map(str, words)], capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def test_prometheus_takes_the_rules(promtool):
    assert f"SUCCESS: {len(ALERTS)} rules found" in promtool("check", "rules", DOCS / "alerts.yml")


def test_each_alert_fires_when_it_has_to_and_only_then(promtool, tmp_path: Path):
    cases = tmp_path / "cases.yml"
    cases.write_text(alert_cases(DOCS / "alerts.yml"), encoding="utf-8")
    assert "SUCCESS" in promtool("test", "rules", cases)


def test_prometheus_reads_the_queries_of_the_board(promtool, tmp_path: Path):
    queries = [target["expr"] for panel in board()["panels"] for target in panel["targets"]]
    rules = [
        {"record": f"panel:{number}", "expr": query.replace("$__rate_interval", "5m")}
        for number, query in enumerate(queries)
    ]
    written = tmp_path / "rules.yml"
    written.write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}), encoding="utf-8")
    assert f"{len(queries)} rules found" in promtool("check", "rules", written)
