"""The message box beside its peers and ceilings, all on the same PostgreSQL, each in an empty database of its own.

What decides a claim is measured three times, the contenders in turn, and the medians are compared: a machine with
other work is slower for all.
"""

from __future__ import annotations

import math
import os
import statistics
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks.bare import Notice, PlainTable
from benchmarks.measure import Claim
from benchmarks.pgqueuer_peer import PgQueuerPeer
from benchmarks.procrastinate_peer import Procrastinate
from benchmarks.race import Contender, Race, delays, handled, published
from benchmarks.seriatim_box import SeriatimBox
from seriatim.box.server.embedded import serving

__all__ = ["boxes"]

_BOX, _BARE, _NOTICE = SeriatimBox(), PlainTable(), Notice()
_ROUNDS = 3
_SAMPLES = 200
_PAUSE_S, _PROCESSES, _THREADS = 0.005, 4, 5


def boxes(root: Path, peers: bool) -> Iterator[Claim]:
    """All of it, about a quarter of an hour; without peers a third of that."""
    with serving(root / "postgres") as server:
        click.echo(f"PostgreSQL embedded, fsync on; load of the machine {os.getloadavg()[0]:.1f}", err=True)
        yield from _ceilings(server.dsn)
        if peers:
            yield from _single(server.dsn)
            yield from _runs(server.dsn)
        yield from _publishing(server.dsn, peers)
        yield from _latency(server.dsn, peers)
        yield from _by_groups(server.dsn, _BOX)


def _ceilings(server: str) -> Iterator[Claim]:
    """What a plain table does that is asked for the same, and knows nothing else."""
    for limit, waiting in ((1, 20), (10, 50), (50, 50)):
        race = Race(waiting=waiting, limit=limit)
        ours = handled(_BOX, server, race)
        ratio = ours / handled(_BARE, server, race)
        yield Claim(f"receive and complete, at most {limit} at once ÷ bare table", ratio, amount=ours)


def _single(server: str) -> Iterator[Claim]:
    """One message a transaction, on both sides."""
    peer = Procrastinate()
    for waiting in (20, 1):
        what = f"1 a transaction, 1,000 groups with {waiting}"
        race = Race(waiting=waiting, publishers=4)
        rates = _in_turn(server, {"ours": (_BOX, race), "theirs": (peer, race), "bare": (_BARE, race)})
        yield Claim(
            f"{what}: all together ÷ procrastinate, lock per group",
            rates["ours"] / rates["theirs"],
            4,
            amount=rates["ours"],
        )
        yield Claim(f"{what}: all together ÷ bare table", rates["ours"] / rates["bare"])
        alone = Race(waiting=waiting)
        ratio = handled(_BOX, server, alone) / handled(peer, server, alone)
        yield Claim(f"{what}: receive and complete ÷ procrastinate", ratio)


def _runs(server: str) -> Iterator[Claim]:
    """Fifty waiting in each group. Publishers send fifty of a group at once, and our workers take as many."""
    peer = PgQueuerPeer()
    for publishers, what in ((4, "all together"), (0, "receive and complete")):
        races = {
            limit: Race(waiting=50, batch=50, run=50, limit=limit, publishers=publishers) for limit in (10, 50, 100)
        }
        chosen: dict[str, tuple[Contender, Race]] = {
            "ours": (_BOX, races[50]),
            "10": (peer, races[10]),
            "100": (peer, races[100]),
        }
        rates = _in_turn(server, chosen, _ROUNDS if publishers else 1)
        for batch, limit in (("10", 2.0), ("100", 1.0)):
            yield Claim(
                f"runs of 50: {what} ÷ pgqueuer (no order), batch {batch}",
                rates["ours"] / rates[batch],
                limit if publishers else None,
            )


def _publishing(server: str, peers: bool) -> Iterator[Claim]:
    """Publishing with nobody receiving: a thousand a transaction, and one."""
    others: tuple[Contender, ...] = (_BARE, Procrastinate(), PgQueuerPeer()) if peers else (_BARE,)
    for batch in (1_000, 1):
        race = Race(batch=batch, publishers=4, workers=0)
        ours = published(_BOX, server, race)
        for other in others:
            yield Claim(
                f"publish {batch:,} a transaction ÷ {other.name}", ours / published(other, server, race), amount=ours
            )


def _latency(server: str, peers: bool) -> Iterator[Claim]:
    """From publish to a worker that waits."""
    least = delays(_NOTICE, server, _SAMPLES)
    ours = delays(_BOX, server, _SAMPLES)
    yield Claim(
        "idle, publish to receive, median ÷ bare LISTEN/NOTIFY",
        ours.median / least.median,
        amount=ours.median * 1000,
        unit="ms",
    )
    yield Claim(
        "idle, publish to receive, p99 ÷ bare LISTEN/NOTIFY", ours.p99 / least.p99, amount=ours.p99 * 1000, unit="ms"
    )
    for peer in (Procrastinate(), PgQueuerPeer()) if peers else ():
        theirs = delays(peer, server, _SAMPLES)
        yield Claim(f"idle, publish to receive, median ÷ {peer.name}", ours.median / theirs.median)


def _by_groups(server: str, contender: Contender) -> Iterator[Claim]:
    """How many groups keep twenty workers busy, whose handlers take 5 ms; ideal: each group or worker always busy."""
    table = Table("groups", "messages/s", "ideal", "of it", title=f"{contender.name}: 20 workers, handlers of 5 ms")
    workers = _PROCESSES * _THREADS
    for groups in (1, 2, 5, 10, 20, 50, 100, 1_000):
        ideal = min(groups, workers) / _PAUSE_S
        race = Race(groups, 0, limit=10, workers=_PROCESSES, threads=_THREADS, pause_s=_PAUSE_S, seconds=3)
        # As much as there is time for: so that the last groups' tails, which keep few workers busy, don't count.
        enough = race.seconds * ideal / 0.9
        rate = handled(contender, server, replace(race, waiting=math.ceil(enough / groups)))
        table.add_row(f"{groups:,}", f"{rate:,.0f}", f"{ideal:,.0f}", f"{rate / ideal:.0%}")
        yield Claim(f"{groups:,} groups, 20 workers, handlers of 5 ms ÷ ideal", rate / ideal, amount=rate)
    Console().print(table)


def _in_turn(server: str, contenders: Mapping[str, tuple[Contender, Race]], rounds: int = _ROUNDS) -> dict[str, float]:
    """The median rate of each, measured one after another, and again."""
    rates: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, (contender, race) in contenders.items():
            rates[name].append(handled(contender, server, race))
    return {name: statistics.median(some) for name, some in rates.items()}
