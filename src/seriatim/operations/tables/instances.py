"""Instances."""

from __future__ import annotations

from seriatim.box.views.instances import InstanceView
from seriatim.operations.tables.table import Column, Table, columns

INSTANCES: Table[InstanceView] = Table(
    "An instance",
    Column("instance_id", "instance", shown=lambda one: str(one.instance_id)),
    *columns("queue", "group", "status", "subscription", "waiting"),
    Column("changed_at", "changed"),
    row=InstanceView,
)
