"""What each fast path of the message box gains by itself: the same work with it and without it, in turn, ten pairs.

Measured is the processor time of the client and of the server's processes for its connections: a busy machine runs out of
it, and other work on the machine changes it less. Publishers that wait for the disk are measured by the clock. A path
that gains under 15 % is a candidate to go (decision 58).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click
import psycopg

import seriatim as sq
from benchmarks.measure import Claim
from seriatim.box.connection.fast_paths import (
    EARLY_COMMIT,
    FIFO_IN_SQL,
    NEXT_DELIVERY,
    NEXT_NUMBERS,
    QUEUE_HEAD,
    SINGLE_COMPLETION,
    SINGLE_MESSAGE,
    SINGLE_ROUND_TRIP,
    STRAIGHT_SEND,
    FastPath,
)
from seriatim.box.server.embedded import EmbeddedServer
from seriatim.operations import dialogs

__all__ = ["fast_paths"]

_PAIRS, _MESSAGES, _GROUPS = 10, 1_500, 50
_OTHERS = 5
_CALLS = count()
_PUBLISHERS = 4
#: Without the server's own work, as on checkpoints, and without the connection that asks.
_BACKENDS = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
#: A run of messages; a turn hands out as many, and is judged for one group if it has at least twenty.
_RUN = _MESSAGES // _GROUPS
_Work = Callable[[sq.MessageBox], None]

_ORDER = sq.MessageType("order", properties={"customer": "string", "version": "long"})
_FIFO = (
    _ORDER,
    sq.Queue("q", policy=sq.Fifo(), group="customer"),
    sq.Subscription("all", where="type = 'order'", to="q"),
)
_STANDARD = (
    _ORDER, sq.Queue("q", policy=sq.Standard(), group="customer", sequence="version"),
    sq.Subscription("all", where="type = 'order'", to="q"),
)  # fmt: skip
_GATE = (
    _ORDER, sq.MessageType("result"), sq.Queue("work", policy=sq.Fifo(), group="customer", gate="q"),
    sq.Queue("q", policy=sq.Standard(), group="origin_group", sequence="origin_ordinal"),
    sq.Subscription("all", where="type = 'order'", to="work"), sq.Subscription("results", where="type = 'result'", to="q"),
)  # fmt: skip
_TALK = (
    sq.Contract("Talk", {"Word": "any"}), sq.Service("Here", queue="here"), sq.Service("There", queue="q", contracts=["Talk"]),
)  # fmt: skip


@dataclass(frozen=True)
class _Trial:
    """A fast path, and the work that it is for."""

    path: FastPath[Any]
    work: _Work
    before: _Work
    clock: Callable[[sq.MessageBox], float]
    beside: Callable[[sq.MessageBox], AbstractContextManager[object]] = nullcontext
    more: str = ""
    defined: Sequence[Any] = _FIFO

    @property
    def name(self) -> str:
        """The path's name, its decision, and on which work it is tried."""
        decision = f" (decision {self.path.decision})" if self.path.decision else ""
        return f"{self.path.name}{decision}" + (f", {self.more}" if self.more else "")


def fast_paths(root: Path, peers: bool, only: str = "") -> Iterator[Claim]:
    """The claims: what the work takes without the path, as a multiple of what it takes with it; about ten minutes.

    `only`: the trials whose names contain this text.
    """
    if not (trials := [one for one in _TRIALS if only in one.name]):
        raise click.BadParameter(f"no trial's name contains {only!r}")
    server = EmbeddedServer(root / "postgres")
    try:
        for trial in trials:
            yield Claim(f"{trial.name}: without ÷ with it", _gain(server.dsn, trial))
    finally:
        server.close()


def _gain(dsn: str, trial: _Trial) -> float:
    ratios = []
    for pair in range(_PAIRS):
        schema = f"fast_{pair}"
        with sq.MessageBox.open(dsn, schema=schema) as box:
            box.define(*trial.defined)
            with trial.beside(box):
                seconds = {nth: _seconds(box, trial, without=bool(nth)) for nth in (pair % 2, 1 - pair % 2)}
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {schema} CASCADE")  # type: ignore[arg-type]
        ratios.append(seconds[1] / seconds[0])
    click.echo(f"{trial.name}: " + " ".join(f"{one:.2f}" for one in ratios), err=True)
    return statistics.median(ratios)


def _seconds(box: sq.MessageBox, trial: _Trial, *, without: bool) -> float:
    trial.before(box)
    with _without(trial.path) if without else nullcontext():
        began = trial.clock(box)
        trial.work(box)
        return trial.clock(box) - began


def _used(box: sq.MessageBox) -> float:
    """Processor seconds of this process, and of the server's processes for the box's connections."""
    with psycopg.connect(box.dsn) as connection:
        backends = [one for (one,) in connection.execute(_BACKENDS).fetchall()]
    return time.process_time() + sum(map(_seconds_of, backends))


