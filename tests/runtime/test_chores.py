"""What a worker does beside its turns."""

from __future__ import annotations

import logging

import pytest
from psycopg.conninfo import make_conninfo

import seriatim as sq
from seriatim.box.chore import alone
from seriatim.runtime import chores
from tests.box.shop import define, rows
from tests.runtime.test_worker import until


def test_what_the_role_may_not_do_is_told_once_and_done_when_it_may(box, monkeypatch, caplog):
    monkeypatch.setattr(chores, "_PERIOD_S", 0.0)
    caplog.set_level(logging.INFO, "seriatim.worker")
    define(box)
    name = f"{box.schema}_worker"
    rows(box, f"CREATE ROLE {name} LOGIN")
    box.grant(name, receive=["shop"])
    with sq.MessageBox.open(box.dsn.replace("seriatim@", f"{name}@"), schema=box.schema) as own:
        beside = chores.Chores(own)
        for _ in range(3):
            step(beside)
        assert ["no clean-up" in record.message for record in caplog.records] == [True]
        assert rows(box, "SELECT * FROM {schema}.samples") == []
        rows(box, f"GRANT seriatim TO {name}")
        step(beside)
        assert rows(box, "SELECT * FROM {schema}.samples") != []
    assert len(caplog.records) == 1
    rows(box, f"DROP OWNED BY {name}; DROP ROLE {name}")


def step(beside):
    beside.look()
    beside.end()


@pytest.mark.parametrize(
    ("limits", "options"),
    [({"turn_limit": 0.2}, ""), ({}, "-c idle_in_transaction_session_timeout=1s"), ({}, "-c transaction_timeout=1s")],
)
def test_nobody_else_has_a_chore_however_long_it_takes(box, limits, options):
    dsn = make_conninfo(box.dsn, options=options)
    with sq.MessageBox.open(dsn, schema=box.schema, **limits) as own, alone(own, "clean-up") as mine:
        assert mine
        until(lambda: not begun(box, "clock_timestamp() < state_change + interval '1500 ms'"))
        assert begun(box)
        with alone(box, "clean-up") as another:
            assert not another
    assert not begun(box)


def begun(box, condition="TRUE"):
    """Transactions in which a chore was claimed that are open, and for which a condition holds."""
    query = f"SELECT FROM pg_stat_activity WHERE state = 'idle in transaction' AND query LIKE %s AND {condition}"
    return rows(box, query, f"%{box.schema}%claim_chore%")
