"""A delivery in hand: its states, and the events that change them. It belongs to the transaction of a connection.

The connection reports rollbacks, savepoints and statements that end the transaction; the delivery reports its end; a
worker lends it to a handler; a lease takes it over. All of them read the state here, and none keeps a state of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from typing import Any, Protocol

from seriatim.errors import InvariantBroken


class DeliveryState(Enum):
    OPEN = "it has not ended", True, False
    DONE = "it is done", False, False
    PUT_BACK = "it was put back", False, True
    LOST = "it was rolled back", False, True
    LEFT = "a statement has ended its transaction", True, True
    COMMITTED = "its transaction was committed before, and it was put back", False, True
    ELSEWHERE = "somebody else ends it", False, False

    __hash__ = object.__hash__  # `Enum` computes it in a Python call, and each message would need several

    def __init__(self, text: str, is_open: bool, is_refused: bool) -> None:
        self.text = text
        #: Whether the delivery still has to be completed or put back.
        self.is_open = is_open
        self.is_refused = is_refused


class Event(Enum):
    __hash__ = object.__hash__

    COMPLETED = "all of it is done"
    RETURNED = "it is put back, or what is left of it"
    ROLLED_BACK = "its transaction, or the part of it in which it was received, is rolled back"
    END_ROLLED_BACK = "what has ended it is rolled back"
    ENDED = "a statement ends its transaction"
    COMMITTED = "an application commits without ending it, and it is put back apart"
    TAKEN_OVER = "a lease takes it over"


#: The possible events of each state, and the states that they lead to.
TRANSITIONS: Mapping[DeliveryState, Mapping[Event, DeliveryState]] = {
    DeliveryState.OPEN: {
        Event.COMPLETED: DeliveryState.DONE,
        Event.RETURNED: DeliveryState.PUT_BACK,
        Event.ROLLED_BACK: DeliveryState.LOST,
        Event.ENDED: DeliveryState.LEFT,
        Event.COMMITTED: DeliveryState.COMMITTED,
        Event.TAKEN_OVER: DeliveryState.ELSEWHERE,
    },
    # After the statement there is another transaction, which may end, too.
    DeliveryState.LEFT: {
        Event.RETURNED: DeliveryState.PUT_BACK,
        Event.ROLLED_BACK: DeliveryState.LOST,
        Event.ENDED: DeliveryState.LEFT,
    },
    DeliveryState.DONE: {Event.ROLLED_BACK: DeliveryState.LOST, Event.END_ROLLED_BACK: DeliveryState.OPEN},
    DeliveryState.PUT_BACK: {Event.ROLLED_BACK: DeliveryState.LOST, Event.END_ROLLED_BACK: DeliveryState.OPEN},
    DeliveryState.ELSEWHERE: {Event.ROLLED_BACK: DeliveryState.LOST, Event.END_ROLLED_BACK: DeliveryState.OPEN},
    DeliveryState.LOST: {Event.ROLLED_BACK: DeliveryState.LOST, Event.END_ROLLED_BACK: DeliveryState.OPEN},
    DeliveryState.COMMITTED: {Event.ROLLED_BACK: DeliveryState.LOST},
}


class Kept(Protocol):
    """The instance of a message, which is stored with its completion."""

    #: What the transaction has stored of it.
    stored: Any


class InHand:
    """A delivery as the connection that received it knows it."""

    def __init__(self) -> None:
        self.state = DeliveryState.OPEN
        #: None: its messages have none.
        self.instance: Kept | None = None
        #: Stores the instance; called before the commit.
        self.store: Callable[[], None] = lambda: None
        #: Whether a worker's handler has it: then only the worker may end it.
        self.is_lent = False

    @property
    def is_open(self) -> bool:
        """Whether it still has to be completed or put back in its transaction."""
        return self.state.is_open

    def happens(self, event: Event) -> None:
        """Apply an event to the state."""
        try:
            self.state = TRANSITIONS[self.state][event]
        except KeyError:
            problem = f"a delivery in state {self.state.name} cannot take the event {event.name}"
            raise InvariantBroken(problem) from None

    @contextmanager
    def lent(self) -> Iterator[None]:
        """While a worker's handler runs, refuse to end the delivery, and to receive in its session."""
        self.is_lent = True
        try:
            yield
        finally:
            self.is_lent = False


def way_back(delivery: InHand) -> Callable[[], None]:
    """Return a function that takes a delivery back to its present state, for a rollback to a savepoint that is set now."""
    was_open, instance = delivery.is_open, delivery.instance
    stored = None if instance is None else instance.stored

    def go_back() -> None:
        if was_open and not delivery.is_open:
            delivery.happens(Event.END_ROLLED_BACK)
        if instance is not None:
            instance.stored = stored

    return go_back
