"""A worker of a region: what it handles, in which order, and what the other region makes of it."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import seriatim as sq
from seriatim.kernel.regions.claims import Action, JournalAnswer
from seriatim.operations.dead_letters import dead_letters as listed
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.values import WantedMessage, digest_of
from seriatim.runtime.regional.worker import check_queue
from tests.regions.journal.given import let_pass
from tests.regions.two import NAME, STATUS, message, past

pytestmark = pytest.mark.telling

TABLE = "CREATE TABLE handled (place bigint GENERATED ALWAYS AS IDENTITY, session text, number bigint, region text)"


REPLACED = sq.RegionalQueue("status", "session", "number", errors="continue", hole_timeout="150s")
RESULTS = (
    sq.MessageType("result", properties={"session": "string", "number": "long"}),
    sq.RegionalQueue("result", "session", "number"),
    sq.Subscription("to-result", where="type = 'result'", to="result"),
)


class Log:
    """A handler that writes in the journal's database, and what it has written."""

    def __init__(self, two):
        self.two = two
        with two.journal.transaction() as tx:
            tx.connection.execute(TABLE)

    def handler(self, region):
        def handle(received, tx):
            tx.connection.execute(
                "INSERT INTO handled (session, number, region) VALUES (%s, %s, %s)",
                [received.group, received.sequence, region],
            )

        return handle

    def of(self, session):
        """What was handled of a session, in order: number and region."""
        return [(number, region) for its, number, region in self.rows() if its == session]

    def rows(self):
        with self.two.journal.transaction() as tx:
            return tx.connection.execute("SELECT session, number, region FROM handled ORDER BY place").fetchall()


@pytest.fixture
def two(two):
    """Copies may be handed out at once in both regions."""
    with sq.Regions(two.first, two.second, two.journal, name=NAME, prefer=0, patience="30s", retry_after=0) as regions:
        regions.define(*STATUS[:1], sq.RegionalQueue("status", "session", "number", hole_timeout="150s"), *STATUS[2:])
        yield replace(two, regions=regions)


@pytest.fixture
def log(two):
    return Log(two)


def dead_letters(box):
    """What was set aside in a box."""
    return listed(box, queue="status")


def worked(two, region, handler, **options):
    """Work in a region until nothing can be handed out; how many messages the handler got."""
    options = {"workers": 2} | options
    return sq.RegionalWorker(two.regions, "status", handler, region=region, **options).run(until_idle=True)


def hurry(two):
    """What waits in either box for a while is handed out now."""
    for box in two.boxes:
        with box.access.connect() as connection:
            connection.execute(f"UPDATE {box.schema}.entries SET visible_at = NULL, postponed_until = NULL".encode())
            connection.execute(f"UPDATE {box.schema}.known_groups SET due_at = 0".encode())


def session_of(two, session="s"):
    (found,) = two.journal.sessions(name=two.regions.name, queue="status", session=session)
    return found


def test_each_message_is_handled_in_one_region_and_its_copy_is_completed_in_the_other(two, log):
    two.regions.publish([message(session, number) for session in "rst" for number in (1, 2, 3)])
    assert worked(two, "a", log.handler("a")) == 9
    assert worked(two, "b", log.handler("b")) == 0
    rows = log.rows()
    for session in "rst":
        assert [row for row in rows if row[0] == session] == [(session, number, "a") for number in (1, 2, 3)]
    assert (two.has(two.first), two.has(two.second)) == ([], [])
    assert session_of(two).done_through == 3


