"""The actions of the model at random against the real functions, while connections are killed: by Python, and by SQL in one transaction."""

from __future__ import annotations

import random
import threading

import psycopg
import pytest

import seriatim as sq
from seriatim.box.connection.access import Transaction
from tests.box.leases.test_door import defined, order, result

GROUPS, EACH = 8, 10


class Run:
    """What the callers share."""

    def __init__(self, box, dsn):
        self.box, self.dsn = box, dsn
        self.over = threading.Event()
        self.failed: list[BaseException] = []

    def cut(self):
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
                " AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1"
            )

    def again(self, call):
        """Make a call until its answer comes."""
        while True:
            try:
                return call()
            except sq.LeaseLost:
                raise
            except sq.Unavailable:
                continue


def work(run, name, seed):
    """A caller in Python: each request may be repeated, and each lease left alone."""
    chance, attempts = random.Random(seed), 0
    principal, other = sq.Principal(name), sq.Principal("somebody else")
    try:
        while not run.over.is_set():
            attempts += 1
            attempt = f"{attempts}"
            try:
                lease = run.again(
                    lambda: run.box.lease("orders", limit=4, lease="1s", attempt_id=attempt, principal=principal)  # noqa: B023
                )
                if lease is None:
                    continue
                act(run, lease, chance, principal, other)
            except sq.LeaseLost:
                continue
    except BaseException as error:  # noqa: BLE001 -- the test tells it
        run.failed.append(error)
        run.over.set()


def act(run, lease, chance, principal, other):
    begin = lease.messages[0].position - 1
    for message in lease.messages:
        if chance.random() < 0.1:
            run.cut()
        what = chance.random()
        here = run.box.leased(lease.id, principal=principal)
        if what < 0.05:
            return  # it is left alone, and runs out
        if what < 0.12 and begin == message.position - 1:  # what is before it has its results
            run.again(lambda: here.fail(message.position, "transient", "away", retry_after=0))  # noqa: B023
            return
        if what < 0.18:
            run.again(here.give_back)
            return
        if what < 0.3:
            run.again(here.renew)
        with pytest.raises(sq.LeaseLost):
            run.again(lambda: run.box.leased(lease.id, principal=other).complete(message.position))  # noqa: B023
        if message.position < len(lease) and what > 0.8:
            continue  # completed with the next one
        done = [one for one in lease.messages if begin < one.position <= message.position]
        begin = message.position
        results = [(one.position, result(one.group, one.context["n"])) for one in done]
        answer = run.again(lambda: here.complete(message.position, publish=results))  # noqa: B023
        assert answer.done == message.position
        if what > 0.7:
            again = run.again(lambda: here.complete(message.position, publish=results))  # noqa: B023
            assert (again.repeated, again.published) == (True, answer.published)


def work_in_sql(run, seed):
    """A caller in SQL: what it completes, and its rows, are one transaction; some are rolled back."""
    chance = random.Random(seed)
    try:
        while not run.over.is_set():
            try:
                with psycopg.connect(run.dsn, options=f"-c search_path={run.box.schema}") as connection:
                    while not run.over.is_set():
                        rows = connection.execute(
                            "SELECT delivery, position, group_key,"
                            " (context ->> 'n')::integer, message_id FROM receive('orders', 3) WHERE reason IS NULL"
                        ).fetchall()
                        done = chance.randint(1, len(rows)) if rows else 0
                        for _, _, group, n, _ in rows[:done]:
                            connection.execute(
                                "SELECT publish('result', '', jsonb_build_object('customer', %s::text, 'n', %s::integer))",
                                [group, n],
                            )
                        if rows:
                            connection.execute("SELECT complete(%s, %s)", [rows[0][0], done])
                            if done < len(rows):
                                connection.execute("SELECT give_back(%s)", [rows[0][0]])
                        if chance.random() < 0.1:
                            connection.rollback()
                        connection.commit()
            except psycopg.OperationalError:
                continue
    except BaseException as error:  # noqa: BLE001 -- the test tells it
        run.failed.append(error)
        run.over.set()


def test_each_message_has_one_result_in_order(box):
    defined(box, retry=sq.Retry(attempts=1000, delay="0s"))
    box.publish([order(f"g{group}", n) for n in range(EACH) for group in range(GROUPS)])
    run = Run(box, box.dsn)
    seed = random.randrange(2**32)
    threads = [threading.Thread(target=work, args=(run, f"caller {at}", seed + at)) for at in range(3)]
    threads += [threading.Thread(target=work_in_sql, args=(run, seed + at)) for at in range(10, 12)]
    for thread in threads:
        thread.start()
    try:
        while left(box) and not run.failed:
            pass
    finally:
        run.over.set()
        for thread in threads:
            thread.join()
    assert not run.failed, run.failed
    found: dict[str, list[int]] = {}
    with sq.MessageBox.open(box.dsn, schema=box.schema) as other:  # whose connections nobody has ended
        other.tick()  # it routes what was published by SQL
        while True:
            with other.session() as tx:
                if (delivery := tx.receive("results", limit=50)) is None:
                    break
                for one in delivery:
                    found.setdefault(one.context["customer"], []).append(one.context["n"])
    assert found == {f"g{group}": list(range(EACH)) for group in range(GROUPS)}


def left(box):
    """How many orders aren't done; at least one where the connection is killed."""
    query = (
        f"SELECT count(*) FROM {box.schema}.entries JOIN {box.schema}.queues USING (queue_id) WHERE queue = 'orders'"
    )
    try:
        with psycopg.connect(box.dsn) as connection:
            return connection.execute(query).fetchone()[0]
    except psycopg.OperationalError:
        return 1


def test_a_connection_that_dies_after_a_look_for_an_attempt_is_told_as_unavailable(box, monkeypatch):
    defined(box)
    box.publish([order("a", 1)])
    value, cut = Transaction.value, threading.Event()

    def cut_after(transaction, name, **parameters):
        found = value(transaction, name, **parameters)
        if name == "lease_of_attempt" and not cut.is_set():
            cut.set()
            with psycopg.connect(box.dsn, autocommit=True) as connection:
                pid = transaction.connection.info.backend_pid
                assert connection.execute("SELECT pg_terminate_backend(%s, 60000)", [pid]).fetchone() == (True,)
        return found

    monkeypatch.setattr(Transaction, "value", cut_after)
    with pytest.raises(sq.Unavailable):
        box.lease("orders", attempt_id="x")
    assert box.lease("orders", attempt_id="x").messages[0].position == 1
