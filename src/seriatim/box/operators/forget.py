"""Forget a group: its next message begins it anew, in the next incarnation.

An idle group has only its row in ``groups`` (next number, ordinal, skipped ranges). So it costs no time: no index that
receivers read has an entry for it.
"""

from __future__ import annotations

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.operators.gate_groups import check_passed, refuse_own
from seriatim.box.operators.operator_log import Operator, log
from seriatim.box.turns.turn_rows import fresh_row
from seriatim.box.turns.turns import Turns
from seriatim.box.views.groups import GroupFilter, groups_of
from seriatim.box.views.instances import InstanceFilter, instances_of
from seriatim.errors import ActionRefused, NotFound, Unavailable, shown
from seriatim.kernel.groups.states import GroupState
from seriatim.pipeline.text.counted import counted

#: Somebody may work on the group, and goes on as long as the handler takes.
_PATIENCE_MS = 10_000


def forget(transaction: Transaction, queue: BoxQueue, group: str, by: Operator) -> int:
    where = f"queue {queue.declared.name!r}, group {shown(group)}"
    turns = Turns(transaction)
    if not turns.lock(queue, 1, group, _PATIENCE_MS).keys:
        raise Unavailable(
            "another session has the lock of the group", where=where, remedy="try again after that session has ended"
        )
    refuse_own(queue, group, "forgotten")
    if queue.numbers and not transaction.value("hold_places", of_queue=queue.queue_id, of_group=group):
        raise Unavailable(
            "a message comes into the group", where=where, remedy="try again after its transaction has ended"
        )
    _check_empty(transaction, queue, group, "abort it first")
    _check_let_go(transaction, queue.declared.name, group)
    gate, at_gate = check_passed(transaction, queue, group), None
    if gate is not None:
        _check_empty(transaction, gate, group, "receive them first")
        at_gate = _forgotten(transaction, gate, group)
    incarnation = _forgotten(transaction, queue, group)
    if incarnation is None:
        raise NotFound("there is no such group", where=where)
    if queue.numbers and at_gate is not None:  # the groups of such a queue are known at the gate only
        incarnation = at_gate
    details = {"incarnation": incarnation}
    log(transaction, by, "forget", queue=queue.declared.name, group=group, details=details)
    return incarnation


def _forgotten(transaction: Transaction, queue: BoxQueue, group: str) -> int | None:
    """Forget one group; return its new incarnation, None if it is unknown."""
    fresh = fresh_row(queue.declared.policy_of(group))
    found: int | None = transaction.value("forget_group", of_queue=queue.queue_id, of_group=group, fresh=fresh)
    return found


def _check_empty(transaction: Transaction, queue: BoxQueue, group: str, remedy: str) -> None:
    if left := transaction.value("group_left", queue_id=queue.queue_id, group_key=group):
        raise ActionRefused(
            f"it has {counted(left, 'message')} neither done nor set aside",
            where=f"queue {queue.declared.name!r}, group {shown(group)}",
            remedy=remedy,
        )


def _check_let_go(transaction: Transaction, queue: str, group: str) -> None:
    """Refuse to forget a group whose instance runs, or that is suspended."""
    where = f"queue {queue!r}, group {group!r}"
    for running in instances_of(transaction, InstanceFilter(queue, group=group)):
        number = running.instance_id
        remedy = f"terminate it first: seriatim instances terminate {number}"
        raise ActionRefused(f"its instance {number} runs", where=where, remedy=remedy)
    suspended = GroupFilter(queue, state=GroupState.SUSPENDED)
    if groups_of(transaction, suspended, [group]):
        raise ActionRefused("it is suspended", where=where, remedy="resume it first")
