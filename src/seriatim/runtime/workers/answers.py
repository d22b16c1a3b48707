"""The messages that the handlers of a turn return are published together: one call for a run of messages.

They are published before a handler uses the connection, and at the end of the turn. So everything that the handlers of a turn publish, and
all their other writes, are in the order of their messages.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from seriatim.box.connection.round_trip import is_in_transaction
from seriatim.box.publishing.publisher import PATIENCE_S
from seriatim.box.session import Session
from seriatim.errors import SeriatimError, Unavailable
from seriatim.pipeline.types.message import Message
from seriatim.runtime.workers.scoreboard import Slot

#: Messages of this many bytes are published without waiting for more.
_MOST_BYTES = 4 * 2**20
#: The memory of a message besides its texts and bodies.
_EACH_BYTES = 512


class AnswersRefused(SeriatimError):
    """The returned messages can't be published, and the transaction can't continue: the turn has to be repeated."""


class Answers:
    def __init__(self, session: Session, slot: Slot, until: float) -> None:
        self._session = session
        #: The worker's note of its messages in hand.
        self._slot = slot
        #: When the turn has to be over, by the monotonic clock.
        self._until = until
        self._held: list[Message] = []
        self._bytes = 0
        #: The entry of the message for which the last of them was returned.
        self._last = 0
        #: Why they couldn't be published; the transaction has to be rolled back then. None: nothing was refused.
        self.refused: SeriatimError | None = None

    @property
    def is_large(self) -> bool:
        """Whether they should be published before the next handler is called."""
        return self._bytes > _MOST_BYTES

    def add(self, answers: Sequence[Message], entry_id: int) -> None:
        """Add the messages that a handler has returned for the message of an entry; they come from `Session.answers`."""
        self._held += answers
        self._bytes += sum(map(_size, answers))
        self._last = entry_id

    def publish(self) -> None:
        """Publish them, if there are any. Where a queue is full this waits for as long as the turn can spare. If the turn takes too long
        nevertheless, that is put down to the last message that has an answer.
        """
        if not self._held:
            return
        held, self._held, self._bytes = self._held, [], 0
        wait_s = min(PATIENCE_S, max(self._until - time.monotonic(), 0.0) / 2)
        try:
            with self._slot.instead(self._last):
                self._session.publish_answers(held, wait_s)
        except BaseException as error:
            connection = self._session.present_connection
            if isinstance(error, Unavailable) and (connection is None or connection.broken):
                self.refused = error
                raise
            # Also errors that may pass: if they never do, one message has to be the failing one.
            refused = self._refusal(error)
            if not isinstance(error, Exception):  # the process is being ended
                raise
            raise refused from error

    def publish_alone(self, messages: Sequence[Message]) -> None:
        """Publish the messages of one handler, where nothing was written that a savepoint would keep."""
        try:
            self._session.publish(messages)
        except Exception as error:
            connection = self._session.present_connection
            if connection is None or connection.broken or is_in_transaction(connection):
                raise
            raise self._refusal(error) from error

    def _refusal(self, error: BaseException) -> AnswersRefused:
        self.refused = refused = AnswersRefused(f"what handlers returned can't be published: {error}")
        return refused

    def check(self) -> None:
        """Raise the error that refused them: a handler may have ignored it, or have failed because of it."""
        if self.refused is not None:
            raise self.refused


def _size(message: Message) -> int:
    texts = sum(len(value) for value in message.context.values() if isinstance(value, str))
    return _EACH_BYTES + texts + len(message.body) + sum(len(part.body) for part in message.parts)
