"""The verbs of publishing as methods of `Session`; `publishing/publisher.py` and functions of the schema implement them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from datetime import datetime

from seriatim.box.connection.access import Access
from seriatim.box.dialogs.verbs import DialogVerbs
from seriatim.box.postgres.translate import translated
from seriatim.box.publishing.batch import listed
from seriatim.box.publishing.publish_result import Published
from seriatim.box.publishing.publisher import PATIENCE_S, Publisher, traced
from seriatim.box.publishing.tickets import Tickets
from seriatim.box.requests.requests import KEEP, Pending, Request
from seriatim.box.turns.causes import checked_cause
from seriatim.box.turns.delivery import Delivery
from seriatim.errors import UsageError, is_whole, shown
from seriatim.kernel.groups.sequence import LAST_NUMBER
from seriatim.pipeline.declared.box_settings import Unroutable
from seriatim.pipeline.declared.location import checked_location
from seriatim.pipeline.types.message import Message, Received, with_context


class PublishVerbs(DialogVerbs):
    """The methods of a session for tickets and for publishing."""

    _access: Access
    #: Whether the session began its transaction.
    _own: bool

    @property
    @abstractmethod
    def _held(self) -> Delivery | None:
        """The last delivery of any session on this connection."""

    @property
    @abstractmethod
    def _worked_on(self) -> Delivery | None:
        """The delivery whose messages are at work in this transaction, or were until they were completed."""

    def dispense(self, location: str, count: int = 1) -> Tickets:
        """Take the next ticket numbers of a location, without a gap and in the order of commits. Other transactions wait for numbers of
        this location until the transaction ends. A program that takes numbers of several locations has to take them in the same order
        everywhere, for example by name. Otherwise two transactions may deadlock, and one of them fails.
        """
        checked_location(location)
        if not is_whole(count, 1, LAST_NUMBER):
            raise UsageError(f"cannot dispense {shown(count)} tickets", remedy=f"an integer from 1 to {LAST_NUMBER}")
        with translated(self._place):
            transaction = self.transaction
            transaction.check_enabled()
            epoch, number, last_number = transaction.one("take_numbers", at_location=location, how_many=count)
        return Tickets.run(location, epoch, number, count, last_number)

    def publish(
        self,
        messages: Message | Iterable[Message],
        *,
        delay: float | str | None = None,
        visible_at: datetime | None = None,
        wait: float | str = PATIENCE_S,
        unique: str | None = None,
        unrouted: Unroutable | None = None,
        cause: Received | None = None,
    ) -> Published:
        """Publish messages to every queue with a matching subscription. The messages get their tickets at the commit. A message whose id
        was published before in the id space of the publisher's role is left out. So a publisher that doesn't know whether its commit
        reached the server can publish again. A message that matches no subscription, or doesn't fit its type, is kept as *unrouted*, with
        the reason. While the session works on a message, the messages carry its id as ``parent_id``; and as ``correlation_id`` that of the
        message, of a dialog the conversation's id, or else its id: where they have none of their own. On the way to a gate they also carry
        its origin.
        """
        messages, carried = self._stamped(messages, cause)
        return self._published(Publisher(
            self._access, messages, delay=delay, visible_at=visible_at, wait=wait, unique=unique, unrouted=unrouted,
            own=self._own, carried=carried, in_hand=self._on_way, here=True,
        ))  # fmt: skip

    def request(
        self, message: Message, *, reply: str, keep: float | str = KEEP, asker: str = "", cause: Received | None = None
    ) -> Pending:
        """Publish a request: messages of the type `reply` that carry its correlation are kept as its replies. No reply can come before the
        commit; after it `MessageBox.reply` finds the first one, and `MessageBox.replies` all of them.

        The box draws the ``correlation_id``, and handlers pass it on by themselves. A request whose ``message_id`` was requested before is
        not made again: the result is that of the first time.

        Args:
            message: the message, without a ``correlation_id``.
            reply: the type of the replies.
            keep: seconds (or ``"1d"``) for which the request is open, and its replies are kept; at most 30 days.
            asker: for whom the role asks, if for several: only under the same name the replies are found.
            cause: as for `publish`.

        Raises:
            UsageError: the message has a ``correlation_id``, goes to a queue of two regions, or was published before without being
                a request; or an argument is invalid.
            Unrouted: no subscription matches it, or it is invalid in a queue.
            QueueFull, Unavailable: as from `publish`.
        """
        request = Request(message, reply, keep, asker)
        stamped, carried = self._stamped([message], cause)
        (asked,) = listed(stamped)
        with translated(self._place):
            return request.publish(self.transaction, asked, carried=carried, in_hand=self._on_way)

    def answers(self, messages: Sequence[Message]) -> list[Message]:
        """Prepare messages that a handler has returned, to be published later by `publish_answers`. It has all that `publish` would give it
        now: what it has of its cause, and the trace. The handler doesn't change it any more.
        """
        stamped = traced(listed(self._stamped(messages, None)[0]))
        return [
            answer if answer is not message else with_context(answer, dict(answer.context))
            for message, answer in zip(messages, stamped, strict=True)
        ]

    def publish_answers(self, answers: Sequence[Message], wait_s: float) -> Published:
        """Publish the returned messages of a worker's handlers, like `publish`."""
        delivery = self._worked_on
        carried = _leads_to_gate(delivery)
        return self._published(Publisher(
            self._access, answers, delay=None, visible_at=None, wait=wait_s, own=self._own, carried=carried,
            in_hand=self._on_way,
        ))  # fmt: skip

    @property
    def _on_way(self) -> Sequence[int]:
        """The entries in hand whose results go to a gate."""
        delivery = self._worked_on
        return delivery.entry_ids if delivery is not None and _leads_to_gate(delivery) else ()

    def _published(self, publisher: Publisher) -> Published:
        with translated(self._place):
            transaction = self.transaction
            published = publisher.publish(transaction)
            transaction.publish_notices()
            return published

    def _stamped(
        self, messages: Message | Iterable[Message], cause: Received | None
    ) -> tuple[Message | Iterable[Message], bool]:
        """Return messages with what they have of their causes, and whether they may carry an origin."""
        delivery = self._worked_on
        if delivery is None:
            held = self._held
            if held is not None and held.holder is not self and _leads_to_gate(held) and held.is_open:
                raise UsageError(
                    f"another session on this connection has a message of queue {held.queue!r} in hand, which leads to a gate",
                    where=self._place,
                    remedy="publish what results from it in that session, or return it from the handler",
                )
            if cause is not None:
                checked_cause(cause, (), None)
            return messages, False
        if delivery.causes is not None:
            return delivery.causes.stamped(listed(messages), cause), delivery.causes.lead_to_gate
        if cause is not None:
            checked_cause(cause, delivery.messages, delivery.queue)
        return messages, False


def _leads_to_gate(delivery: Delivery | None) -> bool:
    return delivery is not None and delivery.causes is not None and delivery.causes.lead_to_gate
