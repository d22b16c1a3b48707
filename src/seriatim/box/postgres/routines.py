"""The functions and views of a schema: one present text each, in a file of its own; a migration of the box applies all of them.

A file of ``schema/functions/ROOM/`` has a comment, a line ``-- is: …`` if the function has attributes, and its SQL without them. A file
of ``schema/views/`` is SQL. A text that several share is a part, a file in ``schema/parts/``. A file of ``schema/rules/`` writes the rows
of a table that has the kernel's rules. The functions that tables use, in defaults and triggers, are listed in
``schema/table_functions.txt``: they come before the tables, only a migration changes what they are called with, and one that the baseline
names stays.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from importlib import resources

from seriatim.box.postgres.template import template, with_constants, with_parts

_PACKAGE = "seriatim.box.postgres"
#: The words of a line ``-- is: …``, in their order. A ``definer`` runs with the rights of the box's owner. Why plans are pinned:
#: docs/decisions/0139-each-function-of-the-schema-has-one-present-text.md.
ATTRIBUTES: Mapping[str, str] = {
    "sql": "LANGUAGE sql",
    "stable": "STABLE",
    "immutable": "IMMUTABLE",
    "strict": "STRICT",
    "parallel safe": "PARALLEL SAFE",
    "50 rows": "ROWS 50",
    "definer": "SECURITY DEFINER SET search_path = pg_catalog, pg_temp",
    "own path": "SET search_path = pg_catalog, pg_temp",
    "generic plan": "SET plan_cache_mode = force_generic_plan",
    "custom plan": "SET plan_cache_mode = force_custom_plan",
    "auto plan": "SET plan_cache_mode = auto",
    "no seqscan": "SET enable_seqscan = off",
    "no bitmapscan": "SET enable_bitmapscan = off",
    "no hashjoin": "SET enable_hashjoin = off",
    "no mergejoin": "SET enable_mergejoin = off",
    "no sort": "SET enable_sort = off",
    "no nestloop": "SET enable_nestloop = off",
    "nestloop": "SET enable_nestloop = on",
    "no jit": "SET jit = off",
    "lock timeout 2s": "SET lock_timeout = '2s'",
    "lock timeout 10s": "SET lock_timeout = '10s'",
    "standard strings": "SET standard_conforming_strings = on",
}
_IS = re.compile(r"^-- is: (.*)\n", re.MULTILINE)
_CREATE = re.compile(r"^CREATE OR REPLACE (FUNCTION|VIEW) \{schema\}\.(\w+)", re.MULTILINE)
#: The beginning of a function's body. A text is compiled at its first call; any other body is parsed at once.
_BODY = re.compile(r"^(AS \$|RETURN\b|BEGIN ATOMIC$)", re.MULTILINE)
_NAME = re.compile(r"\{schema\}\.(\w+)")


@dataclass(frozen=True, slots=True)
class Routine:
    name: str
    is_view: bool
    #: The statement that creates or replaces it, a template of the schema's name.
    text: str
    head: str
    #: Whether PostgreSQL parses its body when it is created, so that everything in it must exist already.
    is_parsed: bool

    @property
    def needs(self) -> set[str]:
        """Return the names of the schema that must exist before it."""
        return set(_NAME.findall(self.text if self.is_parsed else self.head)) - {self.name}


@cache
def by_name() -> Mapping[str, Routine]:
    """All functions and views, by their names in alphabetical order. Each process that opens a box reads them."""
    return {routine.name: routine for routine in sorted(map(_read, _files()), key=lambda routine: routine.name)}


@cache
def routines() -> tuple[Routine, ...]:
    """All functions and views, in an order in which they can be created."""
    known = by_name()
    graph = {name: sorted(routine.needs & known.keys()) for name, routine in known.items()}
    return tuple(known[name] for name in TopologicalSorter(graph).static_order())


@cache
def of_tables() -> tuple[Routine, ...]:
    """The functions that tables use, in an order in which they can be created."""
    names = set(template(_PACKAGE, "schema/table_functions.txt").split())
    return tuple(routine for routine in routines() if routine.name in names)


@cache
def rules() -> tuple[str, ...]:
    """The statements that write the rows of the kernel's rules."""
    files = sorted(file.name for file in resources.files(_PACKAGE).joinpath("schema/rules").iterdir())
    return tuple(with_constants(template(_PACKAGE, f"schema/rules/{name}")) for name in files)


@cache
def checksum() -> str:
    """The SHA-256 of all functions, views and rules, whatever the schema's name."""
    texts = [routine.text for routine in by_name().values()]
    return hashlib.sha256("\n".join([*texts, *rules()]).encode()).hexdigest()


def suffixed_heads(suffix: str) -> str:
    """Return the SQL that makes each function once more, without a body and under a longer name: PostgreSQL then compares their heads."""
    heads = (routine for routine in routines() if not routine.is_view)
    return "\n".join(
        f"CREATE FUNCTION {{schema}}.{routine.name}{suffix}{routine.head}\nLANGUAGE plpgsql AS '';" for routine in heads
    )


def _files() -> Iterator[str]:
    root = resources.files(_PACKAGE).joinpath("schema")
    for file in root.joinpath("views").iterdir():
        yield f"schema/views/{file.name}"
    for room in root.joinpath("functions").iterdir():
        for file in room.iterdir():
            yield f"schema/functions/{room.name}/{file.name}"


def _read(path: str) -> Routine:
    routine = read_text(path, template(_PACKAGE, path))
    if routine.name != path.rpartition("/")[2].removesuffix(".sql"):
        raise ValueError(f"{path} has to create what it is named after")
    return routine


def read_text(path: str, text: str) -> Routine:
    text = with_constants(with_parts(_PACKAGE, "schema/parts", text))
    created = _CREATE.search(text)
    if created is None:
        raise ValueError(f"{path} creates no function and no view")
    if created[1] == "VIEW":
        return Routine(created[2], True, text[created.start() :], "", True)
    body = _BODY.search(text, created.end())
    if body is None:
        raise ValueError(f"{path} has no body")
    head, words = text[created.end() : body.start()].rstrip(), _IS.search(text)
    attributes = " ".join(_attributes(words[1].split(", ") if words else ()))
    whole = f"{text[created.start() : body.start()].rstrip()}\n{attributes}\n{text[body.start() :]}"
    return Routine(created[2], False, whole, head, not body[0].startswith("AS"))


def _attributes(words: Iterable[str]) -> list[str]:
    names = list(words)
    if wrong := [word for word in names if word not in ATTRIBUTES]:
        raise ValueError(f"no attribute of a function: {', '.join(wrong)}")
    return [*(() if "sql" in names else ["LANGUAGE plpgsql"]), *(ATTRIBUTES[word] for word in names)]
