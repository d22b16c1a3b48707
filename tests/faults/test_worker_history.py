"""Workers are killed at random while handlers fail at random: what the handlers wrote down themselves goes through the checker."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

import seriatim as sq
from tests.command import command, environment
from tests.faults.checker import assert_good
from tests.faults.failing_handlers import fails
from tests.faults.history import History, Sent
from tests.faults.receivers import Log

SEED = 20240501
GROUPS, EACH, BATCH = 40, 30, 50
KILLS = 6
DEADLINE_S = 600.0


def published(box, chance, *, numbered):
    """Publish all messages, scrambled; what was sent, for the checker."""
    numbers = [(f"g{group}", number) for group in range(GROUPS) for number in range(1, EACH + 1)]
    chance.shuffle(numbers)
    sent = []
    for at in range(0, len(numbers), BATCH):
        began = time.monotonic_ns()
        messages = [
            sq.Message(type="event", message_id=f"{key}-{n}", body=f"{key} {n}".encode(), context={"key": key, "n": n})
            for key, n in numbers[at : at + BATCH]
        ]
        with box.session() as tx:
            tx.publish(messages)
        ended = time.monotonic_ns()
        sent += [
            Sent(one.message_id, one.context["key"], one.context["n"] if numbered else None, f"b{at}", place, began, ended,
                 one.body.decode())
            for place, one in enumerate(messages)
        ]  # fmt: skip
    return sent


def children_of(pid):
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("policy", [sq.Standard(), sq.Fifo()], ids=lambda policy: policy.name)
def test_killed_at_random(box, tmp_path, policy):
    numbered = isinstance(policy, sq.Standard)
    box.define(
        sq.MessageType("event", properties={"key": "string", "n": "long"}),
        # Whoever is killed loses an attempt of all that its threads have in hand.
        sq.Queue("events", policy=policy, group="key", sequence="n" if numbered else None, errors="continue",
                 retry_delay=0.02, attempts=100),
        sq.Subscription("all", where="type = 'event'", to="events"),
    )  # fmt: skip
    chance, log = random.Random(SEED), Log(box.schema)
    with psycopg.connect(box.dsn) as connection:
        log.make(connection)
    sent = published(box, chance, numbered=numbered)
    dead = {one.message_id for one in sent if fails(one.message_id, 1) is sq.Business}
    assert len(dead) > 3
    words = command(
        "work", "events", "--handler", "tests.faults.failing_handlers:handle", "--processes", "2", "--workers", "3",
        "--run-length", "10", "--dsn", box.dsn, "--schema", box.schema,
    )  # fmt: skip
    with (tmp_path / "errors").open("wb") as errors:
        process = subprocess.Popen(
            words, cwd=Path(__file__).parents[2], env=environment(), stdout=errors, stderr=errors
        )
    killed, expected = 0, len(sent) - len(dead)
    begun = time.monotonic()
    with psycopg.connect(box.dsn, autocommit=True) as connection:
        try:
            while (written := log.written(connection)) < expected:
                assert time.monotonic() - begun < DEADLINE_S, f"{written} of {expected}"
                assert process.poll() is None
                if (
                    killed < KILLS
                    and written > expected * (killed + 1) / (KILLS + 2)
                    and (all_ := children_of(process.pid))
                ):
                    with suppress(ProcessLookupError):
                        os.kill(chance.choice(all_), signal.SIGKILL)
                    killed += 1
                time.sleep(0.02)
        finally:
            process.terminate()
            process.wait(60)
        assert killed == KILLS
        set_aside = {one.message_id: one.status for one in box.messages(queue="events")}
        handled = log.read(connection)
    assert set(set_aside) == dead
    found = assert_good(History(policy, sent, handled, set_aside, frozenset({"dead"})))
    assert found.handled == expected
    assert box.broken() == []
