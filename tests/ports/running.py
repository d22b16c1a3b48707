"""A port that runs in a thread, and what its box has got."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import seriatim as sq

#: What takes longer will never be.
DEADLINE_S = 180.0


@contextmanager
def running(port: sq.ReceivePort) -> Iterator[sq.ReceivePort]:
    """Run a port while the block runs; an error of it is the block's."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            port.run()
        except BaseException as error:  # noqa: BLE001 -- it is raised in the block's thread
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield port
    finally:
        port.stop()
        thread.join(DEADLINE_S)
        assert not thread.is_alive(), "the port doesn't end"
    if errors:
        raise errors[0]


def until(condition: Callable[[], Any], what: str = "it") -> Any:
    """Wait until something is so, and return it."""
    deadline = time.monotonic() + DEADLINE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what} doesn't come"
        time.sleep(0.01)
    return found


def taken(box: sq.MessageBox, queue: str) -> list[sq.Received]:
    """All messages that a queue hands out now."""
    found: list[sq.Received] = []
    with box.session() as tx:
        while (delivery := tx.receive(queue, limit=1000)) is not None:
            found += list(delivery)
    return found
