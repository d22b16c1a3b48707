"""The groups of a gate, when those of its origin queue are to begin at 1 again."""

from __future__ import annotations

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.definitions.known import read_definitions
from seriatim.box.turns.locked_groups import LockedGroups
from seriatim.box.turns.turns import Turns
from seriatim.errors import ActionRefused, Unavailable, shown
from seriatim.pipeline.text.command import command
from seriatim.pipeline.text.counted import counted

#: Somebody may work on the group, and goes on as long as the handler takes.
_PATIENCE_MS = 10_000
#: For each of many groups.
_LEAST_PATIENCE_MS = 250


def check_passed(transaction: Transaction, queue: BoxQueue, group: str) -> BoxQueue | None:
    """Refuse an action on the group of an origin queue while one of its places is open, or waits at the gate."""
    if queue.declared.gate is None:
        return None
    gate = read_definitions(transaction).queue(queue.declared.gate.queue)
    turns = Turns(transaction)
    turns.judge_all(gate, locked_at_gate(turns, gate, group))  # what has ended passes
    left = transaction.value("places_left", of_gate=gate.queue_id, of_origin=queue.queue_id, of_group=group)
    if left:
        raise ActionRefused(
            f"{counted(left, 'place')} of it {'is' if left == 1 else 'are'} open or waiting at the gate",
            where=_where(gate, group),
            remedy="let the messages leave, or skip the places: "
            + command("group", "show", of=group, queue=gate.declared.name),
        )
    return gate


def locked_at_gate(turns: Turns, gate: BoxQueue, *groups: str) -> LockedGroups:
    """Lock groups of a gate, for an action on what is on the way there: in the order of their keys, and in one round trip."""
    locked = turns.lock_many(gate, sorted(groups), max(_PATIENCE_MS // len(groups), _LEAST_PATIENCE_MS))
    if missing := set(groups).difference(locked.keys):
        raise Unavailable(
            "another session has the lock of the group at the gate",
            where=_where(gate, min(missing)),
            remedy="try again after that session has ended",
        )
    return locked


def _where(queue: BoxQueue, group: str) -> str:
    return f"queue {queue.declared.name!r}, group {shown(group)}"


def refuse_own(queue: BoxQueue, group: str, doing: str) -> None:
    """Refuse to let a gate's group begin at 1 again by itself."""
    if queue.origin_id is not None:
        raise ActionRefused(
            f"a gate's group can't be {doing} by itself: its numbers are those of the origin queue's group",
            where=_where(queue, group),
            remedy="forget the group of the origin queue",
        )
