"""What actions on groups take away, in words."""

from __future__ import annotations

from typing import Any

from seriatim.kernel.groups.verbs import VERBS, Action
from seriatim.pipeline.text.counted import counted


def costs_of(action: Action, view: Any, blocks: Any) -> str:
    """What an action takes away from a group (its view, and the message that stopped it), for people to read before they confirm. Empty:
    nothing is lost by it, and one button does it.
    """
    message = "The message that stopped it"
    if blocks is not None:
        number = "" if blocks.sequence is None else f", sequence {blocks.sequence}"
        message = f"Message …{blocks.message_id[-8:]} ({blocks.type}{number})"
    messages = counted(view.held + getattr(view, "queued", 0), "held or queued message")
    return VERBS[action].costs.format(group=view.group, messages=messages, message=message)
