"""The overview: what needs a hand, the queues as rows, and the law of conservation as one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from markupsafe import Markup

from seriatim.console.html import sparkline
from seriatim.console.page import Answer, Asked, Page
from seriatim.operations.finding import Finding
from seriatim.operations.tables.meanings import meanings
from seriatim.operations.tables.queues import COUNTS

__all__ = ["PAGE"]

#: What the columns mean: those of the command's table have the same names, but for a few.
_MEANINGS = [
    (
        "law of conservation",
        "every message that was received is released, held or set aside: none is lost, none is there twice",
    ),
    (
        "stand still",
        "groups that are suspended or faulted, or with a hole that is older than its time-out, or than a minute if it has none; "
        "and messages that failed in a queue without groups",
    ),
    *meanings(COUNTS.only("arrived", "held", "queued", "in hand", "oldest", "processes")),
    ("dead letters", "messages that were set aside because their handler failed, or an operator gave them up"),
    ("released/s", "messages a second that left the resequencer in the last ten seconds; the line shows 15 minutes"),
]


#: Where a finding is mended, by its name: the parts of the address, with its query, and what the link says.
_MENDED: Mapping[str, tuple[Sequence[str | Mapping[str, str]], str]] = {
    "faulted": (("groups", {"state": "faulted"}), "Show them, and retry"),
    "suspended": (("groups", {"state": "suspended"}), "Show them, and resume"),
    "waiting": (("groups", {}), "Show them"),
    "gates": (("groups", {}), "Show them"),
    "restarts": (("groups", {}), "Show them"),
    "dead letters": (("dead-letters",), "Show them, and requeue"),
    "unrouted": (("unrouted",), "Show them, and route again"),
    "unended": (("messages",), "Show the messages"),
    "set aside": (("messages", {"status": "invalid"}), "Show what is invalid"),
    "dialogs": (("dialogs",), "Show them"),
    "oldest": (("messages",), "Show the messages"),
    "at work": (("workers",), "Show the workers"),
    "workers": (("workers",), "Show them"),
    "leases": (("workers",), "Show the workers"),
    "subscriptions": (("subscriptions",), "Show them, and start one"),
    "transactions": (("connections",), "Show the connections, and end one"),
    "links": (("links",), "Show them"),
    "schedules": (("schedules",), "Show them"),
    "bulk": (("bulk-operations",), "Show them"),
    "faults": (("faults",), "Show them"),
}


def _row(asked: Asked, finding: Finding) -> tuple[Finding, Sequence[str | Mapping[str, str]] | None, str]:
    """A finding with its link. Why a message is unrouted may name values of properties, which not all may see."""
    if finding.name == "unrouted" and not asked.may("see-bodies"):
        finding = replace(finding, found="there are messages that no queue has")
    return (finding, *_MENDED.get(finding.name, (None, "")))


def _read(asked: Asked) -> Answer:
    counted = asked.looks.counted()
    rows = counted.rows or []
    names = [(name, one.enabled) for name, one in sorted(asked.box.definitions().queues.items())]
    sparks = {}
    for one in rows:
        past = asked.looks.rates_of(one.queue)
        if past:
            label = f"{past[-1]:,.0f} a second; at most {max(past):,.0f} in the last 15 minutes"
            sparks[one.queue] = Markup("{} {}").format(f"{past[-1]:,.0f}", sparkline(past, label))
    twin = (
        COUNTS.objects_of(rows) if counted.rows is not None else [{"queue": name, "enabled": on} for name, on in names]
    )
    findings = asked.looks.findings()
    values = {
        "findings": findings,
        "found": [_row(asked, one) for one in findings.rows or ()],
        "rows": rows,
        "names": names,
        "law": asked.looks.law,
        "sparks": sparks,
        "counted": counted,
        "told": _MEANINGS,
    }
    return Answer(twin, values=values)


PAGE = Page(("", "queues"), "Overview", _read, "overview.html", section="Work", place=-1)
