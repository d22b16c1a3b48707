"""Connections to the database, one of which can be ended: a transaction that was forgotten."""

from __future__ import annotations

from seriatim.console.lists import list_page
from seriatim.operations import connections
from seriatim.operations.tables.connections import CONNECTION

PAGE = list_page(
    "connections",
    "Connections",
    connections.connections,
    CONNECTION,
    nothing="No application is connected.",
    template="connections.html",
    section="Box",
)
