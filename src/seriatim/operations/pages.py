"""The pages of the documents: the wheel carries them, and a clone has them in ``docs``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from itertools import pairwise
from pathlib import Path, PurePosixPath

from seriatim.errors import UsageError, meant, shown

#: The folders of the pages for users, in the order in which they are listed.
_FOLDERS = ("tutorials", "how-to", "reference", "explanation")
_HEADING = re.compile(r"^(#+) (.*)$")
_FENCE = re.compile(r"^\s*(```|~~~)")
_LINK = re.compile(r"\]\(([^)\s]+)\.md(#[^)\s]+)?\)")
_LONGEST_LINE = 100


@dataclass(frozen=True)
class Page:
    """A page, in Markdown.

    Args:
        name: its folder and its name, such as ``how-to/roles``.
        path: the file.
    """

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        """The text of the page."""
        return self.path.read_text(encoding="utf-8")

    @property
    def title(self) -> str:
        """The text of its first heading."""
        return self.text.partition("\n")[0].lstrip("# ")

    def part(self, anchor: str) -> str:
        """A part of the page: what stands under a heading, or a row of a table below the table's head.

        Args:
            anchor: the heading as it stands in a link, such as ``what-a-role-can-see``, or the name of the row.

        Raises:
            UsageError: nothing has this anchor.
        """
        lines = self.text.splitlines(keepends=True)
        marked = next((at for at, line in enumerate(lines) if f'<a id="{anchor}"></a>' in line), None)
        if marked is not None:
            head = next(at for at in range(marked, 0, -1) if not lines[at - 1].startswith("|"))
            return "".join([*lines[head : head + 2], lines[marked]])
        places = list(_headings(lines))
        anchors = [_anchor(title) for _, _, title in places]
        if anchor not in anchors:
            raise UsageError(
                f"the page {self.name!r} has no heading {shown(anchor, 80)}", remedy=f"it has {', '.join(anchors)}"
            )
        line, level, _ = places[anchors.index(anchor)]
        ends = (other for other, its_level, _ in places if other > line and its_level <= level)
        return "".join(lines[line : next(ends, len(lines))])


@dataclass(frozen=True, slots=True)
class Found:
    """A place in the documents that has some words.

    Args:
        page: the page and the heading, as `seriatim docs` takes them, such as ``how-to/unique-jobs#once-per-key``.
        title: the page's title, and the heading below it.
        line: the first line with one of the words, shortened.
    """

    page: str
    title: str
    line: str


def search(text: str, limit: int = 20) -> list[Found]:
    """The places that have all words of a text, in capitals or not: first those that the map of all pages names, then by headings.

    Args:
        text: words, or parts of words.
        limit: the most places.

    Raises:
        UsageError: there are no words.
    """
    words = text.casefold().split()
    if not words:
        raise UsageError("there is nothing to search for", remedy="such as seriatim docs --search retry")
    rows = (_root() / "index.md").read_text(encoding="utf-8").splitlines()
    mapped = {name + anchor for row in rows if _has(row, words) for name, anchor in _LINK.findall(row)}
    found: list[tuple[tuple[int, int, int], Found]] = []
    for one in pages():
        lines = one.text.splitlines()
        places = [*_headings(lines), (len(lines), 0, "")]
        for (line, level, title), (end, _, _) in pairwise(places):
            part, anchor = "\n".join(lines[line:end]), "" if level == 1 else f"#{_anchor(title)}"
            if (is_mapped := one.name + anchor in mapped) or _has(part, words):
                shown_line = next(
                    (row for row in lines[line:end] if any(word in row.casefold() for word in words)), title
                )
                place = Found(
                    one.name + anchor,
                    one.title if level == 1 else f"{one.title}: {title}",
                    shown_line.strip("|# ")[:_LONGEST_LINE],
                )
                found.append(((-is_mapped, -_has(title, words), -part.casefold().count(words[0])), place))
    return [place for _, place in sorted(found, key=lambda one: one[0])[:limit]]


def _has(text: str, words: list[str]) -> bool:
    plain = text.casefold()
    return all(word in plain for word in words)


def pages() -> list[Page]:
    """All pages for users, in the order of the folders and then of the names."""
    root = _root()
    return [Page(f"{folder}/{one.stem}", one) for folder in _FOLDERS for one in sorted((root / folder).glob("*.md"))]


def page(name: str) -> Page:
    """The page with this name.

    Args:
        name: ``glossary``, ``explanation/glossary``, or a path as it stands in a link or a message, such as
            ``docs/explanation/glossary.md``.

    Raises:
        UsageError: no page has this name, or more than one has.
    """
    asked = PurePosixPath(name.removesuffix(".md"))
    wanted = [part for part in asked.parts if part not in ("..", ".", "docs")]
    if wanted == ["index"]:
        return Page("index", _root() / "index.md")
    there = pages()
    found = [one for one in there if wanted and one.name.split("/")[-len(wanted) :] == wanted]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"several pages are named {shown(name, 80)}", remedy=" or ".join(one.name for one in found))
    remedy = meant(asked.name, [one.path.stem for one in there]) or "`seriatim docs` lists the pages"
    raise UsageError(f"no page is named {shown(name, 80)}", remedy=remedy)


def _root() -> Path:
    carried = Path(str(resources.files("seriatim.operations"))) / "pages"
    return carried if carried.is_dir() else Path(__file__).parents[3] / "docs"


def _headings(lines: list[str]) -> Iterator[tuple[int, int, str]]:
    """The line, the level and the text of each heading; a comment in a block of code is none."""
    in_code = False
    for number, line in enumerate(lines):
        in_code ^= bool(_FENCE.match(line))
        heading = None if in_code else _HEADING.match(line)
        if heading is not None:
            yield number, len(heading[1]), heading[2]


def _anchor(title: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")
