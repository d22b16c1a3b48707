"""The things that need an operator, counted by queue and reason. Reads without locks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

from seriatim.box.connection.access import Transaction

#: PostgreSQL's units of time, in seconds; without one a time limit has milliseconds.
_UNITS = {"us": 1e-6, "ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


@dataclass(frozen=True, slots=True)
class UnendedTurn:
    """A message that was handed out several times, and whose turn never ended."""

    queue: str
    #: The key of its group; None in a queue without groups.
    group: str | None
    message_id: str
    times: int


@dataclass(frozen=True, slots=True)
class UnansweredDialogs:
    """Sides of dialogs over a link that wait for the other box, or that can't be obeyed here."""

    link: str
    #: Why what came can't be obeyed; None: these wait for an acknowledgement.
    problem: str | None
    dialogs: int
    #: Since when the oldest waits, and its conversation, with ``:i`` or ``:t`` for the side.
    since: datetime
    key: str


@dataclass(frozen=True, slots=True)
class UnansweredRequests:
    """Open requests that have no reply, by the type that they wait for."""

    reply: str
    requests: int
    #: When the oldest was made, and the id of its message.
    since: datetime
    message_id: str


@dataclass(frozen=True, slots=True)
class RoleSetting:
    """A time limit of PostgreSQL that is set for a role."""

    role: str
    name: str
    #: Its value as it was set, such as ``2s``; without a unit milliseconds.
    value: str

    @property
    def seconds(self) -> float:
        number = re.match(r"\d*", self.value.strip())
        digits = "" if number is None else number[0]
        unit = self.value.strip().removeprefix(digits).strip()
        return float(digits or 0) * _UNITS.get(unit, 0.001)


@dataclass(frozen=True, slots=True)
class GroupSetApart:
    """A `group` of a `queue` at which a turn failed, and the `error`."""

    queue: str
    group: str
    error: str


@dataclass(frozen=True, slots=True)
class StoppedGroups:
    queue: str
    state: str
    groups: int
    #: The number of groups that only an operator, or the missing message, lets continue.
    needing: int
    #: The time from which the first of them has been so.
    since: datetime | None
    group: str


@dataclass(frozen=True, slots=True)
class StoppedSubscription:
    """A `subscription` that isn't started, its `queue` and `state`, and the number of `messages` that wait because of it."""

    subscription: str
    queue: str
    state: str
    messages: int


@dataclass(frozen=True, slots=True)
class SuspectedRestarts:
    """The number of `groups` of a `queue` whose producer seems to have begun anew, and the key of one such `group`."""

    queue: str
    groups: int
    group: str


@dataclass(frozen=True, slots=True)
class UnendedDialogs:
    """The number of `dialogs` that a `service` hasn't ended, though the other side has and its `queue` has no more messages of them;
    and since when (`since`) the oldest of them is there.
    """

    service: str
    queue: str
    dialogs: int
    since: datetime


@dataclass(frozen=True, slots=True)
class RememberedSessions:
    """The number of `sessions` that the box remembers of a `queue` of two regions, and the `bytes` of those of all queues together."""

    queue: str
    sessions: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Unrouted:
    problem: str | None
    messages: int
    #: They were published through SQL, and aren't routed yet.
    is_waiting: bool
    since: datetime | None
    age_s: float | None
    type: str | None


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    pid: int | None
    name: str | None
    role: str | None
    address: str | None
    is_idle: bool
    is_ours: bool
    seconds: float
    #: The seconds for which it has been in this state.
    idle_s: float
    gid: str | None


@dataclass(frozen=True, slots=True)
class PipelineQueue:
    queue: str
    pipeline: str
    #: Whether a run of the pipeline reads the queue now.
    runs: bool
    messages: int
    #: The number of messages that the pipeline has in hand.
    in_hand: int
    since: datetime | None
    age_s: float | None


def open_transactions(transaction: Transaction, seconds: float, most: int = 20) -> tuple[list[OpenTransaction], int]:
    """Return the transactions older than `seconds`, idle ones first; and the number of sessions that the caller can't inspect."""
    rows = transaction.rows("open_transactions", seconds=seconds, most=most)
    transactions = [OpenTransaction(*row[:-1]) for row in rows if row.seconds is not None]
    return transactions, rows[0].hidden if rows else 0
