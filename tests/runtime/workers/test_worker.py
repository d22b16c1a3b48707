"""Workers: each message to its handler, in order per group, in the transaction in which it is done."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager

import psycopg
import pytest

import seriatim as sq
from seriatim.operations import invariants, messages, queues
from seriatim.operations.grants import grant
from seriatim.runtime.workers import chores, turn, worker_threads
from seriatim.runtime.workers import worker as worker_module
from tests.box.shop import define, left, publish, rows, see, seen
from tests.runtime.workers.unhurried import take_all_time

pytestmark = pytest.mark.telling

DEADLINE_S = 180.0
#: Of turns that are to be past it, or that begin within a moment and then take all time.
LIMIT_S = 2.0


def until(condition):
    """Wait for a condition."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@contextmanager
def working(worker):
    """Let a worker run."""
    ended = []

    def run():
        try:
            ended.append(worker.run())
        except BaseException as error:
            ended.append(error)
            raise

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield ended
    finally:
        worker.stop()
        thread.join(DEADLINE_S)
        assert not thread.is_alive()


def work(box, handler, *, queue="shop", done=None, **options):
    """Let a worker work until the queue is empty, or something else holds."""
    worker = sq.Worker(box, queue, handler, **{"workers": 3} | options)
    with working(worker) as ended:
        until(done or (lambda: not left(box, queue)))
    return ended[0]


def test_each_group_in_order_and_exactly_once(box):
    define(box)
    for customer in ("a", "b", "c", "d"):
        publish(box, 3, 1, 2, *range(20, 3, -1), customer=customer)
    assert work(box, lambda message, tx: see(box, message, tx)) == 80
    found = seen(box)
    for customer in ("a", "b", "c", "d"):
        assert [version for who, version in found if who == customer] == list(range(1, 21))
    assert invariants.broken(box) == []


def test_what_comes_while_it_waits_is_worked_on(box):
    define(box)
    worker = sq.Worker(box, "shop", lambda message, tx: see(box, message, tx), workers=2)
    with working(worker):
        until(lambda: rows(box, "SELECT count(*) AS n FROM {schema}.waiters")[0].n == 2)
        publish(box, 1)
        until(lambda: seen(box) == [("c1", 1)])


def test_a_thread_that_waits_ends_with_its_worker(box):
    define(box)
    looks = iter([False, False, True, True])
    with box.session() as tx:
        tx.ends_wait = looks.__next__
        assert tx.receive("shop", wait="1d") is None
    assert rows(box, "SELECT FROM {schema}.waiters") == []


def test_what_a_failed_message_wrote_is_rolled_back_and_no_more(box):
    define(box)
    publish(box, 1, 2, 3)

    def handle(message, tx):
        see(box, message, tx)
        if message.sequence == 2:
            raise sq.Business("no")
        return sq.Message(type="told", context={"version": message.sequence})

    work(box, handle, done=lambda: rows(box, "SELECT FROM {schema}.faults"))
    assert seen(box) == [("c1", 1)]
    assert len(messages.messages(box, status="unrouted")) == 1  # what the first one returned
    assert left(box) == 2
    (fault,) = rows(box, "SELECT * FROM {schema}.faults")
    assert (fault.kind, fault.error_class, fault.error, fault.sequence) == ("business", "Business", "no", 2)
    assert "in handle" in fault.traceback
    assert fault.worker.split("/")[0].endswith(f":{os.getpid()}")


@pytest.mark.parametrize("uses", [True, False])
def test_transient_faults_are_tried_again(box, uses):
    define(box, retry=sq.Retry(delay=0.05))
    publish(box, 1, 2, 3)
    attempts = []

    def handle(message, tx):
        if uses:
            see(box, message, tx)
        attempts.append((message.sequence, message.attempt))
        if message.sequence == 2 and message.attempt < 3:
            raise TimeoutError("slow")

    work(box, handle)
    assert attempts == [(1, 1), (2, 1), (2, 2), (2, 3), (3, 1)]
    assert seen(box) == ([("c1", 1), ("c1", 2), ("c1", 3)] if uses else [])
    assert [row.kind for row in rows(box, "SELECT kind FROM {schema}.faults")] == ["transient", "transient"]


