"""Order through parallel work while workers, publishers and PostgreSQL are killed, handlers fail for good and a script mends.

What leaves the two gates, and what the box has on record of the rest, is compared with what was published.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter, defaultdict
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

import seriatim as sq
from seriatim.box.server.embedded import EmbeddedServer
from seriatim.operations import events, faults, groups, invariants, set_aside
from seriatim.operations import messages as message_operations
from tests.command import command, environment
from tests.faults.crew import NO_SERVER, Crew
from tests.faults.failing_handlers import MENDED
from tests.faults.gate_handlers import LOCATIONS, WAYS, cure, fails_at, is_dead, results
from tests.soak import seed, sized

JOBS = sized(20_000, 1_500) // len(LOCATIONS)
ENTITIES = sized(75, 15)  # of each location
KILLS = sized(60, 8)
#: After so many workers PostgreSQL, too.
A_SERVER = sized(10, 4)
DEADLINE_S = 900.0 + JOBS / 5
FOLDER = Path(__file__).parents[2]
BY = {"actor": "test", "reason": "test"}
#: Whoever is killed loses an attempt of all that its threads have in hand.
PATIENT = {"retry": sq.Retry(attempts=1000, delay=0.02, ceiling=0.2)}
OWN = {"number": "long", "way": "string", "entity": "string", "place": "string", "piece": "string"}
CREWS = (("work_l", "work_e"), ("price_l", "price_e"), ("out_l", "out_e"))
OUT = {"policy": sq.Standard(), "group": "origin_group", "sequence": "origin_ordinal", **PATIENT}
DEFINITIONS = (
    sq.MessageType("job", {"number": "long", "entity": "string"}),
    *(sq.MessageType(f"{kind}_{way}", OWN) for kind in ("price", "result") for way in WAYS),
    sq.Queue(
        "work_l",
        sq.Unordered(),
        group="location",
        gate=sq.Gate("out_l", through=["price_l"], open_at_most=300),
        **PATIENT,
    ),
    sq.Queue("price_l", sq.Fifo(), group="entity", **PATIENT),
    sq.Queue("out_l", **OUT),
    sq.Queue(
        "work_e", sq.Fifo(), group="entity", gate=sq.Gate("out_e", through=["price_e"], open_at_most=20), **PATIENT
    ),
    sq.Queue("price_e", sq.Unordered(), errors="continue", **PATIENT),
    sq.Queue("out_e", **OUT),
    sq.Queue("audit", sq.Unordered()),
    *(sq.Subscription(f"work_{way}", where="type = 'job'", to=f"work_{way}") for way in WAYS),
    *(
        sq.Subscription(f"{kind}_{way}", where=f"type = '{type_}_{way}'", to=f"{kind}_{way}")
        for kind, type_ in (("price", "price"), ("out", "result"))
        for way in WAYS
    ),
    sq.Subscription("audit", where="origin_queue IN ('work_l', 'work_e')", to="audit"),
)


@pytest.fixture
def server(tmp_path):
    """A PostgreSQL of our own, to be killed."""
    own = EmbeddedServer(tmp_path / "server")
    yield own.dsn, tmp_path / "server"
    own.close()


class Script(threading.Thread):
    """Mends what has failed for good, or skips it, or skips the hole at the gate that waits for it."""

    def __init__(self, box):
        super().__init__(daemon=True)
        self._box = box
        self._ending = threading.Event()
        self.done = Counter()
        self.error = None

    def run(self):
        try:
            while not self._ending.wait(0.1):
                for queue, way in (("price_l", "l"), ("work_e", "e")):
                    with suppress(sq.Unavailable, sq.EnvironmentProblem):
                        for view in groups.groups(self._box, queue, state="faulted"):
                            (fault,) = faults.faults(self._box, queue, group=view.group, limit=1)
                            with suppress(sq.ActionRefused):
                                self._help(queue, way, view.group, fault.message_id)
                with suppress(sq.Unavailable, sq.EnvironmentProblem):
                    for one in message_operations.messages(self._box, queue="work_l", status="faulted"):
                        with suppress(sq.ActionRefused):
                            self._help("work_l", "l", None, one.message_id)
        except BaseException:
            self.error = traceback.format_exc()
            raise

    def end(self):
        self._ending.set()
        self.join()

    def _help(self, queue, way, group, message_id):
        """Of a stopped group, or None: of a message that has stopped itself alone."""
        message, _ = message_operations.message(self._box, message_id)
        number, entity = int(message.context["number"]), message.context["entity"]
        location = entity.rpartition("-")[0]
        its_cure = cure(location, number)
        if its_cure == "skip":
            if group is None:
                message_operations.take_out(self._box, message_id, queue=queue, **BY)
            else:
                groups.skip_message(self._box, queue, group, **BY)
        else:
            if its_cure == "skip the hole":
                # The gate may not know the group yet: nothing has left it, and nothing waits there.
                with suppress(sq.ActionRefused, sq.UsageError):
                    groups.skip_hole(self._box, f"out_{way}", location if way == "l" else entity, **BY)
                    self.done["hole skipped"] += 1
            body = f"{location}-{number}".encode() + MENDED
            if group is None:
                message_operations.retry(self._box, message_id, queue=queue, body=body, **BY)
            else:
                groups.retry(self._box, queue, group, body=body, **BY)
        self.done[its_cure] += 1


class Killer:
    """Kills a process of one of the worker crews, and now and then PostgreSQL, as more and more leaves the gates."""

    def __init__(self, crews, folder):
        self._crews = crews
        self._folder = folder
        self._chance = random.Random(seed())
        self.workers, self.servers = 0, []
        self._since = time.monotonic()

    def __call__(self, left, expected):
        if self.workers + len(self.servers) >= KILLS or left < expected * (self.workers + len(self.servers)) / (
            KILLS + 1
        ):
            return
        # A server that lives short is given up.
        if (
            self.workers
            and self.workers % A_SERVER == 0
            and len(self.servers) < self.workers // A_SERVER
            and (time.monotonic() - self._since > 7)
        ):
            with suppress(ProcessLookupError, FileNotFoundError, ValueError):
                (file,) = self._folder.rglob("postmaster.pid")
                way = (signal.SIGQUIT, signal.SIGKILL)[len(self.servers) % 2]
                os.kill(int(file.read_text().split()[0]), way)
                self.servers.append(way)
                self._since = time.monotonic()
            return
        process = self._chance.choice(self._crews)
        with suppress(ProcessLookupError, FileNotFoundError, IndexError):
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            os.kill(int(self._chance.choice(children)), signal.SIGKILL)
            self.workers += 1


@dataclass
class Asked:
    """A connection that is made again when the server was killed."""

    box: sq.MessageBox
    connection: psycopg.Connection | None = field(default=None)

    def rows(self, query):
        """The rows, or None while there is no server."""
        try:
            if self.connection is None:
                self.connection = psycopg.connect(self.box.dsn, autocommit=True)
            return self.connection.execute(query.replace("{schema}", self.box.schema)).fetchall()
        except psycopg.OperationalError:
            self.close()
            return None

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None


def tables(box):
    with psycopg.connect(box.dsn) as connection:
        connection.execute(
            f"CREATE TABLE public.{box.schema}_sent (message_id text PRIMARY KEY, location text, number bigint, entity text)"
        )
        connection.execute(
            f"CREATE TABLE public.{box.schema}_left (left_id bigint GENERATED ALWAYS AS IDENTITY, gate text,"
            " origin_group text, origin_ordinal bigint, ordinal bigint, number bigint, part text)"
        )


OPEN = """
SELECT count(*) FROM {schema}.entries AS entry JOIN {schema}.queues USING (queue_id) WHERE queue <> 'audit'
"""


@pytest.mark.proves(
    "results of parallel work leave a gate in order though workers, publishers and the server are killed"
)
@pytest.mark.soak
def test_results_leave_in_order_whatever_is_killed(server, tmp_path, figures):
    dsn, folder = server
    begun = time.monotonic()
    with sq.MessageBox.open(dsn, schema="soak") as box:
        box.define(*DEFINITIONS)
        tables(box)
        lost = {one: tmp_path / f"lost-{one}" for one in LOCATIONS}
        publishers = Crew(
            lambda one: [sys.executable, "-m", "tests.faults.gate_handlers", dsn, "soak", one, str(JOBS), str(ENTITIES),
                         str(lost[one])],
            tmp_path / "publishers",
        )  # fmt: skip
        script = Script(box)
        crews = []
        try:
            for location in LOCATIONS:
                publishers.start(location)
            with (tmp_path / "errors").open("wb") as told:
                for queues in CREWS:
                    words = command(
                        "work", *queues, "--handler", "tests.faults.gate_handlers:handle", "--processes", "2",
                        "--workers", "3", "--run-length", "5", "--dsn", dsn, "--schema", box.schema,
                    )  # fmt: skip
                    crews.append(subprocess.Popen(words, cwd=FOLDER, env=environment(), stdout=told, stderr=told))
            script.start()
            killer = Killer(crews, folder)
            with closing(Asked(box)) as asked:
                until_done(asked, publishers, crews, script, killer, tmp_path)
        finally:
            script.end()
            publishers.kill_all()
            for crew in crews:
                crew.terminate()
            for crew in crews:
                crew.wait(240)
        found = check(box, lost)
    figures(
        f"{found['jobs']:,} jobs, {found['lost']} lost, {killer.workers} workers, {publishers.killed} publishers and"
        f" {len(killer.servers)} servers killed, {found['left']:,} results left, {found['late']} late, {found['void']} voids,"
        f" {found['skipped']} places skipped, {dict(script.done)}, {time.monotonic() - begun:.0f} s"
    )
    assert killer.workers >= 4
    assert killer.servers
    assert set(script.done) >= {"mend", "skip", "skip the hole"}


def until_done(asked, publishers, crews, script, killer, folder):
    """Go on until everything has left, and the gates have passed all places."""
    begun, expected = time.monotonic(), 2 * JOBS * len(LOCATIONS)
    ended = set()
    while True:
        for name, process in list(publishers.running.items()):
            if (code := process.poll()) is None:
                continue
            del publishers.running[name]
            assert code in (0, NO_SERVER, -signal.SIGKILL), publishers.told()[-20:]
            if code == 0:
                ended.add(name)
            else:
                publishers.killed += code == -signal.SIGKILL
                publishers.start(name)
        left = asked.rows("SELECT count(*) FROM public.{schema}_left")
        if left is not None:
            killer(left[0][0], expected)
        if ended == set(LOCATIONS) and asked.rows(OPEN) == [(0,)] and not waiting(asked):
            return
        assert all(crew.poll() is None for crew in crews), (folder / "errors").read_text()[-3000:]
        assert script.is_alive(), script.error
        assert time.monotonic() - begun < DEADLINE_S, (left, asked.rows(OPEN), waiting(asked), script.done)
        time.sleep(0.05)


def waiting(asked):
    """The groups whose gates haven't passed all of their places; also while there is no server."""
    sent = asked.rows("SELECT location, entity, count(*) FROM public.{schema}_sent GROUP BY 1, 2")
    known = asked.rows("SELECT queue, group_key, next FROM {schema}.known_groups JOIN {schema}.queues USING (queue_id)")
    if sent is None or known is None:
        return ["no server"]
    counts = Counter()
    for location, entity, count in sent:
        counts["out_l", location] += count
        counts["out_e", entity] += count
    passed = {(queue, group): following for queue, group, following in known}
    return [(place, count, passed.get(place)) for place, count in counts.items() if passed.get(place) != count + 1]


