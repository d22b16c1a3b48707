"""The session: what can be done with a box within one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from os import getpid
from typing import cast
from uuid import UUID

import psycopg
from psycopg.pq import TransactionStatus

from seriatim.box.connection.access import Access, Transaction
from seriatim.box.connection.forks import check_process
from seriatim.box.connection.in_hand import Event
from seriatim.box.connection.joined import as_ours
from seriatim.box.connection.patience import patience
from seriatim.box.connection.round_trip import is_between, is_idle, is_in_transaction
from seriatim.box.connection.settings import check_encoding
from seriatim.box.dialogs.delivery import accept, first_of
from seriatim.box.dialogs.dialogs import Dialogs, handle_of
from seriatim.box.dialogs.verbs import DialogVerbs
from seriatim.box.instances.instances import Instance, Instances
from seriatim.box.notice import Notice
from seriatim.box.postgres.translate import translated
from seriatim.box.publishing.published import Published
from seriatim.box.publishing.publisher import PATIENCE_S, Publisher
from seriatim.box.publishing.tickets import Tickets
from seriatim.box.receive import Receiver, is_at_once
from seriatim.box.turns.apart import SeparateTransaction
from seriatim.box.turns.delivery import Completion, Delivery
from seriatim.box.turns.held_delivery import held_on, hold
from seriatim.errors import SeriatimError, UsageError, shown
from seriatim.kernel.sequence import LAST_NUMBER
from seriatim.pipeline.declared.location import checked_location
from seriatim.pipeline.text.storable import checked_text
from seriatim.pipeline.types.message import Message, Received

__all__ = ["Session", "Sessions", "checked_connection"]

#: The most messages of one delivery.
_MOST_MESSAGES = 1_000_000


class Session(DialogVerbs):
    """One transaction with a box; made by `MessageBox.session` and for one thread at a time.

    Args:
        access: the box.
        connection: a psycopg connection; None where it is not there yet.
        own: whether the transaction is the session's, and not one that the caller began.
    """

    def __init__(self, access: Access, connection: psycopg.Connection | None, *, own: bool) -> None:
        self._access = access
        self._connection = connection
        self._schema = access.schema
        self._place = access.place
        self._own = own
        self._on_use: Callable[[], None] | None = None
        self._process = getpid()
        self._instance: Instance | None = None
        self._notices: list[Notice] = []
        self._dialogs = Dialogs(lambda: self.transaction)

    @property
    def connection(self) -> psycopg.Connection:
        """The psycopg connection: writes through it commit together with the messages.

        Raises:
            UsageError: the session has ended, or this process was forked from the one that has begun it.
        """
        if self._connection is None:
            raise UsageError("the session has ended", remedy="begin another with box.session()")
        check_process(self._process)
        if self._on_use is not None:
            with translated(self._place):
                self._on_use()
        return self._connection

    @property
    def _ours(self) -> psycopg.Connection:
        """The connection, for statements of the box; one that is joined leads to it."""
        connection = as_ours(self.connection)
        check_encoding(connection)
        if not self._own:
            with translated(self._place):
                self._access.identity.check(connection, self._access.connect)
        return connection

    @property
    def transaction(self) -> Transaction:
        """What works in the box within its transaction."""
        return Transaction(self._access, self._ours, self._notices)

    @property
    def token(self) -> int | None:
        """The fencing token of the lease in which a handler works; None where it doesn't. It is higher with every lease."""
        return None

    @property
    def access(self) -> Access:
        """Its box, for what works in it."""
        return self._access

    @property
    def instance(self) -> Instance | None:
        """The instance of the last received message; None if it has none."""
        return self._instance

    @property
    def delivery(self) -> Delivery | None:
        """The last delivery received in this session, if its transaction hasn't ended; else None."""
        return self._delivery

    @property
    def _delivery(self) -> Delivery | None:
        """What this session has received last."""
        held = self._held
        return held if held is not None and held.holder is self else None

    @_delivery.setter
    def _delivery(self, delivery: Delivery | None) -> None:
        if delivery is not None:
            delivery.holder = self
        if self._connection is not None and (delivery is not None or self._delivery is not None):
            hold(self._connection, self._schema, delivery)

    @property
    def _held(self) -> Delivery | None:
        """What was received last in the transaction, by whichever session; None also where a rollback has taken it back."""
        return None if self._connection is None else held_on(self._connection, self._schema)

    def dispense(self, location: str, count: int = 1) -> Tickets:
        """Take the next ticket numbers of a location.

        Nobody else gets numbers of this location until the transaction ends: so they have no gap, and are in the
        order of commits. A transaction that takes from several locations takes them in one order everywhere, by
        name; otherwise two may wait for each other, and one of them is refused.

        Args:
            location: where; one that isn't known yet begins at 1.
            count: how many, at least 1.

        Raises:
            UsageError: a name or count that can't be.
            Unavailable: the transaction has to be repeated.
        """
        checked_location(location)
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= LAST_NUMBER:
            raise UsageError(f"cannot dispense {shown(count)} tickets", remedy=f"an integer from 1 to {LAST_NUMBER}")
        with translated(self._place):
            epoch, number, last_number = self.transaction.one("dispense", location=location, count=count)
        return Tickets.run(location, epoch, number, count, last_number)

    def publish(
        self,
        messages: Message | Iterable[Message],
        *,
        delay: float | str | None = None,
        visible_at: datetime | None = None,
        wait: float | str = PATIENCE_S,
    ) -> Published:
        """Publish messages to every queue with a matching subscription. They get their tickets at the commit.

        A message whose id was published before in the publisher's id space (that of its role; ``""`` of the box's owner) is
        left out, so that a publisher that doesn't know whether a commit reached the server may repeat it. One that no subscription wants, and one that isn't what its type says, is
        kept as *unrouted*, with the reason.

        Args:
            messages: a message, or messages in the order of their tickets.
            delay: seconds (or ``"5m"``) before which they aren't handed out. They are ordered at once: what comes
                after them in their groups waits for them.
            visible_at: the earliest time at which they are handed out, in place of `delay`; without a time zone, UTC.
            wait: the most seconds (or ``"5s"``) to wait for room in a full queue with ``when_full="wait"``.
                Earlier locks of the transaction are kept meanwhile, so publish first.

        Returns:
            their ids, as given, in that order: a list, whose `left_out` has the ids of those that were left out.

        Raises:
            UsageError: something that isn't a message, a property that has no place in a context, a body that is
                too large, an address that is no queue. Nothing of the call is taken in.
            QueueFull: a queue has no room. Nothing of the call is taken in, and the transaction can go on.
            Unavailable: the transaction has to be repeated.
        """
        publisher = Publisher(self._access, messages, delay=delay, visible_at=visible_at, wait=wait, own=self._own)
        with translated(self._place):
            transaction = self.transaction
            published = publisher.publish(transaction)
            transaction.publish_notices()
            return published

    def receive(
        self,
        queue: str,
        *,
        limit: int = 1,
        group: str | UUID | None = None,
        dialog: UUID | str | None = None,
        wait: float | str | None = None,
    ) -> Delivery | None:
        """Lock the next ready group of a queue until the transaction ends, and return its first messages.

        The next group is the one whose first message has waited longest; a level of priority counts as ten seconds.
        A delivery that this session has received and not completed is put back before. A queue that starting subscriptions lead
        to hands out one message at a time, and `instance` is what it is for.

        Args:
            queue: its name.
            limit: the most messages; a `UnitOfWork` is always handed out whole.
            group: only this group.
            dialog: only messages of the dialog of this handle, of a queue of a service.
            wait: seconds (or ``"5s"``) to wait for a message; None: not at all. Nothing may have been done in the
                session before, since a transaction that waits holds back others.

        Returns:
            The messages in order, all of one group; None if there are none.

        Raises:
            UsageError: no such queue, a wait in the midst of a transaction, or a dialog of another queue or group; or the
                session is one that a worker has given to a handler; or another session on the same connection has a
                delivery in hand.
            ActionRefused: the queue is off, or belongs to a pipeline.
            Unavailable: the transaction has to be repeated.
        """
        self._check_own()
        _check_limit(limit)
        checked_text(queue, "a queue's name")
        wait_s = 0.0 if wait is None else patience(wait)
        if group is not None and not isinstance(group, str | UUID):
            raise UsageError(f"{shown(group)} is not the key of a group", remedy="a string")
        connection = self._ours
        if wait_s and not (self._own and is_idle(connection)):
            raise UsageError(
                "receive can't wait in the middle of a transaction",
                remedy="receive first in a session of box.session(), or don't wait",
            )
        group = str(group) if isinstance(group, UUID) else group
        is_free = self._own and is_idle(connection)
        with translated(self._place):
            self._put_back()
            if dialog is not None:
                return self._receive_of(queue, limit, group, dialog, wait_s, is_free=is_free)
            return self._received(queue, limit, group, wait_s, is_free=is_free)

    def commit_and_receive(self, *, limit: int = 1) -> Delivery | None:
        """Complete the last delivery, commit, and receive from the same queue in a new transaction of this session.

        As ending the session, and receiving in another one, but for the round trips. After an error it is not known
        whether the first transaction was committed; the session has to end.

        Args:
            limit: the most messages; a `UnitOfWork` is always handed out whole.

        Raises:
            UsageError: the transaction is the caller's, or nothing was received in it; or the session is one that a
                worker has given to a handler.
            ActionRefused: the queue is off, or belongs to a pipeline; then all that was done is committed.
            Unavailable: one of the transactions has to be repeated.
        """
        self._check_own()
        _check_limit(limit)
        delivery = self._delivery
        if delivery is None or not self._own:
            raise UsageError(
                "commit_and_receive needs a delivery", remedy="call receive first, in a session of box.session()"
            )
        queue = self._access.known.definitions.queues.get(delivery.queue)
        with translated(self._place):
            at_once = queue is not None and is_at_once(queue) and self._instance is None and delivery.is_open
            if at_once and is_between(self._ours):  # the application may have committed by itself
                self._delivery = None
                self._dialogs.done()
                received = self._received(delivery.queue, limit, None, 0.0, is_free=True, after=delivery.completion)
                delivery.in_hand.happens(Event.COMPLETED)
                return received
            if delivery.is_open:
                delivery.done()
            self._put_back()
            self.transaction.commit()
            return self._received(delivery.queue, limit, None, 0.0, is_free=True)

    def _received(
        self,
        queue: str,
        limit: int,
        group: str | None,
        wait_s: float,
        *,
        is_free: bool,
        after: Completion | None = None,
    ) -> Delivery | None:
        """What is received; arguments as of `Receiver` and `SeparateTransaction`."""
        transaction = self.transaction
        while True:
            apart = SeparateTransaction(transaction, is_free=is_free)
            is_free = False  # what is put back below, or set aside, is not committed on the side
            limit = 1 if queue in self._access.known.definitions.starting else limit
            receiver = Receiver(transaction, queue, limit, group, apart, after)
            # At once: whatever goes wrong from here on, it has to be ended.
            self._delivery = delivery = receiver.receive(wait_s)
            after = None
            definitions = self._access.known.definitions
            if delivery is not None and queue in definitions.starting:
                if len(delivery) > 1:  # the process didn't know yet
                    delivery.put_back()
                    continue
                instances = Instances(transaction, queue, definitions)
                self._instance, stray = instances.find(delivery)
                if stray:
                    continue
            if delivery is not None and not accept(transaction, delivery, definitions, apart):
                continue
            transaction.publish_notices()
            return delivery

    def _receive_of(
        self, queue: str, limit: int, group: str | None, dialog: UUID | str, wait_s: float, *, is_free: bool
    ) -> Delivery | None:
        """Messages of one dialog: all that its group has is judged, and what is the dialog's goes first."""
        place, own_group = self._dialogs.group_of(dialog)
        if place != queue or group not in (None, own_group):
            where = f"queue {place!r}, conversation group {own_group}"
            raise UsageError(f"the dialog {dialog} is elsewhere", where=where, remedy="receive it from there")
        if is_free:
            self._ours.commit()  # only looked
        whole = self.receive(queue, limit=_MOST_MESSAGES, group=own_group, wait=wait_s or None)
        if whole is None:
            return None
        self._put_back()
        found = first_of(self.transaction, handle_of(dialog))
        return self.receive(queue, limit=min(limit, found), group=own_group) if found else None

    @property
    def _is_lent(self) -> bool:
        """Whether a worker's handler has it."""
        return self._held is not None and self._held.in_hand.is_lent

    @property
    def _has_ended(self) -> bool:
        return self._connection is None

    def _check_own(self) -> None:
        """See that this session may receive: locks of groups are the connection's, and keep no other session on it out."""
        if self._is_lent:
            raise UsageError(
                "a handler can't receive in the transaction of its message",
                remedy="receive in a session of its own: with box.session() as tx: …",
            )
        held = self._held
        if held is None or held.holder is self or not held.is_open:
            return
        if cast("Session", held.holder)._has_ended:  # noqa: SLF001 -- another one of these
            held.put_back()
        elif held.stands:
            raise UsageError(
                f"another session on this connection has a delivery of queue {held.queue!r} in hand",
                where=self._place,
                remedy="end that first, or receive on a connection of its own: with box.session() as tx: …",
            )

    def save_instance(self) -> None:
        """Save now what became of the instance, and not once more when its message is done.

        Raises:
            UsageError: a state that JSON doesn't have.
            ActionRefused: a value leads to another instance.
            Unavailable: the transaction has to be repeated.
        """
        instance, self._instance = self._instance, None
        if instance is not None:
            with translated(self._place):
                instance.save(self.transaction)

    def _put_back(self) -> None:
        """End what was received last: an instance is as its message left it, or as before if that is put back."""
        delivery, held = self._delivery, self._held
        if held is not None and held is not delivery and self._is_lent and self._connection is not None:
            hold(self._connection, self._schema, None)  # so that the worker notices, whoever passes over the refusal
            held.put_back()  # which is refused: the transaction is a worker's
        if delivery is not None and not self._own and is_in_transaction(self._ours):
            delivery.settle()
        self._delivery = None
        instance, self._instance = self._instance, None
        if delivery is None:
            return
        if instance is not None and delivery.is_done:
            instance.save(self.transaction)
        if delivery.is_done:
            self._dialogs.done()
        delivery.put_back()
        self._dialogs.put_back()

    def _in_hand(self) -> Sequence[Received]:
        return () if self._delivery is None or self._delivery.is_done else self._delivery.messages

    def _end(self) -> None:
        """The last that is done in the transaction, if nothing has failed."""
        with translated(self._place):
            self._put_back()
            if self._notices:
                self.transaction.publish_notices()

    def _failed(self) -> None:
        """The caller has got an error. Should he commit his transaction nevertheless, what isn't done is put back."""
        joined = None if self._own else self._connection
        if joined is not None and joined.info.transaction_status == TransactionStatus.INTRANS:
            with suppress(SeriatimError):  # what went wrong first is what is told, and after this he can't commit
                self._end()

    def _forget(self) -> None:
        if (delivery := self._delivery) is not None and not delivery.is_open and not self._own:
            self._delivery = None
        self._connection = None

    def _succeeded(self) -> Session:
        """This one ends, and another has its transaction, and what was received in it."""
        after = Session(self._access, self._connection, own=self._own)
        if (delivery := self._delivery) is not None:
            delivery.holder = after
        after._instance, self._instance = self._instance, None
        self._forget()
        return after


