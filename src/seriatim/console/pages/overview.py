"""The overview: what needs a hand, the queues as rows, and the law of conservation as one line."""

from __future__ import annotations

from markupsafe import Markup

from seriatim.console.findings import row
from seriatim.console.html import sparkline
from seriatim.console.page import Answer, Asked, Page
from seriatim.operations.tables.meanings import meanings
from seriatim.operations.tables.queues import COUNTS

#: What the columns mean: those of the command's table have the same names, but for a few.
_MEANINGS = [
    (
        "law of conservation",
        "every message that was received is released, held or set aside: none is lost, none is there twice",
    ),
    (
        "stand still",
        "groups that are suspended or faulted, or have had a hole for its time-out, or for a minute; and messages that failed alone",
    ),
    *meanings(COUNTS.only("arrived", "held", "queued", "in hand", "oldest", "processes")),
    ("dead letters", "messages that were set aside because their handler failed, or an operator gave them up"),
    ("released/s", "messages a second that left the resequencer in the last ten seconds; the line shows 15 minutes"),
]


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
        "found": [row(asked, one) for one in findings.seen or ()],
        "rows": rows,
        "names": names,
        "law": asked.looks.law,
        "sparks": sparks,
        "counted": counted,
        "told": _MEANINGS,
    }
    return Answer(twin, values=values)


PAGE = Page(("", "queues"), "Overview", _read, "overview.html", section="Work", place=-1)
