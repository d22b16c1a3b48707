"""`MessageBox`: open a box, define queues and subscriptions in it, and begin sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Self
from uuid import UUID

import psycopg

from seriatim.box import notices
from seriatim.box.connection.access import Access
from seriatim.box.connection.connections import DEFAULT_SCHEMA, Closing, Connections, connected_once
from seriatim.box.definitions.activations import Activated, activations_of
from seriatim.box.definitions.apply import apply, drops_of
from seriatim.box.definitions.change import Change, Definition
from seriatim.box.definitions.define import define
from seriatim.box.definitions.definition import Definitions
from seriatim.box.definitions.states import set_activated, set_enabled, set_state
from seriatim.box.dialogs.transmission import transmit_defined
from seriatim.box.operators import purge as cleaning
from seriatim.box.operators.forget import forget
from seriatim.box.operators.grant import Grant, Rights, grant, grants, revoke, roles_of_the_owners_space
from seriatim.box.operators.operator_log import Operator
from seriatim.box.operators.resubmit import Resubmitted, resubmit
from seriatim.box.pipelines.release import Released, release
from seriatim.box.postgres.migrate import Migration, check, find, migrate
from seriatim.box.postgres.statements import Statements
from seriatim.box.postgres.translate import translated
from seriatim.box.publishing.published import Published
from seriatim.box.publishing.publisher import PATIENCE_S, Publisher
from seriatim.box.session import Session, Sessions, checked_connection
from seriatim.box.tick import Tick, tick
from seriatim.box.views import invariants
from seriatim.box.views.box_status import BoxStatus, read_status
from seriatim.box.views.dialogs import DialogView, clean_up, dialogs_of
from seriatim.box.views.message_places import Placed, Stored, message_of, places_of
from seriatim.box.views.peek import Peeked, peek
from seriatim.box.views.queue_counts import QueueCounts, counts_of
from seriatim.errors import UsageError, shown
from seriatim.pipeline.types.message import Message

__all__ = ["MessageBox"]


class MessageBox(Closing):
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
    ) -> Self:
        """Open a box.

        A missing schema is created, unless `create` is False. An older schema is migrated in the embedded PostgreSQL,
        and refused in any other: there an administrator runs ``seriatim box migrate``.

        Args:
            dsn: the PostgreSQL, 16 or newer: a URI, ``key=value`` text, or ``file:PATH`` of a file of mode 600;
                ``${NAME}`` is taken from the environment. None: ``SERIATIM_DSN``, or else a private server
                under ``./.seriatim/postgres``, which starts with its first user and stops with its last.
            schema: the schema of the box; a database may have several.
            connections: the most connections at once. A running worker adds connections for its threads.
            turn_limit: seconds (or ``"60s"``, at most 24 days) after which PostgreSQL closes a connection that idles
                inside a transaction, so that the locks of a frozen process become free; None: never.
            create: whether to create a missing schema; False: a mistyped name is an error.

        Raises:
            UsageError: an invalid DSN, schema name, number of connections or limit.
            EnvironmentProblem: PostgreSQL can't be reached or started, or is too old.
            SchemaMismatch: an older or newer schema, a schema without a box, or a missing schema if `create` is False.
        """
        return cls(Connections.open(notices.publish, dsn, schema, connections, turn_limit, create=create))

    @classmethod
    def migrate(cls, dsn: str | None = None, *, schema: str = DEFAULT_SCHEMA) -> list[Migration]:
        """Create or migrate a box. Arguments and errors are those of `open`.

        Returns:
            the migrations that were applied; empty if the box was up to date.
        """
        with connected_once(dsn, schema) as (connection, _):
            return migrate(Statements(connection, schema))

    @classmethod
    def check(cls, dsn: str | None = None, *, schema: str = DEFAULT_SCHEMA) -> BoxStatus:
        """Check that this seriatim can work with a box, without changing it. Arguments and errors are those of `open`.

        Raises:
            SchemaMismatch: also if there is no box.
        """
        with connected_once(dsn, schema) as (connection, place):
            statements = Statements(connection, schema)
            check(statements, find(statements))
            return read_status(statements, place)

    @property
    def dsn(self) -> str:
        """The DSN of the box's PostgreSQL, with secrets: don't log it."""
        return self._connections.dsn

    @property
    def access(self) -> Access:
        """The box as internal modules use it: connections, known definitions, transactions."""
        return self._access

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

    @contextmanager
    def session(self, connection: psycopg.Connection | None = None) -> Iterator[Session]:
        """Begin a session: one transaction. It commits at the end of the block; an exception rolls it back.

        Args:
            connection: the caller's psycopg connection to the same database. The session then takes part in the caller's
                transaction, and neither commits it nor rolls it back.

        Raises:
            UsageError: the box is closed, or a session can't join the connection. If the connection leads to another
                database, the first use of the session raises it.
            Unavailable: there is no connection, or the transaction has to be repeated. If the connection broke during the
                commit, the transaction may be committed or not. Publishing the same messages again is safe.
        """
        if connection is not None:
            with _ended(Session(self._access, checked_connection(connection), own=False)) as sessions:
                yield sessions.session
        else:
            with self.sessions() as sessions:
                yield sessions.session

    @contextmanager
    def sessions(self) -> Iterator[Sessions]:
        """Begin sessions one after another on one connection, for a worker. Otherwise like `session`."""
        with self._access.connect() as connection, _ended(Session(self._access, connection, own=True)) as sessions:
            yield sessions

    def publish(
        self,
        messages: Message | Iterable[Message],
        *,
        delay: float | str | None = None,
        visible_at: datetime | None = None,
        wait: float | str = PATIENCE_S,
    ) -> Published:
        """Publish messages in a separate transaction, in one round trip.

        Arguments, result and errors are those of `Session.publish`. After `Unavailable` the messages may be published or not;
        publishing them again is safe.
        """
        # Made first: what makes the messages may want a connection itself.
        publisher = Publisher(
            self._access, messages, delay=delay, visible_at=visible_at, wait=wait, own=True, once=True
        )
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
            ActionRefused: existing groups, instances or dialogs don't allow the change.
            Unavailable: the change has to wait for publishing transactions, and they don't end.
        """
        with self._transaction() as transaction:
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
            changes = apply(transaction, file, prune=prune)
            transmit_defined(transaction, changes)
            if dry_run:
                transaction.connection.rollback()
            return changes

    def start(self, *subscriptions: str) -> list[Change]:
        """Start subscriptions: their collected messages are handed out, in order. Raises `UsageError` for an unknown name."""
        return self._set_state(subscriptions, "started")

    def stop(self, *subscriptions: str) -> list[Change]:
        """Stop subscriptions: they collect messages, but hand none out. Messages in hand are not taken back.

        Raises:
            UsageError: there is no such subscription.
        """
        return self._set_state(subscriptions, "stopped")

    def unenlist(self, *subscriptions: str) -> list[Change]:
        """Let subscriptions collect no more messages; the box keeps collected messages back. Raises `UsageError` for an unknown name."""
        return self._set_state(subscriptions, "unenlisted")

    def turn_on(self, *queues: str) -> list[Change]:
        """Turn queues on: they hand messages out. Raises `UsageError` for an unknown name."""
        with self._transaction() as transaction:
            return set_enabled(transaction, queues, enabled=True)

    def turn_off(self, *queues: str) -> list[Change]:
        """Turn queues off: they take messages in, but hand none out. Raises `UsageError` for an unknown name."""
        with self._transaction() as transaction:
            return set_enabled(transaction, queues, enabled=False)

    def activate(self, *queues: str) -> list[Change]:
        """Let ``seriatim serve`` start readers of queues. Raises `UsageError` for a queue without an activation."""
        with self._transaction() as transaction:
            return set_activated(transaction, queues, activated=True)

    def deactivate(self, *queues: str) -> list[Change]:
        """Start no more readers; running readers end after their turn. Raises `UsageError` for a queue without an activation."""
        with self._transaction() as transaction:
            return set_activated(transaction, queues, activated=False)

    def activations(self) -> list[Activated]:
        """The activations of queues, by queue name; only queues from which the box's role may receive."""
        with self._transaction() as transaction:
            return activations_of(transaction)

    def resubmit(
        self,
        message_ids: str | Iterable[str] | None = None,
        *,
        message_type: str | None = None,
        queue: str | None = None,
    ) -> Resubmitted:
        """Route unrouted messages, or the invalid messages of a queue, again by the present definitions.

        The messages keep their tickets, and so their places in the order. Messages that still match no subscription stay
        unrouted. Each transaction routes some hundreds of messages.

        Args:
            message_ids: only these messages, or only this message.
            message_type: only messages of this type.
            queue: route the invalid messages of this queue, into this queue only; None: route unrouted messages.

        Raises:
            UsageError: invalid ids or type, or there is no such queue.
        """
        given = [message_ids] if isinstance(message_ids, str) else message_ids
        if given is not None and not isinstance(given, Iterable):
            raise UsageError(f"{shown(given)} is no list of ids", remedy="give one id, or a list of them")
        ids = None if given is None else list(given)
        with translated(self._place):
            return resubmit(self._access, ids, message_type, queue)

    def peek(self, queue: str, group: str | None = None, *, limit: int = 100) -> list[Peeked]:
        """Show the messages in a queue or a group, without locks: by group, in the order of leaving.

        Messages in a worker's open transaction are shown as they were before it.

        Raises:
            UsageError: there is no such queue, or the limit is invalid.
        """
        with self._transaction() as transaction:
            return peek(transaction, self._access.known.current(transaction), queue, group, limit)

    def queues(self) -> list[QueueCounts]:
        """The message counts of each queue, by name."""
        with self._transaction() as transaction:
            return counts_of(transaction)

    def messages(
        self,
        *,
        queue: str | None = None,
        group: str | None = None,
        status: str | None = None,
        message_type: str | None = None,
        limit: int | None = None,
    ) -> list[Placed]:
        """The messages with their places, oldest first: one entry for each queue that has the message, or one if it is unrouted.

        Args:
            queue: only of this queue.
            group: only of groups with this key.
            status: only in this status: ``arrived``, ``held``, ``queued``, ``late``, ``duplicate``, ``invalid``,
                ``rejected``, ``dead``, ``done`` (of queues that keep it) or ``unrouted``.
            message_type: only of this type.
            limit: at most so many.

        Raises:
            UsageError: there is no such queue or status, or the group, type or limit is invalid.
        """
        if queue is not None:
            self.definitions().queue(queue)
        with self._transaction() as transaction:
            return places_of(transaction, queue=queue, group=group, status=status, kind=message_type, limit=limit)

    def message(self, message_id: str, *, id_space: str | None = None) -> tuple[Stored, list[Placed]]:
        """A message with its body, and the queues that have it.

        Args:
            message_id: its id.
            id_space: the id space, see `grant`. It may be None if only one message has the id.

        Raises:
            UsageError: the box has no message with the id, or it has several messages with the id in different id spaces.
        """
        with self._transaction() as transaction:
            found = message_of(transaction, message_id, id_space)
            return found, places_of(transaction, message_id=message_id, id_space=found.id_space)

    def dialogs(
        self,
        *,
        handle: UUID | str | None = None,
        service: str | None = None,
        state: str | None = None,
        older_than: float | str | None = None,
        limit: int | None = None,
    ) -> list[DialogView]:
        """The sides of dialogs, oldest first, read without locks.

        Args:
            handle: only the side with this handle.
            service: only sides of this service.
            state: only sides in this state: its two letters, or its name.
            older_than: only sides that began at least this many seconds (or ``"7d"``) ago.
            limit: at most so many.

        Raises:
            UsageError: there is no such state, or the limit is invalid.
        """
        with self._transaction() as transaction:
            return dialogs_of(
                transaction,
                handle=handle,
                service=service,
                state=state,
                older_than=older_than,
                limit=limit,
            )

    def clean_up_dialogs(
        self, *, state: str = "ER", older_than: float | str = "7d", dry_run: bool = False
    ) -> list[DialogView]:
        """End the sides of dialogs that are in a state and old enough, without notifying the other sides.

        Args:
            state: its two letters, or its name.
            older_than: seconds, or ``"7d"``.
            dry_run: change nothing, only return the sides.

        Returns:
            the ended sides, as they were before.

        Raises:
            UsageError: there is no such state, or the period is invalid.
            Unavailable: some sides are left; call it again.
        """
        return clean_up(self._access, state=state, older_than=older_than, dry_run=dry_run)

    def definitions(self) -> Definitions:
        """The present definitions: types, queues, subscriptions, contracts and services by name."""
        with self._transaction() as transaction:
            return self._access.known.current(transaction)

    def _set_state(self, subscriptions: Iterable[str], state: str) -> list[Change]:
        with self._transaction() as transaction:
            return set_state(transaction, subscriptions, state)

    def status(self) -> BoxStatus:
        """The version, the size, and the next number of each location."""
        with self._transaction() as transaction:
            return read_status(transaction, self._place)

    def purge(
        self,
        *,
        queue: str | None = None,
        older_than: float | str | None = None,
        forget_expired: bool = False,
        seconds: float | None = None,
        progress: Callable[[cleaning.Purged], None] | None = None,
    ) -> cleaning.Purged:
        """Clean up: delete rows without references, and rows that need not be kept longer. See `purge.run`.

        Args:
            queue: delete only this queue's history and groups.
            older_than: delete history older than this many seconds (or ``"7d"``), in place of each queue's `keep_for`.
            forget_expired: forget groups that were idle for their queue's `expire_after`. A forgotten group that gets a message
                begins anew, in a higher incarnation.
            seconds: stop after this time; the next clean-up goes on. None: stop when all is done.
            progress: a function that is called after each batch with the counts so far.
        """
        return cleaning.run(
            self._access, queue=queue, older_than=older_than, forget_expired=forget_expired, seconds=seconds,
            progress=progress,
        )  # fmt: skip

    def purgeable(self, *, queue: str | None = None, older_than: float | str | None = None) -> cleaning.Purgeable:
        """Count the rows that `purge` would delete; changes nothing."""
        return cleaning.purgeable(self._access, queue=queue, older_than=older_than)

    def keep_message_ids(self, period: float | str) -> None:
        """Recognise repeated messages for at least this many seconds (or ``"7d"``, the default)."""
        cleaning.keep_message_ids(self._access, period)

    def keep_faults(self, period: float | str) -> None:
        """Keep faults of handlers for this many seconds (or ``"30d"``, the default).

        The newest fault of a message stays as long as the message does.
        """
        cleaning.keep_faults(self._access, period)

    def forget(self, queue: str, group: str, *, actor: str = "application", reason: str = "on request") -> int:
        """Forget a group without messages: its next message begins it anew, in the next incarnation.

        Args:
            queue: the queue's name.
            group: the group's key.
            actor: the operator's name, for the operator log.
            reason: the reason, for the operator log.

        Returns:
            the number of the new incarnation.

        Raises:
            UsageError: there is no such queue or group, or an actor or reason is missing or too long.
            ActionRefused: the group has messages, its instance runs, or it is suspended.
            Unavailable: another session keeps its lock.
        """
        by = Operator(actor, reason)
        with self._transaction() as transaction:
            found = self._access.known.current(transaction).queue(queue)
            return forget(transaction, found, group, by)

    def release(self, queue: str, *, actor: str = "application", reason: str = "on request") -> Released:
        """Release a queue from a pipeline that is gone; messages that the pipeline had in hand are queued again.

        Args:
            queue: the queue's name.
            actor: the operator's name, for the operator log.
            reason: the reason, for the operator log.

        Raises:
            UsageError: there is no such queue, or an actor or reason is missing or too long.
            ActionRefused: no pipeline has the queue, or the pipeline is reading it now.
        """
        by = Operator(actor, reason)
        with self._transaction() as transaction:
            found = self._access.known.current(transaction).queue(queue)
            return release(transaction, found, by)

    def broken(self) -> list[str]:
        """The violations of the box's laws, in words; empty if all is well. Reads the whole box, without locks."""
        with self._transaction() as transaction:
            return invariants.broken(transaction)

    def long_transactions(self, seconds: float) -> list[str]:
        """The transactions in the box's database that are older than `seconds`, in words."""
        with self._transaction() as transaction:
            return invariants.long_transactions(transaction, seconds)

    def leases_run_out(self, seconds: float) -> list[str]:
        """The workers' leases that ran out more than `seconds` ago and still stand, in words."""
        with self._transaction() as transaction:
            return invariants.leases_run_out(transaction, seconds)

    def never_numbered(self) -> list[str]:
        """The committed messages that never got a ticket number, in words; `tick` numbers them."""
        with self._transaction() as transaction:
            return invariants.never_numbered(transaction)

    def silent_triggers(self) -> list[str]:
        """The triggers of the box that were switched off, in words. Publishing and deleting are incomplete without them."""
        with self._transaction() as transaction:
            return invariants.silent_triggers(transaction)

    def close(self) -> None:
        """Close the box; the embedded PostgreSQL stops with its last user. A second call does nothing."""
        self._connections.close()

    def tick(self) -> Tick:
        """Do due work without receiving: route messages published through SQL, fire timers, retry faulted groups.

        Raises:
            EnvironmentProblem: the box's role may not do this work.
            Unavailable: call it again.
        """
        with translated(self._place):
            return tick(self._access)

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
            id_space: the id space of the messages that it publishes. A message is left out if its id was published before in
                its id space, by any role. None: unchanged, at first the role's name. ``""``: the owner's id space.

        Raises:
            UsageError: there is no such role, queue or location; no right is named; a text is given in place of a list; the id
                space is invalid; or none is named and another role has the id space of this name.
            EnvironmentProblem: the caller isn't the owner of the box.
        """
        rights = Rights(publish, receive, subscribe, route, dispense, types)
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
    ) -> None:
        """Revoke rights of a role; if no right is named: all rights and the id space. Arguments are those of `grant`.

        The role's subscriptions stay. From now on they match only message types that the role still has.

        Raises:
            UsageError: the role has no rights, there is no such queue, or a text is given in place of a list.
            EnvironmentProblem: the caller isn't the owner of the box.
        """
        rights = Rights(publish, receive, subscribe, route, dispense, types)
        with self._transaction() as transaction:
            revoke(transaction, role, rights)

    def grants(self) -> list[Grant]:
        """The roles with rights on this box, by name. Only the box's owner may call it."""
        with self._transaction() as transaction:
            return grants(transaction)

    def roles_of_the_owners_space(self) -> list[str]:
        """The roles from before id spaces existed that may publish; they still share the owner's id space."""
        with self._transaction() as transaction:
            return roles_of_the_owners_space(transaction)

    def __repr__(self) -> str:
        return f"<MessageBox {self._place}>"


@contextmanager
def _ended(first: Session) -> Iterator[Sessions]:
    """End the session, or its last successor, when the block ends."""
    sessions = Sessions(first)
    try:
        yield sessions
        sessions.session._end()  # noqa: SLF001 -- as said
    except BaseException:
        sessions.session._failed()  # noqa: SLF001 -- as said
        raise
    finally:
        sessions.session._forget()  # noqa: SLF001 -- as said
