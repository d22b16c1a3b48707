"""Handlers: import and check the user's functions, and read their answers."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from seriatim.aio.delivery import AsyncDelivery
from seriatim.aio.session import AsyncSession
from seriatim.box.connection.misuse import Misuse
from seriatim.box.faults.postpone import postponement_us
from seriatim.box.session import Session
from seriatim.box.turns.delivery import Delivery
from seriatim.errors import Business, UsageError, shown
from seriatim.pipeline.declared.function import load_function
from seriatim.pipeline.types.message import Message, Received
from seriatim.runtime.workers.coroutines import HandlerLoop, plain
from seriatim.runtime.workers.dialog_ends import ends_dialog

#: In a mapping, the handler of all types that it doesn't name.
OTHERS = "*"


@dataclass(frozen=True, slots=True)
class Consumed:
    """A handler's answer: all its messages are done, or the first of them.

    Args:
        count: the number of messages of a batch that are done, from the first on; the other messages are handed out
            again. None: all are done. A `UnitOfWork` is done as a whole.
        postpone: the delay after which the other messages are handed out again: seconds, ``"15s"``, or a `timedelta`; None: at
            once.

    Raises:
        UsageError: a count below 1, or an invalid delay.
    """

    count: int | None = None
    postpone: float | str | timedelta | None = None

    def __post_init__(self) -> None:
        if self.count is not None and (
            isinstance(self.count, bool) or not isinstance(self.count, int) or self.count < 1
        ):
            raise UsageError(
                f"cannot consume {shown(self.count)} messages",
                remedy="at least 1; raise Transient or Postpone to get them again",
            )
        if self.postpone is not None:
            postponement_us(self.postpone)


def no_handler(queue: str) -> UsageError:
    return UsageError(
        "there is no handler",
        where=f"queue {queue!r}",
        remedy="give a function; a command takes --handler MODULE:FUNCTION",
    )


Returned: TypeAlias = Message | Sequence[Message] | Consumed | None
#: Takes a message, or a `Delivery`, and the open session.
Handler: TypeAlias = Callable[[Any, Session], Returned]
#: A user's handler: a plain function, or an ``async def``.
GivenHandler: TypeAlias = (
    Callable[[Received, Session], Returned]
    | Callable[[Delivery, Session], Returned]
    | Callable[[Received, AsyncSession], Awaitable[Returned]]
    | Callable[[AsyncDelivery, AsyncSession], Awaitable[Returned]]
)


class Handlers:
    def __init__(
        self,
        handler: GivenHandler | str | Mapping[str, GivenHandler | str] | None,
        folders: Sequence[str] = (),
        *,
        takes_coroutines: bool = True,
    ) -> None:
        #: Runs the coroutine functions of the present run.
        self._loop = HandlerLoop()
        self._takes_coroutines = takes_coroutines
        #: Folders to import modules from, besides Python's own path.
        self._folders = [Path(folder) for folder in folders] or [Path.cwd()]
        self._instances = handler is None
        self._only: Handler | None = None
        self._by_type: dict[str, Handler] = {}
        self._started: dict[str, Handler] = {}
        if isinstance(handler, Mapping):
            if not handler:
                raise UsageError("there is no handler for any type", remedy='such as {"order": handle}')
            self._by_type = {name: self._loaded(value) for name, value in handler.items()}
        elif handler is not None:
            self._only = self._loaded(handler)
        lengths = [getattr(one, "run_length", None) for one in (self._only, *self._by_type.values())]
        #: The most messages in a turn, where a handler is a port that says so; None: as many as the worker takes.
        self.run_length: int | None = min((one for one in lengths if isinstance(one, int)), default=None)

    @property
    def by_type(self) -> bool:
        return bool(self._by_type)

    def names(self, kind: str) -> bool:
        return kind in self._by_type

    def begin(self, loop: asyncio.AbstractEventLoop | None) -> None:
        """Begin a run, whose coroutine functions run on an event loop; None: on that of this process."""
        self._loop = HandlerLoop(loop)

    def check(self) -> None:
        """Check that coroutine functions can run."""
        self._loop.check()

    def stop(self) -> None:
        """Cancel the coroutine functions at work; their messages are handed out again, and no attempt is counted."""
        self._loop.stop()

    def give_up(self, thread: int | None) -> None:
        """Cancel the coroutine function at work for a worker's thread: it took too long."""
        self._loop.give_up(thread)

    def handler(self, message: Received, session: Session) -> Handler:
        """The handler for a received message. If no handler is given for a message that ends a dialog, the result is a handler that does
        nothing.
        """
        if self._only is not None:
            return self._only
        if self._instances:
            if session.instance is None:
                raise Business("the message belongs to no instance, and there is no handler besides")
            name = session.instance.starts
            if name not in self._started:
                self._started[name] = self._loaded(name)
            return self._started[name]
        handler = self._by_type.get(message.type) or self._by_type.get(OTHERS)
        if handler is None and ends_dialog(message):
            return _nothing
        if handler is None:
            raise Business(f"there is no handler for messages of type {message.type!r}")
        return handler

    def _loaded(self, handler: object) -> Handler:
        function = load_function(handler, self._folders) if isinstance(handler, str) else handler
        if not callable(function):
            raise UsageError(
                f"{type(function).__name__} is not a handler", remedy="give a function of a message and a session"
            )
        _check_signature(function, handler)
        if not self._takes_coroutines and _is_coroutine_function(function):
            raise UsageError(
                f"the handler {getattr(function, '__qualname__', function)!r} is a coroutine function, and a worker of a region has none",
                remedy="give a plain function",
            )
        return plain(function, lambda: self._loop) if _is_coroutine_function(function) else function


