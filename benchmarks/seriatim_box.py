"""Ours: a queue of a message box, `Fifo` by group, which is the order that a lock per group gives."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from benchmarks.race import Parcel, Seat
from seriatim import Fifo, Message, MessageBox, MessageType, Pace, Queue, Session, Subscription, Worker

__all__ = ["SeriatimBox", "SeriatimWorker"]

_QUEUE, _TYPE, _GROUP = "orders", "order", "customer"


@dataclass(frozen=True, slots=True)
class SeriatimBox:
    """Publish and receive through the public interface: typed properties, a subscription, all policies' bookkeeping."""

    name: str = "seriatim"

    def prepare(self, dsn: str) -> None:
        """A box with one queue, that one subscription brings everything to."""
        with MessageBox.open(dsn) as box:
            box.define(
                MessageType(_TYPE, properties={_GROUP: "string"}),
                Queue(_QUEUE, policy=Fifo(), group=_GROUP),
                Subscription("all-orders", where=f"type = '{_TYPE}'", to=_QUEUE),
            )

    @contextmanager
    def publishing(self, dsn: str) -> Iterator[Callable[[Sequence[Parcel]], None]]:
        """One call publishes all."""
        with MessageBox.open(dsn) as box:

            def publish(parcels: Sequence[Parcel]) -> None:
                box.publish([Message(type=_TYPE, body=p.body, context={_GROUP: p.group}) for p in parcels])

            yield publish

    def work(self, dsn: str, limit: int, seat: Seat) -> None:
        """A transaction for each delivery; its messages count when that has committed."""
        with MessageBox.open(dsn) as box:
            seat.begin()
            while not seat.stopped:
                with box.session() as tx:
                    delivery = tx.receive(_QUEUE, limit=limit, wait=1.0)
                    while delivery is not None and not seat.stopped:
                        for message in delivery.messages:
                            seat.handle(message.body)
                        count, delivery = len(delivery), tx.commit_and_receive(limit=limit)
                        seat.done(count)


@dataclass(frozen=True, slots=True)
class SeriatimWorker(SeriatimBox):
    """The same, received by `Worker`, with savepoints, faults and all: what its handler is called with counts."""

    name: str = "seriatim worker"

    def work(self, dsn: str, limit: int, seat: Seat) -> None:
        """A worker of one thread."""

        def handle(message: Any, tx: Session) -> None:
            seat.handle(message.body)
            seat.done(1)

        with MessageBox.open(dsn) as box:
            worker = Worker(box, _QUEUE, handle, workers=1, pace=Pace(run_length=limit))
            seat.begin()
            thread = threading.Thread(target=worker.run)
            thread.start()
            seat.wait()
            worker.stop()
            thread.join()