def test_a_failed_statement_is_the_message_s_fault(box):
    define(box, errors="continue", retry=sq.Retry(1))
    publish(box, 1, 2, 3)

    def handle(message, tx):
        see(box, message, tx)
        if message.sequence == 2:
            tx.connection.execute("SELECT 1 / 0")

    work(box, handle)
    assert seen(box) == [("c1", 1), ("c1", 3)]
    assert [row.error_class for row in rows(box, "SELECT * FROM {schema}.faults")] == ["DivisionByZero"]


def test_returned_messages_are_published(box):
    define(box)
    box.define(sq.Queue("told", policy=sq.Fifo(), group="to_whom"), sq.MessageType("note", {"to_whom": "string"}),
               sq.Subscription("told", where="type = 'note'", to="told"))  # fmt: skip
    publish(box, 1, 2, 3, 4)

    def handle(message, tx):
        one = sq.Message(type="note", body=str(message.sequence).encode(), context={"to_whom": "x"})
        match message.sequence:
            case 1:
                return one
            case 2:
                return [one, sq.Message(type="note", body=b"2b", context={"to_whom": "x"})]
            case 3:
                return sq.Consumed()

    work(box, handle)
    with box.session() as tx:
        assert [one.body for one in tx.receive("told", limit=9)] == [b"1", b"2", b"2b"]


def test_a_batch_comes_with_all_that_is_there(box):
    define(box)
    publish(box, 1, 2, 3, 4, 5)
    given = []

    def handle(delivery, tx):
        given.append([message.sequence for message in delivery])
        return sq.Consumed(2) if len(delivery) > 3 else None

    work(box, handle, batch=True)
    assert given == [[1, 2, 3, 4, 5], [3, 4, 5]]


def test_a_batch_that_fails_is_tried_one_by_one(box):
    define(box, retry=sq.Retry(2))
    publish(box, 1, 2, 3, 4)
    given = []

    def handle(delivery, tx):
        given.append([message.sequence for message in delivery.messages])
        for message in delivery:
            see(box, message, tx)
            if message.sequence == 3:
                raise ValueError("three")

    work(box, handle, batch=True, done=lambda: left(box) == 2)
    assert given == [[1, 2, 3, 4], [1], [2], [3]]
    assert seen(box) == [("c1", 1), ("c1", 2)]
    faults = rows(box, "SELECT sequence, attempt, kind FROM {schema}.faults ORDER BY fault_id")
    assert [tuple(row) for row in faults] == [(1, 1, "unexpected"), (3, 2, "unexpected")]


def test_a_set_comes_whole(box):
    define(box, policy=sq.UnitOfWork(size=3), retry=sq.Retry(delay=0))
    given = []

    def handle(delivery, tx):
        for message in delivery:
            see(box, message, tx)
        given.append([message.sequence for message in delivery.messages])
        if len(given) == 1:
            raise sq.Transient

    publish(box, 3, 1)
    publish(box, 2)
    work(box, handle)
    assert given == [[1, 2, 3], [1, 2, 3]]
    assert [version for _, version in seen(box)] == [1, 2, 3]


def test_without_groups(box):
    define(box, policy=sq.Unordered(), group=None, sequence=None, retry=sq.Retry(delay=0))
    publish(box, *range(1, 31))

    def handle(message, tx):
        see(box, message, tx)
        if message.context["version"] % 10 == 0 and message.attempt == 1:
            raise sq.Transient(retry_after=0)

    work(box, handle)
    assert sorted(version for _, version in seen(box)) == list(range(1, 31))


