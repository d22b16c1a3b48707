"""What the handlers of a turn return is published together: one call for a run of messages in place of one for each.

It is published before a handler uses the connection, and at the end of the turn. So everything that the handlers of a
turn publish, and whatever else they write, stands in the order of their messages.
"""

from __future__ import annotations

from collections.abc import Sequence

from seriatim.box.session import Session
from seriatim.box.workers.steps import refusal
from seriatim.errors import QueueFull, SeriatimError, Unavailable
from seriatim.pipeline.types.message import Message, Received

__all__ = ["Answers", "AnswersRefused"]

#: So many bytes of bodies aren't held back any longer.
_MOST_BYTES = 4 * 2**20


class AnswersRefused(SeriatimError):
    """One of several answers can't be published, and the messages before it were handled: the turn has to be repeated."""


class Answers:
    """The answers of a turn that aren't published yet.

    Args:
        session: the session of the turn.

    Attributes:
        refused: why they couldn't be published; the transaction has to be rolled back then. None: nothing was refused.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._messages: list[Message] = []
        self._causes: list[Received] = []
        self._bytes = 0
        self.refused: SeriatimError | None = None

    @property
    def is_large(self) -> bool:
        """Whether they should be published before the next handler is called."""
        return self._bytes > _MOST_BYTES

    def add(self, messages: Sequence[Message], cause: Received) -> None:
        """A handler has returned these messages for that one."""
        self._messages += messages
        self._causes += [cause] * len(messages)
        self._bytes += sum(len(one.body) + sum(len(part.body) for part in one.parts) for one in messages)

    def publish(self) -> None:
        """Publish them, if there are any.

        Raises:
            AnswersRefused: one of them can't be published; nobody knows which.
            Unavailable: the transaction has to be repeated.
        """
        if not self._messages:
            return
        messages, causes = self._messages, self._causes
        self._messages, self._causes, self._bytes = [], [], 0
        try:
            self._session.publish_answers(messages, causes)
        except Exception as error:
            if isinstance(error, Unavailable) and not isinstance(error, QueueFull) and refusal(error) is None:
                self.refused = error
                raise
            self.refused = AnswersRefused(f"what handlers returned can't be published: {error}")
            raise self.refused from error

    def check(self) -> None:
        """Raise what refused them: a handler may have passed over it, or have failed because of it."""
        if self.refused is not None:
            raise self.refused
