"""What a worker gives a port, without a worker: a message of a group, and what became of it."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from seriatim.pipeline.types.message import Received, Ticket

#: A call that takes that long has no deadline at all.
ENDLESS_S = 30.0


def message(ordinal: int | None = 1, body: bytes = b"{}") -> Received:
    """One that was released."""
    return Received(
        type="order",
        body=body,
        message_id=f"m{ordinal}",
        ticket=Ticket("crm", 0, ordinal or 1),
        received_at=datetime(2026, 5, 1, tzinfo=UTC),
        ordinal=ordinal,
    )


def hand(port: Any, *messages: Received, group: str | None = "c1", incarnation: int = 0) -> BaseException | None:
    """What the port raised when it was given these messages of queue ``shop``, if anything; it has to come back."""
    delivery = SimpleNamespace(queue="shop", group=group, incarnation=incarnation, messages=messages)
    raised: list[BaseException | None] = []

    def call() -> None:
        try:
            port(delivery, SimpleNamespace(delivery=delivery, connection=None))
        except BaseException as error:  # noqa: BLE001 -- all of them are what is asked for
            raised.append(error)
        else:
            raised.append(None)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(ENDLESS_S)
    assert raised, "the port doesn't come back"
    return raised[0]
