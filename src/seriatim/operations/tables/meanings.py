"""What the columns of a table mean, from the docstring of the class of its rows: for the reference, and for people who read a table."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from seriatim.operations.tables.table import Column, Table

#: A meaning that says no more than its heading does.
_PLAIN = re.compile(r"(its|the \w+'s) \w+")


def documented(table: Table[Any]) -> tuple[str, dict[str, str]]:
    """What the docstring of the class of its rows says of it, and of each field."""
    kind = table.row_class
    return ("", {}) if kind is None else _documented(kind)


def meanings(table: Table[Any], columns: Iterable[Column[Any]] | None = None) -> list[tuple[str, str]]:
    """What columns mean, for people: the heading and the text; without those whose heading says it. None: those that people see."""
    _, fields = documented(table)
    found = [
        (str(one.title), one.meaning or fields.get(one.name or "", ""))
        for one in (table.shown if columns is None else columns)
        if one.title
    ]
    return [(heading, _for_people(text)) for heading, text in found if text and not _PLAIN.fullmatch(text)]


@cache
def _documented(kind: type) -> tuple[str, dict[str, str]]:
    about, _, fields = (inspect.getdoc(kind) or "").partition("\n\nArgs:\n")
    found: dict[str, str] = {}
    name = ""
    for line in fields.partition("\n\n")[0].splitlines():
        if begun := re.match(r"    (\w+): (.*)", line):
            name, found[begun[1]] = begun[1], begun[2]
        elif name:
            found[name] += f" {line.strip()}"
    for name, one in inspect.getmembers(kind, lambda one: isinstance(one, property)):
        told = (inspect.getdoc(one) or "").partition("\n")[0]
        found[name] = told[:1].lower() + told[1:]
    return _code(about), {name: _code(one).rstrip(".") for name, one in found.items()}


def _code(text: str) -> str:
    """The text of a docstring, with the words of JSON for the constants of Python."""
    for python, json in (("None", "null"), ("False", "false"), ("True", "true")):
        text = re.sub(rf"\b{python}\b", json, text)
    return text.replace("``", "`")


def _for_people(text: str) -> str:
    """A meaning without the marks of code: an empty cell is "empty", and a field has its name in words."""
    text = re.sub(r'`"?([^`"]*)"?`', lambda found: found[1].replace("_", " "), text)
    return re.sub(r"\bnull\b", "empty", text)
