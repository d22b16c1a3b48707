"""`Page`: a page of the console, which is one file of `pages/`: its path, what it reads, its table, its template.

A page reads from `seriatim.operations` and gives an `Answer`: the object that is its JSON twin, and what its template shows. The twin
is what the command prints with ``--json``, because both come from one table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar
from urllib.parse import quote, unquote, urlencode

from markupsafe import Markup

from seriatim.box.box import MessageBox
from seriatim.console.filters import Field, whole_number
from seriatim.console.guard import Refusal
from seriatim.console.pipelines import Pipelines
from seriatim.console.who import Actor
from seriatim.operations.tables.meanings import meanings
from seriatim.operations.tables.table import Column, Table, shown_value

T = TypeVar("T")
#: In place of a reason that names values of properties.
_UNNAMED = "no subscription matches it, or it doesn't fit its type: who sees properties sees why"
#: The rows of a page, unless it is asked for another number; and the most rows.
_ROWS, MOST_ROWS = 50, 1000


@dataclass(frozen=True, slots=True)
class Asked:
    box: MessageBox
    actor: Actor
    #: The parts of the path that have a name, decoded.
    named: Mapping[str, str]
    query: Mapping[str, str]
    reads_only: bool = False
    looks: Any = None
    bulk: Any = None
    #: The pipelines that the console was given; see `pipelines.Pipelines`.
    pipelines: Pipelines = field(default_factory=Pipelines)
    #: Whether the JSON twin is asked for, and nothing else is shown.
    is_twin: bool = False

    def may(self, role: str) -> bool:
        """Whether the user has a role, and it can be used; only looking can in a console that reads only."""
        return role in self.actor.roles and not (self.reads_only and role not in ("see", "see-bodies"))

    def unnamed(self, rows: Sequence[T], *, field: str = "reason", kind: str = "status") -> list[T]:
        """Rows, in which the reason why a message is unrouted names no value of a property, unless the user sees these."""
        if self.may("see-bodies"):
            return list(rows)
        return [
            replace(one, **{field: _UNNAMED})  # type: ignore[type-var]
            if getattr(one, kind) == "unrouted" and getattr(one, field)
            else one
            for one in rows
        ]

    def text(self, name: str) -> str | None:
        """A value of the query; None if it is empty."""
        return self.query.get(name) or None

    def number(self, name: str) -> int | None:
        text = self.text(name)
        return None if text is None else whole_number(name, text)

    @property
    def limit(self) -> int:
        return max(1, min(self.number("limit") or _ROWS, MOST_ROWS))

    def chosen(self, *names: str) -> dict[str, str]:
        return {name: self.query[name] for name in names if self.query.get(name)}


@dataclass(frozen=True, slots=True)
class Rows:
    table: Table[Any]
    rows: Sequence[Any]
    #: The name of the list, for those who hear it.
    caption: str
    #: The parts of the address to which a cell leads, by heading, from a row, last perhaps its query; None: nowhere.
    links: Mapping[str, Callable[[Any], Sequence[str | Mapping[str, object]] | None]] = field(default_factory=dict)
    #: The text in place of a table that has no rows.
    nothing: str = "There are none."
    #: What would be there, and how to get it: a sentence behind `nothing`, unless a filter hides rows.
    hint: str | Markup = ""
    #: States that are no warning in this list, though they are elsewhere.
    usual: Sequence[str] = ()
    #: The query of the next rows; None: these are all.
    following: Mapping[str, str] | None = None

    @property
    def columns(self) -> Sequence[Column[Any]]:
        return [one for one in self.table.shown if any(shown_value(one.seen(row)) for row in self.rows)]

    @property
    def meanings(self) -> Sequence[tuple[str, str]]:
        return meanings(self.table, self.columns)


@dataclass(frozen=True, slots=True)
class Answer:
    twin: object
    title: str | None = None
    listing: Rows | None = None
    about: str | Markup = ""
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Page:
    #: Its paths, without the first slash; ``{name}`` is one part. The first one is the page's address.
    paths: Sequence[str]
    title: str
    read: Callable[[Asked], Answer]
    #: The file of its template: beside its module, or that of a list.
    template: str = "list.html"
    #: The part of the menu in which it stands; empty: it isn't in the menu.
    section: str = ""
    fields: Sequence[Field] = ()
    takes: Sequence[str] = ()
    role: str = "see"
    #: Its place in its part of the menu; those with the same place are sorted by title.
    place: int = 1
    #: Whether it is in the menu only of a console that was given pipelines.
    of_pipelines: bool = False


def address(prefix: str, parts: Sequence[str], query: Mapping[str, object] | None = None, *, suffix: str = "") -> str:
    """An address of the console. Each part is one segment, whatever is in it. A last part that would end in ``.json`` is written so that it
    doesn't. Browsers take ``.`` and ``..`` for steps in the path, however they are written: so these stand in the query.
    """
    if any(one in (".", "..") for one in parts):
        names = {"groups": ("queue", "key"), "messages": ("id",), "pipelines": ("name", "of", "queue", "key")}.get(
            parts[0], ("name",)
        )
        query = dict(zip(names, parts[1:], strict=False)) | dict(query or {})
        parts = (parts[0].removesuffix("s"),)
    segments = [quote(one, safe="") for one in parts]
    if segments and parts[-1].endswith(".json"):
        segments[-1] = f"{segments[-1][: -len('.json')]}%2Ejson"
    asked = urlencode({name: str(value) for name, value in (query or {}).items() if value not in (None, "")})
    return f"{prefix}/{'/'.join(segments)}{suffix}{'?' if asked else ''}{asked}"


def segments_of(raw: bytes) -> tuple[list[str], bool]:
    """The parts of a path as it was sent, each decoded on its own, and whether its JSON twin is asked for."""
    text = raw.decode("ascii", "replace")
    wants_json = text.endswith(".json")
    parts = text.removesuffix(".json").removeprefix("/").split("/")
    try:
        return [unquote(one, errors="strict") for one in parts], wants_json
    except UnicodeDecodeError:
        raise Refusal(400, "the address isn't UTF-8") from None
