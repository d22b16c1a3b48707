"""Groups that are idle: they keep their next number, until a clean-up is told to forget what has expired."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.box.operators import purge
from seriatim.cli.main import main
from seriatim.operations import dead_letters, invariants
from seriatim.operations import groups as operations
from seriatim.operations.groups import forget

BY = {"actor": "me", "reason": "so"}


def define(box, **more):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long", "lines": "long"}),
        sq.Queue(
            "orders",
            **{"policy": sq.Standard(), "sequence": "version", "expire_after": "90d", **more},
            group="customer",
        ),
        sq.Queue("kept", policy=sq.Fifo(), group="customer"),
        sq.Subscription("all", where="type = 'order'", to="orders"),
        sq.Subscription("kept", where="type = 'order'", to="kept"),
    )
    return box


@pytest.fixture
def queue(box):
    return define(box)


def publish(box, customer, *versions, **more):
    with box.session() as tx:
        tx.publish(
            sq.Message(type="order", context={"customer": customer, "version": version, "lines": 2, **more})
            for version in versions
        )


def drain(box, queue="orders"):
    found = []
    while True:
        with box.session() as tx:
            delivery = tx.receive(queue, limit=10)
            if delivery is None:
                return found
            found += [(delivery.group, one.sequence, one.ordinal) for one in delivery]


def later(**period):
    return datetime.now(UTC) + timedelta(**period)


def clean_up(box, **period):
    return purge.run(box._access, forget_expired=True, now=later(**period))


def rows(box, statement):
    with box.session() as tx:
        return tx.connection.execute(statement.format(box.schema)).fetchall()


def groups(box, queue="orders"):
    return [(one.group, one.incarnation) for one in operations.groups(box, queue)]


def test_what_has_expired_begins_anew_in_a_higher_incarnation(queue):
    define(queue, keep="everything")
    publish(queue, "a", 1, 2)
    publish(queue, "b", 1)
    assert len(drain(queue)) == 3
    assert clean_up(queue, days=89).groups == 0
    assert purge.run(queue._access, now=later(days=91)).groups == 0  # unless it is told to
    assert groups(queue) == [("a", 0), ("b", 0)]
    assert clean_up(queue, days=91).groups == 2
    assert groups(queue) == []
    assert rows(queue, "SELECT count(*) FROM {}.known_groups WHERE queue_id = 1") == [(0,)]  # its place is free
    publish(queue, "a", 1)
    assert groups(queue) == [("a", 1)]  # nobody has judged it yet
    assert drain(queue) == [("a", 1, 1)]
    assert groups(queue) == [("a", 1)]
    publish(queue, "c", 1)
    assert drain(queue) == [("c", 1, 1)]
    done = rows(queue, "SELECT group_key, incarnation, ordinal FROM {}.history ORDER BY 1, 2, 3")
    assert done == [("a", 0, 1), ("a", 0, 2), ("a", 1, 1), ("b", 0, 1), ("c", 1, 1)]
    assert clean_up(queue, days=91).groups == 2
    publish(queue, "a", 1)
    assert drain(queue) == [("a", 1, 1)]
    assert groups(queue) == [("a", 2)]
    assert invariants.broken(queue) == []
    said = rows(queue, "SELECT actor, action, queue, group_key, details FROM {}.operator_log ORDER BY operation_id")
    assert said == [("clean-up", "forget", "orders", None, {"groups": 2})] * 2


def test_another_process_learns_of_it(queue):
    publish(queue, "a", 1)
    with sq.MessageBox.open(queue.dsn, schema=queue.schema) as another:
        assert len(drain(another)) == 1
        assert clean_up(queue, days=91).groups == 1
        define(queue, keep="everything")
        publish(another, "a", 1)
        assert drain(another) == [("a", 1, 1)]
    assert rows(queue, "SELECT incarnation FROM {}.history") == [(1,)]


def test_one_that_was_forgotten_by_name_is_not_repeated(queue):
    publish(queue, "a", 1)
    drain(queue)
    assert forget(queue, "orders", "a") == 1
    assert clean_up(queue, days=91).groups == 1
    publish(queue, "a", 1)
    drain(queue)
    assert groups(queue) == [("a", 2)]


def test_those_that_wait_or_were_stopped_stay(queue):
    publish(queue, "held", 2)
    publish(queue, "arrived", 1)
    publish(queue, "stopped", 1)
    publish(queue, "idle", 1)
    with queue.session() as tx:
        for group in ("held", "stopped", "idle"):
            if (delivery := tx.receive("orders", group=group)) is not None:
                delivery.done()
    operations.suspend(queue, "orders", "stopped", **BY)
    publish(queue, "asked", 1)
    with queue.session() as tx:
        tx.receive("orders", group="asked").done()
        assert clean_up(queue, days=91).groups == 1  # somebody has the other one
    assert [group for group, _ in groups(queue)] == ["arrived", "asked", "held", "stopped"]
    assert clean_up(queue, days=91).groups == 1
    assert [group for group, _ in groups(queue)] == ["arrived", "held", "stopped"]
    assert {group for group, *_ in drain(queue, "kept")} == {"held", "arrived", "stopped", "idle", "asked"}
    assert clean_up(queue, days=91).groups == 0
    assert len(groups(queue, "kept")) == 5  # of that queue none expires


def test_complete_sets_are_forgotten(box):
    define(box, policy=sq.UnitOfWork(size="lines"))
    publish(box, "set", 1, 2)
    assert len(drain(box)) == 2
    publish(box, "set", 1)
    assert drain(box) == []  # a duplicate
    assert clean_up(box, days=91).groups == 1
    publish(box, "set", 1, 2)
    assert [ordinal for *_, ordinal in drain(box)] == [1, 2]


def test_a_group_whose_instance_runs_stays(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string"}),
        sq.Queue("orders", policy=sq.Fifo(), group=sq.Group("customer", expire_after="1d")),
        sq.Subscription(
            "all",
            where="type = 'order'",
            to="orders",
            starts="tests.box.operators.test_expire:define",
            correlate=["customer"],
        ),
    )
    with box.session() as tx:
        tx.publish(sq.Message(type="order", context={"customer": "c"}))
    assert len(drain(box)) == 1
    assert clean_up(box, days=2).groups == 0
    with box.session() as tx:
        tx.publish(sq.Message(type="order", context={"customer": "c"}))
    with box.session() as tx:
        tx.receive("orders").done()
        tx.instance.end()
    assert clean_up(box, days=2).groups == 1


def test_in_steps_and_when_the_time_is_over(queue, monkeypatch):
    monkeypatch.setattr(purge, "_GROUPS", 3)
    for number in range(8):
        publish(queue, f"c{number}", 1)
    assert len(drain(queue)) == 8
    over = purge.run(queue._access, forget_expired=True, seconds=0, now=later(days=91))
    assert (over.groups, over.complete) == (0, False)
    steps = []
    done = purge.run(
        queue._access, forget_expired=True, now=later(days=91), progress=lambda one: steps.append(one.groups)
    )
    assert (done.groups, groups(queue)) == (8, [])
    assert [step for step in dict.fromkeys(steps) if step] == [3, 6, 8]


def test_groups_that_were_forgotten_before_a_clean_up_failed_are_in_the_operator_log(queue, monkeypatch):
    monkeypatch.setattr(purge, "_GROUPS", 1)
    publish(queue, "a", 1, 2)
    publish(queue, "b", 1)
    with queue.session() as tx:
        tx.receive("orders", group="a", limit=2).dead_letter("no", done=1)
    assert drain(queue) == [("b", 1, 1)]
    with psycopg.connect(queue.dsn) as defining:

        def hold_definitions(done):
            if done.groups == 1:
                defining.execute(f"SELECT pg_advisory_xact_lock({queue.schema}.lock_of('definitions'))")

        with pytest.raises(sq.Unavailable, match="the definitions"):
            purge.run(queue._access, forget_expired=True, now=later(days=91), progress=hold_definitions)
    assert groups(queue) == [("b", 0)]
    publish(queue, "a", 1, 2)
    assert drain(queue) == [("a", 1, 1), ("a", 2, 2)]
    (dead,) = dead_letters.dead_letters(queue, "orders")
    assert dead_letters.requeue(queue, dead.entry_id, **BY).place == "end"
    assert drain(queue) == [("a", 2, 3)]
    assert clean_up(queue, days=91).groups == 2
    said = rows(queue, "SELECT group_key, details FROM {}.operator_log WHERE action = 'forget'")
    assert said == [(None, {"groups": 1})] * 3


def test_the_commands(queue):
    def call(*words):
        result = CliRunner().invoke(main, ["box", "purge", *words, "--dsn", queue.dsn, "--schema", queue.schema])
        assert result.exit_code == 0
        return result.stdout

    publish(queue, "a", 1)
    assert len(drain(queue)) == 1
    assert "expired" not in call("--dry-run")
    with queue.session() as tx:
        tx.connection.execute(f"UPDATE {queue.schema}.known_groups SET touched_at = now() - interval '91 days'")
    assert "expired groups: at most 1" in call("--dry-run")
    assert json.loads(call("--dry-run", "--json"))["groups"] == 1
    assert json.loads(call("--json"))["groups"] == 0
    assert "1 group forgotten" in call("--forget-expired")
    assert json.loads(call("--forget-expired", "--queue", "kept", "--json"))["groups"] == 0
