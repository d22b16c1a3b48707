"""`Session`: publish, receive and exchange dialog messages in one transaction."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from os import getpid
from types import TracebackType
from typing import NoReturn, Self, cast
from uuid import UUID

import psycopg
from psycopg.pq import PipelineStatus, TransactionStatus

from seriatim.box.connection.access import Access, Transaction
from seriatim.box.connection.application_connection import as_ours
from seriatim.box.connection.fast_paths import NEXT_DELIVERY, EndedDelivery
from seriatim.box.connection.in_hand import Event
from seriatim.box.connection.interruption import interruption
from seriatim.box.connection.misuse import Misuse, OnlyWith, check_process
from seriatim.box.connection.round_trip import NotCommitted, is_idle, is_in_transaction
from seriatim.box.connection.settings import check_encoding
from seriatim.box.connection.wait_time import FOREVER, patience_of_receiver
from seriatim.box.definitions.definition import Definitions
from seriatim.box.dialogs.delivery import accept, tell_unended
from seriatim.box.dialogs.dialogs import handle_of
from seriatim.box.faults.postpone import EarlyEnds
from seriatim.box.instances.instances import Instance, Instances
from seriatim.box.notice import Notice
from seriatim.box.postgres.translate import translated
from seriatim.box.publish_verbs import PublishVerbs
from seriatim.box.receive import Receiver
from seriatim.box.turns.causes import causes_of
from seriatim.box.turns.delivery import Completion, Delivery
from seriatim.box.turns.held_delivery import begin_unique, close_group, held_on, hold
from seriatim.box.turns.separate_transaction import SeparateTransaction
from seriatim.errors import SeriatimError, Unavailable, UsageError, is_whole, shown
from seriatim.pipeline.text.event_log import LOG
from seriatim.pipeline.text.storable import checked_text
from seriatim.pipeline.types.message import Received

#: The most messages of one delivery.
_MOST_MESSAGES = 1_000_000
#: The pauses of a receiver that waits forever, while there is no connection: the first and the longest, seconds.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
#: The pause before a group is checked again that had messages of other dialogs than the requested one, seconds.
_PAUSE_S = 0.5


class Session(PublishVerbs):
    """One transaction with a box, for one thread at a time. `MessageBox.session` begins it.

    Args:
        access: the box.
        connection: a psycopg connection; None before there is one.
        own: whether the session began its transaction; False: the caller did.
        instance: the instance of the message in hand, if another session received that message.
        renew: replaces the connection of a transaction in which nothing was done, after an error; None: nothing does.
    """

    def __init__(
        self,
        access: Access,
        connection: psycopg.Connection | None,
        *,
        own: bool,
        renew: Callable[[BaseException], psycopg.Connection] | None = None,
    ) -> None:
        self._access = access
        self._connection = connection
        self._schema = access.schema
        self._place = access.place
        self._own = own
        #: Called before each use of the connection; a worker sets it.
        self.on_use: Callable[[], None] | None = None
        #: Whether `receive` puts groups on trial whose last turn was rolled back, see `Receiver`; a worker sets it.
        self.tries = False
        #: Whether the worker of a region has it, see `Receiver`.
        self.by_regions = False
        #: Returns whether a wait in `receive` shall end before its time; a worker sets it.
        self.ends_wait: Callable[[], bool] | None = None
        self._process = getpid()
        self._renew = renew
        #: The group that was received last, and how many messages of it in a row.
        self._in_a_row: tuple[tuple[str, str | None] | None, int] = None, 0
        self._notices: list[Notice] = []
        self._ended_dialogs: set[UUID] = set()

    @property
    def connection(self) -> psycopg.Connection:
        """The psycopg connection: writes through it commit together with the messages.

        Raises:
            UsageError: the session has ended, or this process was forked after the session began.
        """
        if self._connection is None:
            raise UsageError("the session has ended", remedy="begin another with box.session()")
        check_process(self._process)
        if self.on_use is not None:
            with translated(self._place):
                self.on_use()
        return self._connection

    @property
    def present_connection(self) -> psycopg.Connection | None:
        """The connection as it is now, without use of it; None before there is one, and after the session's end."""
        return self._connection

    @property
    def _ours(self) -> psycopg.Connection:
        """The connection for the box's own statements, checked if it is the caller's."""
        connection = as_ours(self.connection)
        check_encoding(connection)
        if not self._own:
            with translated(self._place):
                self._access.identity.check(connection, self._access.connect)
        return connection

    @property
    def transaction(self) -> Transaction:
        """The session's transaction as internal modules use it: with the box and its notices."""
        return Transaction(self._access, self._ours, self._notices)

    @property
    def token(self) -> int | None:
        """The fencing token of the handler's lease, higher with every lease; None without a lease."""
        return None

    @property
    def access(self) -> Access:
        """The session's box as internal modules use it."""
        return self._access

    @property
    def is_open(self) -> bool:
        """Whether the session hasn't ended."""
        return self._connection is not None

    @property
    def instance(self) -> Instance | None:
        """The instance of the last received message; None if it has none."""
        return None if self._delivery is None else cast("Instance | None", self._delivery.instance)

    @property
    def delivery(self) -> Delivery | None:
        """The last delivery received in this session, if its transaction hasn't ended; else None."""
        return self._delivery

    @property
    def _delivery(self) -> Delivery | None:
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
        """The last delivery of any session on this connection; None after its rollback."""
        return None if self._connection is None else held_on(self._connection, self._schema)

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

        The next group is the group whose first message has waited longest; a level of priority counts as ten seconds. A
        transaction that receives again and again goes on behind what it has received; for up to ten seconds it passes over
        what has come before that since, unless there is nothing else.
        An earlier delivery of this session that isn't completed is put back first. A queue with starting subscriptions hands
        out one message at a time; `instance` is the message's instance.

        Args:
            queue: its name.
            limit: the most messages; a `UnitOfWork` is always handed out whole.
            group: only this group.
            dialog: only messages of the dialog with this handle.
            wait: seconds (or ``"5s"``) to wait for a message. Judging a long backlog that has nothing to hand out
                doesn't extend the wait; the next call goes on there. None: don't wait; the whole backlog is judged.
                ``"forever"``: wait until there is a message, also while PostgreSQL is away or restarts; `MessageBox.stop_receiving` and
                `MessageBox.close` end it. To wait, `receive` must be the first call of the session, because a waiting
                transaction holds back others.

        Returns:
            The messages in order, all of one group; None if there are none. After ``"forever"`` None says that the wait was
            ended.

        Raises:
            UsageError: there is no such queue; a wait in the middle of a transaction; a dialog of another queue or group; a
                worker gave the session to a handler; or another session on the same connection has a delivery in hand.
            ActionRefused: the queue is off, or belongs to a pipeline.
            Unavailable: the transaction has to be repeated.
        """
        self._check_own()
        _check_limit(limit)
        checked_text(queue, "a queue's name")
        wait_s = patience_of_receiver(wait)
        if group is not None and not isinstance(group, str | UUID):
            raise UsageError(f"{shown(group)} is not the key of a group", remedy="a string")
        if wait_s == math.inf and self._renew is not None:
            return self._received_at_last(lambda: self._received_now(queue, limit, group, dialog, wait_s), self._renew)
        return self._received_now(queue, limit, group, dialog, wait_s)

    def _received_at_last(
        self, receive: Callable[[], Delivery | None], renew: Callable[[BaseException], psycopg.Connection]
    ) -> Delivery | None:
        """Return the next delivery, across absences of PostgreSQL; None: the wait was ended."""
        ending, pause_s = self._access.ending, _FIRST_PAUSE_S
        why: Unavailable | None = None
        while not ending.is_set():
            try:
                if why is not None or (self._connection is not None and self._connection.closed):
                    self._connection = renew(why or Unavailable("the connection is lost"))
                    why = None
                if (found := receive()) is not None:
                    return found
                pause_s = _FIRST_PAUSE_S
            except Unavailable as error:
                if (asked := interruption()) is not None and asked.is_asked:
                    raise
                LOG.warning("receiving_retried", error=error)
                why = error
                self._notices.clear()
                ending.wait(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            except UsageError:
                if why is None or not ending.is_set():  # otherwise the box was closed while there was no connection
                    raise
        return None

    def _received_now(
        self, queue: str, limit: int, group: str | UUID | None, dialog: UUID | str | None, wait_s: float
    ) -> Delivery | None:
        connection = self._ours
        if wait_s and not (self._own and is_idle(connection)):
            raise UsageError(
                "receive can't wait in the middle of a transaction",
                remedy="receive first in a session of box.session(), or don't wait",
            )
        if wait_s and connection.pgconn.pipeline_status != PipelineStatus.OFF:
            raise UsageError(
                "receive can't wait in the driver's pipeline", remedy="receive before connection.pipeline()"
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

        This does the same as ending the session and receiving in a new session, with fewer round trips. After an error the
        first transaction may be committed or not; the session has to end.

        Args:
            limit: the most messages; a `UnitOfWork` is always handed out whole.

        Raises:
            UsageError: the transaction is the caller's, nothing was received in it, or a worker gave the session to a handler.
            ActionRefused: the queue is off, or belongs to a pipeline. The first transaction is committed then.
            Unavailable: one of the transactions has to be repeated.
        """
        delivery = self._check_own()
        _check_limit(limit)
        if delivery is None or not self._own:
            raise UsageError(
                "commit_and_receive needs a delivery", remedy="call receive first, in a session of box.session()"
            )
        queue = self._access.known.definitions.queues.get(delivery.queue)
        with translated(self._place):
            ended = EndedDelivery(queue, self._ours, delivery.is_open, delivery.instance is not None)
            if NEXT_DELIVERY.applies(ended):
                hold(ended.connection, self._schema, None)
                self._forget_ended(delivery)
                try:
                    received = self._received(delivery.queue, limit, None, 0.0, is_free=True, after=delivery.completion)
                except NotCommitted as error:
                    raise error.cause from None
                delivery.happens(Event.COMPLETED)
                return received
            if delivery.is_open:
                delivery.done()
            self._put_back()
            self._in_a_row = None, 0
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
        """The next delivery. The arguments are the same as for `Receiver` and `SeparateTransaction`."""
        transaction = self.transaction
        transaction.check_enabled()
        while True:
            apart = SeparateTransaction(transaction, is_free=is_free)
            is_free = False  # messages that are put back below, or set aside, are not committed separately
            limit = 1 if queue in self._access.known.definitions.starting else limit
            receiver = Receiver(
                transaction, queue, limit, group=group, apart=apart, after=after, ends_wait=self.ends_wait,
                tries=self.tries,
                by_regions=self.by_regions,
                handed=self._in_a_row[1] if after is None else 0,
            )  # fmt: skip
            # At once: after any later error it has to be ended.
            self._delivery = delivery = receiver.receive(wait_s)
            if after is not None:
                self._in_a_row = None, 0
            after = None
            definitions = self._access.known.definitions
            for step in self._STEPS:
                if delivery is not None and not step(self, transaction, delivery, definitions, apart):
                    break
            else:
                transaction.publish_notices()
                return delivery

    def _is_alone(self, _: Transaction, delivery: Delivery, definitions: Definitions, __: SeparateTransaction) -> bool:
        """Put several messages back where instances take one at a time: the process didn't know yet that they do."""
        if delivery.queue in definitions.starting and len(delivery) > 1:
            delivery.put_back()
            return False
        return True

    def _has_instance(
        self, transaction: Transaction, delivery: Delivery, definitions: Definitions, _: SeparateTransaction
    ) -> bool:
        """Find the instance of the message; a message that has none is set aside."""
        if delivery.queue not in definitions.starting:
            return True
        instance, is_stray = Instances(transaction, delivery.queue, definitions).find(delivery)
        if instance is not None:
            delivery.instance, delivery.store = instance, partial(instance.save, transaction)
        return not is_stray

    def _is_accepted(
        self, transaction: Transaction, delivery: Delivery, definitions: Definitions, apart: SeparateTransaction
    ) -> bool:
        """Set messages aside that the dialogs don't take."""
        delivery.early_ends = EarlyEnds(transaction)
        return accept(transaction, delivery, definitions, apart)

    def _is_noted(
        self, transaction: Transaction, delivery: Delivery, definitions: Definitions, _: SeparateTransaction
    ) -> bool:
        """Note the unique keys that are in hand, what results are caused by, and how many of the group were received in a row."""
        its = delivery.queue, delivery.group
        self._in_a_row = its, len(delivery) + (self._in_a_row[1] if self._in_a_row[0] == its else 0)
        begin_unique(transaction, definitions, delivery)
        delivery.causes = causes_of(
            delivery.queue, delivery.group, delivery.incarnation, delivery.messages, definitions
        )
        return True

    #: What a delivery goes through before it is the caller's, in this order. Where a step keeps it, the next one is received.
    _STEPS = (_is_alone, _has_instance, _is_accepted, _is_noted)

    def _receive_of(
        self, queue: str, limit: int, group: str | None, dialog: UUID | str, wait_s: float, *, is_free: bool
    ) -> Delivery | None:
        """The messages of one dialog: put the dialog's messages first in their group, and receive them."""
        place, own_group = self._dialogs.group_of(dialog)
        if place != queue or group not in (None, own_group):
            where = f"queue {place!r}, conversation group {own_group}"
            raise UsageError(f"the dialog {dialog} is elsewhere", where=where, remedy="receive it from there")
        if is_free:
            self._ours.commit()  # only looked
        until = time.monotonic() + wait_s
        while True:
            wait = FOREVER if wait_s == math.inf else max(until - time.monotonic(), 0.0) or None
            if self.receive(queue, limit=_MOST_MESSAGES, group=own_group, wait=wait) is None:
                return None
            self._put_back()
            # Its messages come before those of other dialogs of the group.
            if found := self.transaction.value("put_first", of_handle=handle_of(dialog)):
                return self.receive(queue, limit=min(limit, found), group=own_group)
            # The group has messages of other dialogs only.
            if (left_s := until - time.monotonic()) <= 0 or not wait_s:
                return None
            self.transaction.commit()
            if self._access.ending.wait(min(left_s, _PAUSE_S)):
                return None

    @property
    def _worked_on(self) -> Delivery | None:
        """The delivery whose messages are at work in this transaction, or were until they were completed."""
        delivery = self.delivery
        return delivery if delivery is not None and (delivery.is_open or delivery.is_done) else None

    @property
    def _is_lent(self) -> bool:
        held = self._held
        return held is not None and held.is_lent

    def _check_own(self) -> Delivery | None:
        """Return this session's last delivery; refuse to receive beside another session's, which group locks wouldn't keep apart."""
        if self._is_lent:
            raise Misuse(
                "a handler can't receive in the transaction of its message",
                remedy="receive in a session of its own: with box.session() as tx: …",
            )
        held = self._held
        if held is None:
            return None
        if held.holder is self:
            return held
        if held.is_open and not cast("Session", held.holder).is_open:
            held.put_back()
        elif held.is_open and held.stands:
            raise UsageError(
                f"another session on this connection has a delivery of queue {held.queue!r} in hand",
                where=self._place,
                remedy="end that first, or receive on a connection of its own: with box.session() as tx: …",
            )
        return None

    def close_group(self) -> None:
        """Close the group of the message in hand, in this transaction.

        From then on new messages of the group are late, except missing numbers below the highest one held. Released
        messages leave, and held ones go on by the usual rules; the group is closed when it holds nothing. If the transaction, or the
        handler's part of it, is rolled back, the group isn't closed.

        Raises:
            UsageError: no delivery is in hand, or its queue has no groups.
            LeaseLost: the worker has lost the handler's lease.
            Unavailable: the transaction has to be repeated.
        """
        delivery = self.delivery
        if delivery is None:
            raise UsageError("no message is in hand, whose group could be closed", remedy="receive before")
        with translated(self._place):
            transaction = self.transaction
            close_group(transaction, delivery, self.token)
            transaction.publish_notices()

    def save_instance(self) -> None:
        """Save the instance's changes now, and not only before the commit.

        Raises:
            UsageError: JSON can't represent the state.
            ActionRefused: another instance has an added value.
            Unavailable: the transaction has to be repeated.
        """
        if (instance := self.instance) is not None:
            with translated(self._place):
                instance.save(self.transaction)

    def _put_back(self) -> None:
        """End the last delivery: save its instance if the delivery is done, otherwise put the messages back."""
        delivery, held = self._delivery, self._held
        if held is not None and held is not delivery and self._is_lent and self._connection is not None:
            hold(self._connection, self._schema, None)  # so that the worker notices, even if the refusal is ignored
            held.put_back()  # which is refused: the transaction is a worker's
        if delivery is not None and not self._own and is_in_transaction(self._ours):
            delivery.settle()
        self._delivery = None
        if delivery is None:
            return
        if delivery.is_done:
            delivery.store()
            self._forget_ended(delivery)
        delivery.put_back()
        if self._ended_dialogs:
            self._dialogs.put_back()
            self._ended_dialogs.clear()

    def _forget_ended(self, delivery: Delivery) -> None:
        """For a finished delivery: report which dialogs stay open, and forget which have ended."""
        queue = self._access.known.definitions.queues.get(delivery.queue)
        if queue is not None and queue.serves:
            tell_unended(self.transaction, delivery, self.has_ended)
        self._ended_dialogs.clear()

    def _in_hand(self) -> Sequence[Received]:
        return () if self._delivery is None or self._delivery.is_done else self._delivery.messages

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the session: put back an open delivery. The transaction is ended by its owner."""
        try:
            if kind is None:
                self._end()
        except BaseException:
            self._failed()
            raise
        else:
            if kind is not None:
                self._failed()
        finally:
            self._forget()

    def _end(self) -> None:
        """Put back an open delivery and publish notices, at the end of a transaction without an error."""
        with translated(self._place):
            self._put_back()
            if self._notices:
                self.transaction.publish_notices()

    def _failed(self) -> None:
        """After an error in the caller's transaction: put back the open delivery, in case the caller commits nevertheless."""
        joined = None if self._own else self._connection
        if joined is not None and joined.info.transaction_status == TransactionStatus.INTRANS:
            with suppress(
                SeriatimError
            ):  # the first error is the one to report, and after this the caller can't commit
                self._end()

    def _forget(self) -> None:
        if not self._own and (delivery := self._delivery) is not None and not delivery.is_open:
            self._delivery = None
        self._connection = None

    def handed_over(self) -> Session:
        """End this session; its transaction and its delivery are a new session's."""
        after = Session(self._access, self._connection, own=self._own)
        after.tries, after.by_regions = self.tries, self.by_regions
        if (delivery := self._delivery) is not None:
            delivery.holder = after
        self._forget()
        return after


