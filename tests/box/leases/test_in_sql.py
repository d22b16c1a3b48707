"""Receiving in SQL: one transaction, or a lease from its commit on."""

import threading
from uuid import uuid4

import psycopg
import pytest
from psycopg.types.json import Jsonb

import seriatim as sq
from seriatim.box.tick import judge
from seriatim.box.workers.heartbeat import Process
from seriatim.box.workers.judge import judging
from seriatim.operations import groups, invariants
from seriatim.operations import workers as operations
from seriatim.operations.grants import grant
from tests.box import roles
from tests.box.leases.test_door import defined, order
from tests.box.publishing.test_sets import left_of, three_sets


@pytest.fixture
def sql(box):
    with psycopg.connect(box.dsn, autocommit=True) as connection:
        connection.execute(f"SET search_path TO {box.schema}")
        yield connection


def queue_id(box, name="orders"):
    return box.definitions().queue(name).queue_id


def received(sql, queue="orders", more=""):
    with sql.cursor(row_factory=psycopg.rows.namedtuple_row) as cursor:
        return cursor.execute(f"SELECT * FROM receive(%s{more})", [queue]).fetchall()


def test_a_transaction_completes_what_it_received_with_its_own_rows(box, sql):
    defined(box)
    box.publish([order("a", n) for n in range(5)])
    sql.execute("CREATE TABLE done (message_id text, position integer)")
    with sql.transaction():
        rows = received(sql, more=", 3")
        assert [(row.position, row.message_id, row.attempt, row.late) for row in rows] == [
            (1, "a-0", 1, False), (2, "a-1", 1, False), (3, "a-2", 1, False),
        ]  # fmt: skip
        assert box.lease("orders") is None  # the group is locked, and nobody sees a lease
        sql.execute("INSERT INTO done SELECT %s, 1", [rows[0].message_id])
        answer = sql.execute("SELECT complete(%s, 3)", [rows[0].delivery]).fetchone()[0]
        assert answer == {"done": 3, "over": True}
    assert sql.execute("SELECT count(*) FROM leases").fetchone() == (0,)
    assert sql.execute("SELECT count(*) FROM deliveries").fetchone() == (0,)
    assert [m.message_id for m in box.lease("orders").messages] == ["a-3", "a-4"]


def test_what_isnt_completed_at_the_commit_is_a_lease(box, sql):
    defined(box)
    box.publish([order("a", n) for n in range(3)])
    rows = received(sql, more=", lease => '20s', attempt_id => 'x'")
    left = sql.execute("SELECT extract(epoch FROM expires_at - clock_timestamp()) FROM leases").fetchone()[0]
    assert 10 < left <= 20
    sql.execute("SELECT complete(%s, 1)", [rows[0].delivery])
    again = received(sql, more=", attempt_id => 'x'")
    assert [row.position for row in again] == [2, 3]
    assert again[0].delivery == rows[0].delivery
    with pytest.raises(psycopg.Error) as refused:
        sql.execute("SELECT complete(%s, 1, said => 'else')", [rows[0].delivery])
    assert refused.value.sqlstate == "SQ006"
    assert sql.execute("SELECT renew(%s, '1 minute') > clock_timestamp()", [rows[0].delivery]).fetchone() == (True,)
    sql.execute("SELECT give_back(%s)", [rows[0].delivery])
    with pytest.raises(psycopg.Error) as lost:
        sql.execute("SELECT renew(%s)", [rows[0].delivery])
    assert lost.value.sqlstate == "SQ005"
    assert [row.message_id for row in received(sql)] == ["a-1", "a-2"]


def test_the_transaction_that_received_ends_the_delivery_itself(box, sql):
    defined(box, retry=sq.Retry(attempts=3, delay="0s"), errors="continue")
    box.publish([order("a", n) for n in range(5)])
    with sql.transaction():
        (row, *_) = received(sql, more=", 3")
        sql.execute("SELECT complete(%s, 1), give_back(%s)", [row.delivery] * 2)
    with sql.transaction():
        (row, *_) = received(sql, more=", 3")
        assert (row.message_id, row.attempt) == ("a-1", 1)
        sql.execute("SELECT complete(%s, 1)", [row.delivery])
    with pytest.raises(psycopg.Error):  # the rest is in a lease from here on
        sql.execute("SELECT complete(%s, 4)", [row.delivery])
    assert received(sql)[0].reason is not None
    sql.execute("SELECT complete(%s, 2), give_back(%s)", [row.delivery] * 2)
    with sql.transaction():
        (row, *_) = received(sql)
        assert row.message_id == "a-3"
        sql.execute("SELECT fail(%s, 2, 'transient', 'away')", [row.delivery])
    box.tick()
    assert [(row.message_id, row.attempt) for row in received(sql)] == [("a-4", 2)]
    assert invariants.broken(box) == []


