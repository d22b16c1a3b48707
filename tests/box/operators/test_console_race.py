"""Operators mend while receivers work, fail and go on: each message is handled once, and each group in its order."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

import seriatim as sq
from seriatim.box.faults.faults import fail
from seriatim.operations import dead_letters, groups, invariants
from tests.box.console import BUSINESS, BY, define, publish, rows

_GROUPS, _MESSAGES, _RECEIVERS = 12, 25, 4
_PATIENCE_S = 120


@pytest.mark.dear
@pytest.mark.parametrize("policy", [sq.Standard(), sq.Fifo()], ids=["standard", "fifo"])
def test_mending_while_others_receive(box, policy):
    define(box, policy)
    with box.session() as tx:
        tx.connection.execute(
            f"CREATE TABLE {box.schema}.handled (id bigserial, g text, n bigint, ordinal bigint, late boolean)"
        )
    numbers = [(group, one) for one in range(1, _MESSAGES + 1) for group in range(_GROUPS)]
    random.Random(7).shuffle(numbers)
    over = threading.Event()
    with ThreadPoolExecutor(_RECEIVERS + 2) as pool:
        working = [pool.submit(_receive, box, over, seed) for seed in range(_RECEIVERS)]
        working.append(pool.submit(_operate, box, over))
        for group, one in numbers:
            publish(box, one, group=f"g{group}")
        settled = pool.submit(_settled, box, over)
        try:
            settled.result(_PATIENCE_S)
        finally:
            over.set()
        for one in working:
            one.result(_PATIENCE_S)
    handled = rows(box, "SELECT g, n, ordinal, late FROM {schema}.handled ORDER BY id")
    dead = dead_letters.dead_letters(box, limit=10_000)
    assert len(handled) + len(dead) == len(numbers)
    assert len({(group, number) for group, number, *_ in handled}) == len(handled), "once each"
    for group in {row[0] for row in handled}:
        mine = [row for row in handled if row[0] == group]
        ordinals = [row[2] for row in mine]
        assert ordinals == sorted(set(ordinals)), "in the order of their ordinals"
        if isinstance(policy, sq.Standard):
            on_time = [row[1] for row in mine if not row[3]]
            assert on_time == sorted(on_time), "and in that of their producer, but for what came late"
    log = rows(box, "SELECT action, count(*) FROM {schema}.operator_log GROUP BY action")
    assert {"retry", "skip_message", "suspend", "resume", "requeue"} <= {action for action, _ in log}
    assert invariants.broken(box) == []


def _receive(box, over, seed):
    chance = random.Random(seed)
    while not over.is_set():
        try:
            with box.session() as tx:
                delivery = tx.receive("shop", limit=3, wait=0.05)
                if delivery is None:
                    continue
                for done, message in enumerate(delivery.messages):
                    if chance.random() < 0.15:
                        fail(tx.transaction, delivery, done, 1, BUSINESS)
                        break
                    tx.connection.execute(
                        f"INSERT INTO {box.schema}.handled (g, n, ordinal, late) VALUES (%s, %s, %s, %s)",
                        [delivery.group, message.context["version"], message.ordinal, message.late],
                    )
                else:
                    delivery.done()
        except sq.Unavailable:
            continue


def _operate(box, over):
    chance = random.Random(99)
    while not over.is_set():
        for view in groups.groups(box, "shop", state=["faulted", "suspended", "ready"]):
            action = {
                "faulted": chance.choice([groups.retry, groups.retry, groups.skip_message]),
                "suspended": groups.resume,
                "ready": chance.choice([groups.suspend, None, None]),
            }[view.state]
            if action is not None:
                _tried(lambda action=action, view=view: action(box, view.queue, view.group, **BY))
        for letter in dead_letters.dead_letters(box):
            if chance.random() < 0.7:
                _tried(lambda letter=letter: dead_letters.requeue(box, letter.entry_id, **BY))


def _tried(act):
    """What others have changed meanwhile is refused, and that is all that may happen."""
    try:
        act()
    except (sq.ActionRefused, sq.Unavailable):
        return


def _settled(box, over):
    """Waits until nothing is left to be handled: operators go on until then."""
    with psycopg.connect(box.dsn, autocommit=True) as connection:
        while not over.is_set():
            (left,) = connection.execute(
                f"SELECT (SELECT count(*) FROM {box.schema}.entries) + (SELECT count(*) FROM {box.schema}.aside)"
            ).fetchone()
            if not left:
                return
