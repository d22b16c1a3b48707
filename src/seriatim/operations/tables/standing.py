"""The diagnosis of one group."""

from __future__ import annotations

from seriatim.box.views.group_standing import Head, Processed, Standing
from seriatim.box.views.open_places import OnWay, OpenPlace
from seriatim.box.views.operations_done import Logged
from seriatim.operations.tables.events import EVENTS
from seriatim.operations.tables.groups import GROUP
from seriatim.operations.tables.table import Column, Table, columns

_HEAD: Table[Head] = Table("A message at the head of a group", row=Head)
_PROCESSED: Table[Processed] = Table("The last processed message of a group", row=Processed)
LOG: Table[Logged] = Table(
    "An entry of the operator log",
    Column("operation_id", "operation"),
    *columns("at", "actor", "action", "reason"),
    Column("role", after="actor"),
    row=Logged,
)
_ON_WAY: Table[OnWay] = Table("A message on the way to a gate", row=OnWay)
_PLACE: Table[OpenPlace] = Table(
    "The first open place of a gate's group", Column("waits_for", None, rows=_ON_WAY), row=OpenPlace
)
STANDING: Table[Standing] = Table(
    "The diagnosis of a group",
    Column("view", None, rows=GROUP),
    Column("blocks", None, rows=_HEAD),
    Column("following", None, rows=_HEAD),
    Column("operations", None, rows=LOG),
    Column("processed", None, rows=_PROCESSED),
    Column("events", None, rows=EVENTS),
    Column("place", None, rows=_PLACE, optional=True),
    Column("waiting", None, value=lambda one: one.view.waiting, meaning="the number of its messages"),
    row=Standing,
)
