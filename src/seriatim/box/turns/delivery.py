"""`Delivery`: messages that are handed out together; the receiver completes them or puts them back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from os import getpid
from typing import Any, NamedTuple, Protocol

from seriatim.box.connection.in_hand import DeliveryState, Event, InHand
from seriatim.box.connection.misuse import Misuse, check_process
from seriatim.box.postgres.translate import translated
from seriatim.box.turns.causes import Causes
from seriatim.errors import Unavailable, UsageError, is_whole, shown
from seriatim.pipeline.types.message import Received


class Completion(NamedTuple):
    name: str
    parameters: dict[str, Any]


class Mark(NamedTuple):
    """Two transactions of a delivery: the transaction that had it in hand before and was rolled back, if any; and ours."""

    rolled_back: int | None
    own: int


class DeliveryStatus(NamedTuple):
    """The fate of a delivery in an application's transaction, as PostgreSQL reports it."""

    #: ``"in progress"`` while the transaction has the delivery in hand; ``"committed"`` or ``"aborted"`` after that transaction, or
    #: the savepoint before the delivery, has ended so.
    hand: str
    is_left: bool
    #: Whether the messages were put back, without a rollback of that.
    is_put: bool


class EarlyEnds(Protocol):
    """How a receiver ends a delivery other than by completing it or putting it back."""

    def is_set(self, delivery: Delivery, done: int) -> bool:
        """Return whether it is a set. Raises `UsageError` if it is one and `done` of its messages would be done without the others."""

    def postponement_us(self, delay: float | str | timedelta) -> int:
        """The delay in microseconds."""

    def postpone(self, delivery: Delivery, done: int, delay_us: int) -> None:
        """Complete the first `done` messages, and postpone the others."""

    def dead_letter(self, delivery: Delivery, done: int, reason: str) -> None:
        """Complete the first `done` messages, dead-letter the next one (of a set all), and put the others back."""


