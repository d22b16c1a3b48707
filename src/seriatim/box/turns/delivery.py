"""A delivery: messages that are handed out together, and how that ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from os import getpid
from typing import Any, NamedTuple

from seriatim.box.connection.forks import check_process
from seriatim.box.connection.in_hand import Event, InHand, State
from seriatim.box.postgres.translate import translated
from seriatim.errors import UsageError
from seriatim.pipeline.types.message import Received

__all__ = ["Completion", "Delivery", "DeliveryStatus", "Mark"]


class Completion(NamedTuple):
    """The statement with which something handed out is done: its name, and its parameters."""

    name: str
    parameters: dict[str, Any]


class Mark(NamedTuple):
    """Of what is handed out: the transaction that had it in hand and was rolled back, if any; and our own."""

    rolled_back: int | None
    own: int


class DeliveryStatus(NamedTuple):
    """What has become of a delivery in a transaction of an application's, as PostgreSQL tells.

    Args:
        hand: ``"in progress"`` while the transaction has it in hand; ``"committed"`` or ``"aborted"`` where it was handed
            out in a transaction, or behind a savepoint, that has ended so.
        is_left: whether some of it isn't done.
        is_put: whether it was put back, and that was not rolled back.
    """

    hand: str
    is_left: bool
    is_put: bool


class Delivery:
    """Messages of one group of a queue, in order; the group is locked until the transaction ends.

    Iterating to the end completes it, and so does `done`. Otherwise the messages are put back when the session ends,
    or before the next ones are received.

    Attributes:
        queue: the queue's name.
        group: the group's key; None in a queue that is `Unordered`.
        messages: what is handed out, in order.
        entry_ids: the numbers of their entries.
        incarnation: of the group.
        completion: how all of it is done, for who does so together with something else; None for a part.
        mark: None where nobody has looked for one yet, nor for dialogs that begin with it.
        holder: the session that has received it.
        in_hand: what has become of it.
    """

    def __init__(
        self,
        queue: str,
        group: str | None,
        messages: Sequence[Received],
        complete: Callable[[], None],
        put_back: Callable[[], None],
        end_after: Callable[[int], None],
        entry_ids: Sequence[int],
        incarnation: int = 0,
        completion: Completion | None = None,
        *,
        place: str = "",
        look: Callable[[], DeliveryStatus] | None = None,
        put_back_apart: Callable[[], None] | None = None,
    ) -> None:
        self.queue = queue
        self.group = group
        self.messages = tuple(messages)
        self._complete = complete
        self._put_back = put_back
        self._end_after = end_after
        self.entry_ids = entry_ids
        self.incarnation = incarnation
        self.completion = completion
        self.mark: Mark | None = None
        self.holder: object = None
        self._place = place
        #: In a transaction of an application's, of which the box sees neither commits nor savepoints.
        self._look = look
        self._put_back_apart = put_back_apart
        self._process = getpid()
        #: What has become of it.
        self.in_hand = InHand(self)

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[Received]:
        yield from self.messages
        self.done()

    def done(self) -> None:
        """Complete all messages. A second call does nothing.

        Raises:
            UsageError: it was put back, or its transaction has ended without it; or it is a worker's, whose handler is at
                work; or this process was forked from the one that has received it.
            Unavailable: the transaction has to be repeated.
        """
        self._check()
        with translated(self._place):
            self._see()
            self._refuse_ended()
            if self.in_hand.state is State.OPEN:
                self._complete()
                self.in_hand.happens(Event.COMPLETED)

    def done_through(self, count: int) -> None:
        """Complete the first `count` messages, and put the others back. Does nothing after the delivery has ended.

        Raises:
            UsageError: its transaction has ended without it; or it is a worker's, whose handler is at work.
            Unavailable: the transaction has to be repeated.
        """
        self._check()
        if not self.is_open:
            return
        if count == len(self):
            self.done()
            return
        with translated(self._place):
            self._see()
            self._refuse_ended()
            self._end_after(count)
            self.in_hand.happens(Event.RETURNED)

    def part(self, begin: int, end: int) -> Delivery:
        """Some of its messages, for a handler: to complete that, or to put it back, does nothing."""
        return Delivery(
            self.queue, self.group, self.messages[begin:end], _nothing, _nothing, lambda _: None,
            self.entry_ids[begin:end], self.incarnation,
        )  # fmt: skip

    @property
    def is_done(self) -> bool:
        """Whether all messages are completed."""
        return self.in_hand.state is State.DONE

    @property
    def is_open(self) -> bool:
        """Whether it has to be ended in its transaction still."""
        return self.in_hand.is_open

    def put_back(self) -> None:
        """Put all messages back, to be handed out again. Does nothing after the delivery has ended.

        Raises:
            UsageError: it is a worker's, whose handler is at work.
            Unavailable: the transaction has to be repeated.
        """
        self._check()
        with translated(self._place):
            self._see()
            if self.is_open:
                self._put_back()
                self.in_hand.happens(Event.RETURNED)

    @property
    def stands(self) -> bool:
        """Whether it has to be ended, after a look at what has become of its transaction where that is an application's.

        Raises:
            UsageError: an earlier statement of the transaction has failed.
            Unavailable: the transaction has to be repeated.
        """
        with translated(self._place):
            self._see()
        return self.is_open

    def _see(self) -> None:
        """What has become of it, where an application ends the transaction. What that has committed is put back."""
        if self._look is None or self.in_hand.state is not State.OPEN:
            return
        match self._look().hand:
            case "in progress":
                pass
            case "committed" if self._put_back_apart is not None:
                self._put_back_apart()
                self.in_hand.happens(Event.COMMITTED)
            case _:
                self.in_hand.happens(Event.ROLLED_BACK)

    def settle(self) -> None:
        """The session goes on without it: see that what has ended it wasn't rolled back, in an application's transaction.

        Then it is open again, and has to be put back.

        Raises:
            psycopg.Error: the driver's; whoever calls this translates them.
        """
        if self._look is None or self.in_hand.state not in (State.DONE, State.PUT_BACK):
            return
        found = self._look()
        if found.is_left if self.in_hand.state is State.DONE else not found.is_put:
            self.in_hand.happens(Event.END_ROLLED_BACK)

    def _refuse_ended(self) -> None:
        if self.in_hand.state.is_refused:
            raise UsageError(
                f"cannot complete the delivery from queue {self.queue!r}: {self.in_hand.state.value}",
                where=self._place,
                remedy="receive again, and complete the delivery before the next receive and before the transaction ends",
            )

    def _check(self) -> None:
        """See that whoever ends it may."""
        check_process(self._process)
        if self.in_hand.is_lent:
            raise UsageError(
                f"a handler can't complete the worker's delivery from queue {self.queue!r}",
                remedy="return (for a part of a batch: Consumed(n)), or raise an error; the worker completes it",
            )

    def __repr__(self) -> str:
        return f"<Delivery of {len(self)} from {self.queue!r}, group {self.group!r}>"


def _nothing() -> None:
    """Of a part of a delivery: the whole is completed by who has it."""