class Sessions:
    """Sessions on one connection, one after another: each has ended when the next begins, for whoever has kept it.

    Args:
        first: with which they begin.

    Attributes:
        session: the one that goes on.
    """

    def __init__(self, first: Session) -> None:
        self.session = first

    def next(self, *, limit: int) -> Delivery | None:
        """As `Session.commit_and_receive`; what is received is the next session's."""
        delivery = self.session.commit_and_receive(limit=limit)
        self.session = self.session._succeeded()  # noqa: SLF001 -- they are one
        return delivery


def _check_limit(limit: object) -> None:
    """See that so many messages can be received.

    Raises:
        UsageError: they can't.
    """
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MOST_MESSAGES:
        raise UsageError(f"cannot receive {shown(limit)} messages", remedy=f"an integer from 1 to {_MOST_MESSAGES}")


def checked_connection(connection: object) -> psycopg.Connection:
    """The caller's connection, in whose transaction a session can take part.

    Raises:
        UsageError: it isn't an open psycopg connection with a transaction that the caller will end.
    """
    if not isinstance(connection, psycopg.Connection):
        raise UsageError(
            f"{type(connection).__module__}.{type(connection).__name__} is not a psycopg 3 connection",
            remedy="with SQLAlchemy (postgresql+psycopg://): connection.connection.driver_connection",
        )
    if connection.closed:
        raise UsageError("the connection is closed", remedy="give an open one")
    status = connection.info.transaction_status
    if status == TransactionStatus.INERROR:
        raise UsageError("the connection's transaction has failed", remedy="roll it back first")
    if connection.autocommit and status == TransactionStatus.IDLE:
        raise UsageError(
            "the connection is in autocommit mode",
            remedy="begin a transaction: with connection.transaction(): …",
        )
    return connection
