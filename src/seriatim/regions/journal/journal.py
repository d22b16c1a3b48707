"""`Journal`: the door to the journal of two regions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Self, TypeVar, cast

from seriatim.box.views.filtered import filtered
from seriatim.errors import LeaseLost, UsageError, shown
from seriatim.kernel.regions.claims import Action, EntryState
from seriatim.kernel.regions.votes import Vote
from seriatim.kernel.values.time import micros
from seriatim.regions.journal import claims, forgetting, operators, views, votes
from seriatim.regions.journal import schema as _schema
from seriatim.regions.journal.connections import COLLISIONS, Connections, JournalConnection
from seriatim.regions.journal.forgetting import Forgotten
from seriatim.regions.journal.operators import ActionResult, Recovery
from seriatim.regions.journal.pipelines import Pipelines
from seriatim.regions.journal.statements import JournalStatements
from seriatim.regions.journal.values import (
    LONGEST_LEASE_S,
    MOST_CLAIMED,
    Claim,
    ClaimAnswer,
    Holder,
    KnownByBox,
    Numbered,
    QueueRules,
    Reservation,
    VoteAnswer,
    WantedMessage,
)
from seriatim.regions.journal.views import (
    EntryView,
    JournalLogFilter,
    LogEntry,
    RegionView,
    SessionCounts,
    SessionFilter,
    SessionView,
)

__all__ = ["Journal", "JournalTransaction"]

_Result = TypeVar("_Result")
#: The most sessions that are raised in one transaction of a recovery.
_RAISED = 1_000
_MODES = {"session": MOST_CLAIMED, "message": 1}


@dataclass(frozen=True, slots=True)
class JournalTransaction:
    """A transaction of the journal's database, for a handler that writes there."""

    #: The psycopg connection; the handler's writes on it commit with the completion.
    connection: JournalConnection
    _statements: JournalStatements
    _patience: float

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Inside the block a handler has the connection, which can't end the transaction."""
        connection = self.connection
        connection.is_lent = True
        try:
            yield
        finally:
            connection.is_lent = False
        if connection.has_ended:
            raise UsageError(
                "the handler has ended the transaction of its message, so it may be handled twice",
                remedy="leave commits to the worker; for a part that may fail: with tx.connection.transaction(): …",
            )

    def passes(self, error: BaseException) -> bool:
        """Whether an error is the database's alone: the transaction collided with another, or the connection is lost. Nobody has failed
        then.
        """
        return isinstance(error, COLLISIONS) or self.connection.closed

    def complete(self, claim: Claim, through: int | None = None) -> Claim | None:
        """Complete numbers of a claim: the last statement of the transaction. The last number of a claim ends it."""
        self.connection.patience = self._patience
        try:
            return claims.complete(self._statements, claim, claim.last if through is None else through)
        except LeaseLost:
            self.connection.rollback()  # also for a caller that continues
            raise