def test_a_handler_for_each_type(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue("shop", policy=sq.Fifo(), group="customer", errors="continue"),
        sq.Subscription("all", where="TRUE", to="shop"),
    )
    with box.session() as tx:
        tx.publish([sq.Message(type=kind, context={"customer": "c"}) for kind in ("order", "paid", "sent")])
    called = []
    work(box, {"order": lambda m, tx: called.append("o" + m.type), "paid": lambda m, tx: called.append("p" + m.type)})
    assert called == ["oorder", "ppaid"]
    (fault,) = rows(box, "SELECT error FROM {schema}.faults")
    assert fault.error == "there is no handler for messages of type 'sent'"
    with box.session() as tx:
        tx.publish(sq.Message(type="sent", context={"customer": "c"}))
    work(box, {"*": lambda m, tx: called.append("*" + m.type)})
    assert called[-1] == "*sent"


def test_the_handler_of_an_activation(box):
    define(box)
    box.define(
        sq.Queue("flow", policy=sq.Fifo(), group="customer"),
        sq.Subscription("start", where="type = 'order'", to="flow", starts="tests.runtime.started:step", correlate=["customer"]),
    )  # fmt: skip
    publish(box, 1, 2, 3)
    work(box, None, queue="flow")
    found = rows(box, "SELECT state FROM {schema}.known_instances")
    assert [row.state for row in found] == [{"versions": [1, 2, 3]}]


def test_an_instance_that_can_not_be_kept_is_a_fault(box):
    define(box)
    box.define(
        sq.Queue("flow", policy=sq.Fifo(), group="customer", retry=sq.Retry(1)),
        sq.Subscription("start", where="type = 'order'", to="flow", starts="a:b", correlate=["customer"]),
    )
    publish(box, 1)

    def handle(message, tx):
        tx.instance.state["x"] = object()

    work(box, handle, queue="flow", done=lambda: rows(box, "SELECT 1 FROM {schema}.faults"))
    (fault,) = rows(box, "SELECT kind, error FROM {schema}.faults")
    assert fault.kind == "unexpected"
    assert "can't be kept as JSON" in fault.error
    assert rows(box, "SELECT 1 FROM {schema}.known_instances") == []


@pytest.mark.parametrize("after", ["soon", -5, float("nan"), 1e300])
def test_a_time_to_retry_that_can_not_be(box, after):
    define(box)
    publish(box, 1)

    def handle(message, tx):
        raise sq.Transient(retry_after=after)

    work(box, handle, done=lambda: rows(box, "SELECT 1 FROM {schema}.faults"))
    assert {row.kind for row in rows(box, "SELECT kind FROM {schema}.faults")} == {"transient"}


def test_a_role_that_may_only_receive(box):
    """It writes faults down, stops queues and counts attempts, through functions that look whether it may."""
    define(box, errors="stop", retry=sq.Retry(2, delay=0))
    name = f"{box.schema}_worker"
    rows(box, f"CREATE ROLE {name} LOGIN")
    rows(box, f"GRANT ALL ON {{schema}}_seen TO {name}")
    grant(box, name, receive=["shop"])
    publish(box, 1, 2)
    free = threading.Event()

    def handle(message, tx):
        see(own, message, tx)
        if message.sequence == 2 and message.attempt == 1:
            free.wait(DEADLINE_S)
        if message.attempt > 1:
            take_all_time()
        if message.sequence == 2:
            raise sq.Transient

    with sq.MessageBox.open(box.dsn.replace("seriatim@", f"{name}@"), schema=box.schema) as own:
        try:
            work(
                own,
                handle,
                workers=1,
                pace=sq.Pace(turn_limit=LIMIT_S),
                done=lambda: not box.definitions().queue("shop").enabled,
            )
        finally:
            free.set()
    faults = rows(box, "SELECT kind, sequence, attempt, error FROM {schema}.faults ORDER BY fault_id")
    late = f"the turn took longer than {LIMIT_S:g} s"
    assert [tuple(row) for row in faults] == [
        ("timeout", 2, 1, late),
        ("transient", 2, 2, "the handler asked for another attempt"),
    ]
    rows(box, f"DROP OWNED BY {name}; DROP ROLE {name}")