def test_what_a_handler_wrote_is_rolled_back_when_it_fails_and_the_session_stands_in_both_regions(two, log):
    fails = {"s": True}

    def handle(received, tx):
        log.handler("a")(received, tx)
        if received.group in fails and received.sequence == 2:
            raise ValueError("no such parcel")

    two.regions.publish([message(session, number) for session in "st" for number in (1, 2, 3)])
    for _ in range(5):
        worked(two, "a", handle)
        let_pass(two.journal, 60)
        hurry(two)
    assert worked(two, "b", log.handler("b")) == 0
    found = session_of(two)
    assert (found.state, found.done_through) == ("suspended", 1)
    assert log.of("s") == [(1, "a")]
    assert log.of("t") == [(1, "a"), (2, "a"), (3, "a")]
    (entry,) = [one for one in two.journal.entries(NAME, "status", "s") if one.number == 2]
    assert (entry.attempts, entry.fault) == (5, "ValueError: no such parcel")
    fails.clear()
    two.journal.act(NAME, "status", "s", Action.RETRY, actor="me", reason="mended")
    hurry(two)
    assert worked(two, "b", log.handler("b")) == 2
    assert worked(two, "a", handle) == 0
    assert log.of("s") == [(1, "a"), (2, "b"), (3, "b")]
    assert two.has(two.first) == two.has(two.second) == []


def test_a_session_goes_on_without_a_message_that_failed_where_its_queue_says_so(two, log):
    two.regions.define(*(one for one in STATUS if not isinstance(one, sq.RegionalQueue)), REPLACED)

    def handle(received, tx):
        if received.sequence == 1:
            raise sq.Business("refused")
        log.handler("a")(received, tx)

    two.regions.publish([message("s", 1), message("s", 2)])
    assert worked(two, "a", handle) == 2
    assert worked(two, "b", log.handler("b")) == 0
    assert log.of("s") == [(2, "a")]
    (letter,) = dead_letters(two.first)
    assert "refused" in letter.reason
    assert dead_letters(two.second) == []
    assert two.has(two.first) == two.has(two.second) == []


def test_a_handler_may_say_not_now_or_never(two, log):
    said = {1: sq.Postpone("50s"), 2: sq.DeadLetter("not ours")}

    def handle(received, tx):
        if (error := said.pop(received.sequence, None)) is not None:
            raise error
        log.handler("a")(received, tx)

    two.regions.publish([message("s", number) for number in (1, 2, 3)])
    assert worked(two, "a", handle) == 1
    assert worked(two, "b", handle) == 0
    let_pass(two.journal, 60)
    hurry(two)
    assert worked(two, "b", handle) == 3
    assert log.of("s") == [(1, "a"), (3, "a")]
    attempts = {one.number: one.attempts for one in two.journal.entries(NAME, "status", "s")}
    assert attempts == {1: 0, 2: 1, 3: 0}
    assert [one.message_id for one in dead_letters(two.second)]


def test_a_handler_whose_transaction_collided_is_called_again_and_no_attempt_is_counted(two, log):
    calls = []

    def handle(received, tx):
        calls.append(received.sequence)
        log.handler("a")(received, tx)
        if len(calls) == 1:
            tx.connection.execute("DO $$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = 'serialization_failure'; END $$")

    two.regions.publish([message("s", 1)])
    assert worked(two, "a", handle) == 1
    assert calls == [1, 1]
    assert log.of("s") == [(1, "a")]
    assert [one.attempts for one in two.journal.entries(NAME, "status", "s")] == [0]


def test_a_session_that_another_region_works_on_waits_without_a_lock(two, log):
    two.regions.publish([message("s", 1, "m")])
    asked = WantedMessage("s", 1, "m", digest_of("status", None, b""))
    (answer,) = two.journal.claim(NAME, "status", "b", [asked])
    assert worked(two, "a", log.handler("a")) == 0
    (waiting,) = two.rows(two.first, "SELECT postponed FROM {}.entries")
    assert waiting == (1,)
    assert two.rows(two.first, "SELECT token FROM {}.leases") == []
    two.journal.give_back([answer.claim])
    hurry(two)
    assert worked(two, "a", log.handler("a")) == 1


