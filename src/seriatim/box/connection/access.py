"""`Access` (how to reach a box, its known definitions) and `Transaction`, which all modules below a session take."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

import psycopg

from seriatim.box.connection.identity import Identity
from seriatim.box.connection.queue_heads import Heads
from seriatim.box.connection.remembered import FreeRoom, ToldOnce, TrialLooks
from seriatim.box.connection.round_trip import OwnConnection
from seriatim.box.definitions.definition import Definitions
from seriatim.box.definitions.known import Known
from seriatim.box.notice import Notice
from seriatim.box.postgres.statements import Statements, right_of_look, seen_statement
from seriatim.box.postgres.translate import translated
from seriatim.errors import Unavailable

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Access:
    """A box as internal modules use it."""

    schema: str
    place: str
    known: Known
    identity: Identity
    connect: Callable[[], AbstractContextManager[psycopg.Connection]]
    #: A second connection for a caller that has one, if a connection is free now; otherwise None.
    spare: Callable[[], AbstractContextManager[psycopg.Connection | None]]
    publish_notices: PublishNotices
    free_room: FreeRoom = field(default_factory=FreeRoom)
    heads: Heads = field(default_factory=Heads)
    #: The ids of gates where a turn of this process has released many more messages than were handed out.
    released: set[int] = field(default_factory=set)
    #: When it has looked for groups on trial.
    trials: TrialLooks = field(default_factory=TrialLooks)
    #: The messages that this process has logged for publishers, and for queues of other boxes.
    told: ToldOnce = field(default_factory=ToldOnce)
    #: The role as which its transactions run; None: the role that has connected.
    role: str | None = None
    #: How `publish` treats messages that reach no queue; None: by the box's settings.
    unrouted: str | None = None
    #: By attempt at a lease: the call that has its place, see `Door.attempt`.
    attempts: dict[tuple[object, ...], object] = field(default_factory=dict)
    #: Set when no receiver shall wait forever any more.
    ending: threading.Event = field(default_factory=threading.Event)

    def check_enabled(self) -> None:
        """Check that the box isn't disabled, before long work in it. While the database is away there is nothing to check."""
        with suppress(Unavailable), self.transaction() as transaction:
            transaction.check_enabled()

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin a separate transaction: it commits at the end of the block; an exception rolls it back."""
        return _Began(self)

    def within(
        self, do: Callable[Concatenate[Transaction, _Given], _Result], *given: _Given.args, **named: _Given.kwargs
    ) -> _Result:
        """Call a function in a transaction of its own."""
        with self.transaction() as transaction:
            return do(transaction, *given, **named)


class Transaction(Statements):
    """One transaction with a box; all modules below a session take it."""

    __slots__ = ("_is_owner", "access", "notices")

    def __init__(self, access: Access, connection: psycopg.Connection, notices: list[Notice] | None = None) -> None:
        super().__init__(connection, access.schema)
        self.access = access
        #: The notices that aren't published yet; None: a new list.
        self.notices = [] if notices is None else notices
        self._is_owner: bool | None = None

    def definitions(self) -> Definitions:
        """The definitions that the transaction sees, read again if they have changed."""
        return self.access.known.current(self)

    def check_enabled(self) -> None:
        """Check that the box isn't disabled; asks PostgreSQL once for each connection."""
        self.access.identity.check_enabled(self.connection)

    def check_sight(self, right: str, queue_id: int | None = None, queue: str | None = None) -> bool:
        """Return whether the transaction's role doesn't own the box, and sees a queue by a right: ``see`` or ``see_bodies``."""
        if self._is_owner is None:
            owner = self.maybe("owner", schema=self.schema)
            self._is_owner = owner is None or owner.is_owner
        if not self._is_owner:
            self.do("look", what=right, of_queue=queue_id, named=queue)
        return not self._is_owner

    def _of_rows(self, name: str, parameters: Mapping[str, Any]) -> bytes:
        return self._look(name, parameters) or super()._of_rows(name, parameters)

    def _of_value(self, name: str, parameters: Mapping[str, Any]) -> bytes:
        return self._look(name, parameters) or super()._of_value(name, parameters)

    def _look(self, name: str, parameters: Mapping[str, Any]) -> bytes | None:
        """What a look reads for a role that doesn't own the box, which is checked by its queue; None for an owner."""
        if (right := right_of_look(name)) is None:
            return None
        seen_only = self.check_sight(right, parameters.get("queue_id"), parameters.get("queue"))
        return seen_statement(name, self.schema) if seen_only else None

    def notice(self, *notices: Notice) -> None:
        self.notices += notices

    def publish_notices(self) -> None:
        while self.notices:
            noticed = list(self.notices)
            self.notices.clear()
            self.access.publish_notices(self, noticed)

    def leave_bodies(self, above: int) -> None:
        """Leave larger bodies, and all parts, where they are, also in the user's next transactions; call it before one begins."""
        if isinstance(self.connection, OwnConnection):
            self.connection.largest_body = above

    @property
    def leaves_bodies(self) -> bool:
        """Whether messages that are handed out may lack their bodies and parts."""
        return isinstance(self.connection, OwnConnection) and self.connection.largest_body is not None

    def commit(self) -> None:
        with translated(self.access.place):
            self.publish_notices()
            self.connection.commit()


class _Began:
    """The context manager of `Access.transaction`; a generator would cost five times as much."""

    __slots__ = ("_access", "_around", "_transaction", "_translated")

    def __init__(self, access: Access) -> None:
        self._access = access
        self._around = access.connect()
        self._translated = translated(access.place)

    def __enter__(self) -> Transaction:
        self._transaction = Transaction(self._access, self._around.__enter__())
        return self._transaction

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        try:
            if error is None:
                with self._translated:
                    self._transaction.publish_notices()
            else:
                self._translated.__exit__(kind, error, trace)
        except BaseException as ours:
            self._around.__exit__(type(ours), ours, ours.__traceback__)
            raise
        return self._around.__exit__(kind, error, trace)


#: Publishes notices of failures, in a transaction.
PublishNotices = Callable[[Transaction, Sequence[Notice]], None]
#: Begins a transaction.
Begin = Callable[[], AbstractContextManager[Transaction]]
