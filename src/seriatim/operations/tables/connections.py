"""Connections to a box's database."""

from __future__ import annotations

from seriatim.box.views.connections import ConnectionView
from seriatim.operations.tables.table import Column, Table, columns
from seriatim.pipeline.text.moment import period_of


def _period(seconds: float | None) -> str:
    return "" if seconds is None else period_of(seconds)


CONNECTION: Table[ConnectionView] = Table(
    "A connection",
    Column("pid", "process", shown=lambda one: str(one.pid)),
    *columns("name", "role", "address", "state"),
    Column("transaction_s", "transaction", shown=lambda one: _period(one.transaction_s)),
    Column("idle_s", "idle", shown=lambda one: _period(one.idle_s)),
    Column("locks"),
    row=ConnectionView,
    nothing="no application is connected",
)
