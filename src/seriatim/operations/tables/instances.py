"""Instances."""

from __future__ import annotations

from seriatim.box.views.instances import InstanceView
from seriatim.operations.tables.table import Column, Table, columns, json_only

INSTANCES: Table[InstanceView] = Table(
    "An instance",
    Column("instance_id", "instance", shown=lambda one: str(one.instance_id)),
    *columns("queue", "group", "status", "subscription"),
    *json_only("starts", "correlations"),
    Column("waiting"),
    *json_only("state", "version", "started_at"),
    Column("changed_at", "changed"),
    row=InstanceView,
)
