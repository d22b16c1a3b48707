"""A contract, and a service, in the file of a message box."""

from __future__ import annotations

from typing import Any, cast

from seriatim.errors import UsageError
from seriatim.pipeline.declared.contract import SENDERS, Contract
from seriatim.pipeline.declared.service import Service
from seriatim.pipeline.text.section import Section

__all__ = ["contract_entry", "service_entry"]


def contract_entry(entry: Section, name: str) -> Contract | None:
    """The contract that an entry of the file declares, with lines ``TYPE: SENDER``; None if it is wrong, which is reported."""
    types = {kind: entry.choice(kind, SENDERS, required=True) for kind in entry.names()}
    entry.finish()
    if None in types.values():
        return None
    try:
        return Contract(name, cast("Any", types))
    except UsageError as error:
        # The entry is the argument `types`.
        at = next((one.removeprefix("types.") for one in error.arguments if one.startswith("types.")), None)
        entry.fault(at, error.what, error.remedy)
        return None


def service_entry(entry: Section, name: str) -> Service | None:
    """The service that an entry of the file declares; None if it is wrong, which is reported."""
    queue, contracts = entry.text("queue", required=True), entry.texts("contracts")
    retention = entry.flag("retention")
    entry.finish()
    faulty = any(
        entry.has(key) and value is None for key, value in (("contracts", contracts), ("retention", retention))
    )
    if queue is None or faulty:
        return None
    try:
        return Service(name, queue, contracts or (), retention or False)
    except UsageError as error:
        entry.refuse(error)
        return None
