"""The Grafana board that is made from the list of metrics: ``docs/grafana.json``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_WIDTH, _HEIGHT, _ACROSS = 8, 7, 3


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    queries: Sequence[tuple[str, str]]
    unit: str = "short"


def _quantiles(name: str, by: str = "queue") -> Sequence[tuple[str, str]]:
    rate = f'rate({name}_bucket{{{by}=~"$queue"}}[$__rate_interval])'
    return [(f"{{{{{by}}}}} p{p}", f"histogram_quantile(0.{p}, sum by (le, {by}) ({rate}))") for p in (50, 95)]


_IN = '{queue=~"$queue"}'

PANELS: tuple[Panel, ...] = (
    Panel("Messages", [("{{queue}} {{state}}", f"sum by (queue, state) (seriatim_messages{_IN})")]),
    Panel("Oldest that can be handed out", [("{{queue}}", f"seriatim_oldest_ready_seconds{_IN}")], "s"),
    Panel("Released a second", [("{{queue}}", f"sum by (queue) (rate(seriatim_released_total{_IN}[$__rate_interval]))")], "ops"),
    Panel("Groups that stand still", [("{{queue}} {{state}}", 'seriatim_groups{queue=~"$queue",state!="ready"}')]),
    Panel("Oldest group that stands still", [("{{queue}} {{state}}", f"seriatim_oldest_standing_seconds{_IN}")], "s"),
    Panel("Holes, and the age of the oldest", [
        ("{{queue}}", f"seriatim_holes{_IN}"), ("{{queue}} oldest, s", f"seriatim_hole_oldest_seconds{_IN}"),
    ]),
    Panel("Wait before the first hand-out", _quantiles("seriatim_wait_seconds"), "s"),
    Panel("Held by holes, rounds and sets", _quantiles("seriatim_hold_seconds"), "s"),
    Panel("Calls of handlers", _quantiles("seriatim_process_seconds"), "s"),
    Panel("Attempts that failed", [
        ("{{queue}} {{kind}}", f"sum by (queue, kind) (rate(seriatim_faults_total{_IN}[$__rate_interval]))"),
    ], "ops"),
    Panel("Set aside", [
        ("{{queue}} {{disposition}}", f"sum by (queue, disposition) (seriatim_set_aside_messages{_IN})"),
        ("{{queue}} conflicts", f"sum by (queue) (increase(seriatim_conflicts_total{_IN}[$__rate_interval]))"),
    ]),
    Panel("Messages of a turn", _quantiles("seriatim_turn_messages")),
    Panel("At work", [
        ("{{queue}} processes", f"max by (queue) (seriatim_queue_processes{_IN})"),
        ("{{queue}} turns", f"sum by (queue) (seriatim_turns{_IN})"),
        ("{{queue}} leases", f"max by (queue) (seriatim_leases{_IN})"),
    ]),
    Panel("Published a second", [("{{location}}", "max by (location) (rate(seriatim_published_total[$__rate_interval]))")], "ops"),
    Panel("Size of the box", [("{{table}}", "topk(8, max by (table) (seriatim_box_bytes))")], "bytes"),
    Panel("Laws broken, unrouted", [("laws broken", "max(seriatim_law_broken)"), ("unrouted", "max(seriatim_unrouted_messages)")]),
    Panel("Oldest transaction", [("oldest", "max(seriatim_oldest_transaction_seconds)")], "s"),
    Panel("Pipelines: messages a second", [
        ("{{destination}} {{disposition}}", "sum by (destination, disposition) (rate(seriatim_run_rows_total[$__rate_interval]))"),
    ], "ops"),
    Panel("Pipelines: batches", _quantiles("seriatim_run_batch_seconds", "pipeline"), "s"),
    Panel("Pipelines: held and waiting", [
        ("{{destination}} held", "seriatim_run_held_messages"), ("{{destination}} waiting for the port", "seriatim_run_waiting_rows"),
        ("behind the source", "seriatim_run_behind_records"),
    ]),
)  # fmt: skip


def board() -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "title": "seriatim",
        "uid": "seriatim",
        "tags": ["seriatim"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
                {
                    "name": "queue",
                    "type": "query",
                    "datasource": source,
                    "query": {"query": "label_values(seriatim_queue_enabled, queue)", "refId": "queue"},
                    "refresh": 2,
                    "multi": True,
                    "includeAll": True,
                    "allValue": ".*",
                    "label": "Queue",
                },
            ]
        },
        "panels": [_drawn(number, panel, source) for number, panel in enumerate(PANELS)],
    }


def _drawn(number: int, panel: Panel, source: dict[str, str]) -> dict[str, Any]:
    queries = [query.replace('pipeline=~"$queue"', 'pipeline=~".*"') for _, query in panel.queries]
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": source,
        "gridPos": {"x": number % _ACROSS * _WIDTH, "y": number // _ACROSS * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + place), "datasource": source, "legendFormat": legend, "expr": query}
            for place, ((legend, _), query) in enumerate(zip(panel.queries, queries, strict=True))
        ],
    }
