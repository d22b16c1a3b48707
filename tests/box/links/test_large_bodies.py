"""How much memory a large body takes on its way: in both backends, and in the processes that carry it."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

import seriatim as sq
from seriatim.box.links.transmission import Roads, transmit
from tests.box import roles
from tests.box.links.https_pairs import HttpsPair, paired_over_https
from tests.box.links.pairs import Pair, order, paired
from tests.soak import full

MIB = 2**20


class Peaks:
    """The most memory that processes have held since now, in bytes, without what they share.

    Args:
        processes: their ids.
    """

    def __init__(self, *processes: int) -> None:
        self._before = {}
        for one in processes:
            with suppress(FileNotFoundError, ProcessLookupError):  # it is about to end
                Path(f"/proc/{one}/clear_refs").write_text("5")  # the peak is what it holds now
                self._before[one] = self._read(one)

    def of(self, process: int) -> int:
        """What a process has held beyond what it held before; all, if it has begun since."""
        before = self._before.get(process, {"VmRSS": 0, "RssShmem": 0})
        try:
            now = self._read(process)
        except FileNotFoundError:  # it has ended
            return 0
        return now["VmHWM"] - before["VmRSS"] - max(0, now["RssShmem"] - before["RssShmem"])

    @staticmethod
    def _read(process: int) -> dict[str, int]:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
        return {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines if line.endswith("kB")}


def _backends(box) -> list[int]:
    with psycopg.connect(box.dsn) as connection:
        found = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        ).fetchall()
    return [pid for (pid,) in found]


def _carried(
    pair: Pair, roads: Roads, message: sq.Message, size: int, listener: int | None = None
) -> tuple[float, ...]:
    """Send a message; returns the most that a backend here, one there, this process, and one that listens have held for it.

    A body that is shorter than `size` is repeated in the box: to send 500 MiB there takes longer than all the rest.
    """
    pair.near.publish(message)
    if size > len(message.body) + sum(len(one.body) for one in message.parts or ()):
        grown = "SELECT string_agg(one.body, ''::bytea) FROM box.spool AS one, generate_series(1, %s)"
        roles.rows(pair.near, f"UPDATE box.spool SET body = ({grown})", [size // len(message.body)])
    processes = [_backends(pair.near), _backends(pair.far), [os.getpid()], [] if listener is None else [listener]]
    peaks = Peaks(*(pid for each in processes for pid in each))
    held, acknowledged = [0.0] * len(processes), 0
    while not acknowledged:
        done = transmit(pair.near.access, roads, at_once=True)[0]
        assert done.error is None
        acknowledged = done.acknowledged
        if not any(held) or acknowledged:  # a backend ends when its pool has too many
            processes[:2] = _backends(pair.near), _backends(pair.far)
        held = [max(most, *(peaks.of(pid) for pid in each), 0) for most, each in zip(held, processes, strict=True)]
    assert min(held[:2]) > size / 2  # the backends that had it were looked at
    return tuple(held)


def _order(body: bytes, *parts: sq.Part) -> sq.Message:
    return sq.Message(type="order", body=body, context={"to": "orders", "customer": "c1", "nth": 1}, parts=list(parts))


@pytest.mark.dear
@pytest.mark.soak
@pytest.mark.parametrize("size", [100 * MIB, 500 * MIB] if full() else [20 * MIB])
def test_a_large_body_is_held_thrice_at_most_in_backends_and_never_in_the_transmitter(databases, figures, size):
    messages = {"by chance": lambda: _order(os.urandom(min(size, MIB)))}
    if size <= 100 * MIB:
        messages["two parts"] = lambda: _order(
            b"", *(sq.Part(name, None, os.urandom(size // 2)) for name in ("one", "two"))
        )
    if size == 100 * MIB:  # of three letters: the box may compress it
        messages["text"] = lambda: _order(bytes(random.Random(1).choices(b"abc", k=MIB)) * (size // MIB))
    with paired(databases) as pair:
        roads = Roads()
        while transmit(pair.near.access, roads)[0].more:
            pass
        for what, message in messages.items():
            here, there, transmitter, _ = _carried(pair, roads, message(), size)
            figures(
                f"{size // MIB} MiB over a link, {what}: {here / size:.2f} times the body in the backend here, {there / size:.2f} there,"
                f" {transmitter / MIB:.0f} MiB in the transmitter"
            )
            assert max(here, there) < 3 * size + (0 if full() else 16 * MIB)  # a backend's own
            assert transmitter < 16 * MIB
        roads.close()


@pytest.mark.proves("a process that listens holds few frames of a large body at a time")
@pytest.mark.soak
@pytest.mark.skipif(not full(), reason="a process of its own listens, which takes seconds: SERIATIM_SIZE=full")
def test_a_process_that_listens_holds_few_frames(databases, tmp_path, figures):
    with paired_over_https(databases, tmp_path) as pair, _listening(pair) as (address, process):
        pair.near.define(pair.link(url=address, queues=["answers"]))
        roads = Roads()
        transmit(pair.near.access, roads)
        size = 100 * MIB
        here, there, transmitter, listener = _carried(pair, roads, _order(os.urandom(MIB)), size, process)
        figures(
            f"{size // MIB} MiB over HTTPS: {here / size:.2f} times the body in the backend here, {there / size:.2f} there,"
            f" {transmitter / MIB:.0f} MiB in the transmitter, {listener / MIB:.0f} MiB in the process that listens"
        )
        assert max(here, there) < 3 * size
        assert max(transmitter, listener) < 16 * MIB
        # Small messages, as many as a frame takes, both ways.
        for box, queue in ((pair.near, "orders"), (pair.far, "answers")):
            box.publish([order(nth, queue=queue) for nth in range(20_000)])
        peaks = Peaks(os.getpid(), process)
        while (done := transmit(pair.near.access, roads, at_once=True)[0]).acknowledged or done.received:
            assert done.error is None
        both = [peaks.of(os.getpid()) / MIB, peaks.of(process) / MIB]
        figures(
            f"20,000 small messages each way: {both[0]:.0f} MiB in the transmitter, {both[1]:.0f} MiB in the process that listens"
        )
        assert max(both) < 16
        roads.close()


@contextmanager
def _listening(pair: HttpsPair) -> Iterator[tuple[str, int]]:
    """A process that serves the far box: where it listens, and its id."""
    files = pair.far_files
    words = ["serve", "--dsn", pair.far.dsn, "--schema", pair.far.schema, "--listen", "127.0.0.1:0"]
    words += ["--certificate", files.certificate, "--key", files.key, "--authority", files.authority]
    serving = subprocess.Popen([sys.executable, "-m", "seriatim", *words], stderr=subprocess.PIPE, text=True)
    try:
        assert serving.stderr is not None
        line = next(one for one in serving.stderr if "other boxes find this one at" in one)
        yield line.rpartition(" ")[2].strip(), serving.pid
    finally:
        serving.kill()
        serving.communicate()
