"""Read a message's dialog from its context in the spool."""

from __future__ import annotations

from functools import lru_cache
from typing import Any
from uuid import UUID

from seriatim.pipeline.types.message import Dialog

#: Messages that arrive together belong to the same few dialogs.
_uuid = lru_cache(maxsize=1_000)(UUID)


def dialog_of(context: dict[str, Any], kind: str) -> Dialog | None:
    """Remove the dialog from a message's context and return it; None if the message belongs to no dialog."""
    dialog = context.get("dialog")
    if not isinstance(dialog, dict):
        return None
    del context["dialog"]
    dialog["handle"] = _uuid(dialog["handle"])
    dialog["conversation_id"] = _uuid(dialog["conversation_id"])
    if "far_box" in dialog:
        dialog["far_box"] = _uuid(dialog["far_box"])
    return Dialog(type=kind, **dialog)