def _is_coroutine_function(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 -- asked for what it is


def _nothing(_message: Any, _session: Session) -> None:
    """Do nothing: the worker itself ends its side of a dialog that has ended."""


def _check_signature(function: Callable[..., Any], argument: object) -> None:
    name = argument if isinstance(argument, str) else getattr(function, "__qualname__", repr(function))
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise UsageError(f"the handler {name} is a generator function", remedy="return the messages in place of yield")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C have no signature
        return
    try:
        signature.bind(None, None)
    except TypeError as error:
        raise UsageError(
            f"the handler {name}{signature} can't be called with a message and a session ({error})",
            remedy="def handle(message, tx): …",
        ) from None


def called(handler: Handler, argument: object, session: Session) -> object:
    """Call a handler. An error from this very line means that the handler can't be called so."""
    return handler(argument, session)


class Answered(NamedTuple):
    published: list[Message]
    consumed: int
    #: The delay after which the others are handed out again, microseconds; None: at once.
    delay_us: int | None = None


def answered(answer: object, count: int, *, whole: bool = False) -> Answered:
    match answer:
        case None:
            return Answered([], count)
        case Message():
            return Answered([answer], count)
        case Consumed():
            if answer.count is not None and answer.count > count:
                raise Misuse(f"the handler consumed {answer.count} messages, but got only {count}")
            if whole and answer.count not in (None, count):
                raise Misuse(
                    f"the handler consumed {answer.count} messages of a set of {count}, which is done as a whole",
                    remedy="return None, or raise Postpone or Transient",
                )
            delay_us = None if answer.postpone is None else postponement_us(answer.postpone)
            return Answered([], count if answer.count is None else answer.count, delay_us)
        case list() | tuple() if all(isinstance(item, Message) for item in answer):
            return Answered(list(answer), count)
        case _ if answer is Consumed:
            return Answered([], count)
    kind = type(answer).__name__
    if isinstance(answer, list | tuple):
        kind = f"{kind} of {', '.join(sorted({type(item).__name__ for item in answer}))}"
    raise Misuse(
        f"the handler returned {kind}", remedy="return None, a seriatim.Message, a list of them, or seriatim.Consumed"
    )
