"""Workers in leased mode: no transaction is open while a handler works, and only who has the lease completes."""

from __future__ import annotations

import logging
import threading
import time

import psycopg
import pytest

import seriatim as sq
from seriatim.box.faults.lease import claim, give_back
from seriatim.operations import groups, invariants, messages, queues, trace
from seriatim.operations import groups as operations
from seriatim.operations.grants import grant
from seriatim.runtime.workers.lease_keeper import LeaseKeeper
from tests.box.shop import define, left, publish, rows, see, seen
from tests.runtime.workers.test_worker import DEADLINE_S, LIMIT_S, until, working
from tests.runtime.workers.unhurried import take_all_time

pytestmark = pytest.mark.dear

LEASED = {"mode": "leased", "workers": 3, "lease": 3.0}
#: That of a worker that keeps it, however long the machine is busy with something else.
LONG = {"lease": sq.Lease(600.0, heartbeat=0.2)}


def work(box, handler, *, queue="shop", done=None, **options):
    """Let a worker work until the queue is empty, or something else holds."""
    worker = sq.Worker(box, queue, handler, **LEASED | LONG | options)
    with working(worker) as ended:
        until(done or (lambda: not left(box, queue)))
    assert not leases(box) or done is not None
    assert invariants.broken(box) == []
    return ended[0]


def leases(box):
    return rows(box, "SELECT * FROM {schema}.leases ORDER BY token")


def expire(box):
    """Let all leases run out."""
    rows(box, "UPDATE {schema}.leases SET expires_at = clock_timestamp()")


class Held:
    """A handler that doesn't return until it is let go."""

    def __init__(self, box):
        self.box = box
        self.entered = threading.Semaphore(0)
        self.go = threading.Event()
        self.calls = []
        self.errors = []

    def __call__(self, message, tx):
        self.calls.append((message.context["customer"], message.context["version"], message.attempt))
        if len(self.calls) == 1:
            self.entered.release()
            assert self.go.wait(DEADLINE_S)
        try:
            see(self.box, message, tx)
        except Exception as error:
            self.errors.append(error)
            raise

    def wait(self):
        assert self.entered.acquire(timeout=DEADLINE_S)


