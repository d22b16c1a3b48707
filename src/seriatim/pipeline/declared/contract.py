"""The contract: the message types of a dialog, and the side that sends each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from seriatim.errors import UsageError, entry_of, shown
from seriatim.kernel.arguments import refusing
from seriatim.kernel.dialog import OURS
from seriatim.kernel.fields import Declaration, Kind, takes
from seriatim.pipeline.declared.kinds import OwnName
from seriatim.pipeline.text.name import checked_name

SENDERS = ("initiator", "target", "any")
#: The contract, and its one message type, that every box has.
DEFAULT = "DEFAULT"


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class Contract(Declaration):
    """The message types of a dialog, and the sender of each. A contract never changes: a new version needs a new name.

    Args:
        name: its name, compared byte for byte.
        types: the sender of each message type, by the type's name: ``"initiator"``, ``"target"`` or ``"any"``. The body
            is checked if the type is defined as a `MessageType`.

    Raises:
        UsageError: an invalid name or sender, or no type that the initiator may send.
    """

    _noun = "contract"
    name: str = takes(OwnName("a contract's name"))
    types: Mapping[str, Literal["initiator", "target", "any"]] = takes(Kind(), hash=False)

    def __post_init__(self) -> None:
        self._check_fields()
        if not isinstance(self.types, Mapping) or not self.types:
            raise self._wrong("types", f"types can't be {shown(self.types, 80)}", "such as {'AddItem': 'initiator'}")
        for kind, sender in self.types.items():
            checked_name(kind, f"a message type's name (contract {self.name!r})", entry_of("types", kind))
            if kind in OURS:
                raise self._wrong(
                    entry_of("types", kind), f"{kind!r} is a message of the box itself", "give the type another name"
                )
            if sender not in SENDERS:
                raise self._wrong(
                    entry_of("types", kind), f"{shown(sender)} can't send {shown(kind)}", f"one of {', '.join(SENDERS)}"
                )
        if set(self.types.values()) == {"target"}:
            raise self._wrong(
                "types", "the initiator may send nothing, so no dialog would ever begin", "say what it sends"
            )
        object.__setattr__(self, "types", dict(self.types))


def default_contract() -> Contract:
    return Contract(DEFAULT, {DEFAULT: "any"})
