"""The contract: which messages a dialog carries, and which side sends each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from seriatim.errors import UsageError, shown
from seriatim.kernel.dialog import OURS
from seriatim.pipeline.text.name import checked_name

__all__ = ["DEFAULT", "SENDERS", "Contract", "default_contract"]

SENDERS = ("initiator", "target", "any")
#: The contract, and its one message type, that every box has.
DEFAULT = "DEFAULT"


@dataclass(frozen=True, slots=True)
class Contract:
    """Which messages a dialog carries. A contract never changes: a new version of it is a new name.

    Args:
        name: its name, compared byte for byte.
        types: by the name of each message type who sends it: ``"initiator"``, ``"target"`` or ``"any"``. One that is
            defined as a `MessageType` is checked as that says; another one isn't checked.

    Raises:
        UsageError: a name or sender that can't be, or nothing that the initiator may send.
    """

    name: str
    types: Mapping[str, Literal["initiator", "target", "any"]]

    def __post_init__(self) -> None:
        checked_name(self.name, "a contract's name")
        if not isinstance(self.types, Mapping) or not self.types:
            raise self._wrong(f"types can't be {shown(self.types, 80)}", "such as {'AddItem': 'initiator'}")
        for kind, sender in self.types.items():
            checked_name(kind, f"a message type's name (contract {self.name!r})")
            if kind in OURS:
                raise self._wrong(f"{kind!r} is a message of the box itself", "give the type another name")
            if sender not in SENDERS:
                raise self._wrong(f"{shown(sender)} can't send {shown(kind)}", f"one of {', '.join(SENDERS)}")
        if set(self.types.values()) == {"target"}:
            raise self._wrong("the initiator may send nothing, so no dialog would ever begin", "say what it sends")
        object.__setattr__(self, "types", dict(self.types))

    def _wrong(self, what: str, remedy: str) -> UsageError:
        return UsageError(what, where=f"contract {self.name!r}", remedy=remedy)


def default_contract() -> Contract:
    """The contract that every box has."""
    return Contract(DEFAULT, {DEFAULT: "any"})
