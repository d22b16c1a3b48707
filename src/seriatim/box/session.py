"""The session: what can be done with a box within one transaction."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from uuid import UUID

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from seriatim.box.access import Access
from seriatim.box.arrays import written
from seriatim.box.correlation import looking
from seriatim.box.definitions import Definitions
from seriatim.box.deliver import Completion, Delivery
from seriatim.box.dialog_delivery import accept, first_of
from seriatim.box.dialog_verbs import DialogVerbs
from seriatim.box.dialogs import Dialogs, handle_of
from seriatim.box.failures import tell_kept_out
from seriatim.box.instances import Instance, Instances
from seriatim.box.publish import distinct, listed, parameters_of, parameters_of_one, portions
from seriatim.box.receive import Receiver, is_at_once
from seriatim.box.round_trip import OwnConnection, can_flush, is_between, transact
from seriatim.box.route import Routed
from seriatim.box.statements import statement
from seriatim.box.tickets import Tickets
from seriatim.box.translate import translated
from seriatim.errors import UsageError
from seriatim.kernel.sequence import LAST_NUMBER
from seriatim.kernel.time import micros, seconds
from seriatim.pipeline.location import checked_location
from seriatim.pipeline.message import Message, Received

__all__ = ["PATIENCE_S", "Session", "Sessions", "checked_connection"]

#: The most messages of one delivery.
_MOST_MESSAGES = 1_000_000
_LONGEST_DELAY_US = 10_000 * 86_400 * 10**6
#: Publishers wait that long for room, and look for it after naps from so long to so long. Nobody calls them: whoever
#: completes would have to look whether somebody waits.
PATIENCE_S, _SHORT_NAP_S, _LONG_NAP_S = 30.0, 0.01, 0.25


class Session(DialogVerbs):
    """One transaction with a box; made by `MessageBox.session` and for one thread at a time.

    Args:
        access: the box.
        connection: a psycopg connection; None where it is not there yet.
        own: whether the transaction is the session's, and not one that the caller began.
        once: whether nothing is done in it but one call of `publish`.
    """

    def __init__(self, access: Access, connection: psycopg.Connection | None, *, own: bool, once: bool = False) -> None:
        self._access = access
        self._connection = connection
        self._schema = access.schema
        self._place = access.place
        self._own = own
        self._once = once
        self._on_use: Callable[[], None] | None = None
        self._delivery: Delivery | None = None
        self._instance: Instance | None = None
        self._dialogs = Dialogs(lambda: self.connection, access.schema)

    @property
    def connection(self) -> psycopg.Connection:
        """The psycopg connection: what is written through it commits together with the messages.

        Raises:
            UsageError: the session has ended.
        """
        if self._connection is None:
            raise UsageError("the session has ended", remedy="begin another with box.session()")
        if self._on_use is not None:
            self._on_use()
        return self._connection

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
        """The instance that the message received last is for, or has started; None where there is none."""
        return self._instance

    @property
    def delivery(self) -> Delivery | None:
        """What was received last, in this session; None where nothing was, or the transaction has gone on without."""
        return self._delivery

    def dispense(self, location: str, count: int = 1) -> Tickets:
        """Take the next numbers of a location, now.

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
            raise UsageError(f"{count!r} tickets can't be dispensed", remedy=f"an integer from 1 to {LAST_NUMBER}")
        with translated(self._place), self.connection.cursor(row_factory=tuple_row) as cursor:
            cursor.execute(statement("dispense", self._schema), {"location": location, "count": count})
            epoch, number, last_number = cursor.fetchall()[0]
        return Tickets.run(location, epoch, number, count, last_number)

    def publish(
        self,
        messages: Message | Iterable[Message],
        *,
        delay: float | str | None = None,
        visible_at: datetime | None = None,
        wait: float | str = PATIENCE_S,
    ) -> list[str]:
        """Take messages in, for every queue that has a subscription for them. They get their tickets at the commit.

        A message whose id was published before is left out, so that a publisher who doesn't know whether a commit
        reached the server may repeat it. One that no subscription wants, and one that isn't what its type says, is
        kept as *unrouted*, with the reason.

        Args:
            messages: in the order in which they get their tickets.
            delay: seconds (or ``"5m"``) before which they aren't handed out. They are ordered at once: what comes
                after them in their groups waits for them.
            visible_at: the moment before which they aren't handed out, instead; without a time zone it is in UTC.
            wait: at most so many seconds (or ``"5s"``) for room in a queue that is full and says that publishers wait.
                What the transaction has done before stays locked meanwhile: best, publishing comes first in it.

        Returns:
            their ids, as given, in that order.

        Raises:
            UsageError: something that isn't a message, a property that has no place in a context, a body that is
                too large, an address that is no queue. Nothing of the call is taken in.
            QueueFull: a queue has no room. Nothing of the call is taken in, and the transaction can go on.
            Unavailable: the transaction has to be repeated.
        """
        given = listed(messages)
        fresh = distinct(given)
        moment = _seen_from(delay, visible_at)
        until = time.monotonic() + _patience(wait)
        with translated(self._place):
            routed, begun = self._admitted(fresh, until, read=False), 0
            runs = portions(fresh)
            once = self._once and len(runs) == 1
            for begin, end in runs:
                while not self._take_in(routed, begin - begun, end - begun, moment, once=once):
                    # The definitions have changed: what isn't taken in yet is routed by the new ones.
                    routed, begun = self._admitted(fresh[begin:], until, read=True), begin
            entries = routed.entries
            if begun or len(set(entries.places)) < len(fresh) or entries.problems.count(None) < len(entries.problems):
                tell_kept_out(self._access, self.connection, [one.message_id for one in fresh])
        return [message.message_id for message in given]

    def _take_in(self, routed: Routed, begin: int, end: int, moment: Mapping[str, str | None], *, once: bool) -> bool:
        """Take some messages of a batch in; False, and nothing is done, where the definitions have changed.

        `once`: there are no others to take in.
        """
        connection = self.connection
        alone = self._alone(connection) if once else None
        name, parameters = "publish_one", parameters_of_one(routed, begin, end)
        if parameters is None:
            name, parameters = "publish", written(parameters_of(routed, begin, end))
        flush = alone is not None and can_flush(alone)
        parameters.update(moment, by_itself=alone is not None, flushed=flush)
        if alone is not None:
            return transact(alone, (statement(name, self._schema), parameters), flush=flush)
        with connection.cursor(row_factory=tuple_row) as cursor:
            ((taken,),) = cursor.execute(statement(name, self._schema), parameters).fetchall()
        return bool(taken)

    def _alone(self, connection: psycopg.Connection) -> OwnConnection | None:
        """The connection, where what is taken in is a transaction by itself."""
        if not (isinstance(connection, OwnConnection) and _is_idle(connection)):
            return None
        # Failures are told in the transaction of what failed.
        return None if self._access.known.definitions.router.wants_failures else connection

    def _admitted(self, messages: Sequence[Message], until: float, *, read: bool) -> Routed:
        """Messages with their entries, once all queues that get some have room for them.

        Raises:
            QueueFull: one has none, and won't have in time, or says that nobody waits for it.
        """
        known, connection = self._access.known, self.connection
        nothing_done = self._own and _is_idle(connection)
        definitions = known.definitions
        if read or definitions.version < 0:
            definitions = known.read(connection)
            if nothing_done:
                connection.commit()  # only looked
        routed, nap_s = self._routed(messages, definitions), _SHORT_NAP_S
        while definitions.limited and (
            full := self._access.room.full(connection, self._schema, definitions.limited, routed)
        ):
            left_s = until - time.monotonic()
            if left_s <= 0 or not full.may_wait:
                raise full.error()
            if nothing_done:
                connection.rollback()  # so that nobody waits for a transaction that naps
            time.sleep(min(nap_s, left_s))
            nap_s = min(2 * nap_s, _LONG_NAP_S)
            if (now := known.current(connection)).version != definitions.version:
                definitions, routed = now, self._routed(messages, now)
        return routed

    def _routed(self, messages: Sequence[Message], definitions: Definitions) -> Routed:
        router = definitions.router
        moment = None
        if router.needs_time:
            with self.connection.cursor(row_factory=tuple_row) as cursor:
                (moment,) = cursor.execute("SELECT now()").fetchall()[0]
        return router.route(messages, moment, looking(self.connection, self._schema))

    def receive(
        self,
        queue: str,
        *,
        limit: int = 1,
        group: str | UUID | None = None,
        dialog: UUID | str | None = None,
        wait: float | str | None = None,
    ) -> Delivery | None:
        """Take the next group of a queue that is ready, and lock it until the transaction ends.

        The group is that whose first message has waited longest, where a level of priority counts for ten seconds.
        A delivery that this session has received and not completed is put back before. A queue that starting subscriptions lead
        to hands out one message at a time, and `instance` is what it is for.

        Args:
            queue: its name.
            limit: at most so many messages; a `UnitOfWork` comes whole.
            group: only this group.
            dialog: only messages of the dialog of this handle, of a queue of a service.
            wait: seconds (or ``"5s"``) to wait for a message; None: not at all. Nothing may have been done in the
                session before, since a transaction that waits holds back others.

        Returns:
            The messages in order, all of one group; None if there are none.

        Raises:
            UsageError: no such queue, a wait in the midst of a transaction, or a dialog of another queue or group.
            ActionRefused: the queue is off, or belongs to a pipeline.
            Unavailable: the transaction has to be repeated.
        """
        _check_limit(limit)
        wait_s = 0.0 if wait is None else _patience(wait)
        if group is not None and not isinstance(group, str | UUID):
            raise UsageError(f"{group!r} is not the key of a group", remedy="a string")
        connection = self.connection
        if wait_s and not (self._own and _is_idle(connection)):
            raise UsageError(
                "receive can't wait in the midst of a transaction",
                remedy="receive first in a session of box.session(), or don't wait",
            )
        group = str(group) if isinstance(group, UUID) else group
        with translated(self._place):
            self._put_back()
            if dialog is not None:
                return self._receive_of(queue, limit, group, dialog, wait_s)
            return self._received(queue, limit, group, wait_s)

    def commit_and_receive(self, *, limit: int = 1) -> Delivery | None:
        """What was received last is done: commit, and receive from the same queue in another transaction of this session.

        As ending the session, and receiving in another one, but for the round trips. After an error it is not known
        whether the first transaction was committed; the session has to end.

        Args:
            limit: at most so many messages; a `UnitOfWork` comes whole.

        Raises:
            UsageError: the transaction is the caller's, or nothing was received in it.
            ActionRefused: the queue is off, or belongs to a pipeline; then all that was done is committed.
            Unavailable: one of the transactions has to be repeated.
        """
        _check_limit(limit)
        delivery = self._delivery
        if delivery is None or not self._own:
            raise UsageError("there is nothing to go on from", remedy="in a session of box.session(), receive first")
        queue = self._access.known.definitions.queues.get(delivery.queue)
        with translated(self._place):
            at_once = queue is not None and is_at_once(queue) and self._instance is None and not delivery.is_done
            if at_once and is_between(self.connection):  # the application may have committed by itself
                self._delivery = None
                self._dialogs.done()
                received = self._received(delivery.queue, limit, None, 0.0, delivery.completion)
                delivery._was_done()  # noqa: SLF001 -- a session does so
                return received
            delivery.done()
            self._put_back()
            self.connection.commit()
            return self._received(delivery.queue, limit, None, 0.0)

    def _received(
        self, queue: str, limit: int, group: str | None, wait_s: float, after: Completion | None = None
    ) -> Delivery | None:
        """What is received; arguments as of `Receiver`."""
        connection = self.connection
        while True:
            limit = 1 if queue in self._access.known.definitions.starting else limit
            delivery = Receiver(self._access, connection, queue, limit, group, after).receive(wait_s)
            after = None
            definitions = self._access.known.definitions
            if delivery is not None and queue in definitions.starting:
                if len(delivery) > 1:  # the process didn't know yet
                    delivery.put_back()
                    continue
                instances = Instances(self._access, connection, queue, definitions)
                self._instance, stray = instances.find(delivery)
                if stray:
                    continue
            if delivery is not None and not accept(self._access, connection, delivery, definitions):
                continue
            self._delivery = delivery
            return delivery

    def _receive_of(
        self, queue: str, limit: int, group: str | None, dialog: UUID | str, wait_s: float
    ) -> Delivery | None:
        """Messages of one dialog: all that its group has is judged, and what is the dialog's goes first."""
        place, own_group = self._dialogs.group_of(dialog)
        if place != queue or group not in (None, own_group):
            where = f"queue {place!r}, conversation group {own_group}"
            raise UsageError(f"the dialog {dialog} is elsewhere", where=where, remedy="receive it from there")
        if wait_s:
            self.connection.commit()  # only looked
        whole = self.receive(queue, limit=_MOST_MESSAGES, group=own_group, wait=wait_s or None)
        if whole is None:
            return None
        self._put_back()
        found = first_of(self.connection, self._schema, handle_of(dialog))
        return self.receive(queue, limit=min(limit, found), group=own_group) if found else None

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
                instance.save(self.connection, self._schema)

    def _put_back(self) -> None:
        """End what was received last: an instance is as its message left it, or as before if that is put back."""
        delivery, self._delivery = self._delivery, None
        instance, self._instance = self._instance, None
        if delivery is None:
            return
        if instance is not None and delivery.is_done:
            instance.save(self.connection, self._schema)
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

    def _forget(self) -> None:
        self._connection = None

    def _succeeded(self) -> Session:
        """This one ends, and another has its transaction, and what was received in it."""
        after = Session(self._access, self._connection, own=self._own)
        after._delivery, after._instance = self._delivery, self._instance
        self._delivery = self._instance = None
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
        raise UsageError(f"{limit!r} messages can't be received", remedy=f"an integer from 1 to {_MOST_MESSAGES}")


