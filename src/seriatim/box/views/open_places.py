"""See what a gate waits for: the messages of its first open place, their queues, and the command that helps. Reads without locks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.views.at_work import ready_work
from seriatim.box.views.groups import GroupView
from seriatim.box.views.not_done import REASONS
from seriatim.kernel.groups.states import GroupState
from seriatim.pipeline.text.command import command
from seriatim.pipeline.text.counted import counted

#: How many messages of a place are shown.
_SHOWN = 5
#: Work that has waited for longer, without a receiver at work: nothing receives from the queue, seconds.
_MOMENT_S = 5.0


@dataclass(frozen=True, slots=True)
class OnWay:
    """A message on the way to a gate, for which its place is open.

    Args:
        message_id: its id.
        type: its type.
        queue: the queue where it is.
        group: the key of its group there; None if it has none.
        why: why it isn't done, as in `NotDone`.
        since: the time from which it is in that queue.
        until: when it is due, if it waits for a time that is known.
        error: the error at which its handler failed last; None if none failed.
        helps: the command that lets it go on; None: nothing has to be done.
    """

    message_id: str
    type: str
    queue: str
    group: str | None
    why: str
    since: datetime
    until: datetime | None
    error: str | None
    helps: str | None = None

    @property
    def reason(self) -> str:
        """The reason why it isn't done, in words."""
        failed = f": {self.error}" if self.error and self.why in ("faulted", "failed", "retry") else ""
        return REASONS[self.why] + failed


@dataclass(frozen=True, slots=True)
class OpenPlace:
    """The first open place of a gate's group.

    Args:
        number: its number.
        since: the time from which its oldest message is in the queue where it is.
        messages: the number of its messages that are on the way to the gate.
        waits_for: the first of them, those that failed for good before the others; at most 5. A role gets those of queues that it sees.
    """

    number: int
    since: datetime | None
    messages: int
    waits_for: tuple[OnWay, ...]

    @property
    def helps(self) -> str | None:
        """The command that helps, if one of its messages needs it."""
        return next((place.helps for place in self.waits_for if place.helps), None)

    @property
    def told(self) -> str:
        """The messages that it waits for, in words."""
        if not self.waits_for:
            return f"place {self.number} is open: a message of it is in a queue that you don't see"
        first, *_ = self.waits_for
        more = self.messages - 1
        more_text = f", and {counted(more, 'more message')}" if more else ""
        group = "" if first.group is None else f", group {first.group}"
        return (
            f"place {self.number} is open: it waits for message {first.message_id} in queue {first.queue}{group}{more_text} "
            f"({first.reason})"
        )


def first_open_place(
    transaction: Transaction, gate_id: int, view: GroupView, helping: Callable[[str, str], str | None]
) -> OpenPlace | None:
    """The first open place of a gate's group; None: none is open, or the group is closed."""
    if view.open_number is None or view.state is GroupState.CLOSED:
        return None
    rows = transaction.rows("open_place", gate_id=gate_id, group_key=view.group, number=view.open_number, most=_SHOWN)
    waits_for = tuple(
        OnWay(
            row.message_id, row.type, row.queue, row.group, row.why, row.since, row.until, row.error,
            _helping(transaction, row, helping),
        )
        for row in rows
    )  # fmt: skip
    return OpenPlace(view.open_number, view.open_since, rows[0].messages if rows else 0, waits_for)


def _helping(transaction: Transaction, row: Any, helping: Callable[[str, str], str | None]) -> str | None:
    """Return the command that lets a message continue."""
    match row.why:
        case "off":
            return command("queue", "on", row.queue)
        case "stopped":
            return command("subscription", "start", *row.subscriptions)
        case "failed":
            return command("messages", "retry", of=row.message_id, queue=row.queue)
        case "ready":
            ready = ready_work(transaction).get(row.queue)
            return ready.helps if ready is not None and ready.is_left_alone(_MOMENT_S) else None
        case "faulted" | "suspended" | "held" | "late" if row.group is not None:
            return helping(row.queue, row.group)
    return None
