"""`AsyncMessageBox`: a message box for asyncio."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, suppress
from copy import copy
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, NoReturn, ParamSpec, Self, TypeVar
from uuid import UUID

from seriatim.aio.calls import Calls
from seriatim.aio.face import counterpart
from seriatim.aio.lease import AsyncTakenLease
from seriatim.aio.lines import WaitingLines
from seriatim.aio.session import AsyncSession, BegunSession
from seriatim.aio.slots import Slots
from seriatim.box.box import MessageBox
from seriatim.box.connection.application_connection import ApplicationConnection, for_threads
from seriatim.box.connection.connections import DEFAULT_SCHEMA
from seriatim.box.connection.misuse import OnlyAsyncWith
from seriatim.box.connection.wait_time import patience
from seriatim.box.definitions.change import Change
from seriatim.box.leases.door import Door, Superseded, Wanted
from seriatim.box.leases.taken import Principal
from seriatim.box.postgres.migrate import Migration
from seriatim.box.requests.requests import KEEP, Found, Pending, Reply, Step, Wait, asked, replied
from seriatim.box.requests.waiting import RepliesThread
from seriatim.box.views.box_status import BoxStatus
from seriatim.box.views.message_status import MessageStatus
from seriatim.errors import UsageError
from seriatim.pipeline.declared.box_settings import Unroutable
from seriatim.pipeline.types.message import Message

P = ParamSpec("P")
T = TypeVar("T")
#: A caller that waits for a message to be final looks again after the first of these pauses, and later after the second.
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 1.0

Opened = TypeVar("Opened", bound=AbstractAsyncContextManager[Any])


class Opening(OnlyAsyncWith, Generic[Opened]):
    """A box that isn't open yet."""

    def __init__(self, open_: Callable[[], Coroutine[Any, Any, Opened]]) -> None:
        self._open = open_
        self._opened: Opened | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            # Other code asks any object for its own names, and expects an AttributeError.
            if name.startswith("_"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            raise UsageError(
                "the message box isn't open",
                remedy="await AsyncMessageBox.open(…), or async with AsyncMessageBox.open(…) as box",
            )

    def __await__(self) -> Generator[Any, None, Opened]:
        return self._open().__await__()

    async def __aenter__(self) -> Opened:
        self._opened = await self._open()
        return self._opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._opened is not None:
            await self._opened.__aexit__(kind, error, trace)


class AsyncMessageBox(OnlyAsyncWith):
    """The asyncio face of a `MessageBox`: its methods as coroutines; arguments, results and errors are the same.

    Each call is made in a thread; there are as many threads as the box has connections. Coroutines that wait, for messages or
    for a connection, hold no thread. Cancelling a call interrupts it, and its transaction is rolled back. Any event loop of
    the process may use the box.

    Args:
        box: an open box.
        owns: whether closing this closes the box.

    Attributes:
        sync: the box itself.
    """

    def __init__(self, box: MessageBox, *, owns: bool = False) -> None:
        self.sync = box
        self._is_owner = owns
        self._process = os.getpid()
        self._threads = ThreadPoolExecutor(box.connections, thread_name_prefix="seriatim-aio")
        self._slots = Slots(box.connections, box.access.place)
        self._lines = WaitingLines(box)
        self._replies = RepliesThread(lambda: box.more(1))
        self._shares = False

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
    ) -> Opening[Self]:
        """Open a box; arguments and errors are those of `MessageBox.open`. Closing this closes it.

        Returns:
            what is awaited, ``box = await AsyncMessageBox.open()``, or entered, ``async with AsyncMessageBox.open() as box``.
        """

        def opened() -> MessageBox:
            return MessageBox.open(
                dsn, schema=schema, connections=connections, turn_limit=turn_limit, create=create, unrouted=unrouted
            )

        async def open_() -> Self:
            opening = asyncio.ensure_future(asyncio.to_thread(opened))
            try:
                return cls(await asyncio.shield(opening), owns=True)
            except asyncio.CancelledError:
                opening.add_done_callback(_close_opened)
                raise

        return Opening(open_)

    @classmethod
    async def migrate(cls, dsn: str | None = None, *, schema: str = DEFAULT_SCHEMA) -> list[Migration]:
        """Create or migrate a box; arguments, result and errors are those of `MessageBox.migrate`."""
        return await asyncio.to_thread(MessageBox.migrate, dsn, schema=schema)

    @classmethod
    async def check(cls, dsn: str | None = None, *, schema: str = DEFAULT_SCHEMA) -> BoxStatus:
        """Check that this seriatim can work with a box; arguments, result and errors are those of `MessageBox.check`."""
        return await asyncio.to_thread(MessageBox.check, dsn, schema=schema)

    async def _do(self, work: Callable[[MessageBox], T]) -> T:
        self._check_process()
        await self._slots.take()
        calls = Calls(self._submit, patience_s=5.0)
        try:
            return await calls.make(lambda: work(self.sync))
        finally:
            if (last := calls.last) is None:
                self._slots.give_back()
            else:  # a call that runs on after its cancellation still has its connection
                last.add_done_callback(lambda _: self._slots.give_back())

    def _submit(self, work: Callable[[], T], /) -> Future[T]:
        try:
            return self._threads.submit(work)
        except RuntimeError:
            raise UsageError("the message box is closed", remedy="open it again") from None

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise UsageError(
                "the message box was opened before this process was forked", remedy="open it again in this process"
            )

    @property
    def lines(self) -> WaitingLines:
        """The coroutines that wait for messages, for internal modules."""
        return self._lines

    @property
    def dsn(self) -> str:
        """The DSN of the box's PostgreSQL, with secrets: don't log it."""
        return self.sync.dsn

    @property
    def id(self) -> UUID | None:
        """The id of the box; see `MessageBox.id`."""
        return self.sync.id

    @property
    def incarnation(self) -> int:
        """The incarnation of the box; see `MessageBox.incarnation`."""
        return self.sync.incarnation

    @property
    def schema(self) -> str:
        """The name of the box's schema."""
        return self.sync.schema

    @property
    def connections(self) -> int:
        """The largest number of open connections, which is also the number of threads."""
        return self.sync.connections

    @property
    def is_pooled(self) -> bool:
        """Whether the box is reached through a connection pooler."""
        return self.sync.is_pooled

    def more(self, connections: int, turn_limit: float | str | None = None) -> Self:
        """Open the same box with more connections; arguments and errors are those of `MessageBox.more`."""
        return type(self)(self.sync.more(connections, turn_limit), owns=True)

    def as_role(self, role: str) -> Self:
        """Open the same box as another role; arguments and errors are those of `MessageBox.as_role`. Both share connections and threads."""
        own: Self = copy(self)
        own.sync, own._is_owner, own._shares = self.sync.as_role(role), True, True
        return own

    def session(self, connection: ApplicationConnection | None = None) -> AbstractAsyncContextManager[AsyncSession]:
        """Begin a session: one transaction. It commits at the end of the block; an exception or a cancellation rolls it back.

        It takes a connection when it is first used. Errors are those of `MessageBox.session`.

        Args:
            connection: the caller's psycopg connection to the same database, also one for asyncio. The session then takes part
                in the caller's transaction, and neither commits it nor rolls it back.
        """
        return self._begun(connection)

    def _begun(self, connection: ApplicationConnection | None = None) -> BegunSession:
        self._check_process()
        joined, lock = for_threads(connection)
        return BegunSession(
            lambda: self.sync.session(joined),
            self._submit,
            self._slots,
            self._lines,
            lock,
            own=connection is None,
            box=self.sync,
        )

    async def run(self, function: Callable[Concatenate[MessageBox, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a plain function with the `MessageBox` itself, in a thread, such as those of `seriatim.operations`.

        Returns:
            what the function returns; its exception passes through.
        """
        return await self._do(lambda box: function(box, *args, **kwargs))

    async def lease(
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
    ) -> AsyncTakenLease | None:
        """Take the next messages of a group under a lease; arguments, result and errors are those of `MessageBox.lease`.

        A coroutine that waits holds no thread and no connection. Cancelling it before its answer hands nothing out, or a lease that
        `attempt_id` finds again.
        """
        wanted = Wanted.checked(queue, limit, lease, group, attempt_id, max_bytes)
        door = Door(self.sync.access, principal)
        try:
            with door.attempt(wanted):
                async with self._begun() as session:
                    taken = await session.waited(
                        lambda one, waiting: door.look(one, wanted, waiting),
                        queue,
                        wait,
                        is_particular=group is not None,
                        key=None if attempt_id is None else (door.principal, attempt_id),
                    )
        except Superseded:
            return None
        return None if taken is None else AsyncTakenLease(taken, self._call)

    def leased(self, lease_id: UUID | str, *, principal: Principal | None = None) -> AsyncTakenLease:
        """A handle of a lease by its id; arguments and errors are those of `MessageBox.leased`."""
        return AsyncTakenLease(self.sync.leased(lease_id, principal=principal), self._call)

    async def _call(self, work: Callable[[], T]) -> T:
        return await self._do(lambda _: work())

    async def drop(self, **named: str | Iterable[str]) -> list[Change]:
        """Drop unused definitions, all or none; arguments, result and errors are those of `MessageBox.drop`."""
        return await self._do(lambda box: box.drop(**named))

    async def status_of(
        self, message_id: str, *, wait: float | str | None = None, id_space: str | None = None
    ) -> MessageStatus:
        """The state of a message in each queue that has it; arguments and errors are those of `MessageBox.status_of`.

        A coroutine that waits holds no thread and no connection.
        """
        loop = asyncio.get_running_loop()
        until, pause_s = loop.time() + (0.0 if wait is None else patience(wait)), _FIRST_PAUSE_S
        while True:
            status = await self._do(lambda box: box.status_of(message_id, id_space=id_space))
            if status.is_final or (left := until - loop.time()) <= 0:
                return status
            await asyncio.sleep(min(pause_s, left))
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    async def request(
        self,
        message: Message,
        *,
        reply: str,
        wait: float | str | None = None,
        keep: float | str = KEEP,
        asker: str = "",
    ) -> Reply | Pending:
        """Publish a request, and wait for its reply; arguments, result and errors are those of `MessageBox.request`.

        A coroutine that waits holds no thread and no connection.
        """
        return (await self._stepped(asked(message, reply, wait, keep, asker))).first

    async def reply(self, request_id: str, *, wait: float | str | None = None, asker: str = "") -> Reply | Pending:
        """The first reply to a request; arguments, result and errors are those of `MessageBox.reply`.

        A coroutine that waits holds no thread and no connection.
        """
        return (await self._stepped(replied(request_id, 1, wait, asker))).first

    async def replies(
        self, request_id: str, count: int | None = None, *, wait: float | str | None = None, asker: str = ""
    ) -> list[Reply]:
        """The replies to a request; arguments, result and errors are those of `MessageBox.replies`.

        A coroutine that waits holds no thread and no connection.
        """
        return (await self._stepped(replied(request_id, count, wait, asker))).all

    async def _stepped(self, steps: Generator[Step, Any, Found]) -> Found:
        given = None
        try:
            while True:
                step = steps.send(given)
                given = await (
                    self._wait(step) if isinstance(step, Wait) else self._call(partial(step, self.sync.access))
                )
        except StopIteration as end:
            return end.value

    async def _wait(self, step: Wait) -> Found | None:
        with self._replies.waiting(self.sync.access.role, step.awaited) as caller, suppress(TimeoutError):
            async with asyncio.timeout(step.seconds):
                return await asyncio.wrap_future(caller)
        return None

    publish = counterpart(MessageBox.publish)
    define = counterpart(MessageBox.define)
    apply = counterpart(MessageBox.apply)
    definitions = counterpart(MessageBox.definitions)
    peek = counterpart(MessageBox.peek)
    tick = counterpart(MessageBox.tick)

    def stop_receiving(self) -> None:
        """End each ``receive(wait="forever")`` of this object, and each later one: they return None. Everything else goes on.

        As `MessageBox.stop_receiving`; an event loop may call it, and other threads.
        """
        self.sync.stop_receiving()
        self._lines.call_all()

    async def close(self) -> None:
        """Close it, and the box if `open` opened it; coroutines that wait get `UsageError`. A second call does nothing."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        if not self._shares:
            self._threads.shutdown(wait=False)
            self._lines.close()
            self._replies.close()
        if self._is_owner:
            self.sync.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncMessageBox {self.sync.access.place}>"


def _close_opened(opening: asyncio.Future[MessageBox]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()
