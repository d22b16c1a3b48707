"""`MessageBox`: open a box, define queues and subscriptions in it, and begin sessions."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Self
from uuid import UUID

import psycopg

from seriatim.box import notices
from seriatim.box.connection.access import Access
from seriatim.box.connection.connections import DEFAULT_SCHEMA, Closing, Connections, connected_once
from seriatim.box.connection.misuse import OnlyWith
from seriatim.box.connection.wait_time import patience
from seriatim.box.definitions.change import Change, Definition
from seriatim.box.definitions.define import define
from seriatim.box.definitions.definition import Definitions
from seriatim.box.definitions.drop import drops_of
from seriatim.box.dialogs.clock import transmit_defined
from seriatim.box.leases.door import Door, Superseded, Wanted
from seriatim.box.leases.taken import Principal, TakenLease
from seriatim.box.postgres.migrate import Migration, check, find, migrate
from seriatim.box.postgres.statements import Statements
from seriatim.box.postgres.translate import translated
from seriatim.box.publishing.publish_result import Published
from seriatim.box.publishing.publisher import PATIENCE_S, Publisher
from seriatim.box.requests.requests import KEEP, Found, Pending, Reply, Step, Wait, asked, replied
from seriatim.box.requests.waiting import RepliesThread
from seriatim.box.session import Session, SessionBlock, Sessions, checked_connection
from seriatim.box.tick import Tick, tick
from seriatim.box.views.box_status import BoxStatus, read_status
from seriatim.box.views.message_status import MessageStatus, status_of
from seriatim.box.views.peek import Peeked, peek
from seriatim.pipeline.declared.box_settings import Unroutable, checked_unrouted
from seriatim.pipeline.text.storable import checked_text
from seriatim.pipeline.text.typed import typed
from seriatim.pipeline.types.message import Message


class MessageBox(OnlyWith, Closing):
    """A message box: a schema of a PostgreSQL database. Open it with `open`; close it, or use it with ``with``.

    Threads may share a box, but not a session. A forked process has to open the box again.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._access = connections.access
        self._transaction = self._access.transaction
        self._schema = self._access.schema
        self._place = self._access.place
        self._lock = threading.Lock()
        self._replies_thread: RepliesThread | None = None

    @classmethod
    def open(
        cls,
        dsn: str | None = None,
        *,
        schema: str = DEFAULT_SCHEMA,
        connections: int = 20,
        turn_limit: float | str | None = None,
        create: bool = True,
        unrouted: Unroutable | None = None,
    ) -> Self:
        """Open a box.

        A missing schema is created, unless `create` is False. An older schema is migrated in the embedded PostgreSQL,
        and refused in any other: there an administrator runs ``seriatim box migrate``.

        Args:
            dsn: the PostgreSQL, 16 or newer: a URI, ``key=value`` text, or ``file:PATH`` of a file of mode 600;
                ``${NAME}`` is taken from the environment. None: ``SERIATIM_DSN``, or else a private server
                under ``./.seriatim/postgres``, which starts with its first user and stops with its last.
            schema: the schema of the box; a database may have several.
            connections: the largest number of open connections. A running worker adds connections for its threads.
            turn_limit: seconds (or ``"60s"``, at most 24 days) after which PostgreSQL closes a connection that idles
                inside a transaction, so that the locks of a frozen process become free; None: never.
            create: whether to create a missing schema; False: a mistyped name is an error.
            unrouted: what `publish` does by default with messages that reach no queue, see `Session.publish`; None: what the
                `BoxSettings` of the box say.

        Raises:
            UsageError: an invalid DSN, schema name, number of connections, limit or `unrouted`.
            EnvironmentProblem: PostgreSQL can't be reached or started, or is too old.
            SchemaMismatch: an older or newer schema, a schema without a box, or a missing schema if `create` is False.
        """
        if unrouted is not None:
            checked_unrouted(unrouted)
        return cls(
            Connections.open(notices.publish, dsn, schema, connections, turn_limit, create=create, unrouted=unrouted)
        )

    @classmethod
    def migrate(cls, dsn: str | None = None, *, schema: str = DEFAULT_SCHEMA) -> list[Migration]:
        """Create or migrate a box. The arguments and errors are the same as for `open`.

        Returns:
            the migrations that were applied; empty if the box was up to date.
        """
        with connected_once(dsn, schema) as (connection, _):
            return migrate(Statements(connection, schema))

    @classmethod
    def check(cls, dsn: str | None = None, *, schema: str = DEFAULT_SCHEMA) -> BoxStatus:
        """Check that this seriatim can work with a box, without changing it. Arguments and errors are the same as for `open`.

        Raises:
            SchemaMismatch: also if there is no box.
        """
        with connected_once(dsn, schema) as (connection, place):
            statements = Statements(connection, schema)
            check(statements, find(statements))
            return read_status(statements, place)

    @property
    def id(self) -> UUID | None:
        """The id of the box, which a copy of it doesn't share once `seriatim box new-id` was called there.

        None only on a standby of a box that nobody has opened yet on its primary server.
        """
        return self._access.identity.box_id

    @property
    def incarnation(self) -> int:
        """The incarnation of the box: it rises when the server was promoted or recovered, or the box was moved."""
        return self._access.identity.incarnation

    @property
    def dsn(self) -> str:
        """The DSN of the box's PostgreSQL, with secrets: don't log it."""
        return self._connections.dsn

    @property
    def access(self) -> Access:
        """The box as internal modules use it: connections, known definitions, transactions."""
        return self._access

    @property
    def connections(self) -> int:
        """The largest number of open connections, as given to `open` or `more`."""
        return self._connections.most

    @property
    def is_pooled(self) -> bool:
        """Whether the box is reached through a connection pooler."""
        return self._connections.is_pooled

    @property
    def schema(self) -> str:
        """The name of the box's schema."""
        return self._schema

    @typed
    def more(self, connections: int, turn_limit: float | str | None = None) -> Self:
        """Open the same box with more connections, for a worker. Both objects share all connections.

        Args:
            connections: the number of additional connections, until the new object is closed. This box stays open then.
            turn_limit: the limit of the new object's transactions, as in `open`.

        Raises:
            UsageError: the box is closed, or the limit is invalid.
        """
        return type(self)(self._connections.more(connections, turn_limit))

    def as_role(self, role: str) -> Self:
        """Open the same box as another role: each of its transactions begins with ``SET LOCAL ROLE``.

        Both objects share all connections. The role that has connected has to be a member of the role that may become it.

        Args:
            role: the name of the role.

        Raises:
            UsageError: the box is closed, or the name isn't text.
        """
        return type(self)(self._connections.more(0, None, checked_text(role, "a role's name")))

    def session(self, connection: psycopg.Connection | None = None) -> SessionBlock:
        """Begin a session, with ``with``: one transaction. It commits at the end of the block; an exception rolls it back.

        Args:
            connection: the caller's psycopg connection to the same database. The session then takes part in the caller's
                transaction, and neither commits it nor rolls it back.

        Raises:
            UsageError: the box is closed, or a session can't join the connection. If the connection leads to another
                database, the first use of the session raises it.
            Unavailable: there is no connection, or the transaction has to be repeated. If the connection broke during the
                commit, the transaction may be committed or not. Publishing the same messages again is safe.
        """
        return SessionBlock(self._session(connection))

    @contextmanager
    def _session(self, connection: psycopg.Connection | None) -> Iterator[Session]:
        if connection is not None:
            with Session(self._access, checked_connection(connection), own=False) as session:
                yield session
            return
        with ExitStack() as around:

            def renew(error: BaseException) -> psycopg.Connection:
                """Roll back, and begin a transaction on a connection that works, without a long wait for one."""
                around.__exit__(type(error), error, error.__traceback__)
                return around.enter_context(self._connections.transaction_soon())

            own = around.enter_context(self._access.connect())
            with Session(self._access, own, own=True, renew=renew) as session:
                yield session

    @contextmanager
    def sessions(self) -> Iterator[Sessions]:
        """Begin sessions one after another on one connection, for a worker. Otherwise like `session`."""
        with self._access.connect() as own, Sessions(Session(self._access, own, own=True)) as sessions:
            yield sessions

    def lease(
        self,
        queue: str,
        *,
        limit: int = 50,
        lease: float | str | timedelta = "30s",
        wait: float | str | None = None,
        group: str | UUID | None = None,
        attempt_id: str | None = None,
        max_bytes: int | None = None,
        principal: Principal | None = None,
    ) -> TakenLease | None:
        """Take the next messages of a group under a lease, in a transaction of its own: nobody else gets the group until the lease ends.

        A lease that runs out counts as an attempt of its first message that isn't done, as a worker's does. So does one whose answer was
        lost, unless `attempt_id` finds it again: a caller far away should give one, or lost answers stop a group.

        Args:
            queue: its name.
            limit: the most messages; a `UnitOfWork` is always handed out whole, and a message that failed before alone.
            lease: seconds, ``"30s"``, or a `timedelta`, at most a day: how long the lease lasts unless it is renewed.
            wait: as of `Session.receive`.
            group: only this group.
            attempt_id: an id of the caller's attempt, at most 256 characters. The same id again gives the same lease while it lasts, and
                `LeaseLost` for an hour after its end; a call that still waits with the same id ends, with None.
            max_bytes: end the run before its bodies have more bytes than that; it has at least one message.
            principal: whose the lease is, where a server has several callers; None: the role's.

        Returns:
            the lease; None if there is nothing to hand out.

        Raises:
            UsageError: there is no such queue; an invalid value; or a queue of a service, or of instances: receive from it in a session.
            ActionRefused: the queue is off, belongs to a pipeline, or is one of two regions.
            LeaseLost: the lease of this attempt is over.
            Unavailable: call it again, with the same `attempt_id`.
        """
        wanted = Wanted.checked(queue, limit, lease, group, attempt_id, max_bytes)
        door = Door(self._access, principal)
        try:
            with door.attempt(wanted), self.session() as session:
                return door.look(session, wanted, wait)
        except Superseded:
            return None

    def leased(self, lease_id: UUID | str, *, principal: Principal | None = None) -> TakenLease:
        """A handle of a lease by its id, to act on it from any process; its calls say whether it is over. Nothing is asked before.

        Args:
            lease_id: its id.
            principal: whose it is, as in `lease`.

        Raises:
            UsageError: it can't be an id.
        """
        return Door(self._access, principal).lease_of(lease_id)

    def publish(
        self,
        messages: Message | Iterable[Message],
        *,
        delay: float | str | None = None,
        visible_at: datetime | None = None,
        wait: float | str = PATIENCE_S,
        unique: str | None = None,
        unrouted: Unroutable | None = None,
    ) -> Published:
        """Publish messages in a separate transaction, in one round trip.

        Arguments, result and errors are the same as for `Session.publish`. After `Unavailable` the messages may be
        published or not; publishing them again is safe.
        """
        # Made first: the generator of the messages may need a connection itself.
        publisher = Publisher(
            self._access, messages, delay=delay, visible_at=visible_at, wait=wait, unique=unique, unrouted=unrouted,
            own=True, once=True, here=True,
        )  # fmt: skip
        with self._transaction() as transaction:
            return publisher.publish(transaction)

    def request(
        self,
        message: Message,
        *,
        reply: str,
        wait: float | str | None = None,
        keep: float | str = KEEP,
        asker: str = "",
    ) -> Reply | Pending:
        """Publish a request in a separate transaction, and wait for the first message of a type that answers it.

        A caller that waits has no connection and no transaction. Errors are also those of `Session.request`.

        Args:
            message: the message, without a ``correlation_id``; see `Session.request`.
            reply: the type of the replies.
            keep: seconds (or ``"1d"``) for which the request is open, and its replies are kept; at most 30 days.
            asker: for whom the role asks, if for several: only under the same name the replies are found.
            wait: seconds (or ``"20s"``) to wait for the reply; None: don't wait. A handler may not wait.

        Returns:
            the reply; or a `Pending` when the time is over before. Its id finds the reply until `keep` is over.

        Raises:
            RequestFailed: the request was set aside, as a dead letter or by its queue's rules.
            Unavailable: as from `publish`. The request may be made or not; requesting the same message again is safe.
        """
        return self._stepped(asked(message, reply, wait, keep, asker)).first

    def reply(self, request_id: str, *, wait: float | str | None = None, asker: str = "") -> Reply | Pending:
        """The first reply to a request of this role: the same each time, until its `keep` is over.

        Args:
            request_id: the id of a `Pending`.
            wait: seconds (or ``"20s"``) to wait for it; None: don't wait. A handler may not wait.
            asker: as it was requested.

        Returns:
            the reply; or a `Pending`, if there is none when the time is over.

        Raises:
            NotFound: there is no such request: it is over, another role's, or not committed.
            RequestFailed: the request was set aside.
            UsageError: an argument is invalid.
            Unavailable: the database is away.
        """
        return self._stepped(replied(request_id, 1, wait, asker)).first

    def replies(
        self, request_id: str, count: int | None = None, *, wait: float | str | None = None, asker: str = ""
    ) -> list[Reply]:
        """The replies to a request, in the order in which they were committed: of a message that several queues get.

        Errors are those of `reply`; a request that was set aside has the replies that have come nevertheless.

        Args:
            request_id: the id of a `Pending`.
            count: how many to wait for, and to return at most; None: all that have come when the time is over.
            wait: seconds (or ``"20s"``) to wait for them; None: don't wait. A handler may not wait.
            asker: as it was requested.
        """
        return self._stepped(replied(request_id, count, wait, asker)).all

    def _stepped(self, steps: Generator[Step, Any, Found]) -> Found:
        given = None
        try:
            while True:
                step = steps.send(given)
                given = self._waiting.wait(self._access.role, step) if isinstance(step, Wait) else step(self._access)
        except StopIteration as end:
            return end.value

    @property
    def _waiting(self) -> RepliesThread:
        """Tells the callers of this process that it is worth to look for replies."""
        with self._lock:
            if self._replies_thread is None:
                self._replies_thread = RepliesThread(lambda: self.more(1))
            return self._replies_thread

    def define(self, *definitions: Definition) -> list[Change]:
        """Define locations, types, queues, subscriptions, contracts and services, all or none. A repeated call changes nothing.

        The next publish uses the new definitions. Subscriptions and queues that an operator started, stopped, or turned
        on or off stay so, unless that part of their definition changes.

        Returns:
            what has changed.

        Raises:
            UsageError: a queue or property is undefined, or a filter is invalid.
            BoxDisabled: the box isn't on the server that it remembers.
            ActionRefused: existing groups, instances or dialogs don't allow the change.
            Unavailable: the change has to wait for publishing transactions, and they don't end.
        """
        with self._transaction() as transaction:
            transaction.check_enabled()
            changes = define(transaction, definitions)
            transmit_defined(transaction, changes)
            return changes

    def drop(self, **named: str | Iterable[str]) -> list[Change]:
        """Drop unused definitions, all or none: ``box.drop(subscription="big-orders", queue=["fulfilment", "archive"])``.

        Args:
            named: names, by ``subscription``, ``queue``, ``type``, ``location``, ``contract`` or ``service``.

        Returns:
            what has been dropped.

        Raises:
            UsageError: a definition doesn't exist.
            ActionRefused: a definition is in use; the error names its user.
            Unavailable: publishing transactions don't end.
        """
        drops = drops_of(named)
        with self._transaction() as transaction:
            transaction.check_enabled()
            return define(transaction, drops=drops)

    @typed
    def apply(self, file: str | Path, *, prune: bool = False, dry_run: bool = False) -> list[Change]:
        """Apply the definitions of a box file, all or none; see ``docs/reference/box-file.md``.

        Args:
            file: the file.
            prune: also drop definitions that are not in the file, except locations that have given out numbers.
            dry_run: change nothing; return the changes that would be made.

        Returns:
            what has changed.

        Raises:
            DeclarationError: the file is wrong; the error names the lines.
            UsageError, ActionRefused, Unavailable: as from `define` and `drop`.
        """
        # Most processes that open a box read no file: what reads one is a twentieth of their start.
        from seriatim.box.definitions.apply import apply  # noqa: PLC0415

        with self._transaction() as transaction:
            transaction.check_enabled()
            changes = apply(transaction, file, prune=prune)
            transmit_defined(transaction, changes)
            if dry_run:
                transaction.connection.rollback()
            return changes

    def definitions(self) -> Definitions:
        """The present definitions: types, queues, subscriptions, contracts and services by name."""
        with self._transaction() as transaction:
            return transaction.definitions()

    @typed
    def peek(self, queue: str, group: str | None = None, *, limit: int = 100) -> list[Peeked]:
        """Show the messages in a queue or a group, without locks: by group, in the order of leaving.

        Messages in a worker's open transaction are shown as they were before it.

        Raises:
            UsageError: there is no such queue, or the limit is invalid.
        """
        with self._transaction() as transaction:
            return peek(transaction, transaction.definitions(), queue, group, limit)

    def tick(self, *, at_once: bool = False) -> Tick:
        """Do due work without receiving: route messages published through SQL, judge what has arrived, fire timers, retry
        faulted groups.

        Args:
            at_once: first count from now what waits by a time of the database's clock when that was ahead.

        Raises:
            EnvironmentProblem: the box's role may not do this work.
            Unavailable: call it again.
        """
        return tick(self._access, at_once=at_once)

    @typed
    def status_of(
        self, message_id: str, *, wait: float | str | None = None, id_space: str | None = None
    ) -> MessageStatus:
        """The state of a message in each queue that has it; with a wait until it is final. A role needs the right ``see`` for the queue.

        Waiting keeps no connection and no transaction: it looks again at first soon, and then once a second.

        Args:
            message_id: the id of the message.
            wait: seconds (or ``"5s"``) to wait until the message is done, set aside, dead or unrouted, also if its id isn't
                known yet; None: don't wait. When the time is over, the state is what it is then.
            id_space: the id space of its publisher, see `grant`. It may be None if only one message has the id.

        Raises:
            UsageError: the id can't be one; several messages have it, and `id_space` is None; or the wait is invalid.
            EnvironmentProblem: the role may see no queue.
            Unavailable: the database is away.
        """
        wait_s = 0.0 if wait is None else patience(wait)
        with translated(self._place):
            return status_of(self._transaction, message_id, id_space, wait_s)

    def close(self) -> None:
        """Close the box; the embedded PostgreSQL stops with its last user. A second call does nothing."""
        self._access.ending.set()
        if self._replies_thread is not None:
            self._replies_thread.close()
        self._connections.close()

    def stop_receiving(self) -> None:
        """End each ``receive(wait="forever")`` of this object within a second, and each later one at once: they return None.

        Everything else goes on. Threads may call it, and handlers of signals.
        """
        self._access.ending.set()

    def __repr__(self) -> str:
        return f"<MessageBox {self._place}>"
