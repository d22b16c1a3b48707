"""What each fast path of the message box gains by itself: the same work with it and without it, in turn, ten pairs.

Measured is the processor time of the client and of the server's processes for its connections: a busy machine runs out of
it, and other work on the machine changes it less. Publishers that wait for the disk are measured by the clock. A path
that gains under 15 % is a candidate to go (decision 58).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import PropertyMock, patch

import click
import psycopg

import seriatim as sq
from benchmarks.measure import Claim
from seriatim.box.connection.queue_heads import EVERYTHING
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.server.embedded import EmbeddedServer

__all__ = ["fast_paths"]

_PAIRS, _MESSAGES, _GROUPS = 10, 1_500, 50
_OTHERS = 5
_PUBLISHERS = 4
_Work = Callable[[sq.MessageBox], None]


@dataclass(frozen=True)
class _Path:
    """A fast path: the decision about it, how to do without it, and the work that it is for."""

    name: str
    without: Callable[[], AbstractContextManager[object]]
    work: _Work
    before: _Work
    clock: Callable[[sq.MessageBox], float]
    beside: Callable[[sq.MessageBox], AbstractContextManager[object]] = nullcontext


def fast_paths(root: Path, peers: bool) -> Iterator[Claim]:
    """The claims: what the work takes without the path, as a multiple of what it takes with it; about ten minutes."""
    server = EmbeddedServer(root / "postgres")
    try:
        for path in _PATHS:
            yield Claim(f"{path.name}: without ÷ with it", _gain(server.dsn, path))
    finally:
        server.close()


def _gain(dsn: str, path: _Path) -> float:
    ratios = []
    for pair in range(_PAIRS):
        schema = f"fast_{pair}"
        with sq.MessageBox.open(dsn, schema=schema) as box:
            box.define(
                sq.MessageType("order", properties={"customer": "string"}),
                sq.Queue("q", policy=sq.Fifo(), group="customer"),
                sq.Subscription("all", where="type = 'order'", to="q"),
            )
            with path.beside(box):
                seconds = {nth: _seconds(box, path, without=bool(nth)) for nth in (pair % 2, 1 - pair % 2)}
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {schema} CASCADE")  # type: ignore[arg-type]
        ratios.append(seconds[1] / seconds[0])
    click.echo(f"{path.name}: " + " ".join(f"{one:.2f}" for one in ratios), err=True)
    return statistics.median(ratios)


def _seconds(box: sq.MessageBox, path: _Path, *, without: bool) -> float:
    path.before(box)
    with path.without() if without else nullcontext():
        began = path.clock(box)
        path.work(box)
        return path.clock(box) - began


def _used(box: sq.MessageBox) -> float:
    """Processor seconds of this process, and of the server's processes for the box's connections."""
    with psycopg.connect(box.dsn) as connection:
        backends = [one for (one,) in connection.execute("SELECT pid FROM pg_stat_activity").fetchall()]
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


def _publish_each(box: sq.MessageBox) -> None:
    for message in _messages():
        box.publish(message)


def _publish_together(box: sq.MessageBox) -> None:
    with ThreadPoolExecutor(_PUBLISHERS) as publishers:
        list(publishers.map(box.publish, _messages()))


def _nothing(box: sq.MessageBox) -> None:
    """Nothing has to be there before."""


def _receive_each(box: sq.MessageBox) -> None:
    with box.sessions() as sessions:
        delivery = sessions.session.receive("q", limit=1)
        while delivery is not None:  # the next call completes it
            delivery = sessions.next(limit=1)


@contextmanager
def _snapshot(box: sq.MessageBox) -> Iterator[None]:
    with psycopg.connect(box.dsn) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute(f"SELECT count(*) FROM {box.schema}.entries")  # type: ignore[arg-type]
        yield
        reader.rollback()


# ---- without a path


@contextmanager
def _as(*changes: tuple[str, object]) -> Iterator[None]:
    with ExitStack() as stack:
        for name, value in changes:
            stack.enter_context(patch(name, value))
        yield


def _judged_in_python() -> AbstractContextManager[object]:
    return patch.object(BoxQueue, "is_fifo", PropertyMock(return_value=False))


_PATHS = (
    _Path(
        "a commit takes the next delivery along (decision 28)",
        lambda: _as(("seriatim.box.session.is_at_once", lambda _queue: False)),
        _receive_each,
        _publish,
        _used,
    ),
    _Path(
        "first in, first out in SQL, by the stored order (decision 30), one message a group",
        _judged_in_python,
        _receive_each,
        _publish_one_a_group,
        _used,
    ),
    _Path(
        f"the same, {_MESSAGES // _GROUPS} messages a group",
        _judged_in_python,
        _receive_each,
        _publish,
        _used,
    ),
    _Path(
        "four publishers of a location commit before they are on disk (decision 31), by the clock",
        lambda: _as(("seriatim.box.publishing.publisher.can_flush", lambda _connection: False)),
        _publish_together,
        _nothing,
        lambda _box: time.monotonic(),
    ),
    _Path(
        "a process remembers where a queue begins (decision 32), beside a snapshot",
        lambda: _as(("seriatim.box.connection.queue_heads.Heads.of", lambda *_: EVERYTHING)),
        _receive_each,
        _publish_behind_others,
        _used,
        _snapshot,
    ),
    _Path(
        "one message is taken in by a function of its own",
        lambda: _as(("seriatim.box.publishing.publisher.parameters_of_one", lambda *_: None)),
        _publish_each,
        _nothing,
        _used,
    ),
)
