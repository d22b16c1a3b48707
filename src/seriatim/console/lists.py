"""Pages that are lists: their filters, rows and further pages come from the function that reads the list."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from seriatim.box.views import listing
from seriatim.box.views.filtered import offered
from seriatim.box.views.listing import Choice, Filter, Flag, Limit, Place, PropertyValues, Queue
from seriatim.console.filters import Field, check_queue
from seriatim.console.page import MOST_ROWS, Answer, Asked, Page, Rows
from seriatim.operations.tables.errors import ERRORS
from seriatim.operations.tables.table import Table

#: Links of cells to the pages of a message and of a group.
TO_MESSAGE: Mapping[str, Any] = {
    "message": lambda one: None if one.message_id is None else ("messages", one.message_id)
}
TO_GROUP: Mapping[str, Any] = {
    "group": lambda one: None if one.group is None or one.queue is None else ("groups", one.queue, one.group)
}


def fields_of(reads: Callable[..., Any], *, of_pipeline: bool = False) -> tuple[Field, ...]:
    """The fields of a form for the filters that a function takes; `of_pipeline`: queues are destinations."""
    return tuple(
        _field(one, name, of_pipeline=of_pipeline) for name, (one, _) in offered(reads).items() if _is_field(one)
    )


def _is_field(one: Filter) -> bool:
    # By properties anybody could find out values that not all may see.
    return one.kind.for_people and not isinstance(one.kind, Limit | Place | PropertyValues)


def _field(one: Filter, name: str, *, of_pipeline: bool) -> Field:
    kind, called = one.kind, one.name or name
    choices = kind.values if isinstance(kind, Choice) else ("yes",) if isinstance(kind, Flag) else ()
    label = one.label or called.replace("_", " ").capitalize()
    return Field(
        called,
        "Destination" if of_pipeline and called == "queue" else label,
        choices,
        one.example or kind.example,
        check_queue if isinstance(kind, Queue) and not of_pipeline else lambda _, text: kind.read(name, text),
        kind.words if isinstance(kind, Choice) else {},
    )


def takes_of(reads: Callable[..., Any]) -> tuple[str, ...]:
    """The further names in the query of a list: those of the place where a page goes on."""
    places = [(name, one.kind) for name, (one, _) in offered(reads).items() if isinstance(one.kind, Place)]
    return tuple(column for name, kind in places for column in (kind.columns or [name]))


def given(asked: Asked, reads: Callable[..., Any]) -> dict[str, Any]:
    """What a page is asked for, as arguments of the function that reads its rows."""
    found: dict[str, Any] = {}
    for name, (one, _) in offered(reads).items():
        if isinstance(one.kind, Place):
            value = one.kind.placed(name, asked.query)
        elif isinstance(one.kind, Limit):
            value = asked.limit
        else:
            text = asked.text(one.name or name) if _is_field(one) else None
            value = None if text is None else one.kind.read(name, text)
        if value is not None:
            found[name] = value
    return found


def following(asked: Asked, reads: Callable[..., Any], found: Any) -> dict[str, str] | None:
    """The query of the next page; None: there is none."""
    for name, (one, _) in offered(reads).items():
        if isinstance(one.kind, Place):
            place = (
                found.following
                if isinstance(found, listing.Page)
                else one.kind.of(found[-1])
                if len(found) == asked.limit
                else None
            )
            return None if place is None else dict(asked.query) | one.kind.query(name, place)
    if "limit" in offered(reads) and len(found) == asked.limit < MOST_ROWS:  # a longer list begins as this one
        return dict(asked.query) | {"limit": str(min(asked.limit * 4, MOST_ROWS))}
    return None


def list_page(
    title: str,
    reads: Callable[..., Any],
    table: Table[Any],
    *,
    path: str = "",
    links: Mapping[str, Any] | None = None,
    caption: str = "",
    about: str | Markup = "",
    nothing: str = "There are none.",
    hint: str | Markup = "",
    by_error: Callable[..., Any] | None = None,
    rows: Callable[[Asked, Sequence[Any]], Sequence[Any]] = lambda _, found: found,
    values: Callable[[Asked, Sequence[Any]], Mapping[str, Any]] = lambda *_: {},
    shown: Table[Any] | None = None,
    usual: Sequence[str] = (),
    **page: Any,
) -> Page:
    """A page that lists what a function reads. `path`: empty: the title. `links`, `nothing`, `hint`, `usual`: as of `Rows`; `page`: as of
    `Page`. `caption`: the name of the list; empty: the title. `by_error`: counts the rows by error. `rows`: changes the rows. `values`:
    further values of the template. `shown`: the table for people, if it is another one.
    """
    fields, path = fields_of(reads), path or title.lower().replace(" ", "-")
    names = [one.name for one in fields]

    def read(asked: Asked) -> Answer:
        arguments = given(asked, reads)
        where = {"where": asked.chosen(*names)}
        if by_error is not None and asked.query.get("by") == "error":
            counts = by_error(asked.box, **{name: one for name, one in arguments.items() if name in offered(by_error)})
            to = {"error": lambda one: (path, dict(asked.query) | {"by": "", "error_class": one.error})}
            return Answer(ERRORS.objects_of(counts), listing=Rows(ERRORS, counts, "Errors", to), values=where)
        found = reads(asked.box, **arguments)
        more = following(asked, reads, found)
        told = nothing
        if isinstance(found, listing.Page):
            told = nothing if more is None else f"None among {found.read:,} {title.lower()}; there are more."
            found = found.rows
        found = rows(asked, found)
        return Answer(
            table.objects_of(found),
            about=about,
            listing=Rows(shown or table, found, caption or title, links or {}, told, hint, usual, more),
            values={**where, **values(asked, found)},
        )

    by = (Field("by", "Count by error", ("error",)),) if by_error else ()
    return Page((path,), title, read, fields=(*fields, *by), takes=takes_of(reads), **page)
