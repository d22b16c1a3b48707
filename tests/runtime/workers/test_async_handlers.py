"""``async def`` handlers, of a `Worker` and of an `AsyncWorker`."""

from __future__ import annotations

import asyncio
import inspect
import threading

import pytest

import seriatim as sq
from seriatim.operations import faults
from tests.databases import box_with


def _orders(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue("orders", policy=sq.Fifo(), group="customer", retry=sq.Retry(2, delay="0s")),
        sq.Subscription("orders", where="type = 'order'", to="orders"),
        sq.MessageType("shipped", properties={"customer": "string"}),
        sq.Queue("shipped", policy=sq.Fifo(), group="customer"),
        sq.Subscription("shipped", where="type = 'shipped'", to="shipped"),
    )
    with box.session() as tx:
        tx.connection.execute("CREATE TABLE written (version bigint)")


box = box_with(_orders)


def order(version, customer="c1"):
    return sq.Message(type="order", context={"customer": customer, "version": version})


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


def written(box):
    with box.session() as tx:
        return [version for (version,) in tx.connection.execute("SELECT version FROM written ORDER BY 1")]


async def _working(box, handler, until, **options):
    """Have an `AsyncWorker` work until the event is set."""
    async with sq.AsyncMessageBox(box) as face:
        worker = sq.AsyncWorker(face, "orders", handler, workers=2, **options)
        running = asyncio.create_task(worker.run())
        ended = asyncio.create_task(until.wait())
        await asyncio.wait([running, ended], return_when=asyncio.FIRST_COMPLETED)
        worker.stop()
        return await running


@pytest.mark.parametrize("mode", ["transactional", "leased"])
def test_it_publishes_and_writes_in_the_turn(box, mode):
    box.publish([order(version, f"c{version % 3}") for version in range(9)])

    async def use():
        loop, count, enough = asyncio.get_running_loop(), 0, asyncio.Event()

        async def handle(message, tx):
            nonlocal count
            assert asyncio.get_running_loop() is loop
            await asyncio.sleep(0)
            await tx.execute("INSERT INTO written VALUES (%s)", [message.context["version"]])
            await tx.publish(sq.Message(type="shipped", context={"customer": "published"}))
            with pytest.raises(sq.UsageError, match="a handler can't receive"):
                await tx.receive("orders")
            count += 1
            if count == 9:
                enough.set()
            return sq.Message(type="shipped", context={"customer": "returned"})

        assert await _working(box, handle, enough, mode=mode) == 9

    run(use())
    assert written(box) == list(range(9))
    assert [len(box.peek("shipped", group)) for group in ("published", "returned")] == [9, 9]
    assert box.peek("orders") == []


def test_it_works_until_nothing_is_left_and_the_publisher_waits_for_that(box):
    async def use():
        async with sq.AsyncMessageBox(box) as face:
            message = order(1)
            waiting = asyncio.create_task(face.status_of(message.message_id, wait=60))
            await face.publish([message, order(2, "c2")])
            assert (await face.status_of(message.message_id)).state == "waiting"

            async def handle(message, tx):
                await asyncio.sleep(0)

            assert await sq.AsyncWorker(face, "orders", handle).run(until_idle=True) == 2
            assert (await waiting).state == "done"

    run(use())


def test_its_exception_is_the_fault(box):
    box.publish([order(1), order(2, "c2")])

    async def use():
        told = asyncio.Event()

        async def handle(message, tx):
            if message.context["version"] == 1:
                await tx.execute("INSERT INTO written VALUES (1)")
                raise sq.Business("the address is wrong")
            await tx.execute("INSERT INTO written VALUES (2)")
            told.set()

        await _working(box, handle, told)

    run(use())
    (fault,) = faults.faults(box, "orders")
    assert (fault.error_class, fault.error) == ("Business", "the address is wrong")
    assert "in handle" in fault.traceback
    assert written(box) == [2]


def test_a_mistake_in_its_own_code_is_known_as_one(box):
    box.publish([order(1), order(2, "c2")])

    async def use():
        async with sq.AsyncMessageBox(box) as face:

            async def handle(message, tx):
                await asyncio.sleep(0)
                if message.context["version"] == 1:
                    raise TypeError("mine")
                await asyncio.wait_for(None, 1)  # raises one of its own, elsewhere

            await sq.AsyncWorker(face, "orders", handle).run(until_idle=True)

    run(use())
    assert {one.group: one.kind for one in faults.faults(box, "orders")} == {"c1": "bug", "c2": "unexpected"}


