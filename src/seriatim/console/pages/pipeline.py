"""A pipeline: the counts of its destinations, and the groups that stand still or hold messages."""

from __future__ import annotations

from typing import Any

from seriatim.console.filters import Field, older_than
from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.errors import ActionRefused
from seriatim.kernel.groups.states import STOPPED, GroupState
from seriatim.operations.tables.pipelines import COUNTS, DESTINATIONS, GROUP

__all__ = ["PAGE", "WAIT_S"]

#: So long a page waits for the answer of a run.
WAIT_S = 3.0
_FIELDS = (
    Field("queue", "Destination"),
    Field("state", "State", tuple(map(str, GroupState))),
    Field("key", "Key", hint="c*"),
    older_than("Waits longer than", "5m"),
    Field("all", "With groups that hold nothing", ("yes",)),
)
_TEMPLATE = "pipeline.html"


def _read(asked: Asked) -> Answer:
    found = asked.pipelines.find(asked.named["pipeline"])
    from seriatim.operations.pipelines.groups import groups  # noqa: PLC0415 -- Spark is slow to import
    from seriatim.operations.pipelines.pipelines import counts_of  # noqa: PLC0415

    one = counts_of(found)
    given: dict[str, Any] = asked.chosen("queue", "key", "older_than")
    state = asked.text("state")
    rows: list[Any] = []
    refused = None
    try:
        rows = groups(
            found, state=None if state is None else [state], waits=not (state or asked.text("all")), limit=asked.limit,
            wait=WAIT_S, starts_spark=False, **given,
        )  # fmt: skip
    except ActionRefused as error:
        refused = error
    links = {"group": lambda row: ("pipelines", found.name, "groups", row.queue, row.group)}
    return Answer(
        COUNTS.object_of(one),
        title=f"Pipeline {one.pipeline}",
        listing=Listing(GROUP, rows, "Groups", links, nothing="No group stands still."),
        values={
            "one": one,
            "destinations": Listing(
                DESTINATIONS, one.destinations, "Destinations", nothing="It has released nothing yet."
            ),
            "refused": refused,
            # What asks the run has a batch made of that, after which a live page would ask again.
            "is_live": state in (None, *STOPPED) and asked.text("all") is None,
        },
    )


PAGE = Page(("pipelines/{pipeline}",), "Pipeline", _read, _TEMPLATE, fields=_FIELDS)
