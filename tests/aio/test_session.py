"""The asyncio face of a box and of its sessions."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import psycopg
import pytest

import seriatim as sq
from tests.box.shop import rows
from tests.databases import box_with


def _orders(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue("fulfilment", policy=sq.Standard(), group="customer", sequence="version"),
        sq.Subscription("orders", where="type = 'order'", to="fulfilment"),
        sq.Queue("full", policy=sq.Unordered(), max_messages=1),
        sq.MessageType("note"),
        sq.Subscription("notes", where="type = 'note'", to="full"),
    )


ordered = box_with(_orders)


def order(version, customer="c1"):
    return sq.Message(type="order", context={"customer": customer, "version": version})


async def _only(delivery):
    (customer,) = [message.context["customer"] async for message in delivery]
    return customer


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 60))


@pytest.fixture
def box(ordered):
    with ordered.more(4) as more:
        yield more


def test_a_session_is_one_transaction(box):
    async def use():
        async with sq.AsyncMessageBox(box) as face:
            await face.publish([order(2), order(1)])
            async with face.session() as tx:
                delivery = await tx.receive("fulfilment", limit=10)
                assert (delivery.queue, delivery.group, len(delivery), delivery.is_open) == (
                    "fulfilment",
                    "c1",
                    2,
                    True,
                )
                assert tx.delivery is delivery
                await tx.execute("CREATE TABLE shipped (version bigint)")
                async for message in delivery:
                    await tx.execute("INSERT INTO shipped VALUES (%s)", [message.sequence])
                await tx.publish(order(3))
                assert delivery.is_done
            assert not tx.is_open
            async with face.session() as tx:
                assert await tx.execute("SELECT version FROM shipped") == [(1,), (2,)]
                assert [one.sequence for one in (await tx.receive("fulfilment")).messages] == [3]
            return await face.peek("fulfilment")

    (left,) = run(use())
    assert left.message.sequence == 3


def test_an_exception_rolls_back_and_passes_unchanged(box):
    mine = ValueError("mine")

    async def use():
        async with sq.AsyncMessageBox(box) as face, face.session() as tx:
            await tx.publish(order(1))
            raise mine

    with pytest.raises(ValueError) as raised:
        run(use())
    assert raised.value is mine
    assert box.peek("fulfilment") == []

    async def refused():
        async with sq.AsyncMessageBox(box) as face, face.session() as tx:
            with pytest.raises(sq.UsageError, match="there is no queue 'nowhere'"):
                await tx.receive("nowhere")
            with pytest.raises(psycopg.errors.UndefinedTable):
                await tx.execute("SELECT * FROM nowhere")
            with pytest.raises(RuntimeError, match="StopIteration"):
                await tx.run(lambda _: next(iter(())))

    run(refused())


def test_a_cancelled_session_is_rolled_back_and_its_messages_are_free_at_once(box):
    async def use():
        async with sq.AsyncMessageBox(box) as face:
            await face.publish(order(1))
            begun = asyncio.Event()

            async def slow():
                async with face.session() as tx:
                    await tx.receive("fulfilment")
                    await tx.publish(order(2))
                    begun.set()
                    await tx.execute("SELECT pg_sleep(600)")

            task = asyncio.create_task(slow())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with face.session() as tx:
                (message,) = (await tx.receive("fulfilment")).messages
                assert (message.sequence, message.attempt) == (1, 1)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await face.run(_sleep)

    run(use())
    assert [one.message.sequence for one in box.peek("fulfilment")] == [1]


def test_all_connections_are_back_after_many_cancellations(box):
    async def use():
        async with sq.AsyncMessageBox(box) as face:

            async def slow():
                async with face.session() as tx:
                    await tx.execute("SELECT pg_sleep(600)")

            for _ in range(3):
                tasks = [asyncio.create_task(slow()) for _ in range(10)]
                await asyncio.sleep(0)
                await asyncio.to_thread(_until_all_sleep, box)
                for task in tasks:
                    task.cancel()
                assert {type(one) for one in await asyncio.gather(*tasks, return_exceptions=True)} == {
                    asyncio.CancelledError
                }
            await asyncio.gather(*(face.publish(order(n)) for n in range(1, 21)))

    run(use())
    assert len(box.peek("fulfilment")) == 20


def _sleep(box):
    with box.session() as tx:
        tx.publish(order(3))
        tx.connection.execute("SELECT pg_sleep(600)")


def _until(box, query):
    while not rows(box, query):
        pass


def _until_true(look):
    while not look():
        pass


def _is_interrupting():
    return any(one.name == "seriatim-interrupts" for one in threading.enumerate())


def _until_all_sleep(box):
    query = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE 'SELECT pg_sleep%'"
    with psycopg.connect(box.dsn, autocommit=True) as connection:
        while connection.execute(query).fetchone()[0] < box.connections:
            pass


def test_who_goes_on_after_a_cancelled_call_is_told(box):
    async def use():
        async with sq.AsyncMessageBox(box) as face, face.session() as tx:
            await tx.publish(order(1))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await tx.execute("SELECT pg_sleep(600)")
            with pytest.raises(sq.UsageError, match="was cancelled, and its transaction is rolled back"):
                await tx.publish(order(2))

    with pytest.raises(sq.UsageError, match="was cancelled, and its transaction is rolled back"):
        run(use())
    assert box.peek("fulfilment") == []


def test_a_publisher_that_waits_for_room_is_interrupted(box):
    async def use():
        async with sq.AsyncMessageBox(box) as face:
            await face.publish(sq.Message(type="note"))
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await face.publish(sq.Message(type="note"), wait=600)

    run(use())
    assert len(box.peek("full")) == 1


@pytest.mark.dear
def test_a_thousand_that_wait_hold_no_thread_and_no_connection(box):
    """And each message wakes one of them."""

    async def use():
        got = []

        async def wait(face):
            async with face.session() as tx:
                customer = await _only(await tx.receive("fulfilment", wait=600))
            got.append(customer)

        async with sq.AsyncMessageBox(box) as face:
            before = threading.active_count()
            tasks = [asyncio.create_task(wait(face)) for _ in range(1000)]
            await face.publish(order(1, "first"))
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            assert (
                threading.active_count() <= before + box.connections + 1
            )  # those of the pool, and the one that listens
            async with face.session() as tx:  # there is a connection for others
                await tx.execute("SELECT 1")
            await face.publish([order(1, f"c{n}") for n in range(9)])
            async with asyncio.timeout(60):
                while len(got) < 10:
                    await asyncio.wait([one for one in tasks if not one.done()], return_when=asyncio.FIRST_COMPLETED)
            assert sorted(got) == sorted(["first", *(f"c{n}" for n in range(9))])
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    run(use())
    assert box.peek("fulfilment") == []


def test_one_that_waits_for_a_group_lets_others_have_what_comes(box):
    async def use():
        async with sq.AsyncMessageBox(box) as face:

            async def wait(group):
                async with face.session() as tx:
                    return await _only(await tx.receive("fulfilment", group=group, wait=600))

            groups = [f"c{n}" for n in range(20)]
            tasks = [asyncio.create_task(wait(group)) for group in groups]
            for group in reversed(groups):
                await face.publish(order(1, group))
            assert await asyncio.gather(*tasks) == groups

    run(use())


def test_a_wait_that_ends_gives_nothing(box):
    async def use():
        async with sq.AsyncMessageBox(box) as face, face.session() as tx:
            assert await tx.receive("fulfilment", wait=0.05) is None
            assert await tx.next_group("fulfilment", wait=0.05) is None
            await tx.publish(order(1))
            with pytest.raises(sq.UsageError, match="can't wait in the middle of a transaction"):
                await tx.receive("fulfilment", wait=5)

    run(use())


def test_it_takes_part_in_a_transaction_of_psycopg_for_asyncio(box):
    async def use():
        async with sq.AsyncMessageBox(box) as face, await psycopg.AsyncConnection.connect(box.dsn) as connection:
            await connection.execute("CREATE TABLE mine (version int)")
            await connection.commit()
            await connection.execute("INSERT INTO mine VALUES (1)")
            async with face.session(connection) as tx:
                await tx.publish(order(1))
            await connection.rollback()
            for version in range(1, 8):  # more often than the driver needs to have statements prepared
                await connection.execute("INSERT INTO mine VALUES (2)")
                async with face.session(connection) as tx:
                    await tx.publish(order(version))
            await connection.commit()
            async with face.session(connection) as tx:
                assert len(await tx.receive("fulfilment", limit=5)) == 5
            await connection.commit()
            assert await (await connection.execute("SELECT count(*) FROM mine")).fetchone() == (7,)
            await connection.rollback()
            await connection.set_autocommit(True)
            with pytest.raises(sq.UsageError, match="autocommit"):
                async with face.session(connection) as tx:
                    await tx.publish(order(3))

    run(use())
    assert [one.message.sequence for one in box.peek("fulfilment")] == [1, 2, 3, 4, 5, 6, 7]


def test_a_cancelled_call_on_the_caller_s_connection_leaves_it_usable(box):
    async def use():
        async with sq.AsyncMessageBox(box) as face, await psycopg.AsyncConnection.connect(box.dsn) as connection:

            async def slow():
                async with face.session(connection) as tx:
                    await tx.publish(order(1))
                    await tx.execute("SELECT pg_sleep(600)")

            with pytest.raises(TimeoutError):
                await asyncio.wait_for(slow(), 0.1)
            await connection.rollback()
            async with face.session(connection) as tx:
                await tx.publish(order(2))
            await connection.commit()

    run(use())
    assert [one.message.sequence for one in box.peek("fulfilment")] == [2]


def test_several_event_loops_may_use_one_box(box):
    with_face = sq.AsyncMessageBox(box)

    async def wait():
        async with with_face.session() as tx:
            return await _only(await tx.receive("fulfilment", wait=60))

    got = []
    threads = [threading.Thread(target=lambda: got.append(run(wait()))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for customer in ("a", "b", "c"):
        run(with_face.publish(order(1, customer)))
    for thread in threads:
        thread.join()
    run(with_face.close())
    assert sorted(got) == ["a", "b", "c"]


def test_a_session_ends_also_where_the_box_was_closed_before(box):
    async def use():
        face = sq.AsyncMessageBox(box)
        async with face.session() as tx:
            await tx.publish(order(1))
            await face.close()

    run(use())
    assert len(box.peek("fulfilment")) == 1


def test_those_who_wait_are_told_that_the_box_is_closed(box):
    async def use():
        face = sq.AsyncMessageBox(box)

        async def wait():
            async with face.session() as tx:
                await tx.receive("fulfilment", wait=600)

        waiting = [asyncio.create_task(wait()) for _ in range(3)]
        await asyncio.to_thread(_until, box, "SELECT FROM {schema}.waiters")
        await face.close()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert [str(one) for one in found] == ["the message box is closed (open it again)"] * 3

    run(use())


def test_a_closed_box_says_so(box):
    async def use():
        async with sq.AsyncMessageBox(box) as face:
            pass
        with pytest.raises(sq.UsageError, match="the message box is closed"):
            await face.publish(order(1))
        with pytest.raises(sq.UsageError, match="the message box is closed"):
            async with face.session() as tx:
                await tx.publish(order(1))

    run(use())


def test_a_session_is_used_in_its_block(box):
    async def use():
        async with sq.AsyncMessageBox(box) as face:
            with pytest.raises(sq.UsageError, match="the session hasn't begun"):
                await face.session().publish(order(1))
            async with face.session() as tx:
                pass
            with pytest.raises(sq.UsageError, match="the session has ended"):
                await tx.publish(order(1))

    run(use())


def test_who_finds_no_connection_waits_for_one(box, monkeypatch):
    async def use():
        async with sq.AsyncMessageBox(box) as face:
            has, ends = asyncio.Semaphore(0), asyncio.Event()

            async def hold():
                async with face.session() as tx:
                    await tx.execute("SELECT 1")
                    has.release()
                    await ends.wait()

            holding = [asyncio.create_task(hold()) for _ in range(box.connections)]
            for _ in holding:
                await has.acquire()
            waiting = asyncio.create_task(face.publish(order(1)))
            await asyncio.sleep(0)
            with monkeypatch.context() as patch:
                patch.setattr("seriatim.aio.slots._PATIENCE_S", 0.01)
                with pytest.raises(sq.Unavailable, match="no connection became free"):
                    await face.publish(order(2))
            gone = asyncio.create_task(face.publish(order(3)))
            await asyncio.sleep(0)
            gone.cancel()
            ends.set()
            await asyncio.gather(*holding, waiting)
            await asyncio.gather(*(face.publish(order(n)) for n in range(4, 12)))

    run(use())
    assert box.peek("fulfilment")[0].message.sequence == 1


def test_those_who_wait_are_called_also_after_the_connection_broke_that_listened(box):
    async def use():
        async with sq.AsyncMessageBox(box) as face:

            async def wait():
                async with face.session() as tx:
                    return await _only(await tx.receive("fulfilment", wait=60))

            tasks = [asyncio.create_task(wait()) for _ in range(3)]
            query = "SELECT pg_terminate_backend(substr(channel, 10)::int) FROM {schema}.waiters"
            await asyncio.to_thread(_until, box, query)
            await face.publish([order(1, f"c{n}") for n in range(3)])
            assert sorted(await asyncio.gather(*tasks)) == ["c0", "c1", "c2"]

    run(use())


async def _use_all_connections(face):
    """Have as many sessions at once as there are connections."""
    together = asyncio.Barrier(face.connections)

    async def use():
        async with face.session() as tx:
            await tx.execute("SELECT 1")
            await together.wait()

    await asyncio.gather(*(use() for _ in range(face.connections)))


_OTHERS = "SELECT FROM pg_stat_activity WHERE datname = current_database()"


async def _rounds():
    """Let the event loop do all that can be done at once."""
    for _ in range(10):
        await asyncio.sleep(0)


def test_an_exception_interrupts_the_session_s_calls_in_other_tasks(box):
    async def use():
        async with sq.AsyncMessageBox(box) as face:
            sleeps = f"{_OTHERS} AND wait_event = 'PgSleep'"
            sleeping = []

            async def fails():
                async with face.session() as tx:
                    await tx.publish(order(1))
                    sleeping.append(asyncio.create_task(tx.execute("SELECT pg_sleep(600)")))
                    await asyncio.to_thread(_until, box, sleeps)
                    raise ValueError

            with pytest.raises(ValueError):
                await fails()
            await asyncio.to_thread(_until, box, f"SELECT WHERE NOT EXISTS ({sleeps})")
            with pytest.raises(psycopg.errors.QueryCanceled):
                await sleeping[0]
            await _use_all_connections(face)

    run(use())
    assert box.peek("fulfilment") == []


def test_a_session_that_is_cancelled_while_it_fails_raises_the_cancellation(box):
    async def use():
        async with sq.AsyncMessageBox(box) as face:
            begun, goes_on, calling = threading.Event(), threading.Event(), []

            def call(session):
                session.publish(order(1))
                begun.set()
                assert goes_on.wait(600)

            async def fails():
                async with face.session() as tx:
                    calling.append(asyncio.create_task(tx.run(call)))
                    await asyncio.to_thread(begun.wait)
                    raise ValueError

            session = asyncio.create_task(fails())
            await asyncio.to_thread(begun.wait)
            await asyncio.to_thread(_until_true, _is_interrupting)
            session.cancel()
            await _rounds()
            assert not session.done()
            goes_on.set()
            with pytest.raises(asyncio.CancelledError):
                await session
            await calling[0]
            await _use_all_connections(face)

    run(use())
    assert box.peek("fulfilment") == []


def test_a_call_that_has_found_no_connection_when_its_session_ends_is_refused(box):
    async def use():
        async with sq.AsyncMessageBox(box) as face, contextlib.AsyncExitStack() as others:
            for _ in range(face.connections):
                await (await others.enter_async_context(face.session())).execute("SELECT 1")
            publishing = []

            async def fails():
                async with face.session() as tx:
                    publishing.append(asyncio.create_task(tx.publish(order(1))))
                    await _rounds()
                    raise ValueError

            with pytest.raises(ValueError):
                await fails()
            await others.aclose()
            with pytest.raises(sq.UsageError, match="the session has ended"):
                await publishing[0]
            await _use_all_connections(face)

    run(use())
    assert box.peek("fulfilment") == []


@pytest.mark.parametrize("cancels", [False, True])
def test_a_session_commits_after_its_calls_in_other_tasks_and_tells_how_that_ended(box, cancels):
    async def use():
        async with sq.AsyncMessageBox(box) as face, await psycopg.AsyncConnection.connect(box.dsn) as other:
            await other.execute("CREATE TABLE mine (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
            await other.commit()
            await other.execute("LOCK TABLE mine")
            writing = []

            ends = asyncio.Event()

            async def begun():
                async with face.session() as tx:
                    writing.append(asyncio.create_task(tx.execute("INSERT INTO mine VALUES (1), (1)")))
                    await asyncio.to_thread(_until, box, f"{_OTHERS} AND wait_event_type = 'Lock'")
                    ends.set()

            session = asyncio.create_task(begun())
            await ends.wait()
            await _rounds()
            assert not session.done()
            if cancels:
                session.cancel()
            else:
                await other.rollback()
            with pytest.raises(asyncio.CancelledError if cancels else sq.Unavailable):
                await session
            (written,) = await asyncio.gather(*writing, return_exceptions=True)
            assert isinstance(written, psycopg.errors.QueryCanceled) if cancels else written == []
            await _use_all_connections(face)

    run(use())


def test_a_session_that_is_cancelled_while_its_connection_is_in_use_keeps_no_slot(box):
    async def use():
        async with sq.AsyncMessageBox(box) as face, await psycopg.AsyncConnection.connect(box.dsn) as connection:
            used = asyncio.Event()

            async def begun():
                async with face.session(connection) as tx:
                    await tx.publish(order(1))
                    await connection.lock.acquire()  # as a statement of another task does
                    used.set()

            session = asyncio.create_task(begun())
            await used.wait()
            await _rounds()
            session.cancel()
            with pytest.raises(asyncio.CancelledError):
                await session
            connection.lock.release()
            await _use_all_connections(face)

    run(use())


def test_cancelling_ends_a_plain_receiver_that_waits_forever(box):
    async def use():
        async with sq.AsyncMessageBox(box) as face:
            ended = threading.Event()

            def receive(box):
                try:
                    with box.session() as tx:
                        tx.receive("fulfilment", wait="forever")
                finally:
                    ended.set()

            receiving = asyncio.create_task(face.run(receive))
            await asyncio.to_thread(_until, box, "SELECT FROM {schema}.waiters")
            receiving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await receiving
            assert ended.is_set()

    run(use())


def test_stopping_a_face_of_a_role_ends_those_that_wait_in_it(box):
    async def use():
        async with sq.AsyncMessageBox(box) as face:
            of_role = face.as_role("seriatim")

            async def wait():
                async with of_role.session() as tx:
                    return await tx.receive("fulfilment", wait="forever")

            waiting = asyncio.create_task(wait())
            await asyncio.to_thread(_until, box, "SELECT FROM {schema}.waiters")
            of_role.stop_receiving()
            assert await waiting is None
            await face.publish(order(1))
            async with face.session() as tx:
                assert await tx.receive("fulfilment", wait="forever") is not None

    run(use())


def test_two_faces_of_one_role_are_both_called(box, monkeypatch):
    monkeypatch.setattr("seriatim.aio.lines.LOOK_S", 600.0)

    async def use():
        async with sq.AsyncMessageBox(box) as face:

            async def wait(of_role, group):
                async with of_role.session() as tx:
                    return await _only(await tx.receive("fulfilment", group=group, wait=600))

            tasks = []
            for group in ("c1", "c2"):
                tasks.append(asyncio.create_task(wait(face.as_role("seriatim"), group)))
                await asyncio.to_thread(_until_true, lambda: len(face.lines._lines) == len(tasks))
            for group, task in zip(("c1", "c2"), tasks, strict=True):
                await face.publish(order(1, group))
                assert await task == group

    run(use())


_CALLS = {
    "a statement of a session": lambda face: _in_session(face, lambda tx: tx.execute("SELECT pg_sleep(600)")),
    "a function": lambda face: face.run(_sleep),
    "a block of a transaction": lambda face: face.run(_sleep_in_block),
    "rows that are streamed": lambda face: face.run(_stream),
    "a receiver that waits": lambda face: face.run(_receive),
    "a publisher": lambda face: face.publish(order(1)),
    "a publisher in a session": lambda face: _in_session(face, lambda tx: tx.publish(order(1))),
}


def _sleep_in_block(box):
    with box.session() as tx, tx.connection.transaction():
        tx.connection.execute("SELECT pg_sleep(600)")


def _stream(box):
    with box.session() as tx, tx.connection.cursor() as cursor:
        for _ in cursor.stream("SELECT pg_sleep(10) FROM generate_series(1, 60)"):
            pass


def _receive(box):
    with box.session() as tx:
        tx.receive("fulfilment", group="nobody", wait=600)


async def _in_session(face, call):
    async with face.session() as tx:
        await call(tx)


@pytest.mark.parametrize("call", _CALLS.values(), ids=_CALLS)
def test_a_cancelled_call_costs_no_connection(box, call, caplog):
    """And the pool has nothing to say."""
    ours = "datname = current_database() AND backend_type = 'client backend' AND application_name <> 'looks'"
    pids = f"SELECT pid FROM pg_stat_activity WHERE {ours}"
    waits = (
        f"{pids} AND (wait_event_type = 'Lock' OR wait_event = 'PgSleep') UNION ALL SELECT 1 FROM {box.schema}.waiters"
    )

    def until_it_waits():
        with psycopg.connect(box.dsn, autocommit=True, application_name="looks") as looking:
            while not looking.execute(waits).fetchone():
                pass

    async def use():
        async with sq.AsyncMessageBox(box) as face:
            await asyncio.gather(*(face.publish(order(n)) for n in range(10, 20)))
            with psycopg.connect(box.dsn, application_name="looks") as other:
                before = set(other.execute(pids))
                for _ in range(5):
                    other.execute(f"LOCK TABLE {box.schema}.spool IN ACCESS EXCLUSIVE MODE")
                    task = asyncio.create_task(call(face))
                    await asyncio.to_thread(until_it_waits)
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task
                    other.rollback()
                assert set(other.execute(pids)) >= before  # the pool may have grown by the calls at once

    run(use())
    assert [one.getMessage() for one in caplog.records if one.name.startswith("psycopg")] == []