def test_an_edited_message_is_received_as_it_was_edited(box, sql):
    defined(box, retry=sq.Retry(attempts=1))
    box.publish([order("a", n) for n in range(2)])
    lease = box.lease("orders")
    lease.fail(1, "business", "no")
    groups.retry(box, "orders", "a", body=b"mended", actor="me", reason="a test")
    assert [(row.message_id, bytes(row.body)) for row in received(sql)] == [("a-0", b"mended")]


def test_a_postponed_message_is_received_as_it_was_edited(box, sql):
    defined(box)
    box.publish([order("a", n) for n in range(2)])
    with box.session() as tx:
        tx.receive("orders").postpone("1h")
    groups.retry(box, "orders", "a", body=b"mended", actor="me", reason="a test")
    assert [(row.message_id, bytes(row.body), row.attempt) for row in received(sql)] == [
        ("a-0", b"mended", 1),
        ("a-1", b"", 1),
    ]


def test_a_rollback_gives_all_back_and_a_failure_is_counted(box, sql):
    defined(box, retry=sq.Retry(attempts=2, delay="0s"), errors="continue")
    box.publish([order("a", n) for n in range(3)])
    with box.session() as tx:
        tx.receive("orders")  # so the group is known
    with sql.transaction(force_rollback=True):
        rows = received(sql)
        sql.execute("SELECT complete(%s, 2)", [rows[0].delivery])
    judge(box.access, queue_id(box))
    rows = received(sql)
    assert [(row.message_id, row.attempt) for row in rows] == [("a-0", 1)]  # after a rollback one at a time
    answer = sql.execute("SELECT fail(%s, 1, 'transient', 'away')", [rows[0].delivery]).fetchone()[0]
    assert answer == {"done": 0, "over": True, "then": "judged"}
    box.tick()
    lease = box.lease("orders")
    assert [(m.message_id, m.attempt) for m in lease.messages] == [("a-0", 2)]
    sql.execute("SELECT 1")
    lease.fail(1, "transient", "away")
    assert [m.message_id for m in box.lease("orders").messages] == ["a-1"]


def test_what_is_rolled_back_alone_counts_as_an_attempt(box, sql):
    defined(box, retry=sq.Retry(attempts=3, delay="0s"), errors="continue")
    box.publish([order("a", n) for n in range(2)])
    with box.session() as tx:
        tx.receive("orders")  # so the group is known
    attempts = []
    for _ in range(4):
        with sql.transaction(force_rollback=True):
            rows = received(sql)
            attempts.append([(row.message_id, row.attempt) for row in rows])
        judge(box.access, queue_id(box))
    assert attempts == [[("a-0", 1), ("a-1", 1)], [("a-0", 1)], [("a-0", 2)], [("a-0", 3)]]
    assert [row.message_id for row in received(sql)] == ["a-1"]


def test_a_queue_that_judges_needs_a_judge(box, sql):
    defined(box, policy=sq.Standard(), sequence="n")
    box.publish([order("a", n) for n in (2, 1)])
    (row,) = received(sql)
    assert row.reason == "nobody judges this box: start seriatim serve"
    process = Process(uuid4(), "here", "host", 1)
    with judging(box, process):
        sql.execute(f'LISTEN "{row.channel}"')
        while (row := received(sql)[0]).reason:
            assert row.reason in ("judging", "nobody judges this box: start seriatim serve")
            list(sql.notifies(timeout=1, stop_after=1))
        assert row.message_id == "a-1"
        assert received(sql)[0].reason == "empty"
    assert received(sql)[0].reason == "nobody judges this box: start seriatim serve"


