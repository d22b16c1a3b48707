"""Check the laws of a running box, without locks: for `seriatim doctor` and for tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import errors

from seriatim.box.connection.access import Transaction
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.moment import local


@dataclass(frozen=True, slots=True)
class Problem:
    """A violation of the law of the spool: the fault, and the message (`arrival_id`, `position`)."""

    problem: str
    arrival_id: int
    position: int


def audit(transaction: Transaction, most: int = 100) -> list[Problem]:
    """The violations of the law of the spool, a limit of each kind; reads all of it, in one statement and without locks."""
    return transaction.rows("audit_references", Problem, most=most)


@dataclass(frozen=True, slots=True)
class Account:
    """The law of conservation in numbers, of all groups that a box knows."""

    received: int
    #: How many of them were released; likewise the other dispositions: `held`, `late`, `duplicate`, `invalid`, `rejected`, `dead`, and
    #: of gates `void`.
    released: int
    held: int
    late: int
    duplicate: int
    invalid: int
    rejected: int
    dead: int
    void: int

    @property
    def is_even(self) -> bool:
        return self.received == sum(count for _, count in self._dispositions)

    @property
    def told(self) -> str:
        """The law as a line, without the dispositions that no message has: "received 12 = released 10 + held 2"."""
        shown = [f"{word} {count:,}" for word, count in self._dispositions if count or word in ("released", "held")]
        return f"received {self.received:,} {'=' if self.is_even else '≠'} {' + '.join(shown)}"

    @property
    def _dispositions(self) -> list[tuple[str, int]]:
        words = ("released", "held", "late", "duplicate", "invalid", "rejected", "dead", "void")
        return [(word, getattr(self, word)) for word in words]


def broken(transaction: Transaction, most: int = 10) -> list[str]:
    """The violations of the box's laws, in words, at most `most` of each kind; empty if all is well. Reads the whole box. The laws: each
    message that a group took in is decided or held. Each released message, from the first one that isn't done, is queued, in hand or dead.
    (Done messages have left the box, so a stolen first message can't be told from them.) A group with queued messages has a time for its
    next turn. A closed place at a gate waits for an open one, or for the clock of a hole. In the spool each reference has its message, and
    each message has a ticket and a reference. The messages of a lease exist and aren't done.
    """
    groups = transaction.rows("audit_groups", most=most)
    released = [_released(row) for row in transaction.rows("audit_released", most=most)]
    asleep = transaction.rows("audit_ready", most=most)
    kept = transaction.rows("audit_places", most=most)
    leases = transaction.rows("audit_leases", most=most)
    return (
        [
            f"queue {queue!r}, group {group!r}: took in {taken_in:,}, but {decided:,} are decided and {held:,} held"
            for queue, group, taken_in, decided, held in groups
        ]
        + released
        + [
            f"queue {queue!r}, group {group!r}: {counted(messages, 'message is', 'messages are')} queued, and nothing says "
            "when they are next"
            for queue, group, messages in asleep
        ]
        + [
            f"queue {queue!r}, group {group!r}: the results of place {number:,} wait at the gate, and no open place and no "
            "clock is before them"
            for queue, group, number in kept
        ]
        + [
            f"queue {queue!r}, group {group!r}: the lease {token} of {worker} has {missing:,} missing messages"
            for queue, group, token, worker, missing in leases
        ]
        + [f"{problem.problem} ({problem.arrival_id}, {problem.position})" for problem in audit(transaction, most)]
    )


def broken_within(transaction: Transaction, seconds: float) -> list[str] | None:
    """As `broken`; None if one of its statements takes longer than `seconds`. The transaction ends with that."""
    transaction.do("limit_statements", milliseconds=max(1, round(seconds * 1000)))
    try:
        return broken(transaction)
    except errors.QueryCanceled:
        transaction.connection.rollback()
        return None


def account_within(transaction: Transaction, seconds: float) -> Account | None:
    """The law of conservation in numbers; None if it takes longer than `seconds`. The transaction ends with that."""
    transaction.do("limit_statements", milliseconds=max(1, round(seconds * 1000)))
    try:
        return transaction.one("account", Account)
    except errors.QueryCanceled:
        transaction.connection.rollback()
        return None


def _released(row: Any) -> str:
    """A row of ``audit_released.sql`` in words."""
    queue, group, released, passed, waiting, dead, expected, twice = row
    where = f"queue {queue!r}, group {group!r}"
    if twice:
        return f"{where}: {counted(twice, 'message is done and waits', 'messages are done and wait')} once more"
    if waiting + dead != expected:
        return (
            f"{where}: of {released:,} released messages the last {expected:,} aren't done, but {waiting:,} are queued "
            f"or in hand and {dead:,} dead"
        )
    if passed != released:
        return f"{where}: released {counted(passed, 'message')}, and gave {counted(released, 'ordinal')}"
    return f"{where}: two messages have one ordinal, or one that was never given"


def long_transactions(transaction: Transaction, seconds: float, most: int = 5) -> list[str]:
    """Transactions that are older than `seconds`, in words: they hold back vacuum and keep their groups locked."""
    rows = transaction.rows("long_transactions", seconds=seconds, most=most)
    return [f"process {pid} ({name or 'without a name'}) since {age:,.0f} s" for pid, name, age in rows]


def leases_run_out(transaction: Transaction, seconds: float, most: int = 5) -> list[str]:
    """Leases that ran out more than `seconds` ago, in words: no worker receives from their queues or counts their attempts."""
    rows = transaction.rows("leases_run_out", seconds=seconds, most=most)
    return [
        f"queue {queue!r}, group {group!r}: the lease of {worker} ran out {age:,.0f} s ago"
        for queue, group, worker, age in rows
    ]


def never_numbered(transaction: Transaction, most: int = 5) -> list[str]:
    """Return messages without a ticket though their transactions have ended, in words: no turn sees them, and later messages pass them."""
    rows = transaction.rows("never_numbered", most=most)
    return [
        f"location {location!r}: {counted(messages, 'message')}"
        + ("" if since is None else f", the first of {local(since)}")
        for location, messages, since in rows
    ]


def silent_triggers(transaction: Transaction) -> list[str]:
    """Return the triggers of the box that are switched off, or off in replication sessions: the name, and the table."""
    rows = transaction.rows("silent_triggers")
    return [f"{name} of {table}" for table, name in rows]
