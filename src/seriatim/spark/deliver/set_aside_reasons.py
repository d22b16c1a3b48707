"""The reasons for which messages were set aside: how many messages each has, and one of them as an example.

Counted by the workers while they write. Two reasons are one where they differ in numbers and in quoted text only ("'a' is
not a number", "'b' is not a number"), and there is a limit: a feed of broken rows has as many texts as rows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F

#: The name for all reasons beyond the limit.
OTHER = "other reasons"

_MOST = 50
_LONGEST = 300
#: The parts of a text that may differ between messages of one reason.
_VARIABLE = r"""'[^']*'|"[^"]*"|[0-9]+"""
_IN_PLACE = "…"


@dataclass(frozen=True, slots=True)
class SetAsideReason:
    """A reason for which messages were set aside, with an example.

    Args:
        destination: the destination; None: the messages have none.
        disposition: `late`, `duplicate`, `invalid`, `rejected` or `dead`.
        reason: the reason of the example.
        messages: how many messages there are.
        message_id: the example's id.
        group: its group; None: it has none.
        sequence: its sequence; None: it has none.
    """

    destination: str | None
    disposition: str
    reason: str
    messages: int
    message_id: str
    group: str | None = None
    sequence: Any = None

    @property
    def kind(self) -> tuple[str, str, str]:
        return self.destination or "", self.disposition, re.sub(_VARIABLE, _IN_PLACE, self.reason)

    def to_json(self) -> str:
        """As text, for a row of a task's answer."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def from_json(cls, text: str) -> SetAsideReason:
        return cls(**json.loads(text))


def without_place() -> Column:
    """The reason of a row, without the row's place, which its id has too (``a.json:17: not JSON``)."""
    to_the_end = F.lit(2**31 - 1)
    place = F.concat(F.substring("message_id", F.locate("/", "message_id") + 1, to_the_end), F.lit(": "))
    rest = F.substring("reason", F.length(place) + 1, to_the_end)
    return F.when(F.startswith("reason", place), rest).otherwise(F.col("reason"))


def merged(reasons: Iterable[SetAsideReason]) -> dict[tuple[str, str, str], SetAsideReason]:
    """Reasons by their kinds, the messages of each added up; the first example stays."""
    by_kind: dict[tuple[str, str, str], SetAsideReason] = {}
    for reason in reasons:
        kind = reason.kind
        if kind not in by_kind and len(by_kind) >= _MOST:
            reason = replace(reason, destination=None, reason=OTHER)  # noqa: PLW2901 - from here on it is that
            kind = reason.kind
        known = by_kind.get(kind)
        by_kind[kind] = reason if known is None else replace(known, messages=known.messages + reason.messages)
    return by_kind


def by_frequency(reasons: Iterable[SetAsideReason]) -> tuple[SetAsideReason, ...]:
    return tuple(sorted(reasons, key=lambda reason: (reason.reason == OTHER, -reason.messages, reason.kind)))


class ReasonCounts:
    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str], SetAsideReason] = {}

    def add(self, table: pa.Table) -> None:
        reported = pc.and_(pc.is_valid(table.column("disposition")), pc.is_valid(table.column("_line")))
        aside = pc.invert(pc.is_in(table.column("disposition"), pa.array(["released", "unrouted"])))
        rows = table.filter(pc.and_(reported, aside)).select(["destination", "disposition", "reason", "_line"])
        if rows.num_rows:
            self._found = merged([*self._found.values(), *_reasons(rows.combine_chunks())])

    def found(self) -> tuple[SetAsideReason, ...]:
        return tuple(self._found.values())


def _reasons(rows: pa.Table) -> Iterator[SetAsideReason]:
    texts = pc.fill_null(rows.column("reason"), "").combine_chunks().dictionary_encode()
    kinds = pc.replace_substring_regex(texts.dictionary, pattern=_VARIABLE, replacement=_IN_PLACE).take(texts.indices)
    table = pa.table(
        {
            "destination": rows.column("destination"),
            "disposition": rows.column("disposition"),
            "kind": kinds,
            "row": pa.array(range(rows.num_rows), pa.int64()),
        }
    )
    groups = table.group_by(["destination", "disposition", "kind"], use_threads=False)
    for group in groups.aggregate([("row", "min"), ([], "count_all")]).to_pylist():
        row = group["row_min"]
        line = json.loads(rows.column("_line")[row].as_py())
        yield SetAsideReason(
            group["destination"],
            group["disposition"],
            texts[row].as_py()[:_LONGEST],
            group["count_all"],
            line["message_id"],
            line["group"],
            line["sequence"],
        )