def test_blocks_of_a_process_share_a_judge_that_stays_for_the_last_of_them(box, sql):
    defined(box, policy=sq.Standard(), sequence="n")
    box.publish([order("a", n) for n in (2, 1)])

    def judged():
        sql.execute(f'LISTEN "{received(sql)[0].channel}"')
        while (row := received(sql)[0]).reason:
            list(sql.notifies(timeout=1, stop_after=1))
        return row.message_id

    with judging(box, Process(uuid4(), "second", "host", 1)):
        with box.more(1) as another, judging(another, Process(uuid4(), "first", "host", 1)):
            assert judged() == "a-1"
            assert len(operations.judges(box)) == 1
        box.publish([order("b", n) for n in (2, 1)])
        assert judged() in ("a-2", "b-1")
    assert operations.judges(box) == []


def test_what_it_doesnt_hand_out(box, sql):
    defined(box)
    with sql.transaction(force_rollback=True):
        sql.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        with pytest.raises(psycopg.Error, match="READ COMMITTED"):
            received(sql)
    for call in (
        "receive('none')",
        "receive('orders', 0)",
        "receive('orders', lease => '2 days')",
        "receive('orders', attempt_id => '')",
    ):
        with pytest.raises(psycopg.errors.InvalidParameterValue):
            sql.execute(f"SELECT * FROM {call}")


def test_unordered_messages_and_sets(box, sql):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "n": "long"}),
        sq.Queue("sets", policy=sq.UnitOfWork(size=3), group="customer", sequence="n"),
        sq.Queue("orders", policy=sq.Unordered()),
        sq.Subscription("sets", where="type = 'order'", to="sets"),
        sq.Subscription("any", where="type = 'order'", to="orders"),
    )
    box.publish([order("a", n) for n in (2, 3, 1)])
    rows = received(sql, more=", 2")
    assert len(rows) == 2
    sql.execute("SELECT complete(%s)", [rows[0].delivery])
    assert len(received(sql)) == 1
    box.tick()
    rows = received(sql, "sets", ", 1")
    assert [row.sequence for row in rows] == [1, 2, 3]
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        sql.execute("SELECT complete(%s, 1)", [rows[0].delivery])
    sql.execute("SELECT complete(%s, 3)", [rows[0].delivery])


def test_results_belong_to_what_their_causes_belong_to(box, sql):
    defined(box)
    context = {"customer": "a", "n": 1, "correlation_id": "c"}
    box.publish([order("a", 0), sq.Message(type="order", context=context, message_id="a-1")])
    result = "SELECT publish('result', '', %s, delivery => %s, \"position\" => %s)"
    with sql.transaction():
        rows = received(sql)
        for row in rows:
            own = Jsonb({"customer": "a", "n": row.position})
            sql.execute(result, [own, row.delivery, row.position])
        own = Jsonb({"customer": "a", "n": 3, "correlation_id": "own", "parent_id": None})
        sql.execute(result, [own, row.delivery, 2])
        sql.execute("SELECT complete(%s)", [row.delivery])
    box.tick()
    with box.session() as tx:
        found = [(m.context["correlation_id"], m.context["parent_id"]) for m in tx.receive("results", limit=9)]
    assert found == [("a-0", "a-0"), ("c", "a-1"), ("own", "a-1")]


def test_a_request_is_answered_in_sql(box, sql):
    defined(box)
    pending = box.request(order("a", 0), reply="price")
    (row,) = received(sql)
    with sql.transaction():
        sql.execute("SELECT publish('price', '7', delivery => %s, \"position\" => 1)", [row.delivery])
        sql.execute("SELECT complete(%s)", [row.delivery])
    assert box.reply(pending.id, wait=30).body == b"7"


def test_a_result_for_a_gate_is_refused_with_the_reason(box, sql):
    """It would come to the gate after the place of its cause has closed."""
    box.define(sq.Queue("gate", policy=sq.Standard(), group="origin_group", sequence="origin_ordinal"))
    defined(box, gate="gate")
    box.publish(order("a", 0))
    judge(box.access, queue_id(box))
    (row,) = received(sql)
    for given, code in (((row.delivery, 1), "SQ006"), ((row.delivery, 2), "22023"), ((None, 1), "22023")):
        with pytest.raises(psycopg.Error) as refused:
            sql.execute("SELECT publish('result', '', delivery => %s, \"position\" => %s)", given)
        assert refused.value.sqlstate == code
        if code == "SQ006":
            assert "leads to a gate" in str(refused.value)
            assert "over HTTP, by box.lease, or in a worker" in refused.value.diag.message_hint
    sql.execute("SELECT complete(%s)", [row.delivery])