def test_a_batch_is_an_asynchronous_delivery(box):
    box.publish([order(version) for version in range(3)])

    async def use():
        got = asyncio.Event()

        async def handle(delivery, tx):
            assert isinstance(delivery, sq.AsyncDelivery)
            assert [one.context["version"] async for one in delivery] == [0, 1, 2]
            got.set()
            return sq.Consumed(2)

        await _working(box, handle, got, batch=True)

    run(use())
    assert [one.message.context["version"] for one in box.peek("orders")] == [2]


@pytest.mark.parametrize("mode", ["transactional", "leased"])
def test_cancelling_rolls_back_and_blames_nobody(box, mode):
    box.publish([order(1), order(2)])

    async def use():
        async with sq.AsyncMessageBox(box) as face:
            begun, ended = asyncio.Event(), []

            async def handle(message, tx):
                await tx.execute("INSERT INTO written VALUES (%s)", [message.context["version"]])
                if message.context["version"] == 2:
                    begun.set()
                    try:
                        await tx.execute("SELECT pg_sleep(600)")
                    finally:
                        ended.append(message.context["version"])

            running = asyncio.create_task(sq.AsyncWorker(face, "orders", handle, mode=mode).run())
            await begun.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert ended == [2]
            async with face.session() as tx:
                (message,) = (await tx.receive("orders")).messages
                assert (message.context["version"], message.attempt) == (2, 1)

    run(use())
    assert written(box) == [1]
    assert faults.faults(box, "orders") == []


def test_cancelling_again_and_again_ends_no_plain_handler_either(box):
    box.publish(order(1))
    begun, free = threading.Event(), threading.Event()

    def handle(message, tx):
        begun.set()
        assert free.wait(180)
        tx.connection.execute("INSERT INTO written VALUES (1)")

    async def use():
        async with sq.AsyncMessageBox(box) as face:
            running = asyncio.create_task(sq.AsyncWorker(face, "orders", handle).run())
            try:
                assert await asyncio.to_thread(begun.wait, 60)
                for _ in range(3):
                    running.cancel()
                    for _ in range(5):  # rounds of the loop, in which a task would end that waits for nothing
                        await asyncio.sleep(0)
                    assert not running.done()
            finally:
                free.set()
            with pytest.raises(asyncio.CancelledError):
                await running

    run(use())
    assert written(box) == [1]


@pytest.mark.parametrize("mode", ["transactional", "leased"])
def test_one_that_takes_too_long_is_cancelled(box, mode):
    box.publish([order(1), order(2, "c2")])

    async def use():
        cancelled, ended = [], asyncio.Event()

        async def handle(message, tx):
            if message.context["version"] == 2:
                return
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                cancelled.append(message.attempt)
                if len(cancelled) == 2:
                    ended.set()
                raise

        await _working(box, handle, ended, pace=sq.Pace(turn_limit=0.3), mode=mode)
        assert cancelled[:2] == [1, 2]

    run(use())
    assert {(one.kind, one.error_class) for one in faults.faults(box, "orders")} == {("timeout", "TurnLimit")}


def test_a_call_that_was_cancelled_fails_the_message(box):
    """The handler's own time limit ended a statement, and with it half of what it wanted to do."""
    box.publish(order(1))

    async def use():
        tried = asyncio.Event()

        async def handle(message, tx):
            try:
                async with asyncio.timeout(0.05):
                    await tx.execute("SELECT pg_sleep(600)")
            except TimeoutError:
                tried.set()

        await _working(box, handle, tried)

    run(use())
    assert {one.error_class for one in faults.faults(box, "orders")} == {"UsageError"}


def test_a_session_ends_with_its_handler(box):
    box.publish([order(1), order(2)])

    async def use():
        second, told = asyncio.Event(), asyncio.Event()

        async def later(tx):
            await second.wait()
            assert not tx.is_open
            with pytest.raises(sq.UsageError, match="the session has ended"):
                await tx.publish(order(3))
            told.set()

        async def handle(message, tx):
            if message.context["version"] == 2:
                second.set()
            else:
                handle.left = asyncio.create_task(later(tx))

        await _working(box, handle, told)

    run(use())
    assert box.peek("orders") == []


