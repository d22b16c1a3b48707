"""``seriatim transmission``: the streams between this box and others."""

from __future__ import annotations

from seriatim.cli.options.listing import list_command
from seriatim.cli.shown.table import Table
from seriatim.operations import links
from seriatim.operations.tables import links as declared

__all__ = ["STREAMS", "transmission"]

STREAMS = Table.of(declared.STREAMS)
transmission = list_command("transmission", links.transmission, STREAMS)
