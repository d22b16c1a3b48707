"""Writes what is made from the list of metrics: docs/reference/metrics.md, docs/alerts.yml with its cases, and docs/grafana.json.

A test holds the files against what this would write; after a change in ``src/seriatim/metrics/`` run ``python scripts/metrics_pages.py``.
"""

from __future__ import annotations

import json
from pathlib import Path

from seriatim.metrics.alerts import ALERTS
from seriatim.metrics.board import board
from seriatim.metrics.catalogue import METRICS, MetricKind, Source

DOCS = Path(__file__).parents[1] / "docs"

_PAGE = """# Metrics

Written by `scripts/metrics_pages.py` from `src/seriatim/metrics/catalogue.py`.

A process that is started with `--metrics HOST:PORT` tells them at `/metrics`, in Prometheus' text format or as OpenMetrics; the
[console](console.md) tells those of the box at its own address. They need the extra `metrics`. [Watch a box](../how-to/watch-a-box.md) says
how to set it up; [`alerts.yml`](../alerts.yml) and [`grafana.json`](../grafana.json) are made from the same list.

Names and labels are stable: a change is in the [changelog](../../CHANGELOG.md). No label is ever a group, a message or the text of an error.
Every process that works on a box tells the box's own metrics, so take one of them (`max by (…)`), not their sum. The box is read by one
statement, which ends after 5 s; scrapes within 5 s share its answer. While the box is away `seriatim_up` is 0, and its metrics
are absent.

Counts stay cheap in a large box: 50,000 messages and as many groups, of all queues together (at least 100 of each queue), are counted
exactly. What a queue has beyond its share is estimated from 2,000 blocks of the table, and `seriatim_counts_estimated` of the queue is 1.

"""
_OF = {
    Source.BOX: "Of the box",
    Source.ITSELF: "Of the process that is asked",
    Source.PROCESS: "Of the worker processes",
    Source.RUN: "Of the run of a pipeline",
}
_MORE = {
    Source.BOX: "A role that doesn't own the box tells those of the queues that it sees.",
    Source.PROCESS: "Counted by `seriatim work` and `serve` over all their processes, those included that have died; each loses what it counted "
    "in its last half second if it is killed. What applications receive in sessions of their own isn't in them. A turn that is rolled "
    "back, because the connection breaks, counts again.",
    Source.ITSELF: "`seriatim_up` and the two about laws: of any process with a box; the others: of workers.",
    Source.RUN: "Told by `seriatim run --metrics`.",
}


def metrics_page() -> str:
    """The reference page."""
    parts = [_PAGE]
    for source, heading in _OF.items():
        parts.append(f"## {heading}\n\n{_MORE[source]}\n\n| metric | type | labels | |\n|---|---|---|---|\n")
        for one in METRICS:
            if one.source is source:
                labels = ", ".join(f"`{label}`" for label in one.labels)
                parts.append(f"| `{one.name}` | {one.kind} | {labels} | {one.help} |\n")
        parts.append("\n")
    parts.append("## Buckets\n\n| histogram | upper bounds |\n|---|---|\n")
    for one in METRICS:
        if one.kind is MetricKind.HISTOGRAM:
            unit = " s" if one.unit == "seconds" else ""
            parts.append(f"| `{one.name}` | {', '.join(f'{bound:g}' for bound in one.bounds)}{unit} |\n")
    return "".join(parts)


def _quoted(text: str) -> str:
    return json.dumps(text)


def alerts() -> str:
    """The rules for Prometheus."""
    lines = [
        "# Alerts for seriatim. Written by scripts/metrics_pages.py; promtool checks and tests them.",
        "# Copy it, and change what doesn't fit: how long something may wait is yours to say.",
        "groups:",
        "  - name: seriatim",
        "    rules:",
    ]
    for one in ALERTS:
        lines += [
            f"      - alert: {one.name}",
            f"        expr: {_quoted(one.expression)}",
            f"        for: {one.lasts}",
            "        labels:",
            f"          severity: {one.severity}",
            "        annotations:",
            f"          summary: {_quoted(one.summary)}",
            f"          helps: {_quoted(one.helps)}",
        ]
    return "\n".join(lines) + "\n"


def alert_cases(rules: Path) -> str:
    """Cases for ``promtool test rules``: each alert fires at its case, and doesn't at the other."""
    lines = ["rule_files:", f"  - {_quoted(str(rules))}", "evaluation_interval: 1m", "tests:"]
    for one in ALERTS:
        for series, fires in ((one.fires, True), (one.quiet, False)):
            lines += [
                "  - interval: 1m",
                f"    name: {one.name} {'fires' if fires else 'is quiet'}",
                "    input_series:",
            ]
            lines += [
                f"      - {{series: {_quoted(name)}, values: {_quoted(values)}}}" for name, values in series.items()
            ]
            firing = f'ALERTS{{alertname="{one.name}",alertstate="firing"}}'
            lines += ["    promql_expr_test:", f"      - expr: {_quoted(firing)}", f"        eval_time: {one.after}m"]
            if fires:
                labels = {"alertname": one.name, "alertstate": "firing", "severity": one.severity, **one.labels}
                told = ", ".join(f'{name}="{value}"' for name, value in labels.items())
                lines += ["        exp_samples:", f"          - {{labels: {_quoted(f'ALERTS{{{told}}}')}, value: 1}}"]
    return "\n".join(lines) + "\n"


def pages() -> dict[Path, str]:
    """The files with their texts."""
    return {
        DOCS / "reference" / "metrics.md": metrics_page(),
        DOCS / "alerts.yml": alerts(),
        DOCS / "grafana.json": json.dumps(board(), indent=2) + "\n",
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
