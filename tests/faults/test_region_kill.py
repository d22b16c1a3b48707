"""Two regions and their journal on three servers, with senders and workers: each is killed, frozen and cut off in turn.

The checker reads what the handlers wrote down in the transactions of their completions: each session in order, each message once, all of them.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import psycopg
import pytest

import seriatim as sq
from seriatim.box.server.embedded import EmbeddedServer
from tests.faults.crew import NO_SERVER
from tests.faults.process import children
from tests.faults.region_parts import DEFINITIONS, NAME, handled, make_log
from tests.faults.wire import Wire
from tests.soak import full, seed, sized

SENDERS = 2
#: Each session gets so many numbers at least; more as long as the faults last.
SESSIONS, NUMBERS = sized(1_000, 12), sized(20, 5)
ROUNDS = sized(4, 1)
#: For so long a part is frozen or cut off: longer than a lease, which has 2 s.
AWAY_S = sized(5.0, 2.5)
DEADLINE_S = sized(1_800.0, 900.0)
ROOT = Path(__file__).parents[2]


class Server:
    """A server, and the wire to it."""

    def __init__(self, name: str, folder: Path, stack: ExitStack, chance: random.Random) -> None:
        self.name, self.data = name, folder / name / "data"
        self._server = EmbeddedServer(folder / name)
        stack.callback(self._server.close)
        self.direct = self._server.dsn
        self.wire = Wire(self.direct, chance, every=float("inf"))
        stack.callback(self.wire.close)
        self.dsn = self.wire.dsn(str(psycopg.conninfo.conninfo_to_dict(self.direct)["user"]))

    @property
    def _pid(self) -> int:
        return int((self.data / "postmaster.pid").read_text().splitlines()[0])

    def kill(self) -> None:
        """End it the hard way; it is started again."""
        with suppress(FileNotFoundError, ProcessLookupError, IndexError):
            os.kill(self._pid, signal.SIGKILL)

    def freeze(self) -> None:
        """Let it stand still for a while."""
        with suppress(FileNotFoundError, ProcessLookupError, IndexError):
            pids = [self._pid, *children(self._pid)]
            _signalled(pids, signal.SIGSTOP)
            time.sleep(AWAY_S)
            _signalled(pids, signal.SIGCONT)

    def cut(self) -> None:
        """Swallow all that is sent to it for a while, then cut its connections."""
        self.wire.is_hole = True
        time.sleep(AWAY_S)
        self.wire.is_hole = False
        self.wire.cut()


def _signalled(pids: list[int], what: signal.Signals) -> None:
    for one in pids:
        with suppress(ProcessLookupError):
            os.kill(one, what)


class Part:
    """A process; it is started again if it found no server."""

    def __init__(self, log: Path, *words: str) -> None:
        self._log, self._words = log, words
        self.said = ""
        self.ended = False
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.region_parts", *self._words], cwd=ROOT, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=errors,
            )  # fmt: skip

    def look(self) -> None:
        """Fail if it has ended by itself otherwise than it may."""
        code = self.process.poll()
        if code is None or self.ended:
            return
        if code == NO_SERVER:
            self._closed()
            self.start()
            return
        assert code == 0, f"{self._words} ended with {code}: {self._log.read_text()[-3_000:]}"
        self.ended = True
        self.said = self._closed()

    def _closed(self) -> str:
        assert self.process.stdout is not None
        with self.process.stdout as said:
            return said.read().decode()

    def kill(self) -> None:
        """Kill it; another one takes its place."""
        self.end()
        self.start()

    def freeze(self) -> None:
        """Let it stand still for longer than its lease."""
        _signalled([self.process.pid], signal.SIGSTOP)
        time.sleep(AWAY_S)
        _signalled([self.process.pid], signal.SIGCONT)

    def end(self) -> None:
        """End it for good."""
        if not self.ended:
            self.process.kill()
            self.process.wait()
            self._closed()


class World:
    """Three servers, senders and workers."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.stack = ExitStack()
        self.servers = [Server(name, folder, self.stack, chance) for name in ("a", "b", "journal")]
        first, second, journal = self.servers
        make_log(journal.direct)
        with sq.Regions(first.direct, second.direct, journal.direct, name=NAME) as regions:
            regions.define(*DEFINITIONS)
        self.file = folder / "regions.yaml"
        self.file.write_text(
            f"name: {NAME}\nprimary: {first.dsn}\nsecondary: {second.dsn}\njournal: {journal.dsn}\n"
            "prefer: 500ms\npatience: 1s\nretry_after: 1s\n"
        )
        self.answered = [folder / f"answered-{at}" for at in range(SENDERS)]
        for one in self.answered:
            one.touch()
        self.workers = [Part(folder / f"worker-{region}", "work", str(self.file), region) for region in "ab"]
        self.senders = [
            Part(
                folder / f"sender-{at}", "send", str(self.file), str(self.answered[at]), f"s{at}-",
                str(SESSIONS // SENDERS), str(NUMBERS),
            )
            for at in range(SENDERS)
        ]  # fmt: skip
        for one in (*self.workers, *self.senders):
            self.stack.callback(one.end)
        self._ends = threading.Event()
        tending = threading.Thread(target=self._tend, daemon=True)
        tending.start()
        self.stack.callback(tending.join, 60)
        self.stack.callback(self._ends.set)

    def _tend(self) -> None:
        """Copy what a region lacks, again and again."""
        with sq.Regions.from_file(self.file) as regions:
            while not self._ends.wait(0.2):
                with suppress(sq.SeriatimError):
                    regions.tend()

    def acts(self) -> list[tuple[str, Callable[[], None]]]:
        """All that can happen."""
        of_servers = [
            (f"{verb} server {one.name}", getattr(one, verb))
            for one in self.servers
            for verb in ("kill", "freeze", "cut")
        ]
        of_workers = [
            (f"{verb} the worker of {region}", partial(getattr(one, verb)))
            for region, one in zip("ab", self.workers, strict=True)
            for verb in ("kill", "freeze")
        ]
        of_senders = [(f"kill sender {at}", one.kill) for at, one in enumerate(self.senders)]
        return [*of_servers, *of_workers, *of_senders]

    def enough(self) -> None:
        """Let the senders end."""
        for one in self.answered:
            one.with_suffix(".enough").touch()

    def sent(self) -> set[str]:
        """The ids of the messages that were answered."""
        return {line for one in self.answered for line in one.read_text().split()}

    def goes_on(self, deadline: float) -> None:
        """Wait until further messages are answered, and handled."""
        journal = self.servers[2].direct
        sent, done = len(self.sent()), len(_handled_or_none(journal))
        while len(self.sent()) <= sent or len(_handled_or_none(journal)) <= done:
            assert time.monotonic() < deadline, _what_is_left(self)
            self.look()
            time.sleep(0.05)

    def look(self) -> None:
        """See to it that nobody has failed."""
        for one in (*self.workers, *self.senders):
            one.look()


@pytest.mark.proves("two regions handle each session once and in order whichever server, worker or sender is away")
@pytest.mark.telling
@pytest.mark.soak
def test_each_message_is_handled_once_and_each_session_in_order_whatever_is_away(tmp_path, figures):
    chance = random.Random(seed())
    begun = time.monotonic()
    world = World(tmp_path, chance)
    with world.stack:
        acts = world.acts() * ROUNDS
        chance.shuffle(acts)
        if not full():  # each server once, a worker of each region, and a sender
            acts = [*{place_of(name): (name, act) for name, act in acts}.values()]
        for _, act in acts:
            world.goes_on(begun + DEADLINE_S)
            act()
            world.look()
        world.enough()
        deadline, journal = time.monotonic() + DEADLINE_S, world.servers[2].direct
        while not all(one.ended for one in world.senders) or len(_handled_or_none(journal)) < len(world.sent()):
            assert time.monotonic() < deadline, _what_is_left(world)
            world.look()
            time.sleep(0.05)
        rows, answered = handled(journal), world.sent()
        by_session: dict[str, list[int]] = defaultdict(list)
        for session, number, _, _ in rows:
            by_session[session].append(number)
        assert len(by_session) == SESSIONS
        assert by_session == {session: list(range(1, len(numbers) + 1)) for session, numbers in by_session.items()}
        assert len(rows) == len(answered) >= SESSIONS * NUMBERS
        assert {message_id for _, _, message_id, _ in rows} == answered
        longest = max(float(one.said.split()[1]) for one in world.senders)
        figures(
            f"{len(rows):,} messages over {len(by_session):,} sessions, {len(acts)} faults, handled by"
            f" {len({worker for *_, worker in rows})} processes; senders waited {longest:.1f} s at most; {time.monotonic() - begun:.0f} s"
        )


def place_of(name: str) -> str:
    """What an act is done to: one act on each will do."""
    return "sender" if "sender" in name else name.partition(" ")[2]


def _handled_or_none(dsn: str) -> list[tuple[str, int, str, int]]:
    with suppress(psycopg.OperationalError):
        return handled(dsn)
    return []


def _what_is_left(world: World) -> str:
    with sq.Regions(*(one.direct for one in world.servers), name=NAME) as regions:
        standing = regions.journal.sessions(name=NAME, limit=10_000)
        done = {one.session: (one.done_through, one.state, one.hole_since) for one in standing}
    left = {key: value for key, value in done.items() if value[1] != "idle" or value[2] is not None}
    logs = [Path(one._log).read_text()[-1_500:] for one in (*world.workers, *world.senders)]
    return f"{len(left)} sessions: {dict(list(left.items())[:10])}\n" + "\n----\n".join(logs)