def check(box, lost):
    """What left each gate is what was published, in its order; what didn't leave is on record. Returns the figures."""
    with psycopg.connect(box.dsn) as connection:
        sent = connection.execute(
            f"SELECT location, entity, number FROM public.{box.schema}_sent ORDER BY number"
        ).fetchall()
        left = connection.execute(
            f"SELECT gate, origin_group, origin_ordinal, ordinal, number, part FROM public.{box.schema}_left ORDER BY left_id"
        ).fetchall()
        lost_jobs = sum(
            json.loads(line)["jobs"] for one in lost.values() if one.exists() for line in one.read_text().splitlines()
        )
        gone = Counter(one for one, *_ in connection.execute(f"SELECT disposition FROM {box.schema}.aside"))
    places = {way: defaultdict(list) for way in WAYS}  # the numbers of each group by its places
    for location, entity, number in sent:
        places["l"][location].append((location, number))
        places["e"][entity].append((location, number))
    assert len(sent) == JOBS * len(LOCATIONS) - lost_jobs
    came = {way: defaultdict(list) for way in WAYS}
    for gate, group, origin, ordinal, number, part in left:
        came[gate[-1]][group].append((origin, ordinal, number, part))
    found = Counter(jobs=len(sent), lost=lost_jobs, left=len(left))
    late = Counter(
        (one.queue, message.context["origin_group"], int(message.context["origin_ordinal"]), message.context["piece"])
        for one in set_aside.set_aside(box, status="late", limit=100_000)
        for message in [message_operations.message(box, one.message_id)[0]]
    )
    found["late"] = sum(late.values())
    assert set(gone) <= {"late", "dead"}
    dead = Counter(one.queue for one in message_operations.messages(box, status="dead"))
    doomed = Counter(
        f"{fails_at(number, way)}_{way}"
        for way in WAYS
        for location, _, number in sent
        if fails_at(number, way) and (is_dead(number, way) or cure(location, number) == "skip")
    )
    assert dead == doomed
    for way in WAYS:
        gate = f"out_{way}"
        voids, skipped = on_record(box, gate)
        assert set(came[way]) <= set(places[way])
        for group, jobs in places[way].items():
            rows = came[way].get(group, [])
            assert [origin for origin, *_ in rows] == sorted(origin for origin, *_ in rows), (gate, group)
            assert [ordinal for _, ordinal, *_ in rows] == list(range(1, len(rows) + 1)), (gate, group)
            parts = defaultdict(list)
            for origin, _, number, part in rows:
                assert jobs[origin - 1][1] == number, (gate, group, origin)
                parts[origin].append(part)
            for place, (location, number) in enumerate(jobs, 1):
                own = parts[place]
                too_late = [part for (queue, key, at, part), many in late.items() if (queue, key, at) == (gate, group, place)
                            for _ in range(many)]  # fmt: skip
                where = (gate, group, place, number)
                assert sorted(own + too_late) == results(location, number, way), where
                assert bool(own) or place in voids[group] or place in skipped[group], where
                assert not (own and place in voids[group]), where
                assert not too_late or place in skipped[group], where
            found["void"] += len(voids[group])
            found["skipped"] += len(skipped[group])
    assert invariants.broken(box) == []
    with box.session() as tx:
        assert tx.receive("audit") is not None
    return found


def on_record(box, gate):
    """The places of each group that its events tell to be voids, and to be skipped."""
    told = {"void": defaultdict(set), "hole_skipped": defaultdict(set)}
    before = None
    while page := events.events(box, gate, kinds=list(told), before=before, limit=1000):
        for one in page:
            told[one.kind][one.group].update(range(one.first, one.last + 1))
        before = page[-1].event_id
    return told["void"], told["hole_skipped"]