def test_a_worker_without_a_loop_has_one_for_the_process(box):
    box.publish([order(version, f"c{version}") for version in range(4)])
    loops, done = set(), threading.Semaphore(0)

    async def handle(message, tx):
        loops.add(asyncio.get_running_loop())
        await tx.execute("INSERT INTO written VALUES (%s)", [message.context["version"]])
        done.release()

    class Handle:
        async def __call__(self, message, tx):
            await handle(message, tx)

    worker = sq.Worker(box, "orders", {"order": Handle()}, workers=3)
    working = threading.Thread(target=worker.run)
    working.start()
    for _ in range(4):
        assert done.acquire(timeout=180)
    worker.stop()
    working.join()
    assert len(loops) == 1
    assert written(box) == [0, 1, 2, 3]


@pytest.mark.parametrize("mode", ["transactional", "leased"])
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_an_error_that_would_end_the_process_is_the_fault_of_its_message_only(box, error, mode):
    box.publish([order(1), order(2, "c2")])

    async def handle(message, tx):
        if message.context["version"] == 1:
            raise error("mine")
        await tx.execute("INSERT INTO written VALUES (2)")

    sq.Worker(box, "orders", handle, workers=1, mode=mode).run(until_idle=True)
    assert written(box) == [2]
    assert {(one.kind, one.error_class) for one in faults.faults(box, "orders")} == {("unexpected", error.__name__)}


def test_a_handler_that_exits_does_not_end_the_event_loop_of_the_program(box):
    box.publish(order(1))

    async def use():
        async with sq.AsyncMessageBox(box) as face:

            async def handle(message, tx):
                raise SystemExit(3)

            await sq.AsyncWorker(face, "orders", handle).run(until_idle=True)

    run(use())
    assert {one.error_class for one in faults.faults(box, "orders")} == {"SystemExit"}


def test_a_task_of_a_handler_that_exits_ends_no_other_handler(box):
    box.publish([order(1), order(2)])

    async def handle(message, tx):
        if message.context["version"] == 1:
            with pytest.raises(SystemExit):
                await asyncio.create_task(_exits())
        await tx.execute("INSERT INTO written VALUES (%s)", [message.context["version"]])

    sq.Worker(box, "orders", handle).run(until_idle=True)
    assert written(box) == [1, 2]


async def _exits():
    raise SystemExit(3)


def test_a_worker_that_was_cancelled_works_again_and_so_do_others(box):
    begun = threading.Event()

    async def handle(message, tx):
        if not begun.is_set():
            begun.set()
            await asyncio.sleep(600)
        await tx.execute("INSERT INTO written VALUES (%s)", [message.context["version"]])

    box.publish(order(1))
    worker = sq.Worker(box, "orders", handle)
    working = threading.Thread(target=worker.run)
    working.start()
    assert begun.wait(180)
    worker.cancel()
    working.join()
    assert worker.run(until_idle=True) == 1
    box.publish(order(2))
    assert sq.Worker(box, "orders", handle).run(until_idle=True) == 1
    assert written(box) == [1, 2]
    assert faults.faults(box, "orders") == []


@pytest.mark.parametrize("mode", ["transactional", "leased"])
def test_a_closed_loop_ends_the_run_and_fails_no_message(box, mode):
    box.publish(order(1))
    attempts = []

    async def handle(message, tx):
        attempts.append(message.attempt)

    closed = asyncio.new_event_loop()
    closed.close()
    worker = sq.Worker(box, "orders", handle, mode=mode)
    with pytest.raises(sq.UsageError, match="the event loop of the handlers is closed"):
        worker.run(loop=closed)
    assert worker.run(until_idle=True) == 1  # on the loop of the process again
    assert attempts == [1]


def test_what_is_no_handler_is_refused(box):
    async def yields(message, tx):
        yield message

    async def takes_one(message):
        pass

    for handler, said in (
        (yields, "a generator function"),
        (takes_one, "can't be called with a message and a session"),
    ):
        with pytest.raises(sq.UsageError, match=said):
            sq.Worker(box, "orders", handler)

    async def use():
        async with sq.AsyncMessageBox(box) as face:
            with pytest.raises(sq.UsageError, match="there is no queue 'nowhere'"):
                await sq.AsyncWorker(face, "nowhere", takes_one).run()
            worker = sq.AsyncWorker(face, "orders", lambda message, tx: None)
            worker.stop()
            assert await worker.run() == 0

    run(use())


def test_an_async_worker_takes_what_a_worker_takes():
    theirs, ours = (inspect.signature(one).parameters for one in (sq.Worker, sq.AsyncWorker))
    besides = {"reporting", "loop"}  # of a supervisor; its own
    assert [(one.name, one.kind, one.default) for one in ours.values()] == [
        (one.name, one.kind, one.default) for one in theirs.values() if one.name not in besides
    ]
