"""The trace of a message, for operators: each step with its time, as far as the box keeps it."""

from __future__ import annotations

from seriatim.box.box import MessageBox
from seriatim.box.views import trace as steps
from seriatim.box.views.far_trace import with_steps_elsewhere
from seriatim.box.views.trace import Step, StepKind
from seriatim.errors import UsageError, is_whole, shown

__all__ = ["Step", "StepKind", "trace_group", "trace_message"]

_MOST = 10_000


def trace_message(
    box: MessageBox, message_id: str, *, id_space: str | None = None, within: int | None = None, over_links: bool = True
) -> list[Step]:
    """Trace a message: received, routed, held, released, each failed attempt, operators' actions, its end.

    Steps that the box doesn't keep are listed with the kind ``unknown``. A message that was sent to another box is traced there, too, where
    this box has that one's address, and that one has granted it (``seriatim link accept --trace``).

    Args:
        box: the box.
        message_id: its id.
        id_space: its id space; it may be None if only one message has the id.
        within: its results are looked for among so many messages that came after it; None: among all, which reads the whole box.
        over_links: whether other boxes are asked; each is given a few seconds, all 15.

    Raises:
        UsageError: the box doesn't know the message; or it has several messages with the id, and `id_space` is None.
    """
    here = box.access.within(steps.trace_message, message_id, id_space, within)
    return with_steps_elsewhere(box.access, here, message_id, id_space) if over_links else here.steps


def trace_group(box: MessageBox, queue: str, group: str, *, limit: int = 100) -> list[Step]:
    """Trace the newest `limit` known messages of a group, with operators' actions on the group.

    Raises:
        UsageError: there is no such queue or group, or the limit is invalid.
    """
    if not is_whole(limit, 1, _MOST):
        raise UsageError(f"cannot trace {shown(limit)} messages", remedy=f"an integer from 1 to {_MOST:,}")
    return box.access.within(steps.trace_group, queue, group, limit)
