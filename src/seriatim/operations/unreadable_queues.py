"""The queues of a box from which a pipeline can't read, though its file says so."""

from __future__ import annotations

import os
from pathlib import Path

from seriatim.box.box import MessageBox
from seriatim.box.connection.connections import DEFAULT_SCHEMA, VARIABLE
from seriatim.box.definitions.gate_checks import way_refused
from seriatim.errors import DeclarationError, SeriatimError
from seriatim.pipeline.declared.pipeline import BOX, Pipeline

__all__ = ["unreadable_queues"]


def unreadable_queues(pipeline: Pipeline, file: Path) -> list[DeclarationError]:
    """The faults of a pipeline that reads queues whose messages are on the way to a gate.

    Only a PostgreSQL that the file or ``SERIATIM_DSN`` names is asked, and none is started. Where it can't be reached, or has no such
    box, nothing is a fault: the pipeline is refused when it starts.

    Args:
        pipeline: the pipeline.
        file: its file, for the errors.
    """
    sources = [(one.location, one.source) for one in pipeline.receive if one.source.format == BOX]
    named = [(location, str(source.options["queue"])) for location, source in sources if "queue" in source.options]
    if not named or (pipeline.box.dsn is None and VARIABLE not in os.environ):
        return []
    schema = pipeline.box.schema or DEFAULT_SCHEMA
    try:
        with MessageBox.open(pipeline.box.dsn, schema=schema, connections=1, create=False) as box:
            ways = box.definitions().ways
    except SeriatimError:
        return []
    refused = [(location, way_refused(queue, ways[queue])) for location, queue in named if queue in ways]
    return [
        DeclarationError(error.what, where=f"{file}: receive: {location}", remedy=error.remedy)
        for location, error in refused
    ]
