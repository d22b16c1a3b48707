"""The journal of two regions: its sessions, their numbers, what operators did."""

from __future__ import annotations

from seriatim.operations.tables.table import Column, Table, columns, if_any
from seriatim.regions.journal.forgetting import Forgotten
from seriatim.regions.journal.operators import ActionResult, Recovery
from seriatim.regions.journal.pipelines import DeliveredView, PipelineView
from seriatim.regions.journal.views import EntryView, LogEntry, RegionView, SessionView
from seriatim.regions.resubmitting import Resubmitted


def _numbers(one: EntryView) -> str:
    return str(one.number) if one.first_number == one.number else f"{one.first_number} to {one.number}"


SESSIONS: Table[SessionView] = Table(
    "A session of two regions",
    *columns("name", "queue", "session", "state", "done_through"),
    Column("next_number", "next"),
    *columns("waits_for", "region", "lease_until", optional=True),
    if_any("attempts"),
    Column("fault", "error", optional=True),
    if_any("take_overs", "take-overs"),
    if_any("conflicts"),
    Column("used_at", "used"),
    row=SessionView,
    nothing="there are no sessions",
)
ENTRIES: Table[EntryView] = Table(
    "A number of a session",
    Column("number", shown=_numbers),
    Column("state"),
    Column("message_id", "message"),
    if_any("attempts"),
    Column("due_at", "due", optional=True),
    Column("fault", "error", optional=True),
    Column("changed_at", "since"),
    row=EntryView,
    nothing="no number of it is noted",
)
LOGGED: Table[LogEntry] = Table(
    "What an operator did in a journal",
    *columns("at", "actor", "action", "name"),
    *columns("queue", "session", optional=True),
    *columns("reason", "detail"),
    row=LogEntry,
    nothing="no operator has done anything",
)
REGIONS: Table[RegionView] = Table(
    "What a journal knows of a region",
    *columns("region", "incarnation"),
    Column("outbox_since", "nothing older in its outbox"),
    Column("queue_since", "nothing older to come"),
    Column("reported_at", "reported"),
    row=RegionView,
    nothing="no region has reported",
)
PIPELINES: Table[PipelineView] = Table(
    "A pipeline that runs in two regions",
    Column("pipeline"),
    Column("region", "active in region"),
    Column("holder", optional=True),
    Column("held_since", "since", optional=True),
    Column("lease_until", optional=True),
    if_any("take_overs", "take-overs"),
    row=PipelineView,
    nothing="no pipeline has run with claims: journal",
)
DELIVERED: Table[DeliveredView] = Table(
    "How far a group of a pipeline is delivered",
    *columns("destination", "group", "through"),
    Column("delivered_at", "delivered"),
    row=DeliveredView,
    nothing="nothing is delivered",
)
ACTION: Table[ActionResult] = Table(
    "What an action on a session did",
    *columns("session", "action", "done_through", "state", "detail"),
    row=ActionResult,
)
RESUBMITTED: Table[Resubmitted] = Table("A dead letter of two regions that was published again", row=Resubmitted)
RECOVERY: Table[Recovery] = Table(
    "What a recovery did",
    Column("incarnation"),
    Column("stopped", "claims ended"),
    Column("raised", "sessions raised"),
    Column("asked", "boxes asked", shown=lambda one: ", ".join(one.asked) or None),
    row=Recovery,
)
FORGOTTEN: Table[Forgotten] = Table(
    "What a journal forgot", Column("sessions"), Column("numbers", "ids of numbers"), row=Forgotten
)