def test_what_is_past_its_turn_limit_is_ended_and_goes_on_elsewhere(box):
    define(box)
    publish(box, 1, 2)
    free, attempts = threading.Event(), []

    def handle(message, tx):
        see(box, message, tx)
        attempts.append((message.sequence, message.attempt))
        if attempts == [(1, 1)]:
            free.wait(DEADLINE_S)
        take_all_time()

    try:
        work(box, handle, workers=1, pace=sq.Pace(turn_limit=LIMIT_S))
    finally:
        free.set()
    assert attempts == [(1, 1), (1, 2), (2, 1)]
    assert seen(box) == [("c1", 1), ("c1", 2)]
    (fault,) = rows(box, "SELECT kind, attempt, error FROM {schema}.faults")
    assert tuple(fault) == ("timeout", 1, f"the turn took longer than {LIMIT_S:g} s")


def test_an_attempt_that_took_too_long_is_counted_before_the_next_one_begins(box):
    """Also where somebody else asks for the message all the time."""
    define(box, retry=sq.Retry(100))
    publish(box, 1)
    begun, free, attempts, asked = threading.Event(), threading.Event(), [], []

    def handle(message, tx):
        attempts.append(message.attempt)
        begun.set()
        free.wait(DEADLINE_S)

    def ask():
        while not asked and not free.is_set():
            with box.session() as tx:
                asked.extend(one.attempt for one in tx.receive("shop") or ())

    asking = threading.Thread(target=ask)
    try:
        with working(sq.Worker(box, "shop", handle, workers=1, pace=sq.Pace(turn_limit=0.5))):
            assert begun.wait(DEADLINE_S)
            asking.start()
            until(lambda: asked)
    finally:
        free.set()
        asking.join(DEADLINE_S)
    assert attempts + asked == list(range(1, len(attempts) + 2))


def test_what_always_takes_too_long_stops_its_group(box):
    define(box, retry=sq.Retry(2))
    publish(box, 1)
    free = threading.Event()
    try:
        work(
            box,
            lambda message, tx: free.wait(DEADLINE_S),
            workers=1,
            pace=sq.Pace(turn_limit=0.3),
            done=lambda: rows(box, "SELECT FROM {schema}.groups WHERE state = 'faulted'"),
        )
    finally:
        free.set()
    assert [row.attempt for row in rows(box, "SELECT attempt FROM {schema}.faults")] == [1, 2]


def test_what_took_too_long_and_ended_is_forgotten(box, monkeypatch):
    """Only handlers that never return use spare threads up."""
    monkeypatch.setattr(worker_threads, "SPARE_THREADS", 2)
    monkeypatch.setattr(worker_module, "SPARE_THREADS", 2)
    define(box, retry=sq.Retry(1))
    for at in range(4):
        publish(box, 1, customer=f"slow{at}")

    def handle(message, tx):
        if message.context["customer"].startswith("slow"):
            tx.connection.execute("SELECT pg_sleep(600)")
        take_all_time()
        see(box, message, tx)

    worker = sq.Worker(box, "shop", handle, workers=2, pace=sq.Pace(turn_limit=LIMIT_S))
    with working(worker) as ended:
        until(lambda: ended or rows(box, "SELECT count(*) AS n FROM {schema}.faults")[0].n == 4)
        assert not ended
        publish(box, 1, 2, 3)
        until(lambda: len(seen(box)) == 3)
    assert {row.kind for row in rows(box, "SELECT kind FROM {schema}.faults")} == {"timeout"}


@pytest.mark.parametrize(
    ("step", "error"),
    [
        *((step, sq.Unavailable) for step in ("fence", "end_backend", "note_lost")),
        *(
            pytest.param(step, sq.EnvironmentProblem, marks=pytest.mark.dear)
            for step in ("fence", "end_backend", "note_lost")
        ),
        ("end_backend", psycopg.errors.AdminShutdown),
    ],
)
def test_a_turn_that_could_not_be_ended_at_once_is_ended_later(box, monkeypatch, step, error):
    define(box, retry=sq.Retry(3))
    publish(box, 1)
    attempts, tried, does = [], [], getattr(turn, step)

    def fails_twice(*arguments, **named):
        tried.append(1)
        if len(tried) < 3:
            raise error("not now")
        return does(*arguments, **named)

    def handle(message, tx):
        attempts.append(message.attempt)
        if len(attempts) == 1:
            tx.connection.execute("SELECT pg_sleep(600)")
        take_all_time()
        see(box, message, tx)

    monkeypatch.setattr(turn, step, fails_twice)
    assert sq.Worker(box, "shop", handle, workers=1, pace=sq.Pace(turn_limit=LIMIT_S)).run(until_idle=True) == 1
    assert attempts == [1, 2]
    assert seen(box) == [("c1", 1)]
    (fault,) = rows(box, "SELECT kind, attempt, error FROM {schema}.faults")
    assert tuple(fault) == ("timeout", 1, f"the turn took longer than {LIMIT_S:g} s")
    assert rows(box, "SELECT FROM {schema}.leases") == []


