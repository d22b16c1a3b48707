"""`MessageBox`: open a box, define queues and subscriptions in it, and begin sessions."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Self
from uuid import UUID

import psycopg

from seriatim.box import notices
from seriatim.box.connection.access import Access
from seriatim.box.connection.connections import DEFAULT_SCHEMA, Closing, Connections, connected_once
from seriatim.box.connection.renewable import RenewableTransaction
from seriatim.box.connection.wait_time import patience
from seriatim.box.connection.with_block import OnlyWith
from seriatim.box.definitions.apply import apply, drops_of
from seriatim.box.definitions.change import Change, Definition
from seriatim.box.definitions.define import define
from seriatim.box.definitions.definition import Definitions
from seriatim.box.dialogs.transmission import transmit_defined
from seriatim.box.links.transmission import LinkExchange, Roads, transmit
from seriatim.box.operators.grant import Grant, Rights, grant, grants, revoke
from seriatim.box.postgres.migrate import Migration, check, find, migrate
from seriatim.box.postgres.statements import Statements
from seriatim.box.postgres.translate import translated
from seriatim.box.publishing.publish_result import Published
from seriatim.box.publishing.publisher import PATIENCE_S, Publisher
from seriatim.box.session import Session, SessionBlock, Sessions, checked_connection
from seriatim.box.tick import Tick, tick
from seriatim.box.views.box_status import BoxStatus, read_status
from seriatim.box.views.events import EventView, read_events
from seriatim.box.views.message_status import MessageStatus, status_of
from seriatim.box.views.peek import Peeked, peek
from seriatim.pipeline.declared.box_settings import Unroutable, checked_unrouted
from seriatim.pipeline.types.message import Message

__all__ = ["MessageBox"]


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

    def more(self, connections: int, turn_limit: float | str | None = None) -> Self:
        """Open the same box with more connections, for a worker. Both objects share all connections.

        Args:
            connections: the number of additional connections, until the new object is closed. This box stays open then.
            turn_limit: the limit of the new object's transactions, as in `open`.

        Raises:
            UsageError: the box is closed, or the limit is invalid.
        """
        return type(self)(self._connections.more(connections, turn_limit))

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
        else:
            with (
                RenewableTransaction(self._access.connect, self._connections.transaction_soon) as own,
                Session(self._access, own.connection, own=True, renew=own.renew) as session,
            ):
                yield session

    @contextmanager
    def sessions(self) -> Iterator[Sessions]:
        """Begin sessions one after another on one connection, for a worker. Otherwise like `session`."""
        with self._access.connect() as own, Sessions(Session(self._access, own, own=True)) as sessions:
            yield sessions

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
            own=True, once=True,
        )  # fmt: skip
        with self._transaction() as transaction:
            return publisher.publish(transaction)

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
        with self._transaction() as transaction:
            transaction.check_enabled()
            changes = apply(transaction, file, prune=prune)
            transmit_defined(transaction, changes)
            if dry_run:
                transaction.connection.rollback()
            return changes

    def peek(self, queue: str, group: str | None = None, *, limit: int = 100) -> list[Peeked]:
        """Show the messages in a queue or a group, without locks: by group, in the order of leaving.

        Messages in a worker's open transaction are shown as they were before it.

        Raises:
            UsageError: there is no such queue, or the limit is invalid.
        """
        with self._transaction() as transaction:
            return peek(transaction, self._access.known.current(transaction), queue, group, limit)

    def definitions(self) -> Definitions:
        """The present definitions: types, queues, subscriptions, contracts and services by name."""
        with self._transaction() as transaction:
            return self._access.known.current(transaction)

    def status(self) -> BoxStatus:
        """The version, the size, and the next number of each location."""
        with self._transaction() as transaction:
            return read_status(transaction, self._place)

    def status_of(
        self, message_id: str, *, wait: float | str | None = None, id_space: str | None = None
    ) -> MessageStatus:
        """The state of a message in each queue that has it; with a wait until it is final. Only the box's owner may call it.

        Waiting keeps no connection and no transaction: it looks again at first soon, and then once a second.

        Args:
            message_id: the id of the message.
            wait: seconds (or ``"5s"``) to wait until the message is done, set aside, dead or unrouted, also if its id isn't
                known yet; None: don't wait. When the time is over, the state is what it is then.
            id_space: the id space of its publisher, see `grant`. It may be None if only one message has the id.

        Raises:
            UsageError: the id can't be one; several messages have it, and `id_space` is None; or the wait is invalid.
            EnvironmentProblem: the caller isn't the owner of the box.
            Unavailable: the database is away.
        """
        wait_s = 0.0 if wait is None else patience(wait)
        with translated(self._place):
            return status_of(self._transaction, message_id, id_space, wait_s)

    def events(
        self, after: int = 0, *, queue: str | None = None, kinds: str | Collection[str] | None = None, limit: int = 1000
    ) -> list[EventView]:
        """The events of groups behind a position, in the order of positions: a cursor for exporters.

        A reader that goes on behind the last position that it got misses no event, and gets none twice. An event gets its
        position when the first reader comes after its commit. The events of a group are in the order in which they happened.

        Args:
            after: the `position` of the last event that was read; 0: from the first event that is kept.
            queue: only events of this queue.
            kinds: only events of this kind, or of these kinds.
            limit: the largest number of events.

        Raises:
            UsageError: there is no such queue or kind, or `after` or the limit is invalid.
            EnvironmentProblem: the role may not see the queue, or no queue at all.
            Unavailable: the database is away.
        """
        if queue is not None:
            self.definitions().queue(queue)
        with translated(self._place):
            return read_events(self._transaction, after, queue=queue, kinds=kinds, limit=limit)

    def close(self) -> None:
        """Close the box; the embedded PostgreSQL stops with its last user. A second call does nothing."""
        self._access.ending.set()
        self._connections.close()

    def stop_receiving(self) -> None:
        """End each ``receive(wait="forever")`` of this object within a second, and each later one at once: they return None.

        Everything else goes on. Threads may call it, and handlers of signals.
        """
        self._access.ending.set()

    def tick(self, *, at_once: bool = False) -> Tick:
        """Do due work without receiving: route messages published through SQL, judge what has arrived, fire timers, retry
        faulted groups.

        Args:
            at_once: first count from now what waits by a time of the database's clock when that was ahead.

        Raises:
            EnvironmentProblem: the box's role may not do this work.
            Unavailable: call it again.
        """
        with translated(self._place):
            return tick(self._access, at_once=at_once)

    def transmit(self, link: str | None = None, *, at_once: bool = False) -> list[LinkExchange]:
        """Exchange messages once over each link whose address this box has: send, fetch, and carry the acknowledgements of both boxes.

        `Transmitter` does it again and again. A failure at another box is in its exchange, and is tried again later.

        Args:
            link: the name of one link; None: all.
            at_once: also send what is to be tried again later.

        Raises:
            UsageError: there is no such link, or the other box has its address.
            EnvironmentProblem: the caller isn't the owner of the box.
            BoxDisabled: the box isn't on the server that it remembers.
            Unavailable: the database is away.
        """
        roads = Roads()
        try:
            with translated(self._place):
                return transmit(self._access, roads, only=link, at_once=at_once)
        finally:
            roads.close()

    def grant(
        self,
        role: str,
        *,
        publish: Iterable[str] = (),
        receive: Iterable[str] = (),
        subscribe: Iterable[str] = (),
        route: bool = False,
        dispense: Iterable[str] = (),
        types: Iterable[str] = (),
        see: Iterable[str] = (),
        see_bodies: Iterable[str] = (),
        operate: Iterable[str] = (),
        id_space: str | None = None,
    ) -> None:
        """Grant a PostgreSQL role more rights on this box. Only the box's owner may call it.

        Args:
            role: the name of an existing role.
            publish: queues that it may publish to.
            receive: queues that it may receive from.
            subscribe: queues to which its subscriptions may lead.
            route: whether it may route other roles' messages that were published through SQL. It can then read them.
            dispense: locations whose numbers it may take. It can then block their publishers, and use up their numbers.
            types: message types that its subscriptions may match, also its existing subscriptions.
            see: queues that it may look at: counts, groups, faults, traces, and messages without their bodies and properties.
            see_bodies: queues that it may look at, with the messages' bodies and properties.
            operate: queues that it may look at, and whose groups it may mend: retry, skip, suspend, resume and so on. With
                `see_bodies` it may also edit the body and the properties of a failed message.
            id_space: the id space of the messages that it publishes. A message is left out if its id was published before in
                its id space, by any role. None: unchanged, at first the role's name. ``""``: the owner's id space.

        Raises:
            UsageError: there is no such role, queue or location; no right is named; a text is given in place of a list; the id
                space is invalid; or none is named and another role has the id space of this name.
            EnvironmentProblem: the caller isn't the owner of the box.
        """
        rights = Rights(publish, receive, subscribe, route, dispense, types, see, see_bodies, operate)
        with self._transaction() as transaction:
            grant(transaction, role, rights, id_space)

    def revoke(
        self,
        role: str,
        *,
        publish: Iterable[str] = (),
        receive: Iterable[str] = (),
        subscribe: Iterable[str] = (),
        route: bool = False,
        dispense: Iterable[str] = (),
        types: Iterable[str] = (),
        see: Iterable[str] = (),
        see_bodies: Iterable[str] = (),
        operate: Iterable[str] = (),
    ) -> None:
        """Revoke rights of a role; if no right is named: all rights and the id space. For the arguments, see `grant`.

        The role's subscriptions stay. From now on they match only message types that the role still has.

        Raises:
            UsageError: the role has no rights, there is no such queue, or a text is given in place of a list.
            EnvironmentProblem: the caller isn't the owner of the box.
        """
        rights = Rights(publish, receive, subscribe, route, dispense, types, see, see_bodies, operate)
        with self._transaction() as transaction:
            revoke(transaction, role, rights)

    def grants(self) -> list[Grant]:
        """The roles with rights on this box, by name. Only the box's owner may call it."""
        with self._transaction() as transaction:
            return grants(transaction)

    def __repr__(self) -> str:
        return f"<MessageBox {self._place}>"
