"""Queues of two regions: what an operator of one box can't decide there, because the journal of the regions does."""

from __future__ import annotations

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue
from seriatim.errors import ActionRefused, shown
from seriatim.kernel.groups.verbs import VERBS, Action, refusal
from seriatim.pipeline.text.command import command

#: The command of the journal that helps. What was given up is over for the journal, so it comes back as another message only.
_INSTEAD = {
    Action.SKIP_MESSAGE: "skip", Action.SKIP_HOLE: "skip", Action.RESET: "skip", Action.ABORT: "suspend",
    Action.CLOSE: "suspend", Action.RESTART: "show",
}  # fmt: skip
_ANEW = "seriatim journal resubmit FILE ID publishes its content again, under a new id"


def check_not_regional(transaction: Transaction, queue: BoxQueue, action: Action, group: str | None = None) -> None:
    """Refuse an action that the journal of two regions has to decide."""
    if not VERBS[action].decides:
        return
    name = transaction.value("region_of_queue", of_queue=queue.queue_id)
    if name is None:
        return
    where = f"queue {queue.declared.name!r}" + ("" if group is None else f", group {shown(group, 80)}")
    raise ActionRefused(
        f"{refusal(action, 'in two regions')}: the journal of {name!r} decides for both",
        where=where,
        remedy=command("journal", _INSTEAD[action], of=group or "SESSION", queue=queue.declared.name, name=name)
        if action in _INSTEAD
        else _ANEW,
    )
