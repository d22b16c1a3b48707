"""Two regions: how far each is behind the other, what was copied, and which definitions differ."""

from __future__ import annotations

from seriatim.operations.regions import RegionHere
from seriatim.operations.tables.journal import SESSIONS
from seriatim.operations.tables.table import Column, Table, columns, if_any
from seriatim.regions.closing import ForgottenSessions
from seriatim.regions.journal.views import SessionCounts
from seriatim.regions.outbox import Copied
from seriatim.regions.seeing import Difference, RegionsStatus, RegionStatus

HERE: Table[RegionHere] = Table(
    "The box as one of two regions",
    *columns("name", "region"),
    Column("queues", shown=lambda one: ", ".join(one.queues)),
    Column("incarnation"),
    Column("defined_at", "defined"),
    row=RegionHere,
    nothing="there are no regions to which the box belongs",
)
REGION: Table[RegionStatus] = Table(
    "A region",
    *columns("region", "state", "incarnation", "outbox"),
    Column("lag_s", "lag", shown=lambda one: None if one.lag_s is None else f"{one.lag_s:.1f} s"),
    if_any("beside"),
    Column("reported_at", "tended", optional=True),
    Column("place", optional=True),
    Column("why", optional=True),
    row=RegionStatus,
)
COUNTS: Table[SessionCounts] = Table(
    "The sessions of two regions, in numbers",
    *columns("idle", "working", "suspended"),
    Column("take_overs", "take-overs"),
    Column("conflicts"),
    row=SessionCounts,
)
STATUS: Table[RegionsStatus] = Table(
    "Two regions",
    Column("name"),
    Column("regions", rows=REGION),
    Column("sessions", rows=COUNTS),
    Column("standing", rows=SESSIONS),
    Column("why", optional=True),
    row=RegionsStatus,
)
DIFFERENCES: Table[Difference] = Table(
    "What isn't defined alike in two regions",
    *columns("kind", "name", "what"),
    row=Difference,
    nothing="both boxes and the journal have the same",
)
COPIED: Table[Copied] = Table(
    "What became of the outbox of a region",
    *columns("region", "copied"),
    if_any("sent"),
    Column("over"),
    Column("waiting", shown=lambda one: len(one.waiting)),
    Column("why", optional=True),
    row=Copied,
)
FORGOTTEN: Table[ForgottenSessions] = Table(
    "Sessions that were forgotten", *columns("queue", "before", "a", "b", "journal", "left"), row=ForgottenSessions
)
