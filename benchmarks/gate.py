"""Order through parallel work: a gate, the same work without order, and a gatekeeper that is written by hand.

Four processes work on one queue, without order, and hand its results on to a second queue, where they receive them,
too. What decides a claim is measured in turn, each round in the other order, so that neither has the machine warmer; the
claim is the median of the rounds' ratios.

The gatekeeper by hand is what can be built without a gate: each result carries its input's location and number, the
second queue puts them in order, and for an input without a result a marker is published, or its number would be missing.
"""

from __future__ import annotations

import itertools
import os
import statistics
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import click

from benchmarks.measure import Claim
from benchmarks.race import Parcel, Race, Seat, handled
from seriatim import Message, MessageBox, MessageType, Pace, Queue, Session, Standard, Subscription, Unordered, Worker
from seriatim.box.server.embedded import serving

__all__ = ["RACE", "Passing", "gates", "ratios"]

_WORK, _OUT, _INPUT, _RESULT, _MARKER = "work", "out", "input", "result", "consumed"
#: The handler consumes one of so many inputs: it publishes no result for it.
_CONSUMED = 100
_ROUNDS = 9
RACE = Race(groups=4, waiting=5_000, limit=50, seconds=60, skewed=True)

Order = Literal["gate", "by hand", "none"]


@dataclass(frozen=True, slots=True)
class Passing:
    """Inputs through `work` to `out`, received there; each location's results in the order of its inputs, or in none."""

    order: Order

    @property
    def name(self) -> str:
        """What it is called in the tables."""
        return {"gate": "a gate", "by hand": "a gatekeeper by hand", "none": "no order"}[self.order]

    def prepare(self, dsn: str) -> None:
        """Two queues."""
        work, out = Queue(_WORK, policy=Unordered()), Queue(_OUT, policy=Unordered())
        if self.order == "gate":
            work = replace(work, group="location", gate=_OUT)
            out = Queue(_OUT, policy=Standard(), group="origin_group", sequence="origin_ordinal")
        elif self.order == "by hand":
            out = Queue(_OUT, policy=Standard(), group="place", sequence="number")
        with MessageBox.open(dsn) as box:
            box.define(
                MessageType(_INPUT, properties={"consumed": "boolean"}),
                *(MessageType(one, properties={"place": "string", "number": "long"}) for one in (_RESULT, _MARKER)),
                work,
                out,
                Subscription("inputs", where=f"type = '{_INPUT}'", to=_WORK),
                Subscription("results", where=f"type IN ('{_RESULT}', '{_MARKER}')", to=_OUT),
            )

    @contextmanager
    def publishing(self, dsn: str) -> Iterator[Callable[[Sequence[Parcel]], None]]:
        """One call publishes all, each group at a location of its own."""
        with MessageBox.open(dsn) as box:
            count = itertools.count(1)

            def publish(parcels: Sequence[Parcel]) -> None:
                box.publish(
                    [
                        Message(
                            type=_INPUT,
                            body=one.body,
                            context={"location": one.group, "consumed": next(count) % _CONSUMED == 0},
                        )
                        for one in parcels
                    ]
                )

            yield publish

    def work(self, dsn: str, limit: int, seat: Seat) -> None:
        """A thread that works on the inputs, and one that receives the results: what it has received counts."""

        def work(message: Any, _tx: Session) -> Message | None:
            context = {}
            if self.order == "by hand":
                context = {"place": message.ticket.location, "number": message.ticket.number}
                if message.context["consumed"]:
                    return Message(type=_MARKER, context=context)
            elif message.context["consumed"]:
                return None
            return Message(type=_RESULT, body=message.body, context=context)

        def receive(message: Any, _tx: Session) -> None:
            if message.type == _RESULT:
                seat.handle(message.body)
                seat.done(1)

        with MessageBox.open(dsn) as box:
            workers = [
                Worker(box, queue, handler, workers=1, pace=Pace(run_length=limit))
                for queue, handler in ((_WORK, work), (_OUT, receive))
            ]
            seat.begin()
            threads = [threading.Thread(target=worker.run) for worker in workers]
            for thread in threads:
                thread.start()
            seat.wait()
            for worker in workers:
                worker.stop()
            for thread in threads:
                thread.join()


def gates(root: Path, peers: bool) -> Iterator[Claim]:
    """Some minutes."""
    with serving(root / "postgres") as server:
        click.echo(f"PostgreSQL embedded, fsync on; load of the machine {os.getloadavg()[0]:.1f}", err=True)
        yield from ratios(server.dsn, RACE, _ROUNDS)


def ratios(server: str, race: Race, rounds: int) -> Iterator[Claim]:
    """The results of a gate, by those of the same work without order, and by those of the gatekeeper by hand."""
    contenders = [Passing("none"), Passing("gate"), Passing("by hand")]
    found = [
        {one.order: handled(one, server, race) for one in contenders[:: -1 if count % 2 else 1]}
        for count in range(rounds)
    ]
    by_none, by_hand = (statistics.median(one["gate"] / one[other] for one in found) for other in ("none", "by hand"))
    yield Claim("results that leave a gate ÷ the same work without order", by_none, 0.5)
    yield Claim("results that leave a gate ÷ a gatekeeper by hand", by_hand, 1.0)
