"""Writes the tables of ``docs/reference/box-file.md`` that are marked so, from the fields of the declarations and their docstrings.

A test holds the page against what this would write; after a change to a declaration run ``python scripts/declaration_tables.py``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from seriatim.kernel.fields import Declaration, Flagged, For, Period, Row, rows
from seriatim.kernel.operators.fault import Retry
from seriatim.kernel.operators.recover import Recover
from seriatim.operations.tables.meanings import documented
from seriatim.operations.tables.table import Table
from seriatim.pipeline.declared.activation import Activation
from seriatim.pipeline.declared.error_class import FaultKinds
from seriatim.pipeline.declared.kinds import OfPolicy
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.queue_parts import Gate, Group, Keep, Limit, Remote
from seriatim.pipeline.declared.work_limits import Lease, Pace

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "box-file.md"
#: The declarations whose tables the page has, by name.
TABLES: dict[str, type[Declaration]] = {
    one.__name__: one
    for one in (Queue, Group, Retry, Recover, Keep, Limit, Gate, Remote, Activation, Pace, Lease, FaultKinds)
}
_MARK = re.compile(r"(<!-- table of ([A-Za-z]+) -->\n)(?:\|.*\n)*")


def page(text: str) -> str:
    """The text of the page, with its tables as they are declared now."""
    return _MARK.sub(lambda found: found[1] + "\n".join(_table(TABLES[found[2]])) + "\n", text)


def _table(kind: type[Declaration]) -> Iterator[str]:
    _, told = documented(Table("", row=f"{kind.__module__}:{kind.__name__}"))
    yield "| key | default | |"
    yield "|---|---|---|"
    for row in rows(kind):
        if row.name != "name" and row.engines & (For.BOX | For.REMOTE):
            yield f"| `{row.name}` | {_default(row)} | {_plain(told.get(row.name, ''))} |"


def _default(row: Row) -> str:
    value = row.default
    if row.is_required or isinstance(row.kind, OfPolicy):
        return "required"
    if isinstance(value, Declaration) or value in (None, ()):
        return "" if isinstance(value, Declaration) else "none"
    if isinstance(row.kind, Flagged):
        return f"`{str(value).lower()}`"
    if isinstance(row.kind, Period):
        return f"`{value:g}s`"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else f"`{value}`"


def _plain(text: str) -> str:
    return (
        re.sub(r'`"([^`"]*)"`', r"`\1`", text)
        .replace("|", "\\|")
        .replace("`docs/reference/ports.md`", "[ports](ports.md)")
    )


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
