"""What a worker does beside its turns."""

from __future__ import annotations

import itertools
import logging
from contextlib import contextmanager
from dataclasses import replace

import pytest

import seriatim as sq
from seriatim.box.connection.chore import ChoreTaken, alone
from seriatim.box.tick import tick
from seriatim.operations.grants import grant
from seriatim.runtime.workers import chores
from tests.box.shop import define, rows


def test_what_the_role_may_not_do_is_told_once_and_done_when_it_may(box, monkeypatch, caplog):
    monkeypatch.setattr(chores, "_PERIOD_S", 0.0)
    caplog.set_level(logging.INFO, "seriatim.worker")
    define(box)
    name = f"{box.schema}_worker"
    rows(box, f"CREATE ROLE {name} LOGIN")
    grant(box, name, receive=["shop"])
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


def test_nobody_else_does_any_of_a_chore_while_somebody_does(box):
    first, second = (alone(box.access, "clean-up") for _ in range(2))
    with first.transaction():
        with pytest.raises(ChoreTaken), second.transaction():
            pass
        with alone(box.access, "another").transaction():
            pass
    with second.transaction():
        pass


def test_who_finds_a_chore_taken_leaves_it(box, caplog):
    beside = chores.Chores(box)
    with alone(box.access, "clean-up").transaction():
        beside._step()
    assert rows(box, "SELECT FROM {schema}.samples") == []
    beside._step()
    assert rows(box, "SELECT FROM {schema}.samples") != []
    assert caplog.records == []


def test_a_tick_that_loses_its_chore_midway_ends_and_tells_of_no_fault(box, caplog):
    define(box)
    ended = 0
    for kept in itertools.count():
        left = iter(range(kept))

        @contextmanager
        def connect(left=left):
            if next(left, None) is None:
                raise ChoreTaken  # another process has claimed it since the last transaction
            with box.access.transaction() as transaction:
                yield transaction.connection

        try:
            found = tick(replace(box.access, connect=connect))
        except ChoreTaken:
            ended += 1
        else:
            break
    assert found.failed == ()
    assert ended >= 5
    assert caplog.records == []
