"""Take one waiting message out of a queue: it becomes a dead letter, and the others stay as they are.

In a queue with groups that is the action `skip_message` with a name; the kernel decides what becomes of its number. In a queue
without groups nothing depends on a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.notice import EntriesSetAside
from seriatim.box.operators.failed_message import failed
from seriatim.box.operators.operator_log import Operator, log
from seriatim.box.turns.locked_groups import LockedGroups
from seriatim.box.turns.turn_result import ActionResult
from seriatim.box.turns.turns import Turns
from seriatim.errors import ActionRefused, shown
from seriatim.kernel.groups.states import GroupState
from seriatim.kernel.operators import actions
from seriatim.kernel.resequence import Outcome
from seriatim.kernel.values.outcome import REASONS, Reason
from seriatim.pipeline.text.command import command

#: Its name in the operator log: `skip_message` there is about the message that stopped its group.
TAKE_OUT = "take_out"
_WHY = REASONS[Reason.SKIPPED_BY_OPERATOR]


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A message that waits in a queue: its entry, its group, its status, its number, and whether it is late."""

    entry_id: int
    group: str
    status: str
    sequence: int | None
    late: bool


@dataclass(frozen=True, slots=True)
class TakenOut:
    """The effect of taking a message of a group out. `entry_ids`: those that the kernel doesn't set aside."""

    acted: ActionResult
    before: GroupState
    entry_ids: Sequence[int] = ()


def waiting_message(
    transaction: Transaction, queue: BoxQueue, message_id: str, group: str | None = None
) -> WaitingMessage:
    found = waiting_messages(transaction, queue, message_id, group)
    where = f"queue {queue.declared.name!r}" + ("" if group is None else f", group {group!r}")
    if not found:
        raise ActionRefused(
            f"message {shown(message_id)} does not wait there",
            where=where,
            remedy=f"see {command('messages', 'show', of=message_id)}",
        )
    if len(found) > 1:
        raise ActionRefused(
            f"{len(found)} messages have the id {shown(message_id)}, in different id spaces",
            where=where,
            remedy="take them out with their groups, or suspend the group",
        )
    if found[0].status == "in_hand":
        raise ActionRefused(
            f"a pipeline has message {shown(message_id)} in hand", where=where, remedy="stop the pipeline before"
        )
    return found[0]


def waiting_messages(
    transaction: Transaction, queue: BoxQueue, message_id: str, group: str | None = None
) -> list[WaitingMessage]:
    """The messages with an id that wait in a queue, or in one of its groups: one, or none; or one for each id space."""
    parameters = {"queue_id": queue.queue_id, "group_key": group, "message_id": message_id}
    return transaction.rows("waiting_message", WaitingMessage, **parameters)


def take_out_of_group(
    transaction: Transaction, turns: Turns, queue: BoxQueue, locked: LockedGroups, message_id: str
) -> TakenOut:
    """Take a message out of a locked group, after judging all that has arrived."""
    policy, group = queue.declared.policy_of(locked.keys[0]), locked.keys[0]
    waiting_message(transaction, queue, message_id, group)
    # First all is judged and written down, what a long run leaves behind included: then its status says where it is.
    judged = turns.act(queue, locked, Outcome.unchanged, all_arrived=True, all_held=True)
    transaction.notice(*judged.judged.notices(queue, locked.keys))
    found = waiting_message(transaction, queue, message_id, group)
    if found.status == "held" and not found.late and queue.origin_id is not None:
        # One of several results, perhaps: the others are taken up again without it.
        transaction.do("reopen_places", of_gate=queue.queue_id, of_groups=[group], numbers=[found.sequence])
    elif found.status == "held":
        acted = turns.act(
            queue,
            locked,
            lambda state, ref: actions.skip_message(policy, state, locked.now_us, group, ref),
            all_held=True,
            entry_id=found.entry_id,
        )
        return TakenOut(acted, judged.before)
    stopping = failed(transaction, queue, group) if judged.faulted else None
    together = [] if stopping is None else stopping.entry_ids
    stops = found.entry_id in together
    entry_ids = together if stops else [found.entry_id]  # a set fails, and goes, as a whole
    transaction.do("set_dead", of_queue=queue.queue_id, of_group=group, of_entries=entry_ids, why=_WHY)
    numbers = np.array([] if found.sequence is None else [found.sequence], np.int64)
    acted = turns.act(
        queue, locked, lambda state: actions.take_out(policy, state, locked.now_us, group, numbers, failed=stops)
    )
    return TakenOut(acted, judged.before, entry_ids)


def take_out_unordered(
    transaction: Transaction, queue: BoxQueue, found: WaitingMessage, message_id: str, by: Operator
) -> int:
    """Take a message out of a queue without groups; returns the number of the entry in the operator log."""
    name, entries = queue.declared.name, [found.entry_id]
    if not transaction.value("take_out", of_queue=queue.queue_id, of_entries=entries, why=_WHY):
        raise ActionRefused(
            f"message {shown(message_id)} is in a receiver's hands",
            where=f"queue {name!r}",
            remedy="try again after that session has ended",
        )
    transaction.notice(EntriesSetAside(entries))
    return log(transaction, by, TAKE_OUT, queue=name, group=None, details={"message_id": message_id, "set_aside": 1})
