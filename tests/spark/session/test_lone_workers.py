"""Workers that Spark starts without its daemon are forked, and behave as those that it starts."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pyspark
import pytest
from pyspark.serializers import UTF8Deserializer, read_int, write_with_length
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from seriatim.spark.session import builder

pytestmark = pytest.mark.dear

SCRIPT = Path(builder.__file__).with_name("worker-python")
MODULE = "pyspark.sql.streaming.transform_with_state_driver_worker"
#: What differs between two workers of one Spark, wherever they come from.
OF_ONE_WORKER = {"PYTHON_WORKER_FACTORY_PORT", "PYTHON_WORKER_FACTORY_SECRET"}


def facts():
    """What a program may see of its process."""
    main = sys.modules["__main__"]
    return {
        "module": (main.__name__, main.__spec__.name, sys.argv),
        "path": sys.path,
        "folder": str(Path.cwd()),
        "environment": {name: value for name, value in os.environ.items() if name not in OF_ONE_WORKER},
        "hash": hash("seriatim"),
        "signals": {name.name: str(signal.getsignal(name)) for name in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGHUP)},
        "files": [str(Path(f"/proc/self/fd/{number}").readlink()).split(":")[0] for number in range(3)],
        "threads": threading.active_count(),
    }  # fmt: skip


class Reader(SimpleDataSourceStreamReader):
    """Gives one row: this process as it sees itself, and its parents."""

    def initialOffset(self):  # noqa: N802
        return {"rows": 0}

    def read(self, start):
        rows = [] if start["rows"] else [(json.dumps(facts()), os.getpid())]
        return iter(rows), {"rows": 1}

    def readBetweenOffsets(self, start, end):  # noqa: N802
        return self.read(start)[0]


class Source(DataSource):
    @classmethod
    def name(cls):
        return "facts"

    def schema(self):
        return "facts string, pid int"

    def simpleStreamReader(self, schema):  # noqa: N802
        return Reader()


def same(batches):
    yield from batches


def reading(session, name):
    """A query whose worker is alive, with the row of its process."""
    session.range(1).mapInArrow(same, "id long").collect()  # starts Spark's daemon
    session.dataSource.register(Source)
    query = session.readStream.format("facts").load().writeStream.format("memory").queryName(name).start()
    query.processAllAvailable()
    (row,) = session.table(name).collect()
    return query, row


def parents(pid):
    """The ids of the parents of a process, the nearest one first."""
    found = []
    while pid > 1:
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        found.append(pid)
    return found


def command(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")


def ended(*files):
    """Wait until the processes have ended."""
    for file in files:
        poll = select.poll()
        poll.register(file, select.POLLIN)
        assert poll.poll(60_000), "a process is left"
        os.close(file)


def stop(query, pid):
    alive = os.pidfd_open(pid)
    query.stop()
    ended(alive)


def test_a_forked_worker_is_like_one_that_spark_starts(spark):
    query, forked = reading(spark, "forked")
    spark_process = spark.sparkContext._gateway.proc.pid
    parent, daemon, above = parents(forked["pid"])[:3]
    assert above == spark_process
    assert command(parent) == command(daemon)
    socket_file = Path(json.loads(forked["facts"])["environment"]["SERIATIM_LONE_WORKERS"])
    stop(query, forked["pid"])

    aside = socket_file.rename(socket_file.with_suffix(".aside"))
    try:
        query, started = reading(spark, "started")
        assert parents(started["pid"])[0] == spark_process
        stop(query, started["pid"])
    finally:
        aside.rename(socket_file)
    assert json.loads(forked["facts"]) == json.loads(started["facts"])


def run_until_killed():
    """Ends a session in this process, opens another one, and waits to be ended with it; prints the processes."""
    for name in ("first", "second"):
        session = builder.open_session({"spark.master": "local[1]", "spark.sql.shuffle.partitions": "1"})
        query, row = reading(session, name)
        above = parents(row["pid"])
        java = session.sparkContext._gateway.proc.pid
        sys.stdout.write(json.dumps([row["pid"], *above[: above.index(java) + 1]]) + "\n")
        sys.stdout.flush()
        sys.stdin.readline()
        query.stop()
        session.stop()


@pytest.mark.proves(
    "Python processes that Spark did not start itself end with its session, and with Spark however it ends"
)
def test_no_process_is_left_after_the_end_of_a_session_or_of_spark():
    code = "from tests.spark.session.test_lone_workers import run_until_killed; run_until_killed()"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as driver:
        try:
            *of_session, java = json.loads(driver.stdout.readline())
            assert len(of_session) == 3
            alive = [os.pidfd_open(pid) for pid in of_session]
            driver.stdin.write("\n")
            driver.stdin.flush()
            ended(*alive)

            *of_session, java = json.loads(driver.stdout.readline())
            alive = [os.pidfd_open(pid) for pid in children(java)]
            assert len(of_session) == 3
            alive += [os.pidfd_open(pid) for pid in of_session[:2]]
            os.kill(java, signal.SIGKILL)
            ended(*alive)
        finally:
            driver.kill()


def children(pid):
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that has just ended
            found += map(int, (task / "children").read_text().split())
    return found


class Daemon:
    """Spark's daemon, started as Spark starts it."""

    def __init__(self, folder):
        self.environment = {
            **os.environ,
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "PYTHONHASHSEED": "0",
            "PYTHON_WORKER_FACTORY_SECRET": "secret",
            "SERIATIM_PYTHON": sys.executable,
            "SPARK_LOCAL_DIRS": f"{folder},/another",
        }
        words = [SCRIPT, "-m", "seriatim.spark.session.daemon", "pyspark.worker"]
        self.process = subprocess.Popen(words, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        read_int(self.process.stdout)  # its port
        (self.parent,) = children(self.process.pid)

    def lone_worker(self, **environment):
        """The process that Spark starts as a lone worker, and the id of the one that connects; that has got nothing yet."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = str(server.getsockname()[1])
            environment = {**self.environment, "PYTHON_WORKER_FACTORY_PORT": port, **environment}
            started = subprocess.Popen(
                [SCRIPT, "-m", MODULE], env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            server.settimeout(180)
            connection, _ = server.accept()
        stream = connection.makefile("rwb")
        assert UTF8Deserializer().loads(stream) == "secret"
        write_with_length(b"ok", stream)
        stream.flush()
        pid = read_int(stream)
        came_from = parents(pid)[0]
        # It ends, and the started process with it.
        stream.close()
        connection.close()
        started.wait(180)
        return started.pid, pid, came_from


@pytest.fixture
def daemon(tmp_path):
    started = Daemon(tmp_path)
    yield started
    parent = os.pidfd_open(started.parent) if Path(f"/proc/{started.parent}").exists() else None
    started.process.stdin.close()
    started.process.wait(180)
    started.process.stdout.close()
    if parent is not None:
        ended(parent)


def test_a_worker_whose_environment_differs_is_started_anew(daemon):
    started, pid, parent = daemon.lone_worker(SPARK_BUFFER_SIZE="4096", SERIATIM_DSN="dbname=of_this_query")
    assert (parent, pid != started) == (daemon.parent, True)
    started, pid, _ = daemon.lone_worker(PYTHONHASHSEED="1")
    assert pid == started


@pytest.mark.proves("a query starts its workers also where the parent that forks them has been killed or hangs")
def test_a_worker_is_started_anew_where_the_parent_has_ended_or_hangs(daemon):
    os.kill(daemon.parent, signal.SIGSTOP)
    started, pid, _ = daemon.lone_worker()
    assert pid == started
    gone = os.pidfd_open(daemon.parent)
    os.kill(daemon.parent, signal.SIGKILL)
    ended(gone)
    started, pid, _ = daemon.lone_worker()
    assert pid == started


def test_a_stranger_can_not_ask(daemon, tmp_path):
    assert (tmp_path / "lone-workers").stat().st_mode & 0o077 == 0
