"""The verbs of dialogs as methods of `Session`; `dialogs.py` and functions of the schema implement them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID

from seriatim.box.connection.access import Transaction
from seriatim.box.dialogs.dialogs import Dialogs, handle_of
from seriatim.box.postgres.translate import translated
from seriatim.box.turns.delivery import Delivery
from seriatim.errors import UsageError, shown
from seriatim.pipeline.types.message import Received

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def _verb(verb: Callable[Concatenate[Dialogs, _Given], _Result]) -> Callable[Concatenate[DialogVerbs, _Given], _Result]:
    """A method of `Dialogs` as one of a session."""

    @wraps(verb)
    def method(self: DialogVerbs, /, *given: _Given.args, **named: _Given.kwargs) -> _Result:
        with translated(self._place):
            return verb(self._dialogs, *given, **named)

    return method


class DialogVerbs(ABC):
    _place: str
    #: The sides that this session ended while it had some of their messages in hand.
    _ended_dialogs: set[UUID]

    @property
    @abstractmethod
    def transaction(self) -> Transaction:
        """The session's transaction."""

    @property
    def _dialogs(self) -> Dialogs:
        """The verbs. Each call asks for the transaction again: a worker rolls back the work of a failed handler then."""
        transaction = self.transaction
        transaction.check_enabled()
        return Dialogs(transaction, self._ended_dialogs, self._in_hand())

    @abstractmethod
    def receive(self, queue: str, *, wait: float | str | None = None) -> Delivery | None:
        """Take the next group of a queue."""

    @abstractmethod
    def _put_back(self) -> None:
        """End the last delivery."""

    @abstractmethod
    def _in_hand(self) -> Sequence[Received]:
        """The messages of the last delivery that aren't done."""

    begin_dialog = _verb(Dialogs.begin_dialog)
    begin_monolog = _verb(Dialogs.begin_monolog)
    move = _verb(Dialogs.move)
    end = _verb(Dialogs.end)
    set_timer = _verb(Dialogs.set_timer)
    history = _verb(Dialogs.history)

    def send(self, handle: UUID | str, type: str, body: bytes = b"", *, content_type: str | None = None) -> None:  # noqa: A002 -- as the field of a message
        """Send a message in a dialog. It arrives with the commit, after all messages that were sent before."""
        self.send_many([(handle, type, body, content_type)])

    def send_many(self, messages: Iterable[Sequence[Any]]) -> None:
        """Send messages in dialogs, all or none, in order: (handle, type, body) or (handle, type, body, content type)."""
        if not isinstance(messages, Iterable):
            raise UsageError(f"{shown(messages, 80)} is no list of messages", remedy="a list of (handle, type, body)")
        rows = [_whole(message) for message in messages]
        with translated(self._place):
            self._dialogs.send(rows)

    def next_group(self, queue: str, *, wait: float | str | None = None) -> UUID | None:
        """Lock the next conversation group with messages, without receiving them. Arguments and errors are those of `receive`. Then call
        `receive` with this ``group``.
        """
        delivery = self.receive(queue, wait=wait)
        if delivery is None:
            return None
        with translated(self._place):
            self._put_back()
        return handle_of(delivery.group, "a conversation group")

    def has_ended(self, handle: UUID) -> bool:
        """Whether this session has ended the side since it received the messages that it has in hand."""
        return handle_of(handle) in self._ended_dialogs


def _whole(message: object) -> tuple[Any, Any, Any, Any]:
    """Complete a message to (handle, type, body, content type)."""
    match message:
        case (handle, kind, body):
            return handle, kind, body, None
        case (handle, kind, body, content_type):
            return handle, kind, body, content_type
    raise UsageError(
        f"{shown(message, 80)} is not a message: one is given as (handle, type, body)",
        remedy="with the content type behind, if need be",
    )
