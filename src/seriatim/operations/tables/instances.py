"""Instances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seriatim.operations.tables.table import Column, Table, columns, json_only

if TYPE_CHECKING:
    from seriatim.operations.instances import InstanceView

INSTANCES: Table[InstanceView] = Table(
    "An instance",
    Column("instance_id", "instance", shown=lambda one: str(one.instance_id)),
    *columns("queue", "group", "status", "subscription"),
    *json_only("starts", "correlations"),
    Column("waiting"),
    *json_only("state", "version", "started_at"),
    Column("changed_at", "changed"),
    row="seriatim.box.views.instances:InstanceView",
)
