"""What the three programs share: a port that takes messages in, and a worker that sends them on."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import seriatim as sq
from seriatim.operations.ports import ports

__all__ = ["await_taken", "send_on", "taking"]


@contextmanager
def taking(port: sq.ReceivePort) -> Iterator[None]:
    """Run a port while the block runs."""
    thread = threading.Thread(target=port.run)
    thread.start()
    try:
        yield
    finally:
        port.stop()
        thread.join()


def await_taken(box: sq.MessageBox, messages: int) -> None:
    """Wait until the ports of a box have taken in this number of messages."""
    while sum(one.taken for one in ports(box)) < messages:
        threading.Event().wait(0.05)


def send_on(box: sq.MessageBox, queue: str, port: Any) -> None:
    """Work on a queue until it is empty."""
    sq.Worker(box, queue, port, workers=2).run(until_idle=True)
    port.close()
