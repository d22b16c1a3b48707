"""Which dialog a message is of, as its context in the spool says."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from seriatim.pipeline.message import Dialog

__all__ = ["dialog_of"]


def dialog_of(context: dict[str, Any], kind: str) -> Dialog | None:
    """Take out of a message's context which dialog it is of; None where it isn't of one."""
    found = context.get("dialog")
    if not isinstance(found, dict):
        return None
    del context["dialog"]
    return Dialog(
        handle=UUID(found["handle"]),
        conversation_id=UUID(found["conversation_id"]),
        service=found["service"],
        far_service=found["far_service"],
        contract=found["contract"],
        type=kind,
        sequence=found["sequence"],
        is_initiator=found["is_initiator"],
        is_monolog=found["is_monolog"],
    )
