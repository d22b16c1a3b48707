"""Read the operator log: actions with their actors and reasons."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.views import listing
from seriatim.box.views.listing import Listing, When


@dataclass(frozen=True, slots=True)
class Logged:
    """An entry of the operator log.

    Args:
        operation_id: its number.
        at: the time of the action.
        actor: the actor, as the caller gave it.
        action: the action.
        queue: the queue's name.
        group: the group's key.
        reason: the reason.
        details: the action's arguments and result.
        role: the PostgreSQL role that had logged in (`session_user`); None in entries older than this field.
    """

    operation_id: int
    at: datetime
    actor: str
    action: str
    queue: str | None
    group: str | None
    reason: str
    details: Mapping[str, Any]
    role: str | None = None


@dataclass(frozen=True, slots=True)
class OperationRun:
    """Entries of the operator log, one after another, of one actor with one action and one reason, such as an action on many groups."""

    operation_id: int
    first_id: int
    at: datetime
    since: datetime
    actor: str
    action: str
    reason: str
    #: The PostgreSQL role that had logged in (`session_user`); None in entries older than this field.
    role: str | None
    count: int
    queues: list[str] | None
    of_queues: list[str | None]
    #: The keys of the groups of its newest entries.
    of_groups: list[str | None]
    #: Whether it may go on with older entries, which weren't read.
    is_cut: bool
    #: The action's arguments and result; None: it has several entries.
    details: Mapping[str, Any] | None = None

    @property
    def listed(self) -> list[tuple[str, str]]:
        """The queue and the key of the group of its newest entries that concern a group."""
        pairs = zip(self.of_queues, self.of_groups, strict=True)
        return [(queue, group) for queue, group in pairs if queue is not None and group is not None]


@dataclass(frozen=True, slots=True)
class LogFilter(Listing):
    queue: str | None = listing.text("actions on this queue or destination, or on its groups", noun="a queue's name")
    _: KW_ONLY
    group: str | None = listing.group("actions on groups with this key")
    actor: str | None = listing.text("actions of this actor")
    action: str | None = listing.text("this action, such as skip_message", example="skip_message")
    since: When | None = listing.since("actions")
    until: When | None = listing.until("actions")
    before: int | None = listing.place(lambda one: one.operation_id)
    limit: int = listing.limit("actions")


def logged(transaction: Transaction, chosen: LogFilter) -> list[Logged]:
    return transaction.rows("operator_log", Logged, **chosen.parameters())
