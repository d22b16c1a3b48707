"""Updates that move a row to another group: a delete for the group that had the row, and an insert for the group that gets it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from seriatim.pipeline.bodies.envelopes.envelope import Document
from seriatim.pipeline.bodies.envelopes.registry import ENVELOPES
from seriatim.pipeline.bodies.json_paths import json_lookup, json_reader, path_steps
from seriatim.pipeline.bodies.property_values import Find, Unreadable, Value, text_of
from seriatim.pipeline.declared.pipeline import Receive, Split

#: From a body to the bodies into which it is split; the body itself, if it moves no row. Raises `Unreadable`.
Apart = Callable[[bytes], list[bytes]]


@dataclass(frozen=True, slots=True)
class Moves:
    envelope: str
    #: For each property by which messages are grouped, the paths into the body.
    keys: tuple[tuple[str, ...], ...]
    #: For each of these properties, the path to the list in whose elements these paths begin; None: they begin in the whole document.
    rows: tuple[str | None, ...]
    #: Whether the parts of a message are in the envelope's form, and not the message.
    of_parts: bool = False

    def reader(self) -> Apart:
        """Return a function that splits bodies; a body that can't be read stays as it is."""
        form, read = ENVELOPES[self.envelope], json_reader()
        updates, hint = form.updates, form.hint.encode()
        keys = [_key(paths, rows) for paths, rows in zip(self.keys, self.rows, strict=True)]
        if updates is None:
            return lambda body: [body]

        def moves(delete: Document, insert: Document) -> bool:
            # A database may write no more of the old row than its primary key.
            return any(
                former != key(insert) for key in keys if (former := key(delete)) is not None or form.tells_former
            )

        def apart(body: bytes) -> list[bytes]:
            if hint not in body:  # most messages aren't read twice
                return [body]
            try:
                document = read(text_of(body))
                change = form.of(document)
            except Unreadable:  # the reader of its properties reports it
                return [body]
            pieces: list[Document] = []
            is_moved = False
            try:
                for update in () if change is None else updates(change):
                    same, *two = (form.within(document, one) for one in (update.update, update.delete, update.insert))
                    if moves(*two):
                        is_moved = True
                        pieces += two
                    else:
                        pieces.append(same)
                return [_written(piece).encode() for piece in pieces] if is_moved else [body]
            except RecursionError:
                raise Unreadable(
                    "an update that may move its row, and is nested too deeply to be taken apart"
                ) from None

        return apart


def moves_of(entry: Receive, groups: Collection[str]) -> Moves | None:
    """Return how the updates of a location are split; None: they aren't."""
    if entry.envelope is None or ENVELOPES[entry.envelope].updates is None:
        return None
    split = None if entry.split is None else entry.split.path
    if entry.split is not None and split is None:
        return None  # only the user's function knows the row of a part
    is_whole = is_of_whole(entry.envelope, entry.split)
    found = [
        (tuple(path for path in one.paths if path.startswith("$")), split if is_whole and not one.envelope else None)
        for one in entry.promote
        if one.name in groups and one.told_by is None
    ]
    keys = [(paths, rows) for paths, rows in found if paths]
    if not keys:
        return None
    return Moves(
        entry.envelope,
        tuple(paths for paths, _ in keys),
        tuple(rows for _, rows in keys),
        of_parts=split is not None and not is_whole,
    )


def is_of_whole(envelope: str, split: Split | None) -> bool:
    """Return whether a location splits the list of an envelope, so that the whole message is the envelope; else parts are."""
    rows = ENVELOPES[envelope].rows
    if split is None or rows is None:
        return False
    return split.path is None or (split.path.startswith("$") and rows in path_steps(split.path))


def is_in_column(entry: Receive, name: str | None) -> bool:
    """Return whether a location reads a property from columns only."""
    return any(
        one.name == name and one.told_by is None and not any(path.startswith("$") for path in one.paths)
        for one in entry.promote
    )


def _key(paths: Sequence[str], rows: str | None) -> Find:
    """Return a function that finds the first value of some paths, in the document or in the first of its rows."""
    lookups = [json_lookup(path) for path in paths]
    into = json_lookup(f"{rows}[0]") if rows is not None else None

    def key(document: Any) -> Value:
        row = document if into is None else into(document)
        return next((value for lookup in lookups if (value := lookup(row)) is not None), None)

    return key


def _written(value: Any) -> str:
    """Return a value as JSON; numbers have the digits with which they were read."""
    match value:
        case dict():
            return "{" + ", ".join(f"{json.dumps(name)}: {_written(one)}" for name, one in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_written, value)) + "]"
        case Decimal():
            return str(value)
    return json.dumps(value)
