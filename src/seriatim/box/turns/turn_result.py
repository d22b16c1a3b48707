"""The result of a turn: the changes to write, the messages to hand out, and the effect of an operator's action."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.notice import EntriesSetAside, HolePassed, Notice
from seriatim.kernel.groups.states import GroupState
from seriatim.kernel.values.outcome import Disposition, EventKind, Events, no_events

_HOLES = (EventKind.TIMED_OUT, EventKind.HOLE_SKIPPED)
#: The parameters of ``decide`` that plain numbers don't need.
PLAIN = dict.fromkeys(("lives", "kept_sequences", "kept_meanings", "aside_sequences", "aside_meanings"))
_FINAL = (Disposition.DEAD.word, Disposition.INVALID.word)


@dataclass(frozen=True, slots=True)
class HandedMessages:
    """The messages of one group that are handed out: entries, sequences, ordinals and whether they are late, in order."""

    group: str | None
    incarnation: int
    entry_ids: list[int]
    sequences: list[int | None]
    ordinals: list[int | None]
    late: list[bool]


@dataclass(frozen=True, slots=True)
class TurnResult:
    """What a turn does: the parameters of ``decide``, and what is handed out. `more`: there are messages for another turn at once."""

    changes: dict[str, Any]
    handed: list[HandedMessages]
    events: Events
    arrived: int
    more: bool
    conflicts: list[int] = field(default_factory=list)
    #: For groups that have begun anew, how often.
    begun: dict[str, int] = field(default_factory=dict)
    #: For groups whose hole, round or set has ended, how long it had lasted, in seconds.
    held_s: Sequence[float] = ()
    #: Of a gate the groups whose origin queue may hand out messages again.
    full: Sequence[str] = ()
    #: How many ready messages that the turn has read aren't handed out.
    left: int = 0
    #: The entries of each set that was not complete in time.
    timed_out: Sequence[list[int]] = ()

    def notices(self, queue: BoxQueue, keys: Sequence[str], kinds: Sequence[EventKind] = _HOLES) -> list[Notice]:
        """The notices of the turn: holes that timed out, messages that are dead or invalid, and the first conflict of a group."""
        notices: list[Notice] = []
        if len(self.events):
            holes = self.events.take(np.isin(self.events.kind, kinds))
            notices += [
                HolePassed(queue.queue_id, queue.declared.name, keys[at], EventKind(kind), first, last)
                for at, kind, first, last in zip(
                    holes.group.tolist(), holes.kind.tolist(), holes.first.tolist(), holes.last.tolist(), strict=True
                )
            ]
        entry_ids = [
            entry_id
            for entry_id, disposition in zip(self.changes["aside_ids"], self.changes["aside_dispositions"], strict=True)
            if disposition in _FINAL
        ]
        entry_ids += self.conflicts
        sets = {entry_id for its in self.timed_out for entry_id in its}
        notices += [EntriesSetAside(its, together=True) for its in self.timed_out]
        entry_ids = [entry_id for entry_id in entry_ids if entry_id not in sets]
        return [*notices, EntriesSetAside(entry_ids)] if entry_ids else notices


@dataclass(frozen=True, slots=True)
class ActionResult:
    """What an action does to a group. `next`: its number before. `more`: a long run goes on. `due`, `caused`: events before, and by it.
    `faulted`: a message of it has failed, whatever else stops it.
    """

    judged: TurnResult
    before: GroupState
    after: GroupState
    released: int = 0
    set_aside: int = 0
    next: int = 0
    more: bool = False
    faulted: bool = False
    due: Events = field(default_factory=no_events)
    caused: Events = field(default_factory=no_events)


@dataclass(frozen=True, slots=True)
class ActedGroup:
    """What an action does to one of several groups. `more`: a long run goes on in the next turns. `caused`: the action's events."""

    before: GroupState
    after: GroupState
    released: int
    more: bool
    set_aside: int = 0
    caused: Events = field(default_factory=no_events)