@pytest.mark.telling
@pytest.mark.parametrize(
    ("policy", "more"),
    [
        (sq.Standard(), {}),
        (sq.Fifo(), {"sequence": None}),
        (sq.BestEffort(), {}),
        (sq.UnitOfWork(size=20), {}),
        (sq.Unordered(), {"group": None, "sequence": None}),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
@pytest.mark.parametrize("batch", [False, True])
def test_each_group_in_order_and_exactly_once(box, policy, more, batch):
    define(box, policy=policy, keep="everything", **more)
    numbers = range(1, 21) if policy.name == "fifo" else [3, 1, 2, *range(20, 3, -1)]
    for customer in ("a", "b", "c", "d"):
        publish(box, *numbers, customer=customer)
    together = batch or policy.name == "unit_of_work"

    def handle(given, tx):
        for message in given if together else [given]:
            see(box, message, tx)

    assert work(box, handle, batch=batch, pace=sq.Pace(run_length=7)) == 80
    found = seen(box)
    assert sorted(found) == sorted((customer, n) for customer in "abcd" for n in range(1, 21))
    if policy.name != "unordered":
        for customer in ("a", "b", "c", "d"):
            assert [version for who, version in found if who == customer] == list(range(1, 21))
    assert rows(box, "SELECT count(*) AS n FROM {schema}.history")[0].n == 80


def test_no_transaction_is_open_while_a_handler_works(box):
    define(box)
    publish(box, 1)
    handler = Held(box)
    worker = sq.Worker(box, "shop", handler, **LEASED | LONG)
    with working(worker):
        handler.wait()
        query = """SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid()
            AND (classid::bigint << 32 | objid::bigint) = {schema}.group_lock(
                (SELECT queue_id FROM {schema}.queues), 'c1')"""
        until(lambda: not rows(box, query))  # another worker may look at the group for a moment
        (lease,) = leases(box)
        until(lambda: leases(box)[0].expires_at > lease.expires_at)  # a heartbeat
        publish(box, 2)  # waits for nobody
        with box.session() as tx:
            assert tx.receive("shop") is None
            assert tx.receive("shop", group="c1") is None
        assert invariants.broken(box) == []
        handler.go.set()
        until(lambda: len(seen(box)) == 2)
    assert seen(box) == [("c1", 1), ("c1", 2)]
    assert leases(box) == []


def test_the_token_grows(box):
    define(box)
    publish(box, 1, 2, 3)
    tokens = []
    work(box, lambda message, tx: tokens.append(tx.token), pace=sq.Pace(run_length=1))
    assert tokens == sorted(set(tokens))
    assert len(tokens) == 3


def test_a_handler_that_asks_for_nothing_has_no_transaction(box):
    define(box)
    publish(box, 1, 2, 3)
    assert work(box, lambda message, tx: None) == 3


def test_what_fails_is_rolled_back_and_what_came_before_is_done(box):
    define(box)
    publish(box, 1, 2, 3)

    def handle(message, tx):
        see(box, message, tx)
        if message.sequence == 2:
            raise sq.Business("no")
        return sq.Message(type="told", context={"version": message.sequence})

    work(box, handle, done=lambda: rows(box, "SELECT FROM {schema}.faults"))
    assert seen(box) == [("c1", 1)]
    assert len(messages.messages(box, status="unrouted")) == 1
    assert left(box) == 2
    assert leases(box) == []
    (fault,) = rows(box, "SELECT * FROM {schema}.faults")
    assert (fault.kind, fault.error, fault.attempt) == ("business", "no", 1)
    assert operations.group_view(box, "shop", "c1").state == "faulted"
    operations.retry(box, "shop", "c1", actor="me", reason="mended")
    work(box, lambda message, tx: see(box, message, tx))
    assert seen(box) == [("c1", 1), ("c1", 2), ("c1", 3)]


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("ordered", [True, False])
def test_transient_faults_are_tried_again(box, batch, ordered):
    define(
        box,
        retry=sq.Retry(delay=0.05),
        **{} if ordered else {"policy": sq.Unordered(), "group": None, "sequence": None},
    )
    publish(box, 1, 2, 3)
    attempts = []

    def handle(given, tx):
        for message in given if batch else [given]:
            see(box, message, tx)
            version = message.context["version"]
            attempts.append((version, message.attempt))
            if version == 2 and message.attempt < 4:
                raise TimeoutError("slow")

    work(box, handle, workers=1, batch=batch)
    assert sorted(seen(box)) == [("c1", 1), ("c1", 2), ("c1", 3)]
    if ordered:
        assert seen(box) == sorted(seen(box))
    assert [attempt for version, attempt in attempts if version == 2] == [1, 2, 3, 4]


def test_continue_and_a_set_that_fails(box):
    define(box, errors="continue", policy=sq.UnitOfWork(size=3))
    publish(box, 3, 1, 2)
    publish(box, 1, 2, 3, customer="good")

    def handle(delivery, tx):
        for message in delivery:
            see(box, message, tx)
        if delivery.group == "c1":
            raise sq.Business("no")

    work(box, handle)
    assert seen(box) == [("good", 1), ("good", 2), ("good", 3)]
    assert rows(box, "SELECT count(*) AS n FROM {schema}.aside WHERE disposition = 'dead'")[0].n == 3


def test_what_a_batch_leaves_is_handed_out_again(box):
    define(box)
    publish(box, *range(1, 8))
    sizes = []

    def handle(delivery, tx):
        sizes.append(len(delivery))
        see(box, delivery.messages[0], tx)
        see(box, delivery.messages[1], tx) if len(delivery) > 1 else None
        return sq.Consumed(min(2, len(delivery)))

    work(box, handle, batch=True)
    assert [version for _, version in seen(box)] == list(range(1, 8))
    assert sizes == [7, 5, 3, 1]


@pytest.mark.parametrize("ordered", [True, False])
def test_a_stale_completion_is_refused_and_the_attempt_counted(box, ordered, caplog):
    define(box, **({} if ordered else {"policy": sq.Unordered(), "group": None, "sequence": None}))
    publish(box, 1)
    handler = Held(box)
    caplog.set_level(logging.ERROR, "seriatim.worker")
    # Renewed seldom: a lease that has run out stays so.
    with working(sq.Worker(box, "shop", handler, **LEASED | {"lease": sq.Lease(600.0, heartbeat=200.0)})):
        handler.wait()
        expire(box)
        until(lambda: seen(box) == [("c1", 1)])
        handler.go.set()
        until(lambda: handler.errors)
    assert [attempt for _, _, attempt in handler.calls] == [1, 2]
    assert isinstance(handler.errors[0], sq.LeaseLost)
    assert seen(box) == [("c1", 1)]
    (fault,) = rows(box, "SELECT * FROM {schema}.faults")
    assert (fault.kind, fault.error_class, fault.attempt) == ("poison", "LeaseExpired", 1)
    assert "is lost" in caplog.text
    assert leases(box) == []
    assert invariants.broken(box) == []


@pytest.mark.parametrize(
    "policy", [sq.Standard(), sq.Fifo(), sq.BestEffort(), sq.UnitOfWork(size=12)], ids=lambda one: one.name
)
def test_leases_that_run_out_at_any_moment(box, policy):
    define(box, policy=policy, retry=sq.Retry(1000), sequence=None if policy.name == "fifo" else "version")
    customers = [f"c{number}" for number in range(6)]
    for customer in customers:
        publish(box, *range(1, 13), customer=customer)

    def handle(given, tx):
        for message in given if policy.name == "unit_of_work" else [given]:
            see(box, message, tx)

    ended = 0
    with working(
        sq.Worker(
            box, "shop", handle, **LEASED | {"pace": sq.Pace(run_length=4), "lease": sq.Lease(600.0, heartbeat=200.0)}
        )
    ):

        def drained():
            nonlocal ended
            if ended < 40:
                query = "UPDATE {schema}.leases SET expires_at = clock_timestamp() WHERE random() < 0.5 RETURNING token"
                ended += len(rows(box, query))
            return not left(box)

        until(drained)
    for customer in customers:
        assert [version for who, version in seen(box) if who == customer] == list(range(1, 13))
    assert leases(box) == []
    assert invariants.broken(box) == []


def test_a_lease_that_is_lost_after_the_handler_has_written(box):
    define(box)
    publish(box, 1)
    written, go = threading.Event(), threading.Event()

    def handle(message, tx):
        see(box, message, tx)
        if message.attempt == 1:
            written.set()
            assert go.wait(DEADLINE_S)

    with working(sq.Worker(box, "shop", handle, **LEASED | {"lease": sq.Lease(600.0, heartbeat=200.0)})):
        assert written.wait(DEADLINE_S)
        expire(box)
        until(lambda: seen(box) == [("c1", 1)])
        go.set()
    assert seen(box) == [("c1", 1)]
    assert left(box) == 0


def test_a_heartbeat_tells_that_the_lease_is_lost(box):
    define(box)
    publish(box, 1)
    told, entered = [], threading.Event()

    def handle(message, tx):
        if message.attempt > 1:
            return
        entered.set()
        try:
            until(lambda: tx.connection is None)
        except sq.LeaseLost as error:
            told.append(error)
            raise

    with working(sq.Worker(box, "shop", handle, **LEASED | LONG)):
        assert entered.wait(DEADLINE_S)
        expire(box)
        until(lambda: not left(box))
    assert len(told) == 1
    assert invariants.broken(box) == []


def test_a_heartbeat_that_hangs_loses_the_lease_in_time(box):
    define(box)
    publish(box, 1)
    entered, told = threading.Event(), threading.Event()

    def handle(message, tx):
        if message.attempt > 1:
            return
        assert tx.connection is not None
        entered.set()
        try:
            until(lambda: tx.connection is None)
        except sq.LeaseLost:
            told.set()
            raise

    with working(sq.Worker(box, "shop", handle, **LEASED | {"lease": sq.Lease(1.0, heartbeat=0.2)})):
        with box.session() as tx:
            assert entered.wait(DEADLINE_S)
            tx.connection.execute(f"LOCK TABLE {box.schema}.leases IN EXCLUSIVE MODE")  # whoever renews one waits
            assert told.wait(DEADLINE_S)
        until(lambda: not left(box))
    assert invariants.broken(box) == []


def test_attempts_run_out_when_leases_do(box):
    define(box, retry=sq.Retry(2))
    publish(box, 1, 2)
    for _ in range(2):
        with box.session() as tx:
            assert claim(tx.transaction, tx.receive("shop", limit=5), 2, "gone", 1)
        until(lambda: rows(box, "SELECT FROM {schema}.leases WHERE expires_at < clock_timestamp()"))
        box.tick()
    assert operations.group_view(box, "shop", "c1").state == "faulted"
    assert [row.attempt for row in rows(box, "SELECT attempt FROM {schema}.faults ORDER BY 1")] == [1, 2]
    assert left(box) == 2
    assert invariants.broken(box) == []


def test_a_handler_that_takes_too_long(box):
    define(box, retry=sq.Retry(1))
    publish(box, 1, customer="slow")
    publish(box, *range(1, 5), customer="other")
    go = threading.Event()

    def handle(message, tx):
        if message.context["customer"] == "slow":
            assert go.wait(DEADLINE_S)
        take_all_time()
        see(box, message, tx)

    with working(sq.Worker(box, "shop", handle, **LEASED | LONG | {"workers": 1, "pace": sq.Pace(turn_limit=LIMIT_S)})):
        until(lambda: left(box) == 1)
        go.set()
    (fault,) = rows(box, "SELECT * FROM {schema}.faults")
    assert (fault.kind, fault.error_class) == ("timeout", "TurnLimit")
    assert operations.group_view(box, "shop", "slow").state == "faulted"
    assert [who for who, _ in seen(box)] == ["other"] * 4
    assert invariants.broken(box) == []


@pytest.mark.parametrize("how", ["statement", "close"])
def test_a_handler_that_ends_the_transaction(box, how):
    define(box)
    publish(box, 1, 2)

    def handle(message, tx):
        see(box, message, tx)
        tx.connection.close() if how == "close" else tx.connection.execute("COMMIT")

    work(box, handle, done=lambda: rows(box, "SELECT FROM {schema}.faults"))
    (fault,) = rows(box, "SELECT * FROM {schema}.faults")
    assert fault.error_class == "TurnEnded"
    assert operations.group_view(box, "shop", "c1").state == "faulted"
    assert left(box) == 2
    assert leases(box) == []


def test_what_the_database_refuses_at_the_commit_is_the_message_s_fault(box):
    define(box, retry=sq.Retry(1))
    publish(box, 1, 2)
    rows(
        box,
        "CREATE TABLE {schema}_known (n int PRIMARY KEY, m int REFERENCES {schema}_known DEFERRABLE INITIALLY DEFERRED)",
    )

    def handle(message, tx):
        tx.connection.execute(f"INSERT INTO {box.schema}_known VALUES (1, 2)")

    work(box, handle, done=lambda: rows(box, "SELECT FROM {schema}.faults"))
    assert operations.group_view(box, "shop", "c1").state == "faulted"
    assert left(box) == 2
    (fault,) = rows(box, "SELECT * FROM {schema}.faults")
    assert (fault.kind, fault.error_class) == ("unexpected", "ForeignKeyViolation")


def test_what_comes_while_a_group_is_leased_is_in_order(box):
    define(box)
    publish(box, 1, 3)
    handler = Held(box)
    with working(sq.Worker(box, "shop", handler, **LEASED | LONG)):
        handler.wait()
        publish(box, 5, 2, 4)
        handler.go.set()
        until(lambda: len(seen(box)) == 5)
    assert [version for _, version in seen(box)] == [1, 2, 3, 4, 5]
    assert invariants.broken(box) == []


class TestOperators:
    """What becomes of actions on a group that a worker has in a lease."""

    @pytest.fixture
    def held(self, box):
        define(box)
        publish(box, 1, 2)
        handler = Held(box)
        with working(sq.Worker(box, "shop", handler, **LEASED | LONG)):
            handler.wait()
            yield handler
            handler.go.set()

    def test_who_holds_it_and_until_when(self, box, held):
        (lease,) = leases(box)
        view = operations.group_view(box, "shop", "c1")  # after the lease, which a heartbeat may prolong in between
        assert (view.state, view.locked, view.leased_by) == ("locked", True, lease.worker)
        assert view.leased_until >= lease.expires_at
        standing = operations.standing(box, "shop", "c1")
        assert lease.worker in standing.why
        assert list(standing.allowed) == ["suspend", "abort"]
        (state,) = rows(box, "SELECT state, locked FROM {schema}.groups")
        assert tuple(state) == ("locked", True)

    def test_suspend_is_obeyed_after_the_lease(self, box, held):
        done = operations.suspend(box, "shop", "c1", actor="me", reason="stop")
        assert not done.obeyed
        held.go.set()
        until(lambda: not leases(box) and seen(box))
        assert operations.group_view(box, "shop", "c1").state == "suspended"
        found = seen(box)
        operations.resume(box, "shop", "c1", actor="me", reason="go on")
        until(lambda: not left(box))
        assert seen(box) == [("c1", 1), ("c1", 2)]
        assert found in ([("c1", 1)], [("c1", 1), ("c1", 2)])

    @pytest.mark.parametrize("action", ["reset", "close"])
    def test_others_are_refused(self, box, held, action):
        more = {"next": 7} if action == "reset" else {}
        with pytest.raises(sq.ActionRefused, match="locked"):
            getattr(operations, action)(box, "shop", "c1", actor="me", reason="because", **more)
        with pytest.raises(sq.Unavailable):
            groups.forget(box, "shop", "c1")

    def test_abort_fences_the_worker_off(self, box, held):
        done = operations.abort(box, "shop", "c1", actor="me", reason="enough")
        assert done.set_aside == 2
        assert leases(box) == []
        held.go.set()
        until(lambda: held.errors)
        assert isinstance(held.errors[0], sq.LeaseLost)
        assert seen(box) == []
        assert invariants.broken(box) == []


def test_a_queue_that_is_turned_off_keeps_what_is_in_hand(box):
    define(box)
    publish(box, 1, 2)
    handler = Held(box)
    with working(sq.Worker(box, "shop", handler, **LEASED | LONG | {"pace": sq.Pace(run_length=1)})):
        handler.wait()
        queues.turn_off(box, "shop")
        handler.go.set()
        until(lambda: seen(box))
    assert seen(box) == [("c1", 1)]
    assert leases(box) == []


def test_a_worker_that_stops_gives_back_what_it_has(box):
    define(box)
    publish(box, 1, 2, 3)
    handler = Held(box)
    worker = sq.Worker(box, "shop", handler, **LEASED | LONG | {"workers": 1})
    with working(worker):
        handler.wait()
        worker.stop()
        handler.go.set()
    assert seen(box) == [("c1", 1)]
    assert leases(box) == []
    with box.session() as tx:
        assert [message.sequence for message in tx.receive("shop", limit=9)] == [2, 3]


def test_a_role_that_may_only_receive(box):
    define(box, retry=sq.Retry(2))
    name = f"{box.schema}_worker"
    rows(box, f"CREATE ROLE {name} LOGIN")
    rows(box, f"GRANT ALL ON {{schema}}_seen TO {name}")
    grant(box, name, receive=["shop"])
    publish(box, 1, 2)
    publish(box, 1, customer="lost")

    def handle(message, tx):
        see(box, message, tx)
        if message.sequence == 2:
            raise sq.Business("no")

    with box.session() as tx:
        claim(tx.transaction, tx.receive("shop", group="lost"), 1, "gone", 1)
    with (
        sq.MessageBox.open(box.dsn.replace("seriatim@", f"{name}@"), schema=box.schema) as own,
        working(sq.Worker(own, "shop", handle, **LEASED | LONG)),
    ):
        until(lambda: left(box) == 1 and rows(box, "SELECT FROM {schema}.faults WHERE kind = 'business'"))
    assert sorted(seen(box)) == [("c1", 1), ("lost", 1)]
    assert [row.kind for row in rows(box, "SELECT kind FROM {schema}.faults ORDER BY kind")] == ["business", "poison"]
    assert leases(box) == []
    rows(box, f"DROP OWNED BY {name}; DROP ROLE {name}")


def test_limits_and_rate(box):
    define(box)
    publish(box, 1, 2, 3)
    began = time.monotonic()
    assert work(box, lambda message, tx: see(box, message, tx), pace=sq.Pace(rate=5.0)) == 3
    assert time.monotonic() - began > 0.3


def test_a_law_of_leases(box):
    define(box)
    publish(box, 1, 2)
    with box.session() as tx:
        claim(tx.transaction, tx.receive("shop", limit=5), 2, "somebody", 600_000_000)
    assert invariants.broken(box) == []
    assert invariants.leases_run_out(box, 0) == []
    expire(box)
    assert len(invariants.leases_run_out(box, 0)) == 1
    rows(box, "UPDATE {schema}.leases SET entry_ids = entry_ids || 12345")
    (broken,) = invariants.broken(box)
    assert "of somebody has 1 missing messages" in broken
    with pytest.raises(psycopg.errors.UniqueViolation), psycopg.connect(box.dsn) as connection:
        connection.execute(f"""INSERT INTO {box.schema}.leases (queue_id, group_key, entry_ids, worker, expires_at)
            SELECT queue_id, group_key, entry_ids, worker, expires_at FROM {box.schema}.leases""")


@pytest.mark.parametrize(
    ("options", "what"),
    [({"lease": 0.1}, "lease can't"), ({"mode": "rented"}, "mode can't"), ({"lease": "a while"}, "a while")],
)
def test_bad_input(box, options, what):
    define(box)
    with pytest.raises(sq.UsageError, match=what):
        sq.Worker(box, "shop", print, **{"mode": "leased"} | options)


def test_queues_that_are_not_worked_on_in_leases(box):
    define(box)
    box.define(
        sq.Queue("dialogs", policy=sq.Fifo(), group="conversation_group"), sq.Contract("C", {"M": "any"}),
        sq.Service("S", queue="dialogs", contracts=["C"]),
    )  # fmt: skip
    with pytest.raises(sq.UsageError, match="serves dialogs"):
        sq.Worker(box, "dialogs", lambda message, tx: None, mode="leased")


def test_messages_under_a_lease_without_a_group_are_shown(box):
    define(box, policy=sq.Unordered(), group=None, sequence=None)
    publish(box, 1, 2)
    with box.session() as tx:
        claim(tx.transaction, tx.receive("shop", limit=5), 2, "somebody", 600_000_000)
    assert [(one.status, one.visible_at) for one in messages.messages(box)] == [("arrived", None)] * 2
    assert [one.visible_at for one in box.peek("shop")] == [None, None]
    for one in messages.messages(box):
        assert "visible" not in str(trace.trace_message(box, one.message_id))


@pytest.mark.parametrize("ending", ["done", "done in part", "taken back"])
def test_a_lease_that_its_worker_ends_is_not_lost(box, caplog, ending):
    """Between the commit and its thread's next step the heartbeat finds it gone."""
    define(box)
    publish(box, 1, 2)
    keeper = LeaseKeeper(box, "shop", 60_000_000, 1.0)
    with box.session() as tx:
        lease = claim(tx.transaction, tx.receive("shop", limit=2), 2, "w", keeper.period_us)
    with keeper.keeping(lease):
        keeper._renew()
        with box.session() as tx:
            if ending == "taken back":
                lease.take_back(tx.transaction).put_back()
            else:
                lease.settle(tx.transaction, 2 if ending == "done" else 1, ends=ending != "done")
        keeper._renew()
        assert not lease.lost.is_set()
    assert leases(box) == []
    assert [record for record in caplog.records if record.name == "seriatim.worker"] == []


def test_a_lease_that_another_one_ends_is_lost(box, caplog):
    define(box)
    publish(box, 1, 2)
    keeper = LeaseKeeper(box, "shop", 60_000_000, 1.0)
    with box.session() as tx:
        lease = claim(tx.transaction, tx.receive("shop", limit=2), 2, "w", keeper.period_us)
    with keeper.keeping(lease):
        with box.session() as tx:
            lease.settle(tx.transaction, 1, ends=False)
        lease.settled(1)
        with box.session() as tx:
            give_back(tx.transaction, "shop", lease.token)
        keeper._renew()
        assert lease.lost.is_set()
    assert [record.event for record in caplog.records if record.name == "seriatim.worker"] == ["lease_lost"]


@pytest.mark.parametrize(
    "how",
    [
        lambda delivery: delivery.done(), lambda delivery: delivery.done_through(1), list,
        lambda delivery: delivery.put_back(),
    ],
)  # fmt: skip
def test_a_handler_that_ends_the_delivery_of_its_lease(box, how):
    define(box, retry=sq.Retry(1))
    publish(box, 1, 2)

    def handle(message, tx):
        if message.sequence == 1:
            how(tx.delivery)
        see(box, message, tx)

    work(box, handle, done=lambda: rows(box, "SELECT error FROM {schema}.faults"))
    ((error,),) = rows(box, "SELECT error FROM {schema}.faults")
    assert "the worker completes it" in error
    assert seen(box) == []