def test_a_lease_that_could_not_be_revoked_at_once_is_revoked_later(box, monkeypatch):
    define(box, retry=sq.Retry(3))
    publish(box, 1)
    free, attempts, tried, note_lost = threading.Event(), [], [], turn.note_lost

    def fails_twice(*arguments):
        tried.append(1)
        if len(tried) < 3:
            raise sq.Unavailable("not now")
        return note_lost(*arguments)

    def handle(message, tx):
        attempts.append(message.attempt)
        if len(attempts) == 1:
            free.wait(DEADLINE_S)
        take_all_time()

    monkeypatch.setattr(turn, "note_lost", fails_twice)
    try:
        sq.Worker(box, "shop", handle, workers=1, pace=sq.Pace(turn_limit=LIMIT_S), mode="leased").run(until_idle=True)
    finally:
        free.set()
    assert attempts == [1, 2]
    assert [tuple(row) for row in rows(box, "SELECT kind, attempt FROM {schema}.faults")] == [("timeout", 1)]
    assert rows(box, "SELECT FROM {schema}.leases") == []


@pytest.mark.parametrize("step", ["fence", "end_backend"])
def test_a_turn_that_ends_by_itself_before_it_could_be_ended_is_blamed_for_nothing(box, monkeypatch, step):
    define(box)
    publish(box, 1, 2)
    refused = threading.Event()

    def fails(*_):
        refused.set()
        raise sq.Unavailable("not now")

    def handle(message, tx):
        if message.sequence == 1:
            assert refused.wait(DEADLINE_S)
        see(box, message, tx)

    monkeypatch.setattr(turn, step, fails)
    sq.Worker(box, "shop", handle, workers=1, pace=sq.Pace(run_length=1, turn_limit=0.5)).run(until_idle=True)
    assert seen(box) == [("c1", 1), ("c1", 2)]
    assert rows(box, "SELECT FROM {schema}.faults") == rows(box, "SELECT FROM {schema}.leases") == []


BLOCKS = []


def left_open(tx):
    BLOCKS.append(tx.connection.transaction())
    BLOCKS[-1].__enter__()


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda tx: tx.connection.commit(), "Explicit commit"),
        (lambda tx: tx.connection.rollback(), "Explicit rollback"),
        (lambda tx: tx.connection.execute("COMMIT"), "the handler ended the transaction"),
        (lambda tx: tx.connection.execute("ROLLBACK"), "the handler ended the transaction"),
        (lambda tx: tx.connection.execute("COMMIT; BEGIN; SELECT 1"), "the handler ended the transaction"),
        (lambda tx: tx.connection.close(), "the handler closed the connection"),
        (left_open, "the handler ended the transaction"),
        (lambda tx: 5, "the handler returned int"),
        (lambda tx: ["x"], "the handler returned list of str"),
        (lambda tx: sq.Consumed(2), "consumed 2 messages, but got only 1"),
        (lambda tx: exec("raise SystemExit(3)"), "3"),
        (lambda tx: exec("raise KeyboardInterrupt('x')"), "x"),
        (lambda tx: exec("class Mute(Exception):\n    def __str__(self): 1 / 0\nraise Mute"), "Mute"),
        (lambda tx: tx.publish("x"), "is not a message"),
    ],
)
def test_bad_handlers_are_faults(box, spoil, told):
    define(box, retry=sq.Retry(1))
    publish(box, 1)
    publish(box, 1, customer="good")

    def handle(message, tx):
        if message.context["customer"] == "good":
            return see(box, message, tx)
        answer = spoil(tx)
        return answer if isinstance(answer, int | list | sq.Consumed) else None

    # Another thread could take a message between the handler's COMMIT and the worker's noticing it.
    work(box, handle, workers=1, done=lambda: left(box) <= 1 and rows(box, "SELECT FROM {schema}.faults"))
    (fault,) = rows(box, "SELECT * FROM {schema}.faults")
    assert fault.kind == (
        "unexpected" if fault.error_class in {"SystemExit", "KeyboardInterrupt", "Mute"} else "business"
    )
    assert told in fault.error
    assert ("good", 1) in seen(box)
    assert [row.state for row in rows(box, "SELECT state FROM {schema}.groups WHERE group_key = 'c1'")] == ["faulted"]