class Delivery(InHand):
    """Messages of one group of a queue, in order; the group is locked until the transaction ends.

    Iterating to the end, or calling `done`, completes the delivery. Otherwise the messages are put back when the session
    ends or receives again.

    Attributes:
        queue: the queue's name.
        group: the group's key; None in a queue that is `Unordered`.
        messages: the messages, in order.
        entry_ids: the numbers of the messages' entries in the queue.
        incarnation: the incarnation of the group.
        completion: the statement that completes the whole delivery, to send it together with other statements; None for a part.
        mark: see `Mark`; None before it was looked up.
        is_marked: whether the last transaction that had it in hand was rolled back; not known of each queue.
        on_trial: whether its messages are handed out one at a time for that reason.
        holder: the session that received the delivery.
        causes: which of the messages is at work; None: nobody asks.
        early_ends: what postpones and dead-letters; None for a part, whose handler tells the worker by an error.
    """

    def __init__(
        self,
        queue: str,
        group: str | None,
        messages: Sequence[Received],
        *,
        complete: Callable[[], None],
        put_back: Callable[[], None],
        end_after: Callable[[int], None],
        entry_ids: Sequence[int],
        incarnation: int = 0,
        completion: Completion | None = None,
        place: str = "",
        look: Callable[[], DeliveryStatus] | None = None,
        put_back_apart: Callable[[], None] | None = None,
    ) -> None:
        super().__init__()
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
        self.is_marked = self.on_trial = False
        self.holder: object = None
        self.causes: Causes | None = None
        self.early_ends: EarlyEnds | None = None
        self._place = place
        #: For a transaction of an application's, whose commits and savepoints the box doesn't see.
        self._look = look
        self._put_back_apart = put_back_apart
        self._process = getpid()

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[Received]:
        if self.causes is None:
            yield from self.messages
        else:
            for message in self.messages:
                self.causes.at_work = message
                yield message
            self.causes.iterated()
        self.done()

    def done(self) -> None:
        """Complete all messages. A second call does nothing.

        Raises:
            UsageError: the messages were put back; the transaction ended without completing them; a worker has the delivery
                and its handler runs; or this process was forked after the delivery was received.
            Unavailable: the transaction has to be repeated.
        """
        self._check()
        with translated(self._place):
            self._see()
            self._refuse_ended()
            if self.state is DeliveryState.OPEN:
                self._complete()
                if self.state.is_refused:  # its own statement seems to have ended the transaction
                    raise Unavailable(
                        "an answer of PostgreSQL broke off: whether the delivery is completed isn't known",
                        where=self._place,
                        remedy="repeat the transaction",
                    )
                self.happens(Event.COMPLETED)
                if self._look is not None:  # the application may commit unseen
                    self.store()

    def done_through(self, count: int) -> None:
        """Complete the first `count` messages, and put the others back. Does nothing after the delivery has ended.

        Raises:
            UsageError: the transaction ended without completing the delivery; a worker has it and its handler runs; or it is a
                `UnitOfWork`, and `count` a part of it.
            Unavailable: the transaction has to be repeated.
        """
        self._check()
        if not self.is_open:
            return
        if count == len(self):
            self.done()
            return
        if self.early_ends is not None:
            self.early_ends.is_set(self, count)
        with translated(self._place):
            self._see()
            self._refuse_ended()
            self._end_after(count)
            self.happens(Event.RETURNED)

    def part(self, begin: int, end: int) -> Delivery:
        """A part of the messages, for a handler. Completing a part, or putting it back, does nothing."""
        part = Delivery(
            self.queue, self.group, self.messages[begin:end], complete=_nothing, put_back=_nothing, end_after=lambda _: None,
            entry_ids=self.entry_ids[begin:end], incarnation=self.incarnation,
        )  # fmt: skip
        part.causes = self.causes
        return part

    @property
    def is_done(self) -> bool:
        """Whether all messages are completed."""
        return self.state is DeliveryState.DONE

    def put_back(self) -> None:
        """Put all messages back, to be handed out again. Does nothing after the delivery has ended.

        Raises:
            UsageError: a worker has the delivery, and its handler runs.
            Unavailable: the transaction has to be repeated.
        """
        self._check()
        with translated(self._place):
            self._see()
            if self.is_open:
                self._put_back()
                self.happens(Event.RETURNED)

    def postpone(self, delay: float | str | timedelta, *, done: int = 0) -> None:
        """Have the messages handed out again after a delay, because now isn't the time; nothing counts as an attempt.

        They stay first in their group, which waits with them: the first is handed out after the delay, and the others behind it. In
        a queue that is `Unordered` they wait by themselves. An operator's `retry` ends the wait. The transaction has to commit.

        Args:
            delay: seconds, ``"15s"``, or a `timedelta`, from 0 to 10,000 days; the time is that of the database.
            done: the number of messages that are done, from the first on; they are completed. Of a `UnitOfWork`: 0.

        Raises:
            UsageError: the delay or the number is invalid; the delivery has ended; or a worker has it, whose handler raises
                `Postpone` instead.
            Unavailable: the transaction has to be repeated.
        """
        ends = self._early_ends("postpone", 'raise seriatim.Postpone("15s")')
        delay_us = ends.postponement_us(delay)
        with translated(self._place):
            self._check_early("postpone", done)
            ends.postpone(self, done, delay_us)

    def dead_letter(self, reason: str, *, done: int = 0) -> None:
        """Make the first message that isn't done a dead letter: it counts as an attempt, and its group goes on.

        Of a `UnitOfWork` all messages become dead letters; of any other delivery the later ones are put back, and handed out again.
        It is told as a `seriatim.failure`, and at a gate the message's place is closed. The transaction has to commit.

        Args:
            reason: why, for people.
            done: the number of messages that are done, from the first on; they are completed. Of a `UnitOfWork`: 0.

        Raises:
            UsageError: the reason or the number is invalid; the delivery has ended; or a worker has it, whose handler raises
                `DeadLetter` instead.
            Unavailable: the transaction has to be repeated.
        """
        ends = self._early_ends("dead-letter", "raise seriatim.DeadLetter(reason)")
        if not isinstance(reason, str) or not reason.strip():
            raise UsageError(f"{shown(reason)} is no reason", remedy="say in words why the message is set aside")
        with translated(self._place):
            self._check_early("dead-letter", done)
            ends.dead_letter(self, done, reason)

    def _early_ends(self, verb: str, instead: str) -> EarlyEnds:
        check_process(self._process)
        if self.early_ends is None or self.is_lent:
            problem = f"a handler can't {verb} the worker's delivery from queue {self.queue!r} by a call"
            raise Misuse(problem, remedy=f"{instead}; the worker does it")
        return self.early_ends

    def _check_early(self, verb: str, done: int) -> None:
        """Refuse an early end of a delivery that has ended, or after more messages than it has."""
        if not is_whole(done, 0, len(self) - 1):
            raise UsageError(
                f"{shown(done)} of {len(self)} messages can't be done before the one to {verb}",
                remedy=f"a whole number from 0 to {len(self) - 1}",
            )
        self._see()
        if not self.is_open or self.state.is_refused:
            raise UsageError(
                f"cannot {verb} the delivery from queue {self.queue!r}: {self.state.text}",
                where=self._place,
                remedy="receive again, and do it before the delivery and its transaction end",
            )

    @property
    def stands(self) -> bool:
        """Like `is_open`, after asking PostgreSQL about an application's transaction.

        Raises:
            UsageError: an earlier statement of the transaction has failed.
            Unavailable: the transaction has to be repeated.
        """
        with translated(self._place):
            self._see()
        return self.is_open

    def _see(self) -> None:
        """Check whether the application has ended its transaction. If it committed an open delivery, put the messages back."""
        if self._look is None or self.state is not DeliveryState.OPEN:
            return
        match self._look().hand:
            case "in progress":
                pass
            case "committed" if self._put_back_apart is not None:
                self._put_back_apart()
                self.happens(Event.COMMITTED)
            case _:
                self.happens(Event.ROLLED_BACK)

    def settle(self) -> None:
        """Open the delivery again if the application rolled back its completion, for example to a savepoint.

        Then the caller has to put it back.

        Raises:
            psycopg.Error: an error of the driver, which the caller translates.
        """
        if self._look is None or self.state not in (DeliveryState.DONE, DeliveryState.PUT_BACK):
            return
        result = self._look()
        if result.is_left if self.state is DeliveryState.DONE else not result.is_put:
            self.happens(Event.END_ROLLED_BACK)

    def _refuse_ended(self) -> None:
        if self.state.is_refused:
            raise UsageError(
                f"cannot complete the delivery from queue {self.queue!r}: {self.state.text}",
                where=self._place,
                remedy="receive again, and complete the delivery before the next receive and before the transaction ends",
            )

    def _check(self) -> None:
        """Refuse to end the delivery in a forked process or while it is lent."""
        check_process(self._process)
        if self.is_lent:
            raise Misuse(
                f"a handler can't complete the worker's delivery from queue {self.queue!r}",
                remedy="return (for a part of a batch: Consumed(n)), or raise an error; the worker completes it",
            )

    def __repr__(self) -> str:
        return f"<Delivery of {len(self)} from {self.queue!r}, group {self.group!r}>"


def _nothing() -> None:
    """Do nothing: a part of a delivery is completed with the whole."""
