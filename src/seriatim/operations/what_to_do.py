"""The page that says what to do when, by its rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches

from seriatim.errors import UsageError, shown
from seriatim.operations import pages
from seriatim.operations.finding import PAGE

__all__ = ["Advice", "advice"]

_ROW = re.compile(r'^\| <a id="([a-z0-9-]+)"></a>(.*) \|$', re.MULTILINE)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


@dataclass(frozen=True, slots=True)
class Advice:
    """A row of the page.

    Args:
        name: its name, as of the finding.
        seen: what a user sees.
        why: why that is so.
        remedy: what to do, with the commands.
    """

    name: str
    seen: str
    why: str
    remedy: str


def advice(name: str) -> Advice:
    """The row of a finding, as plain text.

    Args:
        name: the name of the finding, such as ``faulted`` or ``dead letters``.

    Raises:
        UsageError: the page has no such row.
    """
    rows: dict[str, str] = dict(_ROW.findall(pages.page(PAGE).text))
    anchor = name.replace(" ", "-")
    if anchor not in rows:
        close = get_close_matches(anchor, rows, n=1)
        remedy = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join(rows)}"
        raise UsageError(f"the page has nothing on {shown(name, 80)}", remedy=remedy)
    seen, why, remedy = (_plain(cell) for cell in rows[anchor].split(" | "))
    return Advice(name, seen, why, remedy)


def _plain(cell: str) -> str:
    """The text of a cell without marks; what is code stays in backticks."""
    return _LINK.sub(r"\1", cell).replace("**", "").strip()
