"""Sessions: one transaction, the box's or the caller's."""

from __future__ import annotations

import subprocess
import sys

import psycopg
import pytest
from psycopg.rows import dict_row

import seriatim as sq
from seriatim import rested
from tests.box.given_up import given_up


def count(box):
    with box.session() as tx:
        return tx.connection.execute(f"SELECT count(*) FROM {box.schema}.messages").fetchone()[0]


def test_it_never_ends_the_callers_transaction(box):
    with psycopg.connect(box.dsn) as connection:
        with box.session(connection) as tx:
            tx.publish([sq.Message(type="order")])
            assert tx.connection is connection
        assert connection.info.transaction_status.name == "INTRANS"
        assert count(box) == 0
        with given_up(box.session(connection)) as tx:
            tx.publish([sq.Message(type="order")])
        assert connection.info.transaction_status.name == "INTRANS"
        connection.commit()
        assert count(box) == 2
        with box.session(connection) as tx:
            tx.publish([sq.Message(type="order")])
        connection.rollback()
    assert count(box) == 2


def test_a_callers_connection_with_settings_of_its_own(box):
    with psycopg.connect(box.dsn, autocommit=True, row_factory=dict_row, prepare_threshold=None) as connection:
        with connection.transaction(), box.session(connection) as tx:
            assert tx.dispense("crm").first == 1
            tx.publish([sq.Message(type="order")])
        assert connection.execute(f"SELECT number FROM {box.schema}.messages").fetchall() == [{"number": 1}]


def test_a_connection_that_it_cannot_join(box):
    commits = psycopg.connect(box.dsn, autocommit=True)
    with commits as connection, pytest.raises(sq.UsageError, match=r"transaction\(\)"), box.session(connection):
        pytest.fail("entered")
    with pytest.raises(sq.UsageError, match="closed"), box.session(connection):
        pytest.fail("entered")
    with psycopg.connect(box.dsn) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            connection.execute("SELECT 1 / 0")
        with pytest.raises(sq.UsageError, match="failed"), box.session(connection):
            pytest.fail("entered")
    with pytest.raises(sq.UsageError, match="driver_connection"), box.session(object()):
        pytest.fail("entered")


def test_after_a_failed_statement_nothing_is_committed(box):
    with given_up(box.session()) as tx:
        tx.publish([sq.Message(type="order")])
        with pytest.raises(psycopg.errors.DivisionByZero):
            tx.connection.execute("SELECT 1 / 0")
        with pytest.raises(sq.UsageError, match="roll back"):
            tx.publish([sq.Message(type="order")])
    assert count(box) == 0


def test_what_ended_is_refused(box):
    with box.session() as tx:
        pass
    with pytest.raises(sq.UsageError, match="session has ended"):
        tx.dispense("crm")
    box.close()
    box.close()
    with pytest.raises(sq.UsageError, match="closed"), box.session():
        pytest.fail("entered")


def test_a_refusal_at_commit_is_told(box):
    with box.session() as tx:
        tx.connection.execute(f"CREATE TABLE {box.schema}.parents (id int PRIMARY KEY)")
        tx.connection.execute(
            f"CREATE TABLE {box.schema}.children (parent int REFERENCES {box.schema}.parents DEFERRABLE "
            "INITIALLY DEFERRED)"
        )
    with pytest.raises(sq.UsageError, match="foreign key"), box.session() as tx:
        tx.connection.execute(f"INSERT INTO {box.schema}.children VALUES (1)")


def test_a_connection_that_was_cut_is_not_given_out_again(box, monkeypatch):
    monkeypatch.setattr(rested, "RESTED_S", 3600.0)  # one that has rested would be asked first
    with box.session() as tx:
        victim = tx.connection.info.backend_pid
    with psycopg.connect(box.dsn, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s, 10000)", [victim])
    with pytest.raises(sq.Unavailable), box.session() as tx:
        tx.publish([sq.Message(type="order")])
    with box.session() as tx:
        tx.publish([sq.Message(type="order")])
    assert count(box) == 1


def test_several_boxes_live_in_one_database(box):
    with sq.MessageBox.open(box.dsn, schema=f"{box.schema}_too") as other:
        with psycopg.connect(box.dsn) as both, box.session(both) as one, other.session(both) as two:
            one.publish([sq.Message(type="order", message_id="1")])
            two.publish([sq.Message(type="order", message_id="1")])
            assert one.dispense("crm").first == two.dispense("crm").first == 1
        assert (count(box), count(other)) == (1, 1)


def test_the_driver_is_imported_when_it_is_needed():
    code = "import sys, seriatim; assert 'psycopg' not in sys.modules; seriatim.MessageBox; assert 'psycopg' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="Nothing"):
        _ = sq.Nothing
    assert all(hasattr(sq, name) for name in sq.__all__)
