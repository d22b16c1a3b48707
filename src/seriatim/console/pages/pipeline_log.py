"""The operator log of a pipeline: commands that it has obeyed or refused, and those that wait for it; newest first."""

from __future__ import annotations

from typing import Any

from seriatim.console.filters import SINCE, UNTIL, Field
from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.operations.tables.pipelines import LOGGED

__all__ = ["PAGE"]

_FIELDS = (
    Field("queue", "Destination"),
    Field("group", "Group"),
    Field("actor", "Actor"),
    Field("action", "Action", hint="skip_message"),
    SINCE,
    UNTIL,
)


def _read(asked: Asked) -> Answer:
    found = asked.pipelines.find(asked.named["pipeline"])
    from seriatim.operations.pipelines.log import operator_log_of  # noqa: PLC0415 -- Spark is slow to import

    given: dict[str, Any] = asked.chosen("queue", "group", "actor", "action", "since", "until")
    rows = operator_log_of(found, limit=asked.limit, **given)

    def of_group(row: Any) -> tuple[str, ...] | None:
        return (
            ("pipelines", found.name, "groups", row.queue, row.group) if row.queue and row.group is not None else None
        )

    return Answer(
        LOGGED.objects_of(rows),
        title=f"Operator log of pipeline {found.name}",
        about="Newest first. A command that the pipeline hasn't obeyed yet is queued.",
        listing=Listing(
            LOGGED.without("pipeline"),
            rows,
            "Operator log",
            {"group": of_group},
            nothing="No operator has done anything.",
        ),
    )


PAGE = Page(("pipelines/{pipeline}/log",), "Operator log of a pipeline", _read, fields=_FIELDS)
