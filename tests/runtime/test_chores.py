"""What a worker does beside its turns."""

from __future__ import annotations

import logging

import seriatim as sq
from seriatim.runtime import chores
from tests.box.shop import define, rows


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
