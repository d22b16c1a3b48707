"""``seriatim transmission``: the streams between this box and others."""

from __future__ import annotations

from seriatim.cli.options.listing import list_command
from seriatim.operations import links
from seriatim.operations.tables.links import STREAMS

transmission = list_command("transmission", links.transmission, STREAMS)