def test_a_completion_of_a_claim_that_was_taken_over_is_refused_and_rolled_back(two, log):
    taken = []

    def slow(received, tx):
        log.handler("a")(received, tx)
        if not taken:
            taken.append(True)
            let_pass(two.journal, 100)
            assert worked(two, "b", log.handler("b")) == 2

    two.regions.publish([message("s", 1), message("s", 2)])
    worked(two, "a", slow)
    hurry(two)
    worked(two, "a", slow)
    assert log.of("s") == [(1, "b"), (2, "b")]
    assert session_of(two).take_overs == 1
    assert [one.attempts for one in two.journal.entries(NAME, "status", "s")] == [0, 1]
    assert two.has(two.first) == two.has(two.second) == []


def test_a_region_that_was_away_goes_on_behind_numbers_that_are_over(two, log):
    for number in (1, 2):
        past(two.first, message("s", number, f"m{number}"))  # as if the second had been away
    assert worked(two, "a", log.handler("a")) == 2
    past(two.second, message("s", 3))
    assert worked(two, "b", log.handler("b")) == 1
    assert log.of("s") == [(1, "a"), (2, "a"), (3, "b")]
    past(two.second, message("s", 2, "m2"))  # a copy that came late
    assert worked(two, "b", log.handler("b")) == 0
    assert two.has(two.second) == []
    assert dead_letters(two.second) == []


def test_a_hole_is_skipped_by_the_journal_after_its_time_and_both_regions_go_on(two, log):
    two.regions.publish([message("s", 1), message("s", 3)])
    assert worked(two, "a", log.handler("a")) == 1
    assert worked(two, "b", log.handler("b")) == 0
    let_pass(two.journal, 100)
    assert worked(two, "b", log.handler("b")) == 0
    let_pass(two.journal, 100)
    assert worked(two, "b", log.handler("b")) == 1
    assert worked(two, "a", log.handler("a")) == 0
    assert log.of("s") == [(1, "a"), (3, "b")]
    assert two.has(two.first) == two.has(two.second) == []
    two.regions.publish([message("s", 4)])
    assert worked(two, "a", log.handler("a")) == 1


def test_a_message_whose_number_is_anothers_is_set_aside(two, log):
    past(two.first, message("s", 1, "mine"))
    past(two.second, message("s", 1, "theirs"))
    assert worked(two, "b", log.handler("b")) == 1
    assert worked(two, "a", log.handler("a")) == 0
    (letter,) = dead_letters(two.first)
    assert (letter.message_id, "another message's" in letter.reason) == ("mine", True)


def test_what_a_handler_returns_is_published_under_the_same_ids_at_each_attempt(two, log):
    two.regions.define(*RESULTS)
    calls = []

    def handle(received, tx):
        calls.append(received.sequence)
        results = [
            sq.Message(type="result", context={"session": received.group, "number": 2 * received.sequence - at})
            for at in (1, 0)
        ]
        if len(calls) == 1:
            tx.connection.execute(
                "CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE EXCEPTION 'again' USING ERRCODE = 'serialization_failure'; END $$"
            )
            tx.connection.execute(
                "CREATE CONSTRAINT TRIGGER later AFTER INSERT ON handled INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION again()"
            )
            log.handler("a")(received, tx)
        return results

    two.regions.publish([message("s", 1), message("s", 2)])
    assert worked(two, "a", handle) == 2
    assert calls == [1, 1, 2]
    for box in two.boxes:
        assert [one.message.message_id for one in box.peek("result")] == [
            f"status/s/{number}/{place}" for number in (1, 2) for place in (0, 1)
        ]


def test_claims_of_single_messages_and_of_batches(two, log):
    two.regions.publish([message("s", number) for number in (1, 2, 3)])
    assert worked(two, "a", log.handler("a"), claims="message") == 3
    got = []
    two.regions.publish([message("s", number) for number in (4, 5, 6)])
    worked(two, "b", lambda delivery, tx: got.append([one.sequence for one in delivery]), batch=True)
    assert got == [[4, 5, 6]]
    assert log.of("s") == [(1, "a"), (2, "a"), (3, "a")]
    assert session_of(two).done_through == 6


