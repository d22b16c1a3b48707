"""`AsyncSession`: publish, receive and exchange dialog messages in one transaction, as coroutines."""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Concatenate, ParamSpec, Self, TypeVar
from uuid import UUID

from seriatim.aio.calls import Calls, Submit
from seriatim.aio.delivery import AsyncDelivery
from seriatim.aio.face import counterpart
from seriatim.aio.lines import WaitingLines
from seriatim.aio.slots import Slots
from seriatim.box.box import MessageBox
from seriatim.box.connection.misuse import OnlyAsyncWith
from seriatim.box.connection.round_trip import is_idle
from seriatim.box.connection.wait_time import patience_of_receiver
from seriatim.box.instances.instances import Instance
from seriatim.box.session import Session
from seriatim.box.turns.delivery import Delivery
from seriatim.errors import Unavailable, UsageError
from seriatim.pipeline.text.event_log import LOG

#: The pauses of a coroutine that waits forever, while there is no connection, and its occasional look, seconds.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _LONG_S = 0.1, 5.0, 3600.0
P = ParamSpec("P")
T = TypeVar("T")


class AsyncSession(ABC):
    """One transaction with a box: the asyncio face of a `Session`. `AsyncMessageBox.session` begins it.

    Its methods are those of `Session`, as coroutines; arguments, results and errors are the same. They are made in a thread,
    one at a time. Cancelling a method interrupts its statement; the transaction is then rolled back.

    Args:
        submit: has a function called in a thread.
        patience_s: how long to wait for a cancelled call; None: until it has ended, since the connection is someone else's.
    """

    def __init__(self, submit: Submit, patience_s: float | None = None) -> None:
        self._calls = Calls(submit, patience_s)
        self._one_at_a_time = asyncio.Lock()
        self._delivery: AsyncDelivery | None = None

    @property
    @abstractmethod
    def _session(self) -> Session | None:
        """The session itself; None before it has begun, and after its end."""

    @abstractmethod
    async def _do(self, work: Callable[[Session], T]) -> T:
        """Call a function with the session itself, in a thread."""

    async def _waited(
        self,
        look: Callable[[Session, float | str | None], T | None],
        queue: str,
        wait: float | str | None,
        *,
        is_particular: bool = False,
    ) -> T | None:
        return await self._do(lambda session: look(session, wait))

    def _as_ours(self, delivery: Delivery | None) -> AsyncDelivery | None:
        if delivery is None:
            return None
        if self._delivery is None or self._delivery.sync is not delivery:
            self._delivery = AsyncDelivery(delivery, self.call)
        return self._delivery

    async def call(self, work: Callable[[], T], /) -> T:
        """Call a function in the session's thread, as internal modules do."""
        return await self._do(lambda _: work())

    @property
    def token(self) -> int | None:
        """The fencing token of the handler's lease, higher with every lease; None without a lease."""
        return None if self._session is None else self._session.token

    @property
    def instance(self) -> Instance | None:
        """The instance of the last received message; None if it has none."""
        return None if self._session is None else self._session.instance

    @property
    @abstractmethod
    def is_open(self) -> bool:
        """Whether the session hasn't ended."""

    @property
    def delivery(self) -> AsyncDelivery | None:
        """The last delivery received in this session, if its transaction hasn't ended; else None."""
        return None if self._session is None else self._as_ours(self._session.delivery)

    async def run(self, function: Callable[Concatenate[Session, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a plain function with the `Session` itself, in a thread: for code that isn't written for asyncio.

        Returns:
            what the function returns; its exception passes through.
        """
        return await self._do(lambda session: function(session, *args, **kwargs))

    async def execute(self, query: Any, params: Sequence[Any] | dict[str, Any] | None = None) -> list[tuple[Any, ...]]:
        """Execute an SQL statement in the transaction; arguments and errors are those of psycopg's ``execute``.

        Returns:
            its rows; none for a statement without a result.
        """
        return await self._do(lambda session: _executed(session, query, params))

    async def receive(
        self,
        queue: str,
        *,
        limit: int = 1,
        group: str | UUID | None = None,
        dialog: UUID | str | None = None,
        wait: float | str | None = None,
    ) -> AsyncDelivery | None:
        """Lock the next ready group of a queue until the transaction ends, and return its first messages.

        Arguments and errors are those of `Session.receive`. A coroutine that waits holds no thread and no connection.
        """

        def look(session: Session, wait: float | str | None) -> Delivery | None:
            return session.receive(queue, limit=limit, group=group, dialog=dialog, wait=wait)

        particular = group is not None or dialog is not None
        return self._as_ours(await self._waited(look, queue, wait, is_particular=particular))

    async def commit_and_receive(self, *, limit: int = 1) -> AsyncDelivery | None:
        """Complete the last delivery, commit, and receive from the same queue in a new transaction of this session.

        Arguments and errors are those of `Session.commit_and_receive`.
        """
        return self._as_ours(await self._do(lambda session: session.commit_and_receive(limit=limit)))

    async def next_group(self, queue: str, *, wait: float | str | None = None) -> UUID | None:
        """Lock the next conversation group with messages, without receiving them.

        Arguments, result and errors are those of `Session.next_group`. A coroutine that waits holds no thread and no connection.
        """
        return await self._waited(lambda session, wait: session.next_group(queue, wait=wait), queue, wait)

    publish = counterpart(Session.publish)
    request = counterpart(Session.request)
    dispense = counterpart(Session.dispense)
    close_group = counterpart(Session.close_group)
    save_instance = counterpart(Session.save_instance)
    begin_dialog = counterpart(Session.begin_dialog)
    begin_monolog = counterpart(Session.begin_monolog)
    send = counterpart(Session.send)
    send_many = counterpart(Session.send_many)
    move = counterpart(Session.move)
    end = counterpart(Session.end)
    has_ended = counterpart(Session.has_ended)
    set_timer = counterpart(Session.set_timer)
    history = counterpart(Session.history)


class LentSession(AsyncSession):
    """The session of a worker's turn, for an ``async def`` handler; the worker's thread makes its calls."""

    def __init__(self, session: Session, submit: Submit) -> None:
        super().__init__(submit)
        self._lent: Session | None = session
        if (connection := session.present_connection) is not None:
            self._calls.interruption.has(connection)

    @property
    def _session(self) -> Session | None:
        return self._lent

    @property
    def is_open(self) -> bool:
        return self._lent is not None

    async def _do(self, work: Callable[[Session], T]) -> T:
        async with self._one_at_a_time:
            session = self._lent
            if session is None:
                raise UsageError(
                    "the session has ended", remedy="use it in the handler only, and await all that uses it"
                )
            return await self._calls.make(lambda: work(session))

    def close(self) -> None:
        """The handler has returned, or failed."""
        session, self._lent = self._lent, None
        if session is not None and (connection := session.present_connection) is not None:
            self._calls.interruption.has_not(connection)

    def check_whole(self) -> None:
        """See that no verb was half done."""
        if self._calls.is_torn:
            raise _torn()


class BegunSession(OnlyAsyncWith, AsyncSession):
    """A session of its own. It takes a connection when it is first used."""

    def __init__(
        self,
        begin: Callable[[], AbstractContextManager[Session]],
        submit: Submit,
        slots: Slots,
        lines: WaitingLines,
        lock: AbstractAsyncContextManager[Any],
        *,
        own: bool = True,
        box: MessageBox | None = None,
    ) -> None:
        super().__init__(submit, patience_s=5.0 if own else None)
        self._begin = begin
        self._slots = slots
        self._lines = lines
        self._box = box
        self._lock = lock
        #: Whether the transaction is the session's own; False: the caller's.
        self._own = own
        self._around: AbstractContextManager[Session] | None = None
        self._begun: Session | None = None
        self._has_slot = False
        #: None before the block begins.
        self._is_open: bool | None = None

    @property
    def _session(self) -> Session | None:
        return self._begun

    @property
    def is_open(self) -> bool:
        return bool(self._is_open)

    async def __aenter__(self) -> Self:
        self._is_open = True
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._is_open = False
        if error is not None:
            await self._rolled_back(error)
            return
        try:
            async with self._one_at_a_time:  # the calls of other tasks end before the commit
                pass
        except asyncio.CancelledError as cancelled:
            await self._rolled_back(cancelled)
            raise
        torn = _torn() if self._calls.is_torn else None
        await self._ended(torn)
        if torn is not None:
            raise torn

    async def _do(self, work: Callable[[Session], T]) -> T:
        return await self._call(lambda: work(self._enter()))

    async def _call(self, work: Callable[[], T]) -> T:
        """Do work in a thread, one call after another, in a slot."""
        async with self._one_at_a_time, self._lock:
            self._check_open()
            if self._calls.is_torn:
                raise _torn()
            if not self._has_slot:
                await self._slots.take()
                self._has_slot = True
            try:
                self._check_open()  # another task may have ended it meanwhile
                return await self._calls.make(work)
            finally:
                if self._around is None and not self._calls.is_running:
                    self._free_slot()

    def _check_open(self) -> None:
        if not self._is_open:
            problem = "hasn't begun" if self._is_open is None else "has ended"
            raise UsageError(f"the session {problem}", remedy="begin one: async with box.session() as tx: …")

    async def waited(
        self,
        look: Callable[[Session, float | str | None], T | None],
        queue: str,
        wait: float | str | None,
        *,
        is_particular: bool = False,
        key: object = None,
    ) -> T | None:
        """Return the result of `look`, in a session that has done nothing again after each notification. `key`: see `WaitingCoroutine`."""
        wait_s = patience_of_receiver(wait)
        if not wait_s or not self._can_wait():
            return await self._do(lambda session: look(session, wait))
        loop = asyncio.get_running_loop()
        until, pause_s = loop.time() + wait_s, _FIRST_PAUSE_S
        with self._lines.place(queue, is_particular=is_particular, box=self._box, key=key) as place:
            while not (wait_s == math.inf and place.is_ending):
                try:
                    result = await self._call(lambda: self._looked(look))
                except Unavailable as error:
                    if wait_s < math.inf:
                        raise
                    LOG.warning("receiving_retried", error=error)
                    await asyncio.sleep(pause_s)
                    pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                    continue
                except UsageError:
                    if wait_s == math.inf and place.is_ending:  # the box was closed at this moment
                        return None
                    raise
                left, pause_s = until - loop.time(), _FIRST_PAUSE_S
                if result is not None or left <= 0:
                    return result
                await place.turn(min(left, _LONG_S))
        return None

    _waited = waited

    def _can_wait(self) -> bool:
        """Whether nothing is done yet in the transaction, so that a wait needs no connection."""
        connection = None if self._begun is None else self._begun.present_connection
        return self._own and (connection is None or is_idle(connection))

    def _looked(self, look: Callable[[Session, float | str | None], T | None]) -> T | None:
        """In a thread: look; without a result the connection is given back."""
        try:
            result = look(self._enter(), None)
        except Unavailable as error:
            self._leave(error)
            raise
        if result is None:
            self._leave(None)
        return result

    def _enter(self) -> Session:
        """In a thread: the session, which begins where it hasn't."""
        if self._begun is None:
            around = self._begin()
            self._begun = session = around.__enter__()
            self._around = around
            if not self._own and (connection := session.present_connection) is not None:
                self._calls.interruption.has(connection)  # the box notes its own connections itself
        return self._begun

    def _leave(self, error: BaseException | None) -> None:
        """In a thread: end the session, if it has begun."""
        around, session, self._around, self._begun = self._around, self._begun, None, None
        if not self._own and session is not None and (connection := session.present_connection) is not None:
            self._calls.interruption.has_not(connection)
        if around is not None:
            kind = None if error is None else type(error)
            try:
                around.__exit__(kind, error, None if error is None else error.__traceback__)
            except BaseException as again:
                if again is not error:
                    raise

    async def _rolled_back(self, error: BaseException) -> None:
        try:
            if not self._calls.is_torn:
                await self._calls.stop()  # a call of another task
        finally:
            await self._ended(error)

    async def _ended(self, error: BaseException | None) -> None:
        """End the session in a thread, also where the coroutine is cancelled."""
        if (last := self._calls.last) is not None and self._calls.is_running:  # it was cancelled, and is still running
            last.add_done_callback(lambda _: self._end(error))
            return
        try:
            if self._around is not None:
                async with self._lock:
                    await self._calls.finish(lambda: self._end(error))
        finally:
            if not self._calls.is_running:
                self._free_slot()

    def _end(self, error: BaseException | None) -> None:
        try:
            self._leave(error)
        finally:
            self._free_slot()

    def _free_slot(self) -> None:
        if self._has_slot:
            self._has_slot = False
            self._slots.give_back()


def _executed(session: Session, query: Any, params: Any) -> list[tuple[Any, ...]]:
    with session.connection.cursor() as cursor:
        cursor.execute(query, params)
        return cursor.fetchall() if cursor.description else []


def _torn() -> UsageError:
    return UsageError(
        "a call of this session was cancelled, and its transaction is rolled back",
        remedy="let the cancellation end the session, and begin another",
    )
