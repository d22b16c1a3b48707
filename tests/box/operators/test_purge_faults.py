"""Faults are kept for some time: the clean-up takes those that are older, but never the last word on a message that is there."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.box.faults.faults import Fault, fail
from seriatim.box.operators import purge
from seriatim.cli.main import main
from seriatim.kernel.operators.fault import FaultKind
from seriatim.operations import retention
from seriatim.operations.faults import faults, kept_faults
from tests.box.shop import define, publish, rows

TRANSIENT = Fault(FaultKind.TRANSIENT, "TimeoutError", "later", "w1")


def purge_in(box, days, **how):
    (row,) = rows(box, "SELECT now() AS now")
    return purge.run(box._access, now=row.now + timedelta(days=days), **how)


def failing(box, group, times=1):
    for _ in range(times):
        with box.session() as tx:
            fail(tx.transaction, tx.receive("shop", group=group), 0, 1, TRANSIENT)


def left(box):
    return sorted((one.group, one.attempt) for one in faults(box))


@pytest.fixture
def shop(box):
    """Messages that failed: one is done, one is history, one is a dead letter, one is in the queue."""
    define(box, retry=sq.Retry(3, delay=0), errors="continue", keep=sq.Keep("faults", done_for="60d"))
    for group in ("history", "dead", "queued"):
        publish(box, 1, customer=group)
    failing(box, "history", 2)
    failing(box, "dead", 3)
    failing(box, "queued", 2)
    with box.session() as tx:
        assert len(list(tx.receive("shop", group="history"))) == 1
    return box


ALL = [("dead", 1), ("dead", 2), ("dead", 3), ("history", 1), ("history", 2), ("queued", 1), ("queued", 2)]


def test_they_stay_for_thirty_days(shop):
    assert left(shop) == ALL
    assert purge_in(shop, 29).faults == 0
    assert left(shop) == ALL


def test_the_newest_of_a_message_stays_with_it(shop):
    assert purge_in(shop, 31).faults == 4
    assert left(shop) == [("dead", 3), ("history", 2), ("queued", 2)]


def test_they_go_with_their_messages(shop):
    done = purge_in(shop, 61)
    assert done.history == 1
    assert left(shop) == [("dead", 3), ("queued", 2)]
    with shop.session() as tx:
        assert len(list(tx.receive("shop", group="queued"))) == 1
    with shop.session() as tx:
        tx.connection.execute(f"DELETE FROM {shop.schema}.aside")
    purge_in(shop, 150)
    assert left(shop) == []


def test_the_period_is_the_box_s(shop):
    retention.keep_faults(shop, "50d")
    assert purge_in(shop, 49).faults == 0
    retention.keep_faults(shop, 0)
    assert purge.purgeable(shop._access).faults == 7
    assert retention.purge(shop).faults == 4
    for wrong in (-1, None, "soon"):
        with pytest.raises(sq.UsageError):
            retention.keep_faults(shop, wrong)


def test_it_goes_on_in_the_next_batch(shop, monkeypatch):
    monkeypatch.setattr(purge, "_BATCH", 2)
    assert purge_in(shop, 31).faults == 4


def test_the_counts_are_shown(shop, tmp_path, monkeypatch):
    kept = kept_faults(shop)
    assert (kept.faults, kept.kept_for) == (7, timedelta(days=30))
    assert kept.since == min(one.at for one in faults(shop))

    def called(*words):
        return json.loads(CliRunner().invoke(main, [*words, "--dsn", shop.dsn, "--schema", shop.schema]).stdout)

    assert called("box", "purge", "--dry-run", "--json")["faults"] == 0
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # Spark isn't started then
    (found,) = [one for one in called("doctor", "--json")["findings"] if one["name"] == "faults"]
    assert found["state"] == "ok"
    assert found["found"].startswith("7 kept, the oldest of ")
    assert found["found"].endswith("the clean-up keeps faults for 30 days")