class SessionBlock(OnlyWith, AbstractContextManager[Session]):
    """What `MessageBox.session` gives: the session begins and ends with a ``with`` block."""

    def __init__(self, block: AbstractContextManager[Session]) -> None:
        self._block = block

    def __enter__(self) -> Session:
        return self._block.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return self._block.__exit__(kind, error, trace)

    def __getattr__(self, name: str) -> NoReturn:
        # Only names of a session: other code asks any object for its own names, and expects an AttributeError.
        if not name.startswith("_") and hasattr(Session, name):
            call = f"tx.{name}{'(…)' if callable(getattr(Session, name)) else ''}"
            raise UsageError("the session has not begun", remedy=f"with box.session() as tx: {call}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class Sessions:
    """Sessions on one connection, one after another. A session has ended when the next session begins."""

    def __init__(self, first: Session) -> None:
        self.session = first

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.session.__exit__(kind, error, trace)

    def next(self, *, limit: int) -> Delivery | None:
        """Call `Session.commit_and_receive`; the delivery belongs to the next session."""
        delivery = self.session.commit_and_receive(limit=limit)
        self.session = self.session.handed_over()
        return delivery


def _check_limit(limit: object) -> None:
    if not is_whole(limit, 1, _MOST_MESSAGES):
        raise UsageError(f"cannot receive {shown(limit)} messages", remedy=f"an integer from 1 to {_MOST_MESSAGES}")


def checked_connection(connection: object) -> psycopg.Connection:
    """Return the caller's connection if a session can join its transaction."""
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
            "the connection is in autocommit mode", remedy="begin a transaction: with connection.transaction(): …"
        )
    return connection