@pytest.mark.parametrize(
    ("handler", "told"),
    [
        ("no.such.module:handle", "there is no module 'no'"),
        ("tests.runtime.started:nothing", "has no 'nothing'"),
        ("nonsense", "doesn't name a function"),
        (lambda message: None, "can't be called with a message and a session"),
        (5, "int is not a handler"),
        ({}, "there is no handler for any type"),
        ({"order": "x"}, "doesn't name a function"),
        (None, "there is no handler"),
    ],
)
def test_what_is_no_handler_is_refused(box, handler, told):
    define(box)
    with pytest.raises(sq.UsageError) as error:
        sq.Worker(box, "shop", handler)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"workers": 0}, "workers can't be 0"),
        ({"pace": 5}, "pace can't be 5"),
        ({"lease": 0}, "lease can't be 0"),
        ({"batch": 1}, "batch can't be 1"),
        ({"faults": 5}, "faults can't be 5"),
    ],
)
def test_limits_that_can_not_be_are_refused(box, options, told):
    define(box)
    with pytest.raises(sq.UsageError) as error:
        sq.Worker(box, "shop", print, **options)
    assert told in str(error.value)


def test_a_queue_that_is_not_there(box):
    with pytest.raises(sq.UsageError, match="there is no queue 'nowhere'"):
        sq.Worker(box, "nowhere", print)


def test_a_queue_that_is_off_is_waited_for(box):
    define(box, enabled=False)
    publish(box, 1)
    with working(sq.Worker(box, "shop", lambda message, tx: see(box, message, tx), workers=1)):
        publish(box, 2)
        assert seen(box) == []
        queues.turn_on(box, "shop")
        until(lambda: len(seen(box)) == 2)


def test_other_errors_may_be_transient_too(box):
    define(box, retry=sq.Retry(delay=0))
    publish(box, 1)

    def handle(message, tx):
        if message.attempt == 1:
            raise KeyError("x")

    work(box, handle, faults=sq.FaultKinds(transient=[LookupError]))
    assert [row.kind for row in rows(box, "SELECT kind FROM {schema}.faults")] == ["transient"]


def test_the_rate_is_kept(box):
    define(box)
    publish(box, *range(1, 41))
    began = time.monotonic()
    work(box, lambda message, tx: see(box, message, tx), pace=sq.Pace(run_length=5, rate=40))
    assert time.monotonic() - began >= 0.8  # 40 messages, of which a second's worth at most was saved up
    assert len(seen(box)) == 40


def test_at_the_end_turns_are_finished(box):
    define(box)
    publish(box, 1, 2, 3)
    begun, free = threading.Event(), threading.Event()

    def handle(message, tx):
        see(box, message, tx)
        begun.set()
        assert free.wait(DEADLINE_S)

    worker = sq.Worker(box, "shop", handle, workers=1)
    with working(worker) as ended:
        assert begun.wait(DEADLINE_S)
        worker.stop()
        free.set()
    assert ended == [1]
    assert seen(box) == [("c1", 1)]
    assert left(box) == 2


