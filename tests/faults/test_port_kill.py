"""Messages that their sender has numbered, through each port in and out, while port, broker and PostgreSQL are killed and frozen."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import seriatim as sq
from seriatim.box.server.embedded import EmbeddedServer
from seriatim.operations import invariants
from seriatim.operations.ports import ports
from seriatim.operations.queues import not_done
from tests.faults.port_sides import FROZEN_S, Process, side
from tests.soak import seed, sized

MESSAGES, GROUPS = sized(10_000, 1_000, 300), sized(300, 50, 20)
#: How often something is harmed.
HARMS = sized(15, 5)
DEADLINE_S = 600.0
KINDS = ("mllp", "rabbitmq", "kafka")


@contextmanager
def serving(folder):
    """A box whose PostgreSQL may be killed."""
    server = EmbeddedServer(folder / "server")
    try:
        with sq.MessageBox.open(server.dsn) as box:
            box.define(
                sq.MessageType("order", properties={"customer": "string", "n": "long"}),
                sq.Queue("numbered", sq.Standard(), group="customer", sequence="n"),
                sq.Queue("arrived", sq.Fifo(), group="customer"),
                sq.Subscription("numbered", where="source_port = 'in'", to="numbered"),
                sq.Subscription("arrived", where="source_port = 'in'", to="arrived"),
            )
            yield box, folder / "server" / "data" / "postmaster.pid"
    finally:
        server.close()


def rows():
    """The messages: round after round one of each group, in order."""
    found = [(f"c{place % GROUPS}", place // GROUPS + 1, place) for place in range(MESSAGES)]
    assert len(set(found)) == MESSAGES
    return found


def counted(box):
    with suppress(sq.Unavailable, sq.EnvironmentProblem):
        return sum(one.taken for one in ports(box))
    return -1


def signal_server(note, number):
    """Send a signal to the first process of PostgreSQL, and to those that it has started."""
    with suppress(FileNotFoundError, ProcessLookupError, IndexError):
        first = int(note.read_text().splitlines()[0])
        started = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        for one in (first, *map(int, started)):
            os.kill(one, number)


def harm(done, chance, processes, other, note):
    """Kill a process, freeze one for longer than its lease, kill PostgreSQL, freeze it, or harm the other side."""
    one = chance.choice(processes)
    match done % 5:
        case 0:
            one.end(signal.SIGKILL)
            one.start()
        case 1:
            one.signal(signal.SIGSTOP)
            time.sleep(FROZEN_S)
            one.signal(signal.SIGCONT)
        case 2:
            signal_server(note, signal.SIGKILL)
        case 3:
            signal_server(note, signal.SIGSTOP)
            time.sleep(FROZEN_S)
            signal_server(note, signal.SIGCONT)
        case _:
            other.harm(chance)


def read(box, queue):
    """All messages of a queue as group and number, in order."""
    deadline, found = time.monotonic() + DEADLINE_S, []
    while time.monotonic() < deadline:
        with suppress(sq.Unavailable), box.session() as tx:
            delivery = tx.receive(queue, limit=1000)
            if delivery is None:
                return found
            part = [(message.context["customer"], message.context["n"]) for message in delivery]
        found += part
    raise AssertionError("it takes too long")


@pytest.mark.proves("what is killed or frozen between a source and the box loses no message, and takes none in twice")
@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_messages_come_in_once_and_in_order_whatever_is_killed(kind, tmp_path, figures):
    chance = random.Random(seed())
    with side(kind, tmp_path) as other, serving(tmp_path) as (box, note):
        words = ("receive", "--port", other.receive_text, "--lease", "2s", "--dsn", box.dsn)
        processes = [Process(words, tmp_path / f"port{nth}.log") for nth in range(2)]
        sent = rows()
        if not other.keeps_order:  # the sender has numbered them, and may be out of order itself
            for first in range(0, MESSAGES - GROUPS, 2 * GROUPS):
                part = sent[first : first + 2 * GROUPS]
                chance.shuffle(part)
                sent[first : first + 2 * GROUPS] = part
        part = -(-MESSAGES // HARMS)
        try:
            for done in range(HARMS):
                sender = threading.Thread(target=other.send, args=[sent[done * part : (done + 1) * part]], daemon=True)
                sender.start()
                until(lambda done=done: counted(box) > done * part * 0.9, tmp_path)
                harm(done, chance, processes, other, note)
                sender.join(DEADLINE_S)
                assert not sender.is_alive()
            until(lambda: counted(box) >= MESSAGES and other.is_drained(), tmp_path)
        finally:
            for one in processes:
                one.end(signal.SIGTERM)
        assert counted(box) == MESSAGES
        expected = Counter((group, number) for group, number, _ in sent)
        by_number, by_arrival = read(box, "numbered"), read(box, "arrived")
        assert Counter(by_number) == Counter(by_arrival) == expected
        assert_in_order(by_number)
        if other.keeps_order:
            assert_in_order(by_arrival)
        assert invariants.broken(box) == []
        figures(f"{MESSAGES:,} messages of {GROUPS} groups in through {kind}, {HARMS} harms")


@pytest.mark.proves(
    "what is killed or frozen between the box and a receiver loses no message, and no group's order but by repeats"
)
@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_messages_go_out_at_least_once_and_in_order_whatever_is_killed(kind, tmp_path, figures):
    chance = random.Random(seed())
    with side(kind, tmp_path) as other, serving(tmp_path) as (box, note):
        box.define(sq.Queue("out", sq.Fifo(), group="customer", retry=sq.Retry(attempts=1000, delay=0.1, ceiling=1.0)))
        for first in range(0, MESSAGES, 100):
            box.publish([
                sq.Message(type="order", body=other.body(group, number, place), context={"customer": group, "n": number, "to": "out"})
                for group, number, place in rows()[first : first + 100]
            ])  # fmt: skip
        words = ("work", "out", "--port", other.send_text, "--workers", "4", "--turn-limit", "10s", "--dsn", box.dsn)
        processes = [Process(words, tmp_path / "work.log")]
        try:
            done, deadline = 0, time.monotonic() + DEADLINE_S
            while (left := waiting(box)) != 0:
                assert time.monotonic() < deadline, (tmp_path / "work.log").read_text()[-3000:]
                if done < HARMS and 0 <= left <= MESSAGES * (1 - (done + 0.5) / (HARMS + 1)):
                    harm(done, chance, processes, other, note)
                    done += 1
                time.sleep(0.05)
        finally:
            for one in processes:
                one.end(signal.SIGTERM)
        got = other.received()
        assert {(group, number) for group, number, _ in rows()} == set(got)
        assert_in_order(list(dict.fromkeys(got)))
        assert invariants.broken(box) == []
        figures(
            f"{MESSAGES:,} messages of {GROUPS} groups out through {kind}, {len(got) - MESSAGES:,} again, {done} harms"
        )


def until(condition, folder):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, (folder / "port0.log").read_text()[-3000:]
        time.sleep(0.02)


def waiting(box):
    """How many messages aren't done; -1: nobody knows."""
    with suppress(sq.Unavailable, sq.EnvironmentProblem):
        return sum(one.messages for one in not_done(box, "out"))
    return -1


def assert_in_order(found):
    """Each group's numbers ascend, without a gap."""
    nexts: dict[str, int] = {}
    for group, number in found:
        assert number == nexts.get(group, 0) + 1, f"group {group} has {number} after {nexts.get(group, 0)}"
        nexts[group] = number
