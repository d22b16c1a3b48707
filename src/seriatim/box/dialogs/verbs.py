"""The verbs of dialogs as methods of `Session`; `dialogs.py` and functions of the schema implement them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from seriatim.box.connection.access import Transaction
from seriatim.box.dialogs.dialogs import Dialogs, Kept, handle_of
from seriatim.box.postgres.translate import translated
from seriatim.box.turns.delivery import Delivery
from seriatim.errors import UsageError, shown
from seriatim.pipeline.declared.contract import DEFAULT
from seriatim.pipeline.types.message import Received


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
        return Dialogs(transaction, self._ended_dialogs)

    @abstractmethod
    def receive(self, queue: str, *, wait: float | str | None = None) -> Delivery | None:
        """Take the next group of a queue."""

    @abstractmethod
    def _put_back(self) -> None:
        """End the last delivery."""

    @abstractmethod
    def _in_hand(self) -> Sequence[Received]:
        """The messages of the last delivery that aren't done."""

    def begin_dialog(
        self,
        from_service: str,
        to_service: str,
        *,
        contract: str = DEFAULT,
        lifetime: float | str | None = None,
        encryption: bool = False,
        related_to: UUID | str | None = None,
        group: UUID | str | None = None,
        priority: int = 5,
        handle: UUID | str | None = None,
    ) -> UUID:
        """Begin a dialog. The other side gets to know it with the first message."""
        with translated(self._place):
            return self._dialogs.begin(
                from_service,
                [to_service],
                contract,
                lifetime=lifetime,
                encryption=encryption,
                related_to=related_to,
                group=group,
                priority=priority,
                handle=handle,
            )

    def begin_monolog(
        self,
        from_service: str,
        to_services: Sequence[str],
        *,
        contract: str = DEFAULT,
        lifetime: float | str | None = None,
        priority: int = 5,
    ) -> UUID:
        """Begin one ordered stream to several services. Each service receives at its own pace and sends nothing. Arguments and errors are
        those of `begin_dialog`.
        """
        with translated(self._place):
            return self._dialogs.begin(
                from_service, to_services, contract, lifetime=lifetime, priority=priority, is_monolog=True
            )

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

    def move(self, handle: UUID | str, group: UUID | str) -> None:
        """Move this side of a dialog, with its waiting messages, into another conversation group of its queue."""
        with translated(self._place):
            self._dialogs.move(handle, group, self._in_hand())

    def end(self, handle: UUID | str, *, error: tuple[int, str] | None = None, cleanup: bool = False) -> None:
        """End this side of a dialog. Its waiting messages are deleted; the other side may still receive its own messages."""
        with translated(self._place):
            self._dialogs.end(handle, error, cleanup=cleanup, in_hand=self._in_hand())

    def has_ended(self, handle: UUID) -> bool:
        """Whether this session has ended the side since it received the messages that it has in hand."""
        return handle_of(handle) in self._ended_dialogs

    def set_timer(self, handle: UUID | str, delay: float | str | None) -> None:
        """Send a ``Timer`` message to this side of a dialog after a delay; it overtakes waiting messages."""
        with translated(self._place):
            self._dialogs.set_timer(handle, delay)

    def history(self, handle: UUID | str) -> list[Kept]:
        """The kept messages of a dialog, also messages set aside unread after its lifetime or beside an invalid message. If the service has
        `retention`, all messages of both directions are kept until this side ends.
        """
        with translated(self._place):
            return self._dialogs.history(handle)


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