def test_a_forgotten_session_goes_on_where_its_box_has_ended(two, log):
    two.regions.publish([message("s", number) for number in (1, 2)])
    worked(two, "a", log.handler("a"))
    worked(two, "b", log.handler("b"))
    let_pass(two.journal, 1_000)
    for region in "ab":
        others = two.journal.others_outbox(NAME, region)
        two.journal.report(NAME, region, 1, outbox_age=0.0, queue_age=0.0, others=others)
    for region in "ab":
        two.journal.report(
            NAME, region, 1, outbox_age=0.0, queue_age=0.0, others=two.journal.others_outbox(NAME, region)
        )
    assert two.journal.purge(NAME, 100).sessions == 1
    two.regions.publish([message("s", 3)])
    assert worked(two, "b", log.handler("b")) == 1
    assert log.of("s") == [(1, "a"), (2, "a"), (3, "b")]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"claims": "batch"}, "claims can't be by"), ({"recheck": 0}, "recheck"), ({"lease": "2d"}, "lease"),
        ({"region": "c"}, "region"), ({"queue": "other"}, "other"), ({"handler": None}, "handler"),
    ],
)  # fmt: skip
def test_bad_arguments_are_refused(two, options, told):
    given = {"queue": "status", "handler": lambda _message, _tx: None, "region": "a"} | options
    queue, handler = given.pop("queue"), given.pop("handler")
    with pytest.raises(sq.UsageError, match=told):
        sq.RegionalWorker(two.regions, queue, handler, **given)


def test_a_queue_that_is_defined_otherwise_in_the_box_is_refused(two):
    known = two.first.definitions().queue("status")
    declared = sq.Queue("status", sq.Standard(hole_timeout="5s"), "session", "number")
    rules = two.journal.rules(NAME, "status")
    with pytest.raises(sq.UsageError, match="hole_timeout is 5"):
        check_queue(replace(known, declared=declared), rules)
    with pytest.raises(sq.UsageError, match="start is 1"):
        check_queue(known, replace(rules, start=2))
    with pytest.raises(sq.UsageError, match="policy is fifo"):
        check_queue(replace(known, declared=sq.Queue("status", sq.Fifo(), "session")), rules)


def test_a_handler_cannot_end_its_transaction(two, log):
    def handle(received, tx):
        log.handler("a")(received, tx)
        if received.group == "s":
            tx.connection.commit()
        with tx.connection.transaction():
            pass

    two.regions.publish([message("s", 1), message("t", 1)])
    worked(two, "a", handle)
    assert (log.of("s"), log.of("t")) == ([], [(1, "a")])
    (entry,) = two.journal.entries(NAME, "status", "s")
    assert "a handler can't commit" in entry.fault


@contextmanager
def away(dsn):
    """The server of a database takes no connections to it, and ends those that there are."""
    name = conninfo_to_dict(dsn)["dbname"]
    with psycopg.connect(make_conninfo(dsn, dbname="postgres"), autocommit=True) as admin:
        admin.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(sql.Identifier(name)))
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        try:
            yield
        finally:
            admin.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(sql.Identifier(name)))


@contextmanager
def at_work(two, region, handler, **options):
    worker = sq.RegionalWorker(
        two.regions, "status", handler, region=region, **{"workers": 2, "recheck": 0.05} | options
    )
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield worker
    finally:
        worker.stop()
        thread.join(180)
        assert not thread.is_alive()


@pytest.fixture
def told(caplog):
    """Waits for a line of the log, by its event."""
    events, changed = [], threading.Condition()

    class Listener(logging.Handler):
        def emit(self, record):
            with changed:
                events.append(getattr(record, "event", None))
                changed.notify_all()

    def wait_for(event):
        with changed:
            assert changed.wait_for(lambda: event in events, 60), events

    logger, listener = logging.getLogger("seriatim.worker"), Listener()
    logger.addHandler(listener)
    logger.setLevel(logging.INFO)
    yield wait_for
    logger.removeHandler(listener)


