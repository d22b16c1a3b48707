"""A receiver that waits forever gets its message however often PostgreSQL was away, and ends when it is told to."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from contextlib import contextmanager
from queue import Queue

import pytest

import seriatim as sq
from seriatim.box.server.embedded import EmbeddedServer
from tests.box.shop import define, publish, rows
from tests.databases import box_with
from tests.runtime.workers.test_worker import until

pytestmark = pytest.mark.dear

PATIENCE_S = 120
box = box_with(define)


def sync_receiver(box, results):
    with box.session() as tx:
        delivery = tx.receive("shop", wait="forever")
        results.put(None if delivery is None else [one.context["version"] for one in delivery])


def async_receiver(box, results):
    async def use():
        async with sq.AsyncMessageBox(box) as face, face.session() as tx:
            results.put("waits")
            delivery = await tx.receive("shop", wait="forever")
            results.put(None if delivery is None else [one.context["version"] async for one in delivery])

    asyncio.run(use())


def waiters(box):
    return rows(box, "SELECT FROM {schema}.waiters")


@contextmanager
def waiting(box, receiver):
    """While a receiver waits in a thread; what it gets comes into the queue."""
    results = Queue()
    thread = threading.Thread(target=receiver, args=(box, results))
    thread.start()
    if receiver is async_receiver:
        assert results.get(timeout=PATIENCE_S) == "waits"
    until(lambda: waiters(box))
    yield results
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def is_back(box):
    try:
        publish(box, 1)
    except sq.Unavailable:
        return False
    return True


@pytest.mark.proves("a receiver that waits for ever gets its message after the server came back")
@pytest.mark.parametrize(
    "end",
    [
        pytest.param(signal.SIGINT, marks=pytest.mark.dear),
        pytest.param(signal.SIGQUIT, marks=pytest.mark.dear),
        signal.SIGKILL,
    ],
    ids=lambda one: one.name,
)
def test_it_outlives_restarts_of_the_server(tmp_path, end):
    folder = tmp_path / "server"
    server = EmbeddedServer(folder)
    try:
        with sq.MessageBox.open(server.dsn) as box:
            define(box)
            for receiver in (sync_receiver, async_receiver):
                with waiting(box, receiver) as results:
                    pid = int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])
                    os.kill(pid, end)
                    until(lambda: is_back(box))
                    assert results.get(timeout=PATIENCE_S) == [1]
                rows(box, "DELETE FROM {schema}.known_groups")
    finally:
        server.close()


@pytest.mark.parametrize("receiver", [sync_receiver, async_receiver])
def test_stop_ends_it_and_nothing_else(box, receiver):
    with waiting(box, receiver) as results:
        box.stop_receiving()
        assert results.get(timeout=PATIENCE_S) is None
    publish(box, 1)
    with box.session() as tx:
        assert tx.receive("shop", wait="forever") is None  # also later
        assert tx.receive("shop", wait="60s") is not None


def test_stop_of_the_face_ends_all_that_wait_in_it(box):
    async def use():
        async with sq.AsyncMessageBox(box) as face:

            async def wait():
                async with face.session() as tx:
                    return await tx.receive("shop", wait="forever")

            tasks = [asyncio.create_task(wait()) for _ in range(50)]
            await face.run(lambda box: until(lambda: waiters(box)))
            face.stop_receiving()
            return await asyncio.gather(*tasks)

    assert asyncio.run(use()) == [None] * 50


@pytest.mark.parametrize("receiver", [sync_receiver, async_receiver])
def test_closing_the_box_ends_it(box, receiver):
    with sq.MessageBox.open(box.dsn, schema=box.schema) as own:
        results = Queue()
        thread = threading.Thread(target=receiver, args=(own, results))
        thread.start()
        until(lambda: waiters(box))
        own.close()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
        assert list(results.queue)[-1] is None


@pytest.mark.proves("a signal ends a receiver that waits for ever")
def test_a_signal_ends_it(box):
    """The handler of a signal stops the box; without one Python ends the wait by its exception."""
    for handler, error in ((lambda *_: box.stop_receiving(), None), (signal.default_int_handler, KeyboardInterrupt)):
        before = signal.signal(signal.SIGINT, handler)
        thread = threading.Thread(target=lambda: (until(lambda: waiters(box)), os.kill(os.getpid(), signal.SIGINT)))
        results = Queue()
        try:
            thread.start()
            if error is None:
                sync_receiver(box, results)
                assert results.get() is None
                box.access.ending.clear()
            else:
                with pytest.raises(error):
                    sync_receiver(box, results)
        finally:
            thread.join(PATIENCE_S)
            signal.signal(signal.SIGINT, before)


def test_only_a_receiver_waits_forever(box):
    with pytest.raises(sq.UsageError, match="'forever' is not a duration"):
        box.status_of("x", wait="forever")
    with box.session() as tx:
        tx.connection.execute("SELECT 1")
        with pytest.raises(sq.UsageError, match="can't wait in the middle of a transaction"):
            tx.receive("shop", wait="forever")
