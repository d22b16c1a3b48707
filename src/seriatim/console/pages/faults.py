"""Faults of handlers, newest first; or counted by their error."""

from __future__ import annotations

from seriatim.console.lists import TO_GROUP, TO_MESSAGE, list_page
from seriatim.operations import faults
from seriatim.operations.tables.faults import FAULTS

PAGE = list_page(
    "faults",
    "Faults",
    faults.faults,
    FAULTS,
    by_error=faults.faults_by_error,
    about="What handlers failed at, newest first.",
    links={"fault": lambda one: ("faults", str(one.fault_id)), **TO_MESSAGE, **TO_GROUP},
    nothing="No handler has failed.",
    section="Messages",
)
