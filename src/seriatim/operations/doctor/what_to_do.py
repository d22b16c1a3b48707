"""The page that says what to do when, by its headings."""

from __future__ import annotations

import re
from dataclasses import dataclass

from seriatim.errors import UsageError, meant, shown
from seriatim.operations import pages
from seriatim.operations.doctor.finding import PAGE

_SECTION = re.compile(
    r"""^\#\#\#[ ](?P<name>[^\n]+)\n\n
    (?P<seen>[^*].*?)\*\*Why:\*\*(?P<why>.*?)\*\*What[ ]to[ ]do:\*\*(?P<remedy>.*?)
    (?=^\#\#|\Z)""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_BREAK = re.compile(r"\s*\n\s*(\* )?")


@dataclass(frozen=True, slots=True)
class Advice:
    """What the page says of a finding.

    Args:
        name: its name, as of the finding.
        seen: what a user sees.
        why: why that is so.
        remedy: what to do, with the commands; where there are several ways, a line each, which begins with ``* ``.
    """

    name: str
    seen: str
    why: str
    remedy: str


def advice(name: str) -> Advice:
    """What the page says of a finding, as plain text.

    Args:
        name: the name of the finding, such as ``faulted`` or ``dead letters``.

    Raises:
        UsageError: the page has nothing on it.
    """
    sections = {section["name"]: section for section in _SECTION.finditer(pages.page(PAGE).text)}
    wanted = name.replace("-", " ")
    if wanted not in sections:
        remedy = meant(wanted, sections) or f"there are: {', '.join(sections)}"
        raise UsageError(f"the page has nothing on {shown(name, 80)}", remedy=remedy)
    found = sections[wanted]
    return Advice(wanted, *(_plain(found[part]) for part in ("seen", "why", "remedy")))


def _plain(text: str) -> str:
    """A text without marks, a line a paragraph or item; what is code stays in backticks."""
    return _BREAK.sub(lambda found: "\n* " if found[1] else " ", _LINK.sub(r"\1", text).strip()).replace("**", "")
