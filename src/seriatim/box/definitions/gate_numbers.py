"""The numbers of a gate's groups, when a queue gets the gate: they begin behind those that the queue has given."""

from __future__ import annotations

from seriatim.box.postgres.statements import Statements
from seriatim.errors import ActionRefused, Unavailable
from seriatim.pipeline.text.counted import counted

#: So many groups are locked at most: the server has room for so many locks only.
_MOST_GROUPS = 1000


def begin_at_gates(statements: Statements) -> None:
    """Let groups of gates begin anew where they have other numbers than the queues that get these gates. The caller holds off publishers,
    and has seen that nothing is on the way to these gates; the ways aren't written down anew yet.
    """
    for name, queue_id, gate, gate_id in statements.rows("new_gates"):
        where = f"queue {name!r}"
        found = statements.one("lock_misplaced", queue_id=queue_id, gate_id=gate_id)
        if found.waiting or found.groups > _MOST_GROUPS:
            many, what = (found.waiting, "wait") if found.waiting else (found.groups, "are to be handed out")
            counts = f"more than {_MOST_GROUPS:,} groups" if many > _MOST_GROUPS else counted(many, "group")
            raise ActionRefused(
                f"messages of earlier places {what} at gate {gate!r}, in {counts}",
                where=where,
                remedy="let workers receive from the gate",
            )
        if found.locked < found.groups:
            raise Unavailable(
                f"somebody works on a group of gate {gate!r}, which is to begin anew",
                where=where,
                remedy="define it again when that has ended",
            )
        statements.do("begin_at_gate", queue_id=queue_id, gate_id=gate_id)
