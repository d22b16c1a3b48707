"""Fill the templates of the package's SQL: the schema's name, and values that the kernel defines.

``{schema}`` stands for the schema's name as an identifier, ``{schema_name}`` for the same within a text. ``{status.OPEN}`` is a
member of one of the kernel's enumerations as its number, ``{flag.SUSPENDED|FAULTED}`` several flags as one number, so that a query
has the text of an index's predicate. ``{decided.DEAD}`` is the place of a disposition's count in the array ``known_groups.decided``,
which begins at 1. ``{NEVER}`` is one of the kernel's constants. ``{DIALOG_RULES}`` are the rows of its table of dialogs,
``{SHOWN_STATES}`` the branches of a `CASE` by its table of states. All other braces are SQL's own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable

from seriatim.errors import UsageError, shown
from seriatim.kernel import dialog, streams
from seriatim.kernel.groups import numbers
from seriatim.kernel.groups.positions import MOST_BYTES
from seriatim.kernel.groups.sequence import LAST_NUMBER, MAX_KEY_BYTES
from seriatim.kernel.groups.state import NOTHING, STOPPING, Flag
from seriatim.kernel.groups.states import FLAGGED, SHOWN, STANDS_AFTER_S, Fact
from seriatim.kernel.regions import claims
from seriatim.kernel.values.outcome import REASONS, Disposition, Reason
from seriatim.kernel.values.time import FOREVER, NEVER

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,62}", re.ASCII)
_ENUMERATIONS: Mapping[str, Mapping[str, int]] = {
    "flag": Flag.__members__,
    "number": {
        one: getattr(numbers, one) for one in ("BASE", "RESTARTS", "UNNUMBERED", "OF_ENDED", "VOID", "POSITION")
    },
    "decided": {disposition.name: disposition + 1 for disposition in Disposition},
    "batch": streams.BatchKind.__members__,
    "answer": streams.StreamAnswer.__members__,
    "status": streams.Status.__members__,
    "decision": streams.Decision.__members__,
    "side": streams.Side.__members__,
    "session": claims.SessionState.__members__,
    "entry": claims.EntryState.__members__,
}
_PART = re.compile(r"\{(\w+)\(([^{}]*)\)\}")
_CONSTANT = re.compile(rf"\{{(?:([A-Z_]+)|({'|'.join(_ENUMERATIONS)})\.([A-Z_|]+))\}}")


def template(package: str, path: str) -> str:
    return _root(package).joinpath(path).read_text(encoding="utf-8")


@cache
def _root(package: str) -> Traversable:
    return resources.files(package)


def with_parts(package: str, folder: str, text: str) -> str:
    """Put parts into a text: ``{in_time(one.at)}`` is ``in_time.sql`` of the folder, with ``{0}`` for its first argument."""

    def part(match: re.Match[str]) -> str:
        lines = template(package, f"{folder}/{match[1]}.sql").splitlines()
        inner = with_parts(package, folder, "\n".join(line for line in lines if not line.startswith("--")))
        for place, argument in enumerate(match[2].split(", ")):
            inner = inner.replace(f"{{{place}}}", argument)
        return inner

    return _PART.sub(part, text)


def with_constants(text: str) -> str:
    """A template with the kernel's values in place of their names."""
    return _CONSTANT.sub(_constant, text)


def for_schema(text: str, schema: str) -> bytes:
    checked = checked_schema(schema)
    return with_constants(text).replace("{schema}", f'"{checked}"').replace("{schema_name}", checked).encode()


def checked_schema(schema: str) -> str:
    if not isinstance(schema, str) or not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise UsageError(
            f"{shown(schema)} can't be the schema of a message box",
            remedy="at most 63 of a-z, 0-9 and _, not beginning with a digit or pg_",
        )
    return schema


def _constant(match: re.Match[str]) -> str:
    name, enumeration, members = match.groups()
    return _CONSTANTS[name] if name else str(sum(_ENUMERATIONS[enumeration][member] for member in members.split("|")))


def _literal(value: str | None) -> str:
    return "NULL" if value is None else "'{}'".format(value.replace("'", "''"))


def _shown_states() -> str:
    """A branch for each row of the kernel's table of states; facts are bits of `flags`, or arguments with their names."""
    return "\n    ".join(f"WHEN {_holds(row.facts, row.unless)} THEN {_literal(row.state)}" for row in SHOWN)


def _holds(facts: tuple[Fact, ...], unless: tuple[Fact, ...] = ()) -> str:
    # During a turn a suspension may be requested, and isn't a flag yet.
    facts_given = [fact for fact in facts if fact is Fact.SUSPENDED or fact not in FLAGGED]
    terms = [fact if fact in facts_given else f"flags & {int(FLAGGED[fact])} <> 0" for fact in facts]
    if unless:
        terms.append(f"NOT ({_holds(unless)})")
    return " AND ".join(terms) or "TRUE"


_CONSTANTS: Mapping[str, str] = {
    "NEVER": str(NEVER),
    "FOREVER": str(FOREVER),
    "NOTHING": str(NOTHING),
    "STOPPING": str(STOPPING),
    "LAST_NUMBER": str(LAST_NUMBER),
    "MAX_KEY_BYTES": str(MAX_KEY_BYTES),
    "MAX_POSITION_BYTES": str(MOST_BYTES),
    "WINDOW": str(streams.WINDOW),
    "WINDOW_BYTES": str(streams.WINDOW_BYTES),
    "LARGEST_ROUND": str(streams.LARGEST_ROUND),
    "MOST_BOXES": str(streams.MOST_BOXES),
    "OF_DIALOGS": str(streams.OF_DIALOGS),
    # The time of the statement, in microseconds since 1970, by the database's clock.
    "STATEMENT_US": "CAST(extract(epoch FROM statement_timestamp()) * 1000000 AS bigint)",
    "STANDS_AFTER_S": str(STANDS_AFTER_S),
    "LEAVES_NOTHING": _literal(REASONS[Reason.LEAVES_NOTHING]),
    "LIFETIME_CODE": str(dialog.LIFETIME_CODE),
    "INVALID_CODE": str(dialog.INVALID_CODE),
    "COPY_CODE": str(dialog.COPY_CODE),
    "HISTORY_CODE": str(dialog.HISTORY_CODE),
    "UNTAKEN_CODE": str(dialog.UNTAKEN_CODE),
    "SHOWN_STATES": _shown_states(),
    "DIALOG_RULES": ",\n    ".join(f"({', '.join(map(_literal, row))})" for row in dialog.rows()),
}
