"""Triggers of a box fire for everybody, in the session of a replica too; and it is told where somebody switched them off."""

from __future__ import annotations

import psycopg
import pytest

import seriatim as sq
from seriatim.operations import invariants, retention
from seriatim.operations.doctor import State, examine
from tests.box.shop import define, rows


def order(version, **more):
    return sq.Message(type="order", context={"customer": "c1", "version": version}, **more)


def received(box, queue="shop"):
    with box.session() as tx:
        delivery = tx.receive(queue, limit=100)
        return [] if delivery is None else [one.context["version"] for one in delivery]


@pytest.fixture
def replica(box):
    """A connection as a worker of logical replication has it, which applies what another server has done."""
    with psycopg.connect(box.dsn, options="-c session_replication_role=replica") as connection:
        yield connection


@pytest.fixture
def tickets(box, monkeypatch, tmp_path):
    """What `doctor` says of them."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    return lambda: next(one for one in examine(dsn=box.dsn, schema=box.schema) if one.name == "tickets")


def test_published_in_the_session_of_a_replica_is_numbered(box, replica, tickets):
    define(box, policy=sq.Fifo(), sequence=None)
    with box.session(replica) as tx:
        tx.publish(order(1))
    replica.execute(f"SELECT {box.schema}.publish('order', '', '{{\"customer\": \"c1\", \"version\": 2}}')")
    replica.commit()
    box.publish(order(3))
    assert received(box) == [1, 2, 3]
    assert tickets().state is State.OK
    assert invariants.broken(box) == []


def test_deleted_in_the_session_of_a_replica_is_gone_whole(box, replica):
    """Parts go with their message, references leave their note, and the operator log is only added to."""
    define(box, policy=sq.Fifo(), sequence=None)
    box.publish([order(1, parts=[sq.Part("scan")]), sq.Message(type="odd")])
    with box.session(replica) as tx:
        assert [one.sequence for one in tx.receive("shop")] == [None]
    replica.execute(f"DELETE FROM {box.schema}.unrouted")
    replica.commit()
    assert rows(box, "SELECT count(*) FROM {schema}.message_parts") == [(0,)]
    retention.purge(box)
    assert rows(box, "SELECT count(*) FROM {schema}.spool") == [(0,)]
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="only added"):
        replica.execute(f"DELETE FROM {box.schema}.operator_log")


def test_what_goes_with_an_instance_or_a_dialog_goes_with_it_there_too(box, replica):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "shipment": "string"}),
        sq.Queue("work", policy=sq.Fifo(), group="customer"),
        sq.Subscription("starts", "type = 'order'", "work", starts="orders:handle", correlate=["customer", "shipment"]),
        sq.Service("Orders", queue="orders"),
    )
    box.publish(sq.Message(type="order", context={"customer": "c1"}))
    with box.session() as tx:
        for _ in tx.receive("work"):
            tx.instance.correlate(shipment="s1")
        tx.send(tx.begin_dialog("Orders", "Nowhere"), "DEFAULT", b"waits")
    assert rows(box, "SELECT count(*) FROM {schema}.correlations UNION ALL SELECT count(*) FROM {schema}.known_transmission") == [
        (1,), (1,)
    ]  # fmt: skip
    replica.execute(f"DELETE FROM {box.schema}.known_instances")
    replica.execute(f"DELETE FROM {box.schema}.endpoints")
    replica.commit()
    assert rows(box, "SELECT count(*) FROM {schema}.correlations UNION ALL SELECT count(*) FROM {schema}.known_transmission") == [
        (0,), (0,)
    ]  # fmt: skip


def test_every_trigger_fires_always(box):
    assert invariants.silent_triggers(box) == []
    assert len(rows(box, "SELECT FROM pg_trigger WHERE tgname = 'note_dropped'")) >= 4


@pytest.mark.parametrize("heal", [sq.MessageBox.tick, retention.purge])
def test_what_was_never_numbered_is_told_and_then_numbered(box, tickets, heal):
    define(box, policy=sq.Fifo(), sequence=None)
    rows(box, "ALTER TABLE {schema}.arrivals DISABLE TRIGGER number_at_commit")
    with box.session() as tx:
        tx.publish([order(1), order(2)])
    found = tickets()
    assert (found.state, "number_at_commit of" in found.found) == (State.WRONG, True)
    assert "ENABLE ALWAYS TRIGGER" in found.remedy
    rows(box, "ALTER TABLE {schema}.arrivals ENABLE ALWAYS TRIGGER number_at_commit")
    box.publish(order(3))
    found = tickets()
    assert (found.state, "location 'box': 2 messages, the first of" in found.found) == (State.WRONG, True)
    assert "seriatim box tick" in found.remedy
    assert received(box) == [3]
    heal(box)
    assert received(box) == [1, 2]
    assert tickets().state is State.OK
    assert invariants.broken(box) == []
