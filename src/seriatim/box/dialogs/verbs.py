"""The verbs of dialogs, as methods of the session. What each does is in `dialogs.py`, and in the schema."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from seriatim.box.dialogs.dialogs import Dialogs, Kept, handle_of
from seriatim.box.postgres.translate import translated
from seriatim.box.turns.delivery import Delivery
from seriatim.errors import UsageError, shown
from seriatim.pipeline.declared.contract import DEFAULT
from seriatim.pipeline.types.message import Received

__all__ = ["DialogVerbs"]


class DialogVerbs(ABC):
    """What a session can do with dialogs."""

    _dialogs: Dialogs
    _place: str

    @abstractmethod
    def receive(self, queue: str, *, wait: float | str | None = None) -> Delivery | None:
        """Take the next group of a queue."""

    @abstractmethod
    def _put_back(self) -> None:
        """End what was received last."""

    @abstractmethod
    def _in_hand(self) -> Sequence[Received]:
        """What was received last, and isn't done."""

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
        """Begin a dialog. The other side learns of it with the first message.

        Args:
            from_service: a service of this box.
            to_service: the other one; what is sent waits while it isn't there, or doesn't accept the contract.
            contract: which messages may be sent, and who sends each.
            lifetime: seconds (or ``"5d"``) after which it fails, if it hasn't ended; None: never.
            encryption: False; anything else is refused until there is encryption of messages that leave the box.
            related_to: the handle of a dialog whose conversation group it shares.
            group: the conversation group, instead; one that isn't there is made.
            priority: 1 to 10, of its messages among those of other groups; a level counts for ten seconds.
            handle: the handle that it gets; None: the box gives one.

        Returns:
            the handle of this side.

        Raises:
            UsageError: there is no such service, contract or related dialog, or there is a dialog with that handle; or
                encryption is asked for.
            Unavailable: the transaction has to be repeated.
        """
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
                is_monolog=False,
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
        """Begin one ordered stream to several services, each of which receives it at its own pace and sends nothing.

        Arguments and errors are those of `begin_dialog`.
        """
        with translated(self._place):
            return self._dialogs.begin(
                from_service,
                to_services,
                contract,
                lifetime=lifetime,
                encryption=False,
                related_to=None,
                group=None,
                priority=priority,
                handle=None,
                is_monolog=True,
            )

    def send(self, handle: UUID | str, type: str, body: bytes = b"", *, content_type: str | None = None) -> None:  # noqa: A002 -- as the field of a message
        """Send a message in a dialog; it is there when the transaction commits, after all that was sent before.

        Args:
            handle: of this side.
            type: one that the contract lets this side send.
            body: its content.
            content_type: how the body is to be read, as a media type.

        Raises:
            UsageError: no such dialog, or a message that isn't in the contract. The transaction can go on.
            ActionRefused: the dialog has ended, or failed. The transaction can go on.
            Unavailable: the transaction has to be repeated.
        """
        self.send_many([(handle, type, body, content_type)])

    def send_many(self, messages: Iterable[Sequence[Any]]) -> None:
        """Send messages in dialogs, all or none, in their order: (handle, type, body), or with a content type behind.

        Raises:
            UsageError, ActionRefused, Unavailable: as from `send`, for the first message that is refused.
        """
        given = [_whole(one) for one in messages]
        with translated(self._place):
            self._dialogs.send(given)

    def next_group(self, queue: str, *, wait: float | str | None = None) -> UUID | None:
        """Lock the next conversation group of a service's queue that has messages, and take none of them yet.

        Arguments and errors as of `receive`, which then takes them, by ``group``.

        Returns:
            its id; None if no group has anything.
        """
        delivery = self.receive(queue, wait=wait)
        if delivery is None:
            return None
        with translated(self._place):
            self._put_back()
        return handle_of(delivery.group, "a conversation group")

    def move(self, handle: UUID | str, group: UUID | str) -> None:
        """Move this side of a dialog into another conversation group of its queue, with what waits for it.

        Raises:
            UsageError: no such dialog.
            ActionRefused: the dialog has ended.
            Unavailable: the transaction has to be repeated.
        """
        with translated(self._place):
            self._dialogs.move(handle, group, self._in_hand())

    def end(self, handle: UUID | str, *, error: tuple[int, str] | None = None, cleanup: bool = False) -> None:
        """End this side of a dialog. What waits for it goes; the other side may still receive what it has.

        Args:
            handle: of this side. One that has ended already stays as it is.
            error: (code, text), the code above 0: the dialog has failed, and an ``Error`` message tells the other side.
            cleanup: the other side is told nothing, and is left alone.

        Raises:
            UsageError: no such dialog, or no error that can be.
            Unavailable: the transaction has to be repeated.
        """
        with translated(self._place):
            self._dialogs.end(handle, error, cleanup=cleanup, in_hand=self._in_hand())

    def has_ended(self, handle: UUID) -> bool:
        """Whether this session has ended that side since it received messages of it, which it has in hand."""
        return self._dialogs.has_ended(handle)

    def set_timer(self, handle: UUID | str, delay: float | str | None) -> None:
        """Have a ``Timer`` message come to this side of a dialog, ahead of what waits for it.

        Args:
            handle: of this side. A second timer takes the place of the first.
            delay: seconds (or ``"5m"``); None takes the timer away.

        Raises:
            UsageError: no such dialog.
            ActionRefused: the dialog has ended, or failed.
            Unavailable: the transaction has to be repeated.
        """
        with translated(self._place):
            self._dialogs.set_timer(handle, delay)

    def history(self, handle: UUID | str) -> list[Kept]:
        """What is kept of a dialog: where its service keeps them all messages of both directions, until this side ends;
        and what was set aside unread, because its lifetime ended or a message wasn't valid.
        """
        with translated(self._place):
            return self._dialogs.history(handle)


def _whole(given: object) -> tuple[Any, Any, Any, Any]:
    """A message with its content type, which may be left out."""
    match given:
        case (handle, kind, body):
            return handle, kind, body, None
        case (handle, kind, body, content_type):
            return handle, kind, body, content_type
    raise UsageError(
        f"{shown(given, 80)} is not a message: one is given as (handle, type, body)",
        remedy="with the content type behind, if need be",
    )
