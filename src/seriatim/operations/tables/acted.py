"""What came of an action on groups."""

from __future__ import annotations

from typing import Any

from seriatim.box.operators.actions import Operation
from seriatim.kernel.sequencer import Event
from seriatim.operations.bulk import Refused
from seriatim.operations.tables.groups import GROUP
from seriatim.operations.tables.table import Column, Table, json_only


def acted_table(title: str, *of_group: Table[Any]) -> Table[dict[str, object]]:
    """The table of what came of an action on many groups, each in one of these tables."""
    return Table(
        title,
        Column("action", None, kind="str", meaning="the action"),
        Column("dry_run", None, kind="bool", meaning="true: nothing was done"),
        Column("groups", None, rows=of_group, meaning="each group; of a dry run as it is"),
    )


EVENT: Table[Event] = Table(
    "An event of a group",
    *json_only(group="the group's key", first="the first number concerned", last="the last number concerned"),
    *json_only(count="how many messages or numbers it stands for"),
    row=Event,
)
OPERATION: Table[Operation] = Table("The result for a group", Column("events", None, rows=EVENT), row=Operation)
REFUSED: Table[Refused] = Table(
    "A refused group", *json_only(queue="the queue's name", group="the group's key", why="the reason"), row=Refused
)
ACTED = acted_table("The result for many groups", OPERATION, REFUSED, GROUP)
