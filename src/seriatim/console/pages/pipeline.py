"""A pipeline: the counts of its destinations, and the groups that stand still or hold messages."""

from __future__ import annotations

from typing import Any

from seriatim.console.filters import Field
from seriatim.console.lists import fields_of, given
from seriatim.console.page import Answer, Asked, Page, Rows
from seriatim.errors import ActionRefused
from seriatim.kernel.groups.states import STOPPED
from seriatim.operations.tables.pipelines import COUNTS, DESTINATIONS, GROUP, PipelineGroupFilter

#: The longest time that a page waits for the answer of a run.
WAIT_S = 3.0
_FIELDS = (*fields_of(PipelineGroupFilter, of_pipeline=True), Field("all", "With groups that hold nothing", ("yes",)))


def _read(asked: Asked) -> Answer:
    found = asked.pipelines.find(asked.named["pipeline"])
    from seriatim.operations.pipelines.groups import groups  # noqa: PLC0415 -- Spark is slow to import
    from seriatim.operations.pipelines.pipelines import counts_of  # noqa: PLC0415

    one = counts_of(found)
    state = asked.text("state")
    wanted = given(asked, PipelineGroupFilter) | {"waits": not (state or asked.text("all"))}
    rows: list[Any] = []
    refused = None
    try:
        rows = groups(found, wait=WAIT_S, starts_spark=False, **wanted)
    except ActionRefused as error:
        refused = error
    links = {"group": lambda row: ("pipelines", found.name, "groups", row.queue, row.group)}
    return Answer(
        COUNTS.object_of(one),
        title=f"Pipeline {one.pipeline}",
        listing=Rows(GROUP, rows, "Groups", links, nothing="No group stands still."),
        values={
            "one": one,
            "destinations": Rows(
                DESTINATIONS, one.destinations, "Destinations", nothing="It has released nothing yet."
            ),
            "refused": refused,
            # What asks the run has a batch made of that, after which a live page would ask again.
            "is_live": state in (None, *STOPPED) and asked.text("all") is None,
        },
    )


PAGE = Page(("pipelines/{pipeline}",), "Pipeline", _read, "pipeline.html", fields=_FIELDS)
