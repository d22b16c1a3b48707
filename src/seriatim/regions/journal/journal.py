"""`Journal`: the door to the journal of two regions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, wraps
from itertools import islice
from typing import Concatenate, ParamSpec, Self, TypeVar, cast

from seriatim.box.connection.connections import Closing
from seriatim.box.views.filtered import filtered
from seriatim.errors import LeaseLost, UsageError, shown
from seriatim.kernel.values.time import micros
from seriatim.regions.journal import claims, forgetting, operators, views, votes
from seriatim.regions.journal import schema as _schema
from seriatim.regions.journal.connections import COLLISIONS, Connections, JournalConnection
from seriatim.regions.journal.forgetting import Forgotten
from seriatim.regions.journal.operators import Recovery
from seriatim.regions.journal.pipelines import Pipelines
from seriatim.regions.journal.statements import JournalStatements
from seriatim.regions.journal.values import (
    LONGEST_LEASE_S,
    MOST_CLAIMED,
    Claim,
    ClaimAnswer,
    KnownByBox,
    QueueRules,
    WantedMessage,
)
from seriatim.regions.journal.views import JournalLogFilter, LogEntry, SessionFilter, SessionView

_Given = ParamSpec("_Given")
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
            connection.take_back()
        if connection.has_ended:
            raise UsageError(
                "the handler has ended the transaction of its message, so it may be handled twice",
                remedy="leave commits to the worker; for a part that may fail: with tx.connection.transaction(): …",
            )

    def passes(self, error: BaseException) -> bool:
        """Whether an error is the database's alone, a collision or a lost connection, so that nobody has failed."""
        return isinstance(error, COLLISIONS) or self.connection.closed

    def complete(self, claim: Claim, through: int | None = None) -> Claim | None:
        """Complete numbers of a claim: the last statement of the transaction. The last number of a claim ends it."""
        self.connection.patience = self._patience
        try:
            return claims.complete(self._statements, claim, claim.last if through is None else through)
        except LeaseLost:
            self.connection.rollback()  # also for a caller that continues
            raise


def _call(
    function: Callable[Concatenate[JournalStatements, _Given], _Result],
) -> Callable[Concatenate[Journal, _Given], _Result]:
    """A function of one transaction as a method of the journal; it is called again after a collision with another transaction."""

    @wraps(function)
    def method(self: Journal, /, *given: _Given.args, **named: _Given.kwargs) -> _Result:
        return self._again(lambda statements: function(statements, *given, **named))

    return method


class Journal(Closing):
    """The journal of two regions; a name stands for a pair of them. Threads share it; each call is a transaction, or part of one."""

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

    rules = _call(views.rules)

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
        """Tell which messages a region can't hand out, as numbers before them are missing. An old hole is skipped by it."""
        return self._again(lambda one: claims.claim(one, name, queue, region, messages, lease=1, most=0))

    renew = _call(claims.renew)
    give_back = _call(claims.give_back)

    @contextmanager
    def transaction(self) -> Iterator[JournalTransaction]:
        """A transaction for a handler that writes in the journal's database; it commits at the end of the block."""
        with self._connections.transaction() as statements:
            connection, patience = cast("JournalConnection", statements.connection), self._connections.patience
            connection.patience, connection.begun = None, 0  # the caller's work may take any time
            yield JournalTransaction(connection, statements, patience)
            connection.patience = patience

    fail = _call(claims.fail)
    postpone = _call(claims.postpone)

    # ---- votes

    vote = _call(votes.vote)
    bar = _call(votes.bar)
    through = _call(votes.through_of)
    done_through = _call(votes.done_of)
    holders = _call(votes.holders_of)
    numbers_of = _call(votes.numbers_of)
    known_sessions = _call(views.known_sessions)
    reserve = _call(votes.reserve)
    confirm = _call(votes.confirm)
    fence = _call(votes.fence)

    # ---- forgetting

    others_outbox = _call(forgetting.others_outbox)
    report = _call(forgetting.report)

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

    over_before = _call(forgetting.over_before)
    raise_over = _call(forgetting.raise_over)
    end_before = _call(forgetting.end_before)

    def forget_over(self, name: str, queue: str) -> int:
        """Forget the sessions below the key before which all are over; how many they were."""
        forgotten = 0
        while some := self._again(lambda one: forgetting.forget_over(one, name, queue, forgetting.PORTION)):
            forgotten += some
        return forgotten

    # ---- operators

    act = _call(operators.act)
    note = _call(operators.write_log)

    def recover(self, name: str, known: Mapping[str, Mapping[str, int]], *, actor: str, reason: str) -> Recovery:
        """After a restore: end all claims, begin a new incarnation, take over what is over. `Regions.recover` asks the boxes."""
        done = self.begin_recovery(name, actor=actor, reason=reason)
        raised = sum(
            self.raise_known(name, queue, {key: KnownByBox(over, over) for key, over in sessions.items()})
            for queue, sessions in sorted(known.items())
        )
        recovery = replace(done, raised=raised)
        self.end_recovery(name, recovery, actor=actor, reason=reason)
        return recovery

    begin_recovery = _call(operators.begin_recovery)

    def raise_known(self, name: str, queue: str, known: Mapping[str, KnownByBox]) -> int:
        """Take over what boxes know of sessions of a queue, in several transactions if they are many."""
        raised, rest = 0, iter(known.items())
        while portion := dict(islice(rest, _RAISED)):
            raised += self._again(partial(operators.raise_known, name=name, queue=queue, known=portion))
        return raised

    end_recovery = _call(operators.end_recovery)

    # ---- views

    @filtered(SessionFilter)
    def sessions(self, chosen: SessionFilter) -> list[SessionView]:
        """List sessions: how far they are, who works on them, and what they wait for."""
        return self._again(lambda one: views.sessions(one, chosen))

    entries = _call(views.entries)

    @filtered(JournalLogFilter)
    def log(self, chosen: JournalLogFilter) -> list[LogEntry]:
        """List what operators did, newest first: actor, action, reason and result."""
        return self._again(lambda one: views.log(one, chosen))

    counts = _call(views.counts)
    regions = _call(views.regions)

    def _again(self, work: Callable[[JournalStatements], _Result]) -> _Result:
        return self._connections.again(work)