def test_nobody_works_while_the_journal_is_away_and_the_work_goes_on_after_it(two, log, told):
    handled = threading.Event()

    def handle(received, tx):
        log.handler("a")(received, tx)
        handled.set()

    two.regions.publish([message("s", 1)])
    with at_work(two, "a", handle):
        assert handled.wait(180)
        until = time.monotonic() + 180
        while log.of("s") != [(1, "a")]:  # its transaction isn't committed yet
            assert time.monotonic() < until
        with away(two.journal_dsn):
            handled.clear()
            past(two.first, message("s", 2))
            told("journal_away")
            assert not handled.is_set()
        assert handled.wait(180)
        told("journal_back")
    assert log.of("s") == [(1, "a"), (2, "a")]
    assert [one.attempts for one in two.journal.entries(NAME, "status", "s")] == [0, 0]


def test_a_handler_is_called_again_when_its_transaction_is_lost_with_the_journal(two, log, told):
    calls = []

    def handle(received, tx):
        calls.append(received.sequence)
        log.handler("a")(received, tx)
        if len(calls) == 1:
            with away(two.journal_dsn):
                pass

    two.regions.publish([message("s", 1)])
    assert worked(two, "a", handle) == 1
    assert (calls, log.of("s")) == ([1, 1], [(1, "a")])
    assert [one.attempts for one in two.journal.entries(NAME, "status", "s")] == [0]


def test_what_is_done_while_the_box_is_away_is_completed_there_later(two, log, told):
    def handle(received, tx):
        log.handler("a")(received, tx)
        if received.sequence == 2:
            cut.enter_context(away(two.first.dsn))

    two.regions.publish([message("s", 1), message("s", 2)])
    two.first._connections._shared.pool.timeout = 0.5  # a worker needn't wait longer for what it tries again
    with ExitStack() as cut:
        with at_work(two, "a", handle, lease=2.0):
            told("copies_not_completed")
        assert log.of("s") == [(1, "a"), (2, "a")]
    two.first._connections._shared.pool.timeout = 30.0
    assert worked(two, "b", log.handler("b")) == 0
    with two.first.access.connect() as connection:
        connection.execute(f"UPDATE {two.first.schema}.leases SET expires_at = now()".encode())
    assert worked(two, "a", log.handler("a")) == 0
    assert two.has(two.first) == two.has(two.second) == []
    assert log.of("s") == [(1, "a"), (2, "a")]


def test_a_worker_that_stops_gives_back_what_it_has_not_begun(two, log):
    begun = threading.Event()
    goes_on = threading.Event()

    def handle(received, tx):
        begun.set()
        goes_on.wait(300)
        log.handler("a")(received, tx)

    two.regions.publish([message("s", number) for number in (1, 2, 3)])
    with at_work(two, "a", handle) as worker:
        assert begun.wait(180)
        worker.stop()
        goes_on.set()
    assert log.of("s") == [(1, "a")]
    assert session_of(two).state == "idle"
    assert worked(two, "b", log.handler("b")) == 2


def test_a_handler_that_takes_too_long_has_used_up_an_attempt(two, log, told):
    goes_on, handled = threading.Event(), []

    def handle(received, tx):
        handled.append(received.sequence)
        is_first = len(handled) == 1
        goes_on.wait(300)
        if is_first:  # a later attempt may end in time
            log.handler("a")(received, tx)

    two.regions.publish([message("s", 1)])
    with at_work(two, "a", handle, pace=sq.Pace(turn_limit=0.2)):
        told("turn_too_long")
        (entry,) = two.journal.entries(NAME, "status", "s")
        assert entry.attempts >= 1  # the next one may have begun
        assert entry.fault == "the handler took longer than 0.2 s"
        goes_on.set()
    assert log.of("s") == []


