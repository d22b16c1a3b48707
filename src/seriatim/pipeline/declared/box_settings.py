"""Settings of a message box as a whole, kept in the box."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from seriatim.errors import UsageError, shown
from seriatim.kernel.arguments import refusing
from seriatim.kernel.fields import Choice, Declaration, takes

#: What becomes of a message that would reach no queue.
Unroutable = Literal["keep", "refuse"]
UNROUTED: tuple[str, ...] = get_args(Unroutable)


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class BoxSettings(Declaration):
    """The settings of a whole message box, for all its users.

    Args:
        unrouted: what `publish` does with a message that would reach no queue, or be invalid there, unless its call or
            `MessageBox.open` says otherwise: ``"keep"`` it as unrouted, or ``"refuse"`` the call.

    Raises:
        UsageError: a value is invalid.
    """

    unrouted: Unroutable = takes(Choice(UNROUTED), "keep")

    @property
    def name(self) -> str:
        """A box has one of these; its name is ``box``."""
        return "box"


def checked_unrouted(given: str) -> str:
    """What shall become of a message that would reach no queue."""
    if given not in UNROUTED:
        raise UsageError(
            f"unrouted can't be {shown(given)}", remedy=f"one of {', '.join(UNROUTED)}", argument="unrouted"
        )
    return given