def _patience(wait: float | str) -> float:
    """How many seconds to wait.

    Raises:
        UsageError: it isn't a duration.
    """
    if (wait_us := micros(wait)) < 0:
        raise UsageError(f"nobody can wait for {wait!r} seconds", remedy="0 or more")
    return seconds(wait_us)


def _is_idle(connection: psycopg.Connection) -> bool:
    """Whether no transaction has begun."""
    return connection.pgconn.transaction_status == TransactionStatus.IDLE


def _seen_from(delay: float | str | None, visible_at: datetime | None) -> dict[str, str | None]:
    """The parameters that say when messages are handed out.

    Raises:
        UsageError: they aren't times, or both are given.
    """
    if delay is not None and visible_at is not None:
        raise UsageError("delay and visible_at say the same", remedy="give one of them")
    if visible_at is not None:
        if not isinstance(visible_at, datetime):
            raise UsageError(f"{visible_at!r} is not a moment", remedy="give a datetime")
        visible_at = visible_at if visible_at.tzinfo else visible_at.replace(tzinfo=UTC)
    period_us = 0 if delay is None else micros(delay)
    if not 0 <= period_us <= _LONGEST_DELAY_US:
        raise UsageError(f"a delay can't be {delay!r}", remedy="from 0 to 10,000 days")
    return {
        "visible_at": None if visible_at is None else visible_at.isoformat(),
        "delay": f"{period_us} microseconds" if period_us else None,
    }


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
            "the connection commits each statement by itself",
            remedy="begin a transaction: with connection.transaction(): …",
        )
    return connection
