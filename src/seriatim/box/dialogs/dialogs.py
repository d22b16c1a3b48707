"""The verbs of dialogs in one transaction: each verb calls a function of the schema, which has the table of rules.

A refused verb changes nothing, and the transaction can go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from seriatim.box.connection.access import Transaction
from seriatim.box.connection.fast_paths import STRAIGHT_SEND, SentMessages
from seriatim.errors import ActionRefused, NotFound, UsageError, is_whole, shown
from seriatim.kernel.dialog import Verb
from seriatim.kernel.values.time import micros
from seriatim.pipeline.declared.contract import DEFAULT
from seriatim.pipeline.text.storable import fits_text
from seriatim.pipeline.types.message import Received

#: The longest lifetime, and the longest time until a timer.
_LONGEST_US = 10_000 * 86_400 * 10**6


@dataclass(frozen=True, slots=True)
class Kept:
    #: Whether this side sent it; False: this side received it.
    sent: bool
    #: Its number in its direction; None for an ``Error`` or a ``Timer``.
    sequence: int | None
    type: str
    content_type: str | None
    body: bytes = field(repr=False)
    at: datetime
    #: The reason why it was set aside unread; None if it wasn't.
    reason: str | None


class Dialogs:
    def __init__(
        self, transaction: Transaction, ended: set[UUID] | None = None, in_hand: Sequence[Received] = ()
    ) -> None:
        self._transaction = transaction
        #: The set of the sides that end; None: it isn't needed.
        self._ended = set() if ended is None else ended
        #: The messages that the session has in hand, and that aren't done.
        self._in_hand = in_hand

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
        more: dict[str, Any] = {"encryption": encryption, "related_to": related_to, "group": group, "handle": handle}
        return self._begin(from_service, [to_service], contract, lifetime, priority, **more)

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
        return self._begin(from_service, to_services, contract, lifetime, priority, is_monolog=True)

    def _begin(
        self, from_service: str, to_services: Sequence[str], contract: str, lifetime: Any, priority: int, *,
        encryption: Any = False, related_to: Any = None, group: Any = None, handle: Any = None, is_monolog: bool = False,
    ) -> UUID:  # fmt: skip
        named = [from_service, *to_services] if isinstance(to_services, Sequence) else [None]
        if isinstance(to_services, str) or not all(isinstance(name, str) for name in named):
            raise UsageError("a service is given by its name", remedy="a string; for a monolog a list of strings")
        if not is_whole(priority, 1, 10):
            raise UsageError(f"a priority can't be {shown(priority)}", remedy="an integer from 1 to 10")
        if encryption is not False:
            raise UsageError(
                "a dialog can't be encrypted yet",
                remedy="leave encryption out: over a link TLS encrypts all that is on its way",
            )
        parameters = {
            "from_service": _text(from_service),
            "to_services": [_text(to_service) for to_service in to_services],
            "by_contract": _text(contract),
            "lifetime": None if lifetime is None else _period(lifetime, "a lifetime"),
            "encryption": False,
            "related_to": None if related_to is None else handle_of(related_to),
            "in_group": None if group is None else handle_of(group, "a conversation group"),
            "its_priority": priority,
            "given": None if handle is None else handle_of(handle),
            "is_monolog": is_monolog,
        }
        begun, *refusal = self._transaction.one("try_begin", **parameters)
        _raise(*refusal)
        return begun

    def send(self, messages: Iterable[tuple[UUID | str, str, bytes, str | None]]) -> None:
        """Send (handle, type, body, content type), all or none. Errors are those of `Session.send`."""
        handles: list[UUID] = []
        types: list[str] = []
        bodies: list[bytes] = []
        content_types: list[str | None] = []
        for handle, kind, body, content_type in messages:
            if not isinstance(body, bytes):
                raise UsageError(f"the body of a message is {type(body).__name__}", remedy="give bytes: encode it")
            handles.append(handle_of(handle))
            types.append(_text(kind))
            bodies.append(body)
            content_types.append(None if content_type is None else _text(content_type))
        if STRAIGHT_SEND.applies(SentMessages(handles, types)):
            parameters = {"handle": handles[0], "kind": types[0]}
            if len(bodies) == 1:
                _raise(*self._transaction.one("send_one", **parameters, body=bodies[0], content_type=content_types[0]))
                return
            unsaid = all(content_type is None for content_type in content_types)
            columns = {"bodies": bodies, "content_types": None if unsaid else content_types}
            _raise(*self._transaction.one("try_send_run", **parameters, **columns))
        elif handles:
            columns = {"bodies": bodies, "content_types": content_types}
            _raise(*self._transaction.one("try_send", handles=handles, kinds=types, **columns))

    def end(self, handle: UUID | str, *, error: tuple[int, str] | None = None, cleanup: bool = False) -> None:
        """End this side of a dialog. Its waiting messages are deleted; the other side may still receive its own messages."""
        if error is not None and cleanup:
            raise UsageError(
                "cleanup and error can't be combined: after a cleanup the other side gets no message",
                remedy="give one of them",
            )
        code, text = _error(error) if error is not None else (None, None)
        verb = Verb.CLEAN_UP if cleanup else Verb.END if error is None else Verb.END_WITH_ERROR
        ours = handle_of(handle)
        ids = [
            received.message_id
            for received in self._in_hand
            if received.dialog is not None and received.dialog.handle == ours
        ]
        parameters = {"of_handle": ours, "what_verb": verb.value, "code": code, "why": text, "in_hand": ids}
        _raise(*self._transaction.one("try_end", **parameters))
        self._ended.add(ours)

    def put_back(self) -> None:
        """Delete the messages of sides that have ended, because those in hand are put back."""
        self._transaction.do("drop_ended", handles=list(self._ended))

    def set_timer(self, handle: UUID | str, delay: float | str | None) -> None:
        """Send a ``Timer`` message to this side of a dialog after a delay; it overtakes waiting messages."""
        period = None if delay is None else _period(delay, "a timer")
        _raise(*self._transaction.one("try_set_timer", of_handle=handle_of(handle), delay=period))

    def move(self, handle: UUID | str, group: UUID | str) -> None:
        """Move this side of a dialog, with its waiting messages, into another conversation group of its queue."""
        parameters = {
            "of_handle": handle_of(handle),
            "to_group": handle_of(group, "a conversation group"),
            "in_hand": [received.message_id for received in self._in_hand],
        }
        _raise(*self._transaction.one("try_move", **parameters))

    def group_of(self, handle: UUID | str) -> tuple[str, str]:
        """The queue and the conversation group of a side."""
        ours = handle_of(handle)
        queue, group = self._transaction.one("group_of", of_handle=ours)
        if queue is None:
            raise NotFound(f"there is no dialog with the handle {ours}")
        return queue, group

    def history(self, handle: UUID | str) -> list[Kept]:
        """The kept messages of a dialog, also messages set aside unread after its lifetime or beside an invalid message. If the service has
        `retention`, all messages of both directions are kept until this side ends.
        """
        rows = self._transaction.rows("history_of", of_handle=handle_of(handle))
        return [
            Kept(sent, sequence, kind, content_type, bytes(body), at, reason)
            for sent, sequence, kind, content_type, body, at, reason in rows
        ]


def handle_of(handle: object, noun: str = "a handle") -> UUID:
    """Parse a handle, or the id of a conversation group."""
    if isinstance(handle, UUID):
        return handle
    try:
        return UUID(str(handle)) if isinstance(handle, str) else UUID(None)
    except (ValueError, TypeError):
        raise UsageError(f"{shown(handle, 80)} is not {noun}", remedy="a UUID, as begin_dialog gives it") from None


def _text(text: object) -> str:
    if not isinstance(text, str) or not fits_text(text):
        raise UsageError(f"{text!r:.80} is not a name", remedy="text without NUL")
    return text


def _period(period: float | str, noun: str) -> timedelta:
    period_us = micros(period)
    if not 0 <= period_us <= _LONGEST_US:
        raise UsageError(f"{noun} can't be {shown(period)}", remedy="from 0 to 10,000 days")
    return timedelta(microseconds=period_us)


def _error(error: object) -> tuple[int, str]:
    match error:
        case (int() as code, str() as text) if not isinstance(code, bool) and 0 < code < 2**31 and "\0" not in text:
            return code, text
    raise UsageError(f"an error can't be {shown(error, 80)}", remedy="(code, text): a code above 0, and why")


def _raise(refused: str | None, problem: str | None, remedy: str | None) -> None:
    if refused is not None:
        kind = UsageError if refused == "usage" else ActionRefused
        raise kind(problem or refused, remedy=remedy or "")
