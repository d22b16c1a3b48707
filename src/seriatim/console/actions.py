"""The actions on a group, as people see them: the word on the button, what it does, what it costs, and the role that it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from seriatim.operations.groups import Action
from seriatim.pipeline.text.counted import counted

__all__ = ["ON_GROUPS", "ActionWords"]


def _nothing(_: Any, __: Any) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class ActionWords:
    """An action."""

    button: str
    many: str
    meaning: str
    role: str = "mend"
    #: What it takes away from a group (its view, and the message that stopped it), for people to read before they confirm; empty:
    #: nothing is lost by it, and one button does it.
    costs: Callable[[Any, Any], str] = _nothing


def _of_skip(view: Any, blocks: Any) -> str:
    name = "The message that stopped it"
    if blocks is not None:
        number = "" if blocks.sequence is None else f", sequence {blocks.sequence}"
        name = f"Message …{blocks.message_id[-8:]} ({blocks.type}{number})"
    return (
        f"{name} becomes a dead letter: no handler gets it, and group {view.group} goes on without it. "
        "It can be requeued, but at the end of the group once a later message was delivered."
    )


def _of_close(view: Any, _: Any) -> str:
    return f"Group {view.group} doesn't open again: new messages of it are set aside as late. What it has still leaves; then it is closed."


def _of_abort(view: Any, _: Any) -> str:
    count = view.held + getattr(view, "queued", 0)
    they = "it becomes a dead letter" if count == 1 else "they become dead letters"
    them = "it" if count == 1 else "them"
    return f"Group {view.group} has {counted(count, 'held or queued message')}: {they}, and no handler gets {them}."


#: The actions on a group, in the order in which they are shown.
ON_GROUPS: Mapping[Action, ActionWords] = {
    Action.RETRY: ActionWords("Retry", "Retry", "hand the failed message out again"),
    Action.RESUME: ActionWords("Resume", "Resume", "let the group go on"),
    Action.SKIP_MESSAGE: ActionWords(
        "Skip the message",
        "Skip the message of",
        "the message that stopped it becomes a dead letter, and the group goes on",
        costs=_of_skip,
    ),
    Action.SKIP_HOLE: ActionWords(
        "Skip the hole",
        "Skip the hole of",
        "give the missing numbers up, and go on behind them; if they come later, they are late",
    ),
    Action.SUSPEND: ActionWords("Suspend", "Suspend", "take messages in, but hand none out"),
    Action.RESET: ActionWords(
        "Reset", "Reset", "go on with another number; held messages below it are set aside as late"
    ),
    Action.RESTART: ActionWords("Restart", "Restart", "begin anew, because its producer has"),
    Action.CLOSE: ActionWords(
        "Close", "Close", "new messages are late; it is closed when it holds nothing", "discard", _of_close
    ),
    Action.ABORT: ActionWords(
        "Abort", "Abort", "all its held and queued messages become dead letters", "discard", _of_abort
    ),
}
