"""Two regions: how far each is behind the other, what was copied, and which definitions differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seriatim.operations.tables.journal import SESSIONS
from seriatim.operations.tables.table import Column, Table

if TYPE_CHECKING:
    from seriatim.operations.regions import RegionHere
    from seriatim.regions.closing import ForgottenSessions
    from seriatim.regions.journal.views import SessionCounts
    from seriatim.regions.outbox import Copied
    from seriatim.regions.seeing import Difference, RegionsStatus, RegionStatus

HERE: Table[RegionHere] = Table(
    "The box as one of two regions",
    Column("name"),
    Column("region"),
    Column("queues", shown=lambda one: ", ".join(one.queues)),
    Column("incarnation"),
    Column("defined_at", "defined"),
    row="seriatim.operations.regions:RegionHere",
    nothing="there are no regions to which the box belongs",
)
REGION: Table[RegionStatus] = Table(
    "A region",
    Column("region"),
    Column("state"),
    Column("incarnation"),
    Column("outbox"),
    Column("lag_s", "lag", shown=lambda one: None if one.lag_s is None else f"{one.lag_s:.1f} s"),
    Column("beside", optional=True, shown=lambda one: one.beside or None),
    Column("reported_at", "tended", optional=True),
    Column("place", optional=True),
    Column("why", optional=True),
    row="seriatim.regions.seeing:RegionStatus",
)
COUNTS: Table[SessionCounts] = Table(
    "The sessions of two regions, in numbers",
    Column("idle"),
    Column("working"),
    Column("suspended"),
    Column("take_overs", "take-overs"),
    Column("conflicts"),
    row="seriatim.regions.journal.views:SessionCounts",
)
STATUS: Table[RegionsStatus] = Table(
    "Two regions",
    Column("name"),
    Column("regions", rows=REGION),
    Column("sessions", rows=COUNTS),
    Column("standing", rows=SESSIONS),
    Column("why", optional=True),
    row="seriatim.regions.seeing:RegionsStatus",
)
DIFFERENCES: Table[Difference] = Table(
    "What isn't defined alike in two regions",
    Column("kind"),
    Column("name"),
    Column("what"),
    row="seriatim.regions.seeing:Difference",
    nothing="both boxes and the journal have the same",
)
COPIED: Table[Copied] = Table(
    "What became of the outbox of a region",
    Column("region"),
    Column("copied"),
    Column("sent", optional=True, shown=lambda one: one.sent or None),
    Column("over"),
    Column("waiting", shown=lambda one: len(one.waiting)),
    Column("why", optional=True),
    row="seriatim.regions.outbox:Copied",
)
FORGOTTEN: Table[ForgottenSessions] = Table(
    "Sessions that were forgotten",
    Column("queue"),
    Column("before"),
    Column("a"),
    Column("b"),
    Column("journal"),
    Column("left"),
    row="seriatim.regions.closing:ForgottenSessions",
)
