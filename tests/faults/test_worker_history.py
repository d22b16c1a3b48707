"""Workers and PostgreSQL are killed at random, handlers fail at random and an operator mends: then the checker reads what the
handlers wrote down themselves.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

import seriatim as sq
from seriatim.box.server.embedded import EmbeddedServer
from seriatim.operations import faults, groups, invariants, queues
from seriatim.operations import messages as message_operations
from tests.command import command, environment
from tests.faults.checker import assert_good
from tests.faults.failing_handlers import MENDED, is_bad, is_skipped
from tests.faults.history import History, Sent
from tests.faults.receivers import Log
from tests.soak import seed, sized

MESSAGES = sized(50_000, 500)
MOST_GROUPS, BATCH = 500, 50
#: One process dies for so many messages; each third time it is PostgreSQL.
A_KILL = max(80, MESSAGES // 100)
DEADLINE_S = 600.0 + MESSAGES / 10
SET = 10
FOLDER = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A PostgreSQL of our own, to be killed."""
    folder = tmp_path_factory.mktemp("killed") / "server"
    own = EmbeddedServer(folder)
    yield own.dsn, folder
    own.close()


def numbers(policy):
    """The groups and numbers of all messages."""
    each = SET if isinstance(policy, sq.UnitOfWork) else max(20, MESSAGES // MOST_GROUPS)
    return [(f"g{group}", number) for group in range(MESSAGES // each) for number in range(1, each + 1)]


def published(box, chance, policy):
    """Publish all messages, scrambled; what was sent, for the checker."""
    numbered = not isinstance(policy, sq.Fifo)
    pairs, sent = numbers(policy), []
    chance.shuffle(pairs)
    for at in range(0, len(pairs), BATCH):
        messages = [
            sq.Message(type="event", message_id=f"{key}-{n}", body=f"{key} {n}".encode(), context={"key": key, "n": n})
            for key, n in pairs[at : at + BATCH]
        ]
        began = time.monotonic_ns()
        box.publish(messages)
        ended = time.monotonic_ns()
        sent += [
            Sent(one.message_id, one.context["key"], one.context["n"] if numbered else None, f"b{at}", place, began, ended,
                 one.body.decode())
            for place, one in enumerate(messages)
        ]  # fmt: skip
    return sent


def doomed(policy, errors, sent):
    """What becomes a dead letter: nobody is asked for it but the failures themselves."""
    bad = [one for one in sent if is_bad(one.message_id)]
    if isinstance(policy, sq.UnitOfWork):  # whole sets, which can't be edited
        groups_of_bad = {one.group for one in bad}
        return {one.message_id for one in sent if one.group in groups_of_bad}
    return {one.message_id for one in bad if errors == "continue" or is_skipped(one.message_id)}


class Operator(threading.Thread):
    """Mends faulted groups by the command, which is killed now and then; turns the queue on when it has stopped."""

    def __init__(self, box, policy, folder):
        super().__init__(daemon=True)
        self._box = box
        self._sets = isinstance(policy, sq.UnitOfWork)
        self._chance = random.Random(seed())
        self._file = folder / "body"
        self._ending = threading.Event()
        self.mended = self.killed = 0
        self.error = None

    def run(self):
        try:
            self._run()
        except BaseException:
            self.error = traceback.format_exc()
            raise

    def _run(self):
        while not self._ending.wait(0.05):
            with suppress(sq.Unavailable):
                for view in groups.groups(self._box, "events", state="faulted"):
                    self._mend(view.group)
                if not self._box.definitions().queue("events").enabled:
                    queues.turn_on(self._box, "events")

    def end(self):
        self._ending.set()
        self.join()

    def _mend(self, group):
        (fault,) = faults.faults(self._box, "events", group=group, limit=1)
        words = ["group", "skip-message", group]
        if not self._sets and not is_skipped(fault.message_id):
            self._file.write_bytes(f"{group} {fault.message_id.rpartition('-')[2]}".encode() + MENDED)
            words = ["group", "retry", group, "--edit", self._file]
        words += ["--queue", "events", "--actor", "test", "--reason", "test"]
        process = subprocess.Popen(
            command(*words, "--dsn", self._box.dsn, "--schema", self._box.schema), cwd=FOLDER, env=environment(),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        if self._chance.random() < 0.3:
            with suppress(subprocess.TimeoutExpired):
                process.wait(self._chance.uniform(0.2, 1.0))
            process.kill()
            self.killed += 1
        self.mended += process.wait() == 0


def kill(process, folder, chance, *, server):
    """One of the workers' processes, or the server; it may have ended by itself, and be started just now."""
    with suppress(ProcessLookupError, FileNotFoundError, ValueError, IndexError):
        if server:
            (file,) = folder.rglob("postmaster.pid")
            os.kill(int(file.read_text().split()[0]), signal.SIGKILL)
        else:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            os.kill(int(chance.choice(children)), signal.SIGKILL)
        return 1
    return 0


def written(box, log):
    """How many rows the handlers have committed; None while the server isn't there."""
    try:
        with psycopg.connect(box.dsn, autocommit=True) as connection:
            return log.written(connection)
    except psycopg.OperationalError:
        return None


@pytest.mark.proves("a checker finds in the history of faults, ends and mends no message lost, doubled or out of order")
@pytest.mark.soak
@pytest.mark.parametrize(
    ("policy", "errors"),
    [
        (sq.Standard(), "suspend"), (sq.Fifo(), "stop"), (sq.BestEffort(), "continue"),
        (sq.UnitOfWork(size=SET), "suspend"),
    ],
    ids=lambda one: one if isinstance(one, str) else one.name,
)  # fmt: skip
def test_killed_at_random(server, tmp_path, figures, policy, errors):
    dsn, folder = server
    chance = random.Random(seed())
    with sq.MessageBox.open(dsn, schema=f"history_{policy.name}") as box:
        box.define(
            sq.MessageType("event", properties={"key": "string", "n": "long"}),
            # Whoever is killed loses an attempt of all that its threads have in hand.
            sq.Queue(
                "events",
                policy=policy,
                group="key",
                sequence=None if isinstance(policy, sq.Fifo) else "n",
                errors=errors,
                retry=sq.Retry(1000, delay=0.02, ceiling=0.2),
            ),
            sq.Subscription("all", where="type = 'event'", to="events"),
        )
        log = Log(box.schema)
        with psycopg.connect(dsn) as connection:
            log.make(connection)
        sent = published(box, chance, policy)
        dead = doomed(policy, errors, sent)
        assert dead
        operator = Operator(box, policy, tmp_path)
        words = command(
            "work", "events", "--handler", "tests.faults.failing_handlers:handle", "--processes", "2", "--workers", "3",
            "--run-length", "10", "--dsn", dsn, "--schema", box.schema,
        )  # fmt: skip
        with (tmp_path / "errors").open("wb") as told:
            process = subprocess.Popen(words, cwd=FOLDER, env=environment(), stdout=told, stderr=told)
        operator.start()
        kills, done, expected, begun = [0, 0], 0, len(sent) - len(dead), time.monotonic()
        try:
            while done < expected:
                if (now := written(box, log)) is not None:
                    done = now
                if sum(kills) < done // A_KILL and done < expected:
                    hits_server = sum(kills) % 3 == 2
                    kills[hits_server] += kill(process, folder, chance, server=hits_server)
                assert process.poll() is None, (tmp_path / "errors").read_text()[-2000:]
                assert operator.is_alive(), operator.error
                assert time.monotonic() - begun < DEADLINE_S, f"{done} of {expected}"
                time.sleep(0.01)
            while set(dead_letters(box)) != dead:  # whose groups may be faulted still
                assert time.monotonic() - begun < DEADLINE_S
                time.sleep(0.05)
        finally:
            operator.end()
            process.terminate()
            process.wait(90)
        with psycopg.connect(dsn) as connection:
            handled = log.read(connection)
        kept = message_operations.messages(box, queue="events")  # those that failed before they were done, too
        set_aside = {one.message_id: one.status for one in kept if one.status != "done"}
        assert set(set_aside) == dead
        found = assert_good(History(policy, sent, handled, set_aside, frozenset({"dead"})))
        assert found.handled == expected
        assert invariants.broken(box) == []
    figures(
        f"{len(sent):,} messages, {kills[0]} workers and {kills[1]} servers killed, {operator.mended} groups mended, "
        f"{operator.killed} commands killed, {time.monotonic() - begun:.0f} s"
    )
    assert kills[0] >= 2
    assert kills[1] >= 1
    # A command that was killed may have mended its group before.
    assert operator.mended or operator.killed or errors == "continue"


def dead_letters(box):
    with suppress(sq.Unavailable):
        return [one.message_id for one in message_operations.messages(box, queue="events", status="dead")]
    return []