@pytest.mark.parametrize("mode", ["transactional", "leased"])
def test_no_turn_begins_after_a_stop_that_the_worker_has_not_yet_seen(box, monkeypatch, mode):
    """The threads are told by the call itself, wherever the worker's own loop is at that moment."""
    define(box)
    publish(box, 1, 2, 3)
    go_on = threading.Event()
    monkeypatch.setattr(chores.Chores, "look", lambda self: go_on.wait(DEADLINE_S))

    def handle(message, tx):
        see(box, message, tx)
        worker.stop()

    worker = sq.Worker(box, "shop", handle, workers=1, name="w", mode=mode, pace=sq.Pace(run_length=1))
    with working(worker) as ended:
        until(lambda: seen(box) and not any(thread.name == "w/1" for thread in threading.enumerate()))
        go_on.set()
    assert ended == [1]
    assert seen(box) == [("c1", 1)]
    assert left(box) == 2


@pytest.mark.parametrize("run_length", [1, 50])
def test_a_session_that_a_handler_keeps_has_ended_with_its_turn(box, run_length):
    """Also where the worker goes on at once with another group, on the same connection."""
    define(box, policy=sq.Fifo(), sequence=None)
    for customer in ("a", "b", "c"):
        publish(box, 1, customer=customer)
    kept, told = [], []

    def handle(message, tx):
        for old in kept:
            try:
                old.connection.execute("SELECT 1")
            except sq.UsageError as error:
                told.append((message.context["customer"], str(error)))
        kept.append(tx)
        see(box, message, tx)

    work(box, handle, workers=1, pace=sq.Pace(run_length=run_length))
    assert [customer for customer, _ in told] == ["b", "c", "c"]
    assert all("the session has ended" in why for _, why in told)
    assert seen(box) == [("a", 1), ("b", 1), ("c", 1)]


def test_a_handler_that_writes_from_a_thread_of_its_own(box):
    """The thread's writing is in the transaction if the handler waits for it; one that goes on is refused, or was in time."""
    define(box)
    publish(box, 1, 2)
    told, go_on, ended = [], threading.Event(), threading.Event()

    def late(tx):
        go_on.wait(DEADLINE_S)
        try:
            tx.connection.execute("SELECT 1")
        except sq.SeriatimError as error:
            told.append(error)
        ended.set()

    def handle(message, tx):
        thread = threading.Thread(target=lambda: see(box, message, tx))
        thread.start()
        thread.join(DEADLINE_S)
        if message.sequence == 2:
            threading.Thread(target=late, args=[tx], daemon=True).start()

    work(box, handle, workers=1)
    go_on.set()
    assert ended.wait(DEADLINE_S)
    assert seen(box) == [("c1", 1), ("c1", 2)]
    assert [type(one) for one in told] == [sq.UsageError]  # the session has ended
    assert "the session has ended" in str(told[0])
    assert invariants.broken(box) == []


@pytest.mark.parametrize("mode", ["transactional", "leased"])
def test_a_worker_that_has_ended_works_again(box, mode):
    define(box)
    worker = sq.Worker(box, "shop", lambda message, tx: see(box, message, tx), workers=2, mode=mode)
    for number in (1, 2, 3):
        publish(box, number)
        with working(worker) as ended:
            until(lambda: not left(box))
        assert ended == [1]
    assert seen(box) == [("c1", 1), ("c1", 2), ("c1", 3)]


def test_a_stop_is_for_the_run_that_goes_on_or_the_next_one(box):
    define(box)
    publish(box, 1)
    worker = sq.Worker(box, "shop", lambda message, tx: worker.stop(), workers=2)
    worker.stop()
    assert worker.run() == 0
    assert left(box) == 1
    for number in (2, 3):
        assert worker.run() == 1
        publish(box, number)
    assert left(box) == 1


def test_a_worker_is_at_work_once(box):
    define(box)
    publish(box, 1)
    told = []

    def handle(message, tx):
        with pytest.raises(sq.UsageError, match="runs already") as error:
            worker.run()
        told.append(error.value)

    worker = sq.Worker(box, "shop", handle)
    with working(worker):
        until(lambda: not left(box))
    assert len(told) == 1
