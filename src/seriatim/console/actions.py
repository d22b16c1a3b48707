"""The actions on a group, as people see them: the word on the button, what it does, and the role that it needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from seriatim.operations.groups import Action

__all__ = ["ON_GROUPS", "ActionWords"]


@dataclass(frozen=True, slots=True)
class ActionWords:
    """An action: `button`, the word on it; `many`, the same before a number of groups; `meaning`, what it does; `role`."""

    button: str
    many: str
    meaning: str
    role: str = "mend"


#: The actions on a group, in the order in which they are shown.
ON_GROUPS: Mapping[Action, ActionWords] = {
    Action.RETRY: ActionWords("Retry", "Retry", "hand the failed message out again"),
    Action.RESUME: ActionWords("Resume", "Resume", "let the group go on"),
    Action.SKIP_MESSAGE: ActionWords(
        "Skip the message",
        "Skip the message of",
        "the message that stopped it becomes a dead letter, and the group goes on",
    ),
    Action.SKIP_HOLE: ActionWords(
        "Skip the hole", "Skip the hole of", "give the missing numbers up, and go on behind them"
    ),
    Action.SUSPEND: ActionWords("Suspend", "Suspend", "take messages in, but hand none out"),
    Action.RESET: ActionWords("Reset", "Reset", "go on with another number"),
    Action.RESTART: ActionWords("Restart", "Restart", "begin anew, because its producer has"),
    Action.CLOSE: ActionWords("Close", "Close", "new messages are late; it is closed when it holds nothing", "discard"),
    Action.ABORT: ActionWords("Abort", "Abort", "all its held and queued messages become dead letters", "discard"),
}
