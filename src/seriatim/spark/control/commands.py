"""An operator's command to a pipeline: its entry in the control log, and its result.

A command acts on one group, or puts a message back that was set aside. A *look* is a command that changes nothing: it names groups by a
filter, and every bucket answers with those that fit. It is how an operator sees what a command for many groups would do.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from seriatim.errors import UsageError, shown
from seriatim.kernel.groups.sequence import MAX_KEY_BYTES
from seriatim.pipeline.text.storable import fits_text
from seriatim.spark.control.log import COMMAND

#: The verb of a command that lists the groups that fit a filter.
LOOK = "look"
#: The verb of a command that puts one message back, which was set aside; its arguments have the message.
RESUBMIT = "resubmit"
_LONGEST_ACTOR, _LONGEST_REASON, _LONGEST_ID = 256, 4096, 128


@dataclass(frozen=True, slots=True)
class Command:
    verb: str
    queue: str | None
    key: str | None
    actor: str
    reason: str
    #: Those of the action: ``through``, ``next``, ``message``, ``at_once``; of a look its filter; of a message that is put back see
    #: ``resequence/resubmitted.py``.
    arguments: Mapping[str, Any] = field(default_factory=dict)
    dry_run: bool = False
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    at: int = field(default_factory=lambda: time.time_ns() // 1000)

    def __post_init__(self) -> None:
        _checked(self.actor, "actor", _LONGEST_ACTOR)
        _checked(self.reason, "reason", _LONGEST_REASON)
        _checked(self.id, "id of a command", _LONGEST_ID)
        if self.verb != LOOK and (
            not isinstance(self.key, str) or not fits_text(self.key) or not 1 <= len(self.key.encode()) <= MAX_KEY_BYTES
        ):
            raise UsageError(f"{shown(self.key)} is not a group's key", remedy="text of 1 to 1,024 bytes, without NUL")

    def entry(self) -> dict[str, Any]:
        return {"kind": COMMAND, **asdict(self)}

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Command:
        return cls(**{name: entry[name] for name in cls.__slots__})


def _checked(text: object, what: str, longest: int) -> None:
    if not isinstance(text, str) or not fits_text(text) or not text.strip() or len(text) > longest:
        raise UsageError(
            f"{shown(text)} is not {what}", remedy=f"1 to {longest:,} characters, without NUL: it is written down"
        )


@dataclass(frozen=True, slots=True)
class CommandResult:
    id: str
    verb: str
    queue: str | None
    group: str | None
    #: ``done``; ``refused``; ``unknown``: there is no such group; ``repeated``: its id was obeyed before.
    result: str
    dry_run: bool
    actor: str
    reason: str
    written: int
    #: The batch in which it was obeyed; -1: not known yet.
    batch: int = -1
    at: int = 0
    arguments: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
    remedy: str = ""
    before: str = ""
    after: str = ""
    released: int = 0
    set_aside: int = 0
    #: The group's events: kind, first number, last number, count.
    events: list[list[Any]] = field(default_factory=list)
    #: Of a look: the groups that fit, as JSON has them.
    groups: list[dict[str, Any]] = field(default_factory=list)
    more: int = 0

    @classmethod
    def to(cls, command: Command, result: str, **told: Any) -> CommandResult:
        return cls(
            command.id, command.verb, command.queue, command.key, result, command.dry_run, command.actor,
            command.reason, command.at, arguments=dict(command.arguments), **told,
        )  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """As JSON has it; what says nothing is left out."""
        required = self.__slots__[: list(self.__slots__).index("batch")]
        return {name: value for name, value in asdict(self).items() if name in required or value}

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> CommandResult:
        return cls(**{name: value for name, value in found.items() if name in cls.__slots__})