def test_a_lease_that_runs_out_while_it_is_completed_completes_nothing(box, sql):
    defined(box)
    box.publish([order("a", 1)])
    (row,) = received(sql)
    held = sql.execute(
        "SELECT queue_id, token, incarnation, entry_ids, ordinals, lates, done, at FROM at_lease(%s, '', 'complete', NULL, '')",
        [row.delivery],
    ).fetchone()
    sql.execute("UPDATE leases SET expires_at = clock_timestamp()")  # as if the backend had stood still here
    with pytest.raises(psycopg.errors.DatabaseError, match="the lease is over") as caught:
        sql.execute("SELECT settle_through(%s, %s, %s, %s, %s, %s, %s, %s)", held)
    assert caught.value.sqlstate == "SQ005"
    assert sql.execute("SELECT count(*) FROM entries").fetchone() == (1,)


def test_a_judge_that_may_not_route_is_replaced_with_the_next_block(box, sql):
    defined(box, policy=sq.Standard(), sequence="n")
    roles.make(box, "may_route_later")
    grant(box, "may_route_later", receive=["orders"])
    with roles.as_role(box, "may_route_later") as own, judging(own, Process(uuid4(), "first", "host", 1)):
        (judge_thread,) = (one for one in threading.enumerate() if one.name == "seriatim-judge")
        judge_thread.join(120)
        grant(box, "may_route_later", route=True)
        box.publish([order("a", n) for n in (2, 1)])
        with judging(own, Process(uuid4(), "second", "host", 1)):
            sql.execute(f'LISTEN "{received(sql)[0].channel}"')
            while (row := received(sql)[0]).reason:
                list(sql.notifies(timeout=1, stop_after=1))
            assert row.message_id == "a-1"


def test_sets_of_one_key_come_one_after_another_and_whole(box, sql):
    three_sets(box, delayed=[("b", 2)])
    box.tick()
    assert left_of(box) == "aabbcc"  # all are released
    rows = received(sql, "sets")
    assert [row.context["text"] for row in rows] == ["a", "a"]
    sql.execute("SELECT complete(%s, 2)", [rows[0].delivery])
    assert [row.delivery for row in received(sql, "sets")] == [None]  # the second part of b may not be seen yet
    sql.execute("UPDATE entries SET visible_at = now() WHERE visible_at > now()")
    sql.execute("UPDATE known_groups SET due_at = 0 WHERE due_at IS NOT NULL")
    box.tick()
    for text in "bc":
        rows = received(sql, "sets")
        assert [row.context["text"] for row in rows] == [text, text]
        sql.execute("SELECT complete(%s, 2)", [rows[0].delivery])
    assert [row.delivery for row in received(sql, "sets")] == [None]
    assert invariants.broken(box) == []


def test_a_judge_outlasts_a_server_that_takes_no_writes_for_a_while(box, sql):
    sql.execute("CREATE SEQUENCE tries")
    sql.execute(
        f"""CREATE FUNCTION away() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            PERFORM nextval('{box.schema}.tries'); RAISE 'read-only' USING ERRCODE = 'read_only_sql_transaction'; END $$"""
    )
    sql.execute("CREATE TRIGGER away BEFORE INSERT ON judges EXECUTE FUNCTION away()")
    with judging(box, Process(uuid4(), "here", "host", 1)):
        (judge_thread,) = (one for one in threading.enumerate() if one.name == "seriatim-judge")
        while not sql.execute("SELECT is_called FROM tries").fetchone()[0]:
            assert judge_thread.is_alive()
            sql.execute("SELECT pg_sleep(0.02)")
        sql.execute("DROP FUNCTION away CASCADE")
        while not operations.judges(box):
            assert judge_thread.is_alive()
            sql.execute("SELECT pg_sleep(0.02)")
