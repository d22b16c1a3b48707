"""List groups and their states. Reads without locks, in one statement that counts no entry twice."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.errors import UsageError
from seriatim.kernel.states import ALLOWED, Action, GroupState

__all__ = ["TRIED_AGAIN", "GroupFilter", "GroupView", "containing", "fitting", "group_of", "groups_of"]

#: What a group shows whose message waits for its next attempt, unless something else stops it.
TRIED_AGAIN = frozenset({GroupState.READY, GroupState.WAITING, GroupState.TIMED_OUT})


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group as it stands.

    Args:
        queue: the queue's name.
        group: its key.
        state: what it shows.
        since: since when it shows that, as far as it is known; None where nobody has judged it.
        locked: whether somebody works on it; to be seen in `state` only where nothing else stops it.
        locked_by: the process of the database that works on it.
        next: the number that leaves next; None where its policy has none.
        arrived: messages that nobody has judged yet.
        held: messages that wait for others, or for an operator.
        queued: messages that are released and not handed out.
        in_hand: messages that the queue's pipeline has in its hands; what a worker has is counted as it was before.
        hole_since: since when it waits for a missing number; None where it doesn't.
        hole_through: the last of the missing numbers, the first is `next`.
        last_released: the sequence of what was released last; microseconds where the queue goes by time.
        ordinal: how many were released.
        incarnation: which life of the group it is, from 0.
        due_at: when its next timer, or what may not be seen before, is due.
        touched_at: when it was worked on or judged last; None where nobody has.
        suspended_by: who suspended it; None where nobody did, or a rule of order.
        suspended_because: the reason that was given; or the rule, with the sequence of the late message that came.
        error: what the handler failed at that has stopped it, or that is to be tried again; None where it isn't so.
        leased_by: the worker that has it in a lease; None where none has.
        leased_until: when that lease runs out, unless its worker puts it off.
        late: how many of those that it holds are out of order.
        retry_at: when what its handler failed at is tried again; None where nothing waits for its next attempt.
        obeyed: False where it is suspended only when the turn ends in which somebody works on it.
    """

    queue: str
    group: str
    state: GroupState
    since: datetime | None
    locked: bool
    locked_by: int | None
    next: int | None
    arrived: int
    held: int
    queued: int
    in_hand: int
    hole_since: datetime | None
    hole_through: int | None
    last_released: int | None
    ordinal: int
    incarnation: int
    due_at: datetime | None
    touched_at: datetime | None
    suspended_by: str | None
    suspended_because: str | None
    error: str | None
    leased_by: str | None = None
    leased_until: datetime | None = None
    late: int = 0
    retry_at: datetime | None = None
    obeyed: bool = True

    @property
    def waiting(self) -> int:
        """How many messages it has."""
        return self.arrived + self.held + self.queued + self.in_hand

    @property
    def reason(self) -> str | None:
        """Why it is suspended, faulted, or tried again later, and by whom; None where it is nothing of that."""
        if self.state is GroupState.SUSPENDED and self.suspended_by is not None:
            return f"{self.suspended_by}: {self.suspended_because}"
        if self.state is GroupState.SUSPENDED:
            return self.suspended_because
        return self.error if self.state is GroupState.FAULTED or self.tries_again else None

    @property
    def tries_again(self) -> bool:
        """Whether nothing stops it but the time until the next attempt."""
        return self.retry_at is not None and self.state in TRIED_AGAIN

    def allows(self, action: Action) -> bool:
        """Whether it takes an action now: what its state allows, and what is so besides."""
        if action is Action.ABORT and self.leased_by is not None:
            return True  # that fences the worker off
        if action is Action.SKIP_MESSAGE and self.state is GroupState.SUSPENDED and not self.late:
            return False
        if action is Action.RETRY and self.tries_again:
            return True
        at_once = self.obeyed or GroupState.LOCKED in ALLOWED[action] or action is Action.RESUME
        return at_once and self.state in ALLOWED[action]


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """Which groups.

    Args:
        queue: only those of this queue.
        key: only those whose key fits this pattern: ``*`` stands for any text, ``?`` for one character.
        states: only those that show one of these.
        older_than: only those that have shown their state for longer than that.
        error: only those where the reason for the stop has this text in it, in capitals or not.
    """

    queue: str | None = None
    key: str | None = None
    states: frozenset[GroupState] | None = None
    older_than: timedelta | None = None
    error: str | None = None


def group_of(transaction: Transaction, queue: str, group: str) -> GroupView:
    """One group.

    Raises:
        UsageError: the queue has never received a message of it, or there is no such queue.
    """
    found = _views(transaction, GroupFilter(queue), 1, group=group)
    if not found:
        raise UsageError(
            f"there is no group {group!r} in queue {queue!r}", remedy="it has never received a message; see the groups"
        )
    return found[0]


def groups_of(
    transaction: Transaction,
    chosen: GroupFilter,
    after: tuple[str, str] | None = None,
    limit: int = 1000,
    *,
    group: str | None = None,
) -> list[GroupView]:
    """Groups by queue and key, at most `limit`; those behind the queue and key of `after`; those of one key."""
    return _views(transaction, chosen, limit, after=after, group=group)


def fitting(glob: str) -> str:
    """A pattern with ``*`` and ``?`` as one of SQL's ``LIKE``."""
    return "".join({"*": "%", "?": "_"}.get(one, _ESCAPED.get(one, one)) for one in glob)


def containing(text: str) -> str:
    """What has this text in it, as a pattern of SQL's ``LIKE``."""
    return f"%{''.join(_ESCAPED.get(one, one) for one in text)}%"


_ESCAPED = {"%": r"\%", "_": r"\_", "\\": r"\\"}


def _views(
    transaction: Transaction,
    chosen: GroupFilter,
    limit: int,
    *,
    after: tuple[str, str] | None = None,
    group: str | None = None,
) -> list[GroupView]:
    after_queue, after_group = after or (None, None)
    parameters: dict[str, Any] = {
        "queue": chosen.queue,
        "group_key": group,
        "pattern": None if chosen.key is None else fitting(chosen.key),
        "states": None if chosen.states is None else list(chosen.states),
        "older_than": chosen.older_than,
        "text": None if chosen.error is None else containing(chosen.error),
        "after_queue": after_queue,
        "after_group": after_group,
        "limit": limit,
    }
    rows = transaction.rows("groups", dict, **parameters)
    return [GroupView(**row | {"state": GroupState(row["state"])}) for row in rows]
