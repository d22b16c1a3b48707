"""A delivery: messages that are handed out together, and how that ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum
from os import getpid
from typing import Any, NamedTuple

from seriatim.box.connection.forks import check_process
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


class _State(Enum):
    """Where a delivery stands; the values are for errors."""

    OPEN = "it has not ended"
    DONE = "it is done"
    PUT_BACK = "it was put back"
    LOST = "it was rolled back"
    LEFT = "a statement has ended its transaction"
    COMMITTED = "its transaction was committed before, and it was put back"
    ELSEWHERE = "somebody else ends it"


#: It isn't done, and has to be put back.
_OPEN = frozenset({_State.OPEN, _State.LEFT})
_REFUSED = frozenset({_State.PUT_BACK, _State.LOST, _State.LEFT, _State.COMMITTED})


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
        self._state = _State.OPEN
        #: Whether a worker's handler has it.
        self._is_lent = False

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
            if self._state is _State.OPEN:
                self._complete()
                self._state = _State.DONE

    def done_through(self, count: int) -> None:
        """Complete the first `count` messages, and put the others back. Does nothing after the delivery has ended.

        Raises:
            UsageError: its transaction has ended without it; or it is a worker's, whose handler is at work.
            Unavailable: the transaction has to be repeated.
        """
        self._check()
        if self._state not in _OPEN:
            return
        if count == len(self):
            self.done()
            return
        with translated(self._place):
            self._see()
            self._refuse_ended()
            self._end_after(count)
            self._state = _State.PUT_BACK

    def part(self, begin: int, end: int) -> Delivery:
        """Some of its messages, for a handler: to complete that, or to put it back, does nothing."""
        return Delivery(
            self.queue, self.group, self.messages[begin:end], _nothing, _nothing, lambda _: None,
            self.entry_ids[begin:end], self.incarnation,
        )  # fmt: skip

    @property
    def is_done(self) -> bool:
        """Whether all messages are completed."""
        return self._state is _State.DONE

    @property
    def is_open(self) -> bool:
        """Whether it has to be ended in its transaction still."""
        return self._state in _OPEN

    def put_back(self) -> None:
        """Put all messages back, to be handed out again. Does nothing after the delivery has ended.

        Raises:
            UsageError: it is a worker's, whose handler is at work.
            Unavailable: the transaction has to be repeated.
        """
        self._check()
        with translated(self._place):
            self._see()
            if self._state in _OPEN:
                self._put_back()
                self._state = _State.PUT_BACK

    @contextmanager
    def _lend(self) -> Iterator[None]:
        """Around a worker's handler: meanwhile nobody ends it, and nothing is received in its session."""
        self._is_lent = True
        try:
            yield
        finally:
            self._is_lent = False

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
        if self._look is None or self._state is not _State.OPEN:
            return
        match self._look().hand:
            case "in progress":
                pass
            case "committed" if self._put_back_apart is not None:
                self._put_back_apart()
                self._state = _State.COMMITTED
            case _:
                self._state = _State.LOST

    def settle(self) -> None:
        """The session goes on without it: see that what has ended it wasn't rolled back, in an application's transaction.

        Then it is open again, and has to be put back.

        Raises:
            psycopg.Error: the driver's; whoever calls this translates them.
        """
        if self._look is None or self._state not in (_State.DONE, _State.PUT_BACK):
            return
        found = self._look()
        if found.is_left if self._state is _State.DONE else not found.is_put:
            self._state = _State.OPEN

    def _refuse_ended(self) -> None:
        if self._state in _REFUSED:
            raise UsageError(
                f"cannot complete the delivery from queue {self.queue!r}: {self._state.value}",
                where=self._place,
                remedy="receive again, and complete the delivery before the next receive and before the transaction ends",
            )

    def _check(self) -> None:
        """See that whoever ends it may."""
        check_process(self._process)
        if self._is_lent:
            raise UsageError(
                f"a handler can't complete the worker's delivery from queue {self.queue!r}",
                remedy="return (for a part of a batch: Consumed(n)), or raise an error; the worker completes it",
            )

    def _lose(self) -> None:
        """Its transaction, or the part of it in which it was received, was rolled back."""
        self._state = _State.LOST

    def _leave(self) -> None:
        """Its transaction was ended by a statement: committed or rolled back, nobody has seen it."""
        self._state = _State.LEFT

    def _reopen(self) -> None:
        """What has ended it was rolled back."""
        self._state = _State.OPEN

    def _was_done(self) -> None:
        """Somebody else has done what `done` does."""
        self._state = _State.DONE

    def _let_go(self) -> None:
        """Somebody else ends it: from here on nothing is done for it."""
        self._state = _State.ELSEWHERE

    def __repr__(self) -> str:
        return f"<Delivery of {len(self)} from {self.queue!r}, group {self.group!r}>"


def _nothing() -> None:
    """Of a part of a delivery: the whole is completed by who has it."""