class Journal:
    """The journal of two regions. Threads and processes share it; each call is a transaction, or takes part in one. `open` makes its schema
    at first use. A name stands for a pair of regions: one journal can serve several.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    @classmethod
    def open(
        cls, dsn: str, *, schema: str = _schema.DEFAULT_SCHEMA, create: bool = True, connections: int = 10,
        patience: float | str = 10.0,
    ) -> Self:  # fmt: skip
        opened = Connections(dsn, schema, connections, micros(patience) / 1_000_000)
        try:
            if create:
                with opened.transaction() as statements:
                    _schema.bring_up_to_date(statements)
            else:
                opened.again(_schema.check)
        except BaseException:
            opened.close()
            raise
        return cls(opened)

    @contextmanager
    def more(self, connections: int) -> Iterator[None]:
        """Inside the block it may have so many more connections."""
        self._connections.fit(connections)
        try:
            yield
        finally:
            self._connections.fit(-connections)

    @property
    def pipelines(self) -> Pipelines:
        """The pipelines that run in both regions."""
        return Pipelines(self._connections)

    @property
    def place(self) -> str:
        """Host, database and schema, without secrets."""
        return self._connections.place

    def close(self) -> None:
        self._connections.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Journal({self._connections.place!r})"

    # ---- queues

    def define(self, name: str, queue: str, rules: QueueRules) -> None:
        """Say how the sessions of a queue are worked on, in both regions; the second call changes what may change."""
        for noun, value in (("regions", name), ("queue", queue)):
            if not isinstance(value, str) or not value or "\0" in value:
                raise UsageError(f"{shown(value, 80)} can't be the name of {noun}", remedy="text, not empty")

        def define(statements: JournalStatements) -> None:
            columns = rules.as_columns()
            statements.do("define_queue", name=name, queue=queue, **columns)
            row = statements.rows("read_queue", name=name, queue=queue)[0]
            if (row.start, row.increment) != (rules.start, rules.increment):
                raise UsageError(
                    f"the queue {queue!r} begins at {row.start} in steps of {row.increment} in the journal, not at "
                    f"{rules.start} in steps of {rules.increment}",
                    remedy="take the same in both regions, or another name of the queue",
                )
            changed = {key: value for key, value in columns.items() if key not in ("start", "increment")}
            statements.do("change_queue", name=name, queue=queue, **changed)

        self._connections.again(define)

    def touch(self) -> None:
        with self._connections.transaction():
            pass

    def rules(self, name: str, queue: str) -> QueueRules:
        return self._again(lambda one: views.rules(one, name, queue))

    # ---- claims

    def claim(
        self, name: str, queue: str, region: str, messages: Sequence[WantedMessage], *, lease: float | str = 10.0,
        mode: str = "session",
    ) -> list[ClaimAnswer]:  # fmt: skip
        length, most = micros(lease), _MODES.get(mode)
        if not 0 < length <= LONGEST_LEASE_S * 1_000_000:
            raise UsageError(f"a lease can't be {shown(lease, 80)}", remedy="more than 0 s, at most a day")
        if most is None:
            raise UsageError(f"claims can't be by {shown(mode, 80)}", remedy='"session" or "message"')
        if len({(message.session, message.number) for message in messages}) < len(messages):
            raise UsageError("a number of a session is asked for twice", remedy="ask for each number once")
        return self._again(
            lambda message: claims.claim(message, name, queue, region, messages, lease=length, most=most)
        )

    def tell(self, name: str, queue: str, region: str, messages: Sequence[WantedMessage]) -> list[ClaimAnswer]:
        """Tell which messages a region has and can't hand out, because numbers before them are missing there. Nothing is claimed. A hole
        whose time has run out is skipped by it.
        """
        return self._again(lambda one: claims.claim(one, name, queue, region, messages, lease=1, most=0))

    def renew(self, held: Sequence[Claim]) -> list[Claim]:
        """Renew the leases of claims, in one statement."""
        return self._again(lambda one: claims.renew(one, held))

    def give_back(self, held: Sequence[Claim]) -> None:
        """End claims before their leases do, so that others needn't wait."""
        self._again(lambda one: claims.give_back(one, held))

    @contextmanager
    def transaction(self) -> Iterator[JournalTransaction]:
        """A transaction for a handler that writes in the journal's database; it commits at the end of the block."""
        with self._connections.transaction() as statements:
            connection, patience = cast("JournalConnection", statements.connection), self._connections.patience
            connection.patience, connection.begun = None, 0  # the caller's work may take any time
            yield JournalTransaction(connection, statements, patience)
            connection.patience = patience

    def fail(
        self, claim: Claim, number: int, reason: str, *, passes: bool = True, retry_after: float | str | None = None,
        most: int | None = None, goes_on: bool | None = None,
    ) -> EntryState:  # fmt: skip
        """Note that a handler failed, after its transaction was rolled back. The claim ends."""
        after = None if retry_after is None else micros(retry_after)
        text = reason.replace("\0", "�").encode("utf-8", "replace").decode()
        return self._again(
            lambda one: claims.fail(
                one, claim, number, text, passes=passes, retry_after=after, most=most, goes_on=goes_on
            )
        )

    def postpone(self, claim: Claim, number: int, delay: float | str) -> None:
        """Have a message handed out again after a delay, in either region: now isn't the time, and nothing counts as an attempt. The claim
        ends.
        """
        self._again(lambda one: claims.postpone(one, claim, number, micros(delay)))

    # ---- votes

    def vote(
        self, name: str, queue: str, messages: Sequence[Numbered], *, counted: Mapping[str, int] | None = None
    ) -> list[VoteAnswer]:
        """Vote on the numbers of messages; all numbers of a session are taken, or none."""
        return self._again(lambda one: votes.vote(one, name, queue, messages, counted or {}))

    def bar(
        self,
        name: str,
        queue: str,
        messages: Sequence[Numbered],
        *,
        age: float,
        counted: Mapping[str, int] | None = None,
    ) -> list[Vote]:
        """Bar messages from their numbers, so that a refused sender may give them others. Only for numbers for which the sender counts the
        vote of one box and the other box has refused: no other message can then have the votes of both.
        """
        return self._again(lambda one: votes.bar(one, name, queue, messages, counted or {}, micros(age)))

    def through(self, name: str, queue: str, sessions: Sequence[str]) -> dict[str, int]:
        """The highest number that the journal knows of each session; those that it doesn't know aren't there."""
        return self._again(lambda one: votes.through_of(one, name, queue, sessions))

    def done_through(self, name: str, queue: str, sessions: Sequence[str]) -> dict[str, int]:
        """Through which number each session is over; those that the journal doesn't know aren't there."""
        return self._again(lambda one: votes.done_of(one, name, queue, sessions))

    def holders(self, name: str, queue: str, numbers: Sequence[tuple[str, int]]) -> list[Holder]:
        return self._again(lambda one: votes.holders_of(one, name, queue, numbers))

    def numbers_of(self, name: str, queue: str, messages: Sequence[tuple[str, str]]) -> dict[tuple[str, str], int]:
        return self._again(lambda one: votes.numbers_of(one, name, queue, messages))

    def known_sessions(
        self, name: str, after: tuple[str, str] = ("", ""), *, limit: int = 10_000
    ) -> list[tuple[str, str, int, int]]:
        """Return the journal's knowledge of all sessions, in the order of their keys: queue, session, highest number, and through which all
        is over.
        """
        return self._again(lambda one: views.known_sessions(one, name, after, limit))

    def reserve(
        self, name: str, queue: str, counts: Mapping[str, int], *, lease: float | str = 10.0
    ) -> dict[str, list[Reservation]]:
        """Reserve the next numbers of sessions; those that aren't confirmed before the lease ends are void."""
        return self._again(lambda one: votes.reserve(one, name, queue, counts, micros(lease)))

    def confirm(self, name: str, queue: str, kept: Sequence[tuple[Reservation, Numbered]]) -> list[Reservation]:
        """Confirm reservations, each for its message. A message that has a number in its session isn't given a second one."""
        return self._again(lambda one: votes.confirm(one, name, queue, kept))

    def fence(self, name: str, region: str, incarnation: int) -> None:
        """Note the incarnation of a region's box: votes of an earlier one count no more, nor what it has reported."""
        self._again(lambda one: votes.fence(one, name, region, incarnation))

    # ---- forgetting

    def others_outbox(self, name: str, region: str) -> int | None:
        """Return the other region's report of its outbox: to be read before a region looks at its own queues, and given to `report`."""
        return self._again(lambda one: forgetting.others_outbox(one, name, region))

    def report(
        self, name: str, region: str, incarnation: int, *, outbox_age: float, queue_age: float, others: int | None
    ) -> bool:
        """Note how old the oldest message is that a region still has."""
        ages = {"outbox_age": micros(outbox_age), "queue_age": micros(queue_age)}
        return self._again(lambda one: forgetting.report(one, name, region, incarnation, others=others, **ages))

    def purge(
        self, name: str, forget_after: float | str, *, without: str | None = None, actor: str = "", reason: str = ""
    ) -> Forgotten:
        """Forget the sessions of which nothing can come any more, and the ids of numbers that have been over for long."""
        if without is not None and not (actor and reason):
            raise UsageError("to purge without a region needs an actor and a reason", remedy="give both")
        sessions = numbers = 0
        after = ("", "")
        while True:
            portion = partial(
                forgetting.purge, name=name, forget_after=micros(forget_after), without=without, after=after,
                most=forgetting.PORTION,
            )  # fmt: skip
            forgotten, after = self._again(portion)
            sessions, numbers = sessions + forgotten.sessions, numbers + forgotten.numbers
            if max(forgotten.sessions, forgotten.numbers) < forgetting.PORTION:
                break
        if without is not None:
            detail = f"sessions: {sessions}, ids of numbers: {numbers}"
            self._again(lambda one: forgetting.log_purge(one, name, without, actor=actor, reason=reason, detail=detail))
        return Forgotten(sessions, numbers)

    def over_before(self, name: str) -> dict[str, str]:
        """For each queue that has one, the key before which all its sessions are over, and forgotten."""
        return self._again(lambda one: forgetting.over_before(one, name))

    def raise_over(self, name: str, befores: Mapping[str, str]) -> None:
        """Take over the keys before which all sessions of queues are over, where they are higher: after a restore of the journal."""
        self._again(lambda one: forgetting.raise_over(one, name, befores))

    def end_before(self, name: str, queue: str, before: str, *, actor: str, reason: str) -> int:
        """Say that all sessions below a key are over, unless some aren't: the number of those. Only where no box has, or takes,
        any of their messages.
        """
        return self._again(lambda one: forgetting.end_before(one, name, queue, before, actor=actor, reason=reason))

    def forget_over(self, name: str, queue: str) -> int:
        """Forget the sessions below the key before which all are over; how many they were."""
        forgotten = 0
        while some := self._again(lambda one: forgetting.forget_over(one, name, queue, forgetting.PORTION)):
            forgotten += some
        return forgotten

    # ---- operators

    def act(
        self,
        name: str,
        queue: str,
        session: str,
        action: Action,
        *,
        actor: str,
        reason: str,
        through: int | None = None,
        missing: bool = False,
    ) -> ActionResult:
        """Do something with one session, and write it to the operator log."""
        return self._again(
            lambda one: operators.act(
                one, name, queue, session, action, actor=actor, reason=reason, through=through, missing=missing
            )
        )

    def note(
        self, name: str, queue: str, session: str, action: str, *, actor: str, reason: str, detail: str
    ) -> None:  # fmt: skip
        """Write to the operator log what an operator did beside the journal."""
        self._again(
            lambda one: operators.write_log(
                one, name, queue, session, actor=actor, action=action, reason=reason, detail=detail
            )
        )

    def recover(self, name: str, known: Mapping[str, Mapping[str, int]], *, actor: str, reason: str) -> Recovery:
        """After a restore of the journal: end all claims, begin a new incarnation, and take over what is known to be over.
        `Regions.recover` asks the boxes.
        """
        done = self.begin_recovery(name, actor=actor, reason=reason)
        raised = sum(
            self.raise_known(name, queue, {key: KnownByBox(over, over) for key, over in sessions.items()})
            for queue, sessions in sorted(known.items())
        )
        recovery = replace(done, raised=raised)
        self.end_recovery(name, recovery, actor=actor, reason=reason)
        return recovery

    def begin_recovery(self, name: str, *, actor: str, reason: str) -> Recovery:
        """End all claims, and begin a new incarnation: the first step of a recovery."""
        return self._again(lambda one: operators.begin_recovery(one, name, actor=actor, reason=reason))

    def raise_known(self, name: str, queue: str, known: Mapping[str, KnownByBox]) -> int:
        """Take over what boxes know of sessions of a queue, in several transactions if they are many."""
        raised, rest = 0, iter(known.items())
        while portion := dict(islice(rest, _RAISED)):
            raised += self._again(partial(operators.raise_known, name=name, queue=queue, known=portion))
        return raised

    def end_recovery(self, name: str, done: Recovery, *, actor: str, reason: str) -> None:
        """Note what a recovery did: its last step."""
        self._again(lambda one: operators.end_recovery(one, name, done, actor=actor, reason=reason))

    # ---- views

    @filtered(SessionFilter)
    def sessions(self, chosen: SessionFilter) -> list[SessionView]:
        """List sessions: how far they are, who works on them, and what they wait for."""
        return self._again(lambda one: views.sessions(one, chosen))

    def entries(self, name: str, queue: str, session: str, *, limit: int = 100) -> list[EntryView]:
        """Return the entries of the newest numbers of a session, the highest first."""
        return self._again(lambda one: views.entries(one, name, queue, session, limit))

    @filtered(JournalLogFilter)
    def log(self, chosen: JournalLogFilter) -> list[LogEntry]:
        """List what operators did, newest first: actor, action, reason and result."""
        return self._again(lambda one: views.log(one, chosen))

    def counts(self, name: str) -> SessionCounts:
        return self._again(lambda one: views.counts(one, name))

    def regions(self, name: str) -> list[RegionView]:
        return self._again(lambda one: views.regions(one, name))

    def _again(self, work: Callable[[JournalStatements], _Result]) -> _Result:
        return self._connections.again(work)