def test_an_attempt_that_took_too_long_is_counted_when_the_journal_is_back(two, log, told, monkeypatch):
    goes_on, tried, fail = threading.Event(), [], Journal.fail

    def fails_once(*arguments, **named):
        tried.append(1)
        if len(tried) == 1:
            raise sq.Unavailable("not now")
        return fail(*arguments, **named)

    monkeypatch.setattr(Journal, "fail", fails_once)
    two.regions.publish([message("s", 1)])
    with at_work(two, "a", lambda received, tx: goes_on.wait(300), pace=sq.Pace(turn_limit=0.2)):
        told("turn_too_long")
        (entry,) = two.journal.entries(NAME, "status", "s")
        assert entry.attempts >= 1
        assert entry.fault == "the handler took longer than 0.2 s"
        goes_on.set()


def test_a_coroutine_function_is_refused(two):
    async def handle(_message, _tx):
        pass

    with pytest.raises(sq.UsageError, match="coroutine function"):
        sq.RegionalWorker(two.regions, "status", handle, region="a")


def test_attempts_of_workers_that_died_stop_the_session(two, log):
    two.regions.publish([message("s", 1, "m")])
    asked = WantedMessage("s", 1, "m", digest_of("status", None, b""))
    for _ in range(5):
        (answer,) = two.journal.claim(NAME, "status", "b", [asked])
        assert answer.answer == JournalAnswer.TAKEN
        let_pass(two.journal, 60)
    assert worked(two, "a", log.handler("a")) == 0
    assert session_of(two).state == "suspended"
    two.journal.act(NAME, "status", "s", Action.RETRY, actor="me", reason="another worker")
    hurry(two)
    assert worked(two, "a", log.handler("a")) == 1


def test_a_mapping_by_types_and_failures_that_the_user_names(two, log):
    seen = []

    def handle(received, tx):
        seen.append((tx.key, tx.token.version > 0))
        raise KeyError("no such shipment")

    two.regions.publish([message("s", 1)])
    worked(two, "a", {"status": handle}, faults=sq.FaultKinds(business=[KeyError]))
    assert seen == [("status/s/1", True)]
    assert session_of(two).state == "suspended"


def test_a_batch_that_fails_is_given_message_by_message(two, log):
    got = []

    def handle(delivery, tx):
        got.append([one.sequence for one in delivery])
        if 2 in got[-1]:
            raise sq.Business("not the second")
        for one in delivery:
            log.handler("a")(one, tx)

    two.regions.publish([message("s", number) for number in (1, 2, 3)])
    worked(two, "a", handle, batch=True)
    assert got == [[1, 2, 3], [1], [2]]
    assert log.of("s") == [(1, "a")]
    (entry,) = [one for one in two.journal.entries(NAME, "status", "s") if one.number == 2]
    assert (entry.attempts, entry.fault) == (1, "Business: not the second")


def test_a_part_of_a_batch_is_done_and_the_rest_waits(two, log):
    got = []

    def handle(delivery, tx):
        got.append([one.sequence for one in delivery])
        return sq.Consumed(1, postpone="50s") if len(got) == 1 else None

    two.regions.publish([message("s", number) for number in (1, 2, 3)])
    worked(two, "a", handle, batch=True)
    assert (got, session_of(two).done_through) == ([[1, 2, 3]], 1)
    hurry(two)
    worked(two, "a", handle, batch=True)
    assert got[1:] == [[2, 3]]


def test_the_copies_of_many_sessions_are_asked_about_in_few_calls(two, log, monkeypatch):
    sizes = []
    claim = Journal.claim

    def counted(journal, name, queue, region, asked, **options):
        sizes.append(len({one.session for one in asked}))
        return claim(journal, name, queue, region, asked, **options)

    two.regions.publish([message(f"s{at}", 1) for at in range(60)])
    worked(two, "a", log.handler("a"))
    monkeypatch.setattr(Journal, "claim", counted)
    assert worked(two, "b", log.handler("b")) == 0
    assert (sum(sizes), sizes[-1] > 1) == (60, True)
    assert len(sizes) <= 8