def _seconds_of(backend: int) -> float:
    try:
        return int(Path(f"/proc/{backend}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9
    except OSError:
        return 0.0


# ---- the work


def _messages(groups: int = _GROUPS) -> list[sq.Message]:
    return [sq.Message(type="order", body=b"x" * 100, context={"customer": f"c{n % groups}"}) for n in range(_MESSAGES)]


def _publish(box: sq.MessageBox) -> None:
    box.publish(_messages())


def _publish_one_a_group(box: sq.MessageBox) -> None:
    box.publish(_messages(_MESSAGES))


def _publish_behind_others(box: sq.MessageBox) -> None:
    """Behind messages that are done, which are not vacuumed beside a snapshot."""
    for _ in range(_OTHERS):
        _publish_one_a_group(box)
        _receive_each(box)
    _publish_one_a_group(box)


def _publish_numbered(box: sq.MessageBox) -> None:
    """Into groups that are new each time, numbered from 1."""
    run = next(_CALLS)
    box.publish(
        sq.Message(
            type="order", body=b"x" * 100, context={"customer": f"c{run}-{n % _GROUPS}", "version": n // _GROUPS + 1}
        )
        for n in range(_MESSAGES)
    )


def _publish_through_a_gate(box: sq.MessageBox) -> None:
    """Publish, receive, and publish a result of each message."""
    _publish(box)
    with box.sessions() as sessions:
        delivery = sessions.session.receive("work", limit=_RUN)
        while delivery is not None:
            sessions.session.publish([sq.Answer(one, sq.Message(type="result")) for one in delivery.messages])
            delivery = sessions.next(limit=_RUN)


def _talk(box: sq.MessageBox) -> None:
    """A dialog whose other side is there already."""
    with box.session() as tx:
        tx.send(tx.begin_dialog("Here", "There", contract="Talk"), "Word")


def _send(box: sq.MessageBox, run: int) -> None:
    with box.session() as tx:
        handle = dialogs.dialogs(box, service="Here")[0].handle
        for _ in range(_MESSAGES // run):
            tx.send_many([(handle, "Word", b"x" * 100)] * run)
            tx.connection.commit()


def _publish_each(box: sq.MessageBox) -> None:
    for message in _messages():
        box.publish(message)


def _publish_together(box: sq.MessageBox) -> None:
    with ThreadPoolExecutor(_PUBLISHERS) as publishers:
        list(publishers.map(box.publish, _messages()))


def _nothing(box: sq.MessageBox) -> None:
    """Nothing has to be there before."""


def _receive_each(box: sq.MessageBox, limit: int = 1) -> None:
    with box.sessions() as sessions:
        delivery = sessions.session.receive("q", limit=limit)
        while delivery is not None:  # the next call completes it
            delivery = sessions.next(limit=limit)


def _receive_runs(box: sq.MessageBox) -> None:
    _receive_each(box, _RUN)


@contextmanager
def _snapshot(box: sq.MessageBox) -> Iterator[None]:
    with psycopg.connect(box.dsn) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute(f"SELECT count(*) FROM {box.schema}.entries")  # type: ignore[arg-type]
        yield
        reader.rollback()


@contextmanager
def _without(path: FastPath[Any]) -> Iterator[None]:
    """The general way in place of one path."""
    asks = FastPath.applies

    def applies(self: FastPath[Any], facts: object) -> bool:
        return self is not path and asks(self, facts)

    with patch.object(FastPath, "applies", applies):
        yield


_TRIALS = (
    _Trial(NEXT_DELIVERY, _receive_each, _publish, _used),
    _Trial(FIFO_IN_SQL, _receive_each, _publish_one_a_group, _used, more="one message a group"),
    _Trial(FIFO_IN_SQL, _receive_each, _publish, _used, more=f"{_MESSAGES // _GROUPS} messages a group"),
    _Trial(SINGLE_ROUND_TRIP, _publish_each, _nothing, _used),
    _Trial(
        EARLY_COMMIT, _publish_together, _nothing, lambda _box: time.monotonic(), more="four publishers, by the clock"
    ),
    _Trial(QUEUE_HEAD, _receive_each, _publish_behind_others, _used, _snapshot, more="beside a snapshot"),
    _Trial(SINGLE_MESSAGE, _publish_each, _nothing, _used),
    _Trial(SINGLE_MESSAGE, _publish_each, _nothing, _used, more="on the way to a gate", defined=_GATE),
    _Trial(NEXT_NUMBERS, _receive_runs, _publish_numbered, _used, more=f"runs of {_RUN}", defined=_STANDARD),
    _Trial(
        NEXT_NUMBERS, _receive_runs, _publish_through_a_gate, _used, more=f"runs of {_RUN} at a gate", defined=_GATE
    ),
    _Trial(SINGLE_COMPLETION, _receive_each, _publish, _used),
    _Trial(STRAIGHT_SEND, partial(_send, run=1), _talk, _used, defined=_TALK),
    _Trial(STRAIGHT_SEND, partial(_send, run=_RUN), _talk, _used, more=f"runs of {_RUN}", defined=_TALK),
)
