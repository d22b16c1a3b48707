"""The queues of a box from which a pipeline can't read, though its file says so."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from seriatim.box.box import MessageBox
from seriatim.box.connection.connections import DEFAULT_SCHEMA, VARIABLE
from seriatim.box.definitions.gate_checks import way_refused
from seriatim.errors import DeclarationError, SeriatimError
from seriatim.pipeline.declared.pipeline import BOX, BoxPlace, Pipeline


def unreadable_queues(pipeline: Pipeline, file: Path) -> list[DeclarationError]:
    """The faults of a pipeline that reads queues whose messages are on the way to a gate.

    Only a PostgreSQL that the file or ``SERIATIM_DSN`` names is asked, and none is started. Where it can't be reached, or has no such
    box, nothing is a fault: the pipeline is refused when it starts.

    Args:
        pipeline: the pipeline.
        file: its file, for the errors.
    """
    named: dict[BoxPlace, list[tuple[str, str]]] = {}
    for one in pipeline.receive:
        if one.source.format == BOX and "queue" in one.source.options:
            named.setdefault(one.box or pipeline.box, []).append((one.title, str(one.source.options["queue"])))
    refused = [found for place, queues in named.items() for found in _refused(place, queues)]
    return [
        DeclarationError(error.what, where=f"{file}: receive: {location}", remedy=error.remedy)
        for location, error in refused
    ]


def _refused(place: BoxPlace, named: Sequence[tuple[str, str]]) -> list[tuple[str, SeriatimError]]:
    """The sources whose queues can't be read, and why; `named`: by source the queue that it reads in a box."""
    if place.dsn is None and VARIABLE not in os.environ:
        return []
    try:
        with MessageBox.open(place.dsn, schema=place.schema or DEFAULT_SCHEMA, connections=1, create=False) as box:
            ways = box.definitions().ways
    except SeriatimError:
        return []
    return [(location, way_refused(queue, ways[queue])) for location, queue in named if queue in ways]
