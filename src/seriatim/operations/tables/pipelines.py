"""Groups of pipelines, and what came of actions on them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from seriatim.box.views import listing
from seriatim.box.views.listing import Listing
from seriatim.kernel.groups.states import GroupState
from seriatim.kernel.operators.held_groups import missing_numbers
from seriatim.operations.log_entries import LogEntry
from seriatim.operations.tables.acted import EVENT, REFUSED, acted_table
from seriatim.operations.tables.events import happened
from seriatim.operations.tables.table import Column, Table, columns, json_only, text_only
from seriatim.operations.tables.texts import set_aside_counts
from seriatim.pipeline.text.moment import period_of

if TYPE_CHECKING:
    from seriatim.operations.pipelines.events import GroupEvent
    from seriatim.operations.pipelines.groups import Group, Operation
    from seriatim.operations.pipelines.pipelines import DestinationCounts, NextTicket, PipelineCounts
    from seriatim.spark.control.lease_state import LeaseState

#: Rates from here on are shown without a fraction.
_WHOLE_FROM = 10


@dataclass(frozen=True, slots=True)
class PipelineGroupFilter(Listing):
    """The list of a pipeline's groups."""

    queue: str | None = listing.text("groups of this destination", noun="a destination")
    _: KW_ONLY
    state: GroupState | str | Iterable[GroupState | str] | None = listing.choice(
        "groups in this state", GroupState, "a state of groups", many=True
    )
    waits: bool = listing.given("Whether only groups that stand still or hold messages are listed.", False)
    key: str | None = listing.key("groups with a key that matches")
    older_than: float | str | None = listing.period(
        "groups that have waited for longer", label="Waits longer than", example="5m", of="since"
    )
    limit: int = listing.limit("groups", 1000)
    wait: float = listing.given("Seconds to wait for the answer of a run.", 10.0)
    starts_spark: bool = listing.given("Whether Spark may be started for it.", True)


GROUP: Table[Group] = Table(
    "A group of a pipeline",
    *columns("queue", "group", "state", "since"),
    Column("next", "next number"),
    text_only(
        "missing",
        lambda one: missing_numbers(one.missing_first, one.missing_last) or None,
        "the missing numbers, from `missing_first` through `missing_last`",
    ),
    Column("held"),
    Column("due_at", "due", after="missing"),
    Column("reason", shown=lambda one: one.reason or None),
    row="seriatim.operations.pipelines.groups:Group",
)
OPERATION: Table[Operation] = Table(
    "The result for a group of a pipeline",
    Column("events", None, rows=EVENT),
    row="seriatim.operations.pipelines.groups:Operation",
)
ACTED = acted_table("The result for many groups of a pipeline", OPERATION, REFUSED, GROUP)
LOGGED: Table[LogEntry] = Table(
    "An entry of an operator log",
    Column("at"),
    Column("pipeline", shown=lambda one: one.pipeline or None),
    *json_only("operation_id"),
    *columns("actor", "action", "queue", "group", "result", "reason"),
    row=LogEntry,
    nothing="no operator has done anything yet",
)
EVENTS: Table[GroupEvent] = Table(
    "An event of a pipeline's group",
    *json_only("event_id", position="the number behind which an exporter goes on: the same"),
    *happened("batch"),
    row="seriatim.operations.pipelines.events:GroupEvent",
)


def _rate(rate: float | None) -> str | None:
    return None if rate is None else f"{rate:,.0f}" if rate >= _WHOLE_FROM else f"{rate:,.1f}"


DESTINATIONS: Table[DestinationCounts] = Table(
    "The counts of a destination",
    *columns("queue", "released", "held", "holes", "groups"),
    text_only("set aside", set_aside_counts, "the messages that were set aside, by disposition"),
    Column("unrouted", shown=lambda one: one.unrouted or None),
    Column("void", "voids", shown=lambda one: one.void or None),
    Column("copy", "copies", shown=lambda one: one.copy or None),
    row="seriatim.operations.pipelines.pipelines:DestinationCounts",
)
LEASE: Table[LeaseState] = Table(
    "Whether a run delivers, where two share a lease", row="seriatim.spark.control.lease_state:LeaseState"
)
TICKETS: Table[NextTicket] = Table(
    "The next ticket of a location",
    *columns("location", "epoch", "number"),
    row="seriatim.operations.pipelines.pipelines:NextTicket",
    nothing="it gives no tickets",
)
COUNTS: Table[PipelineCounts] = Table(
    "The counts of a pipeline",
    Column("pipeline"),
    Column("running", "state", shown=lambda one: "running" if one.running else "stopped"),
    Column("lease", rows=LEASE, shown=lambda one: None if one.lease is None else one.lease.in_words, optional=True),
    Column("batch"),
    Column("batch_at", "at"),
    Column("behind"),
    Column("received_per_s", "received/s", shown=lambda one: _rate(one.received_per_s)),
    Column("released_per_s", "released/s", shown=lambda one: _rate(one.released_per_s)),
    Column("held"),
    Column("held_groups", "holding groups"),
    Column("waiting_groups"),
    *json_only("holes"),
    Column("oldest"),
    Column("age_s", "age", shown=lambda one: None if one.age_s is None else period_of(one.age_s), after="oldest"),
    Column("set_aside"),
    Column("queued", "commands"),
    Column("state_bytes", "state size", shown=lambda one: f"{one.state_bytes / 1_000_000:,.1f} MB"),
    Column("destinations", None, rows=DESTINATIONS),
    row="seriatim.operations.pipelines.pipelines:PipelineCounts",
    nothing="no pipeline has run in this folder",
)
