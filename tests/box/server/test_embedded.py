"""The embedded PostgreSQL: started on demand, shared, gone with its last user, whatever is killed when."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import Queue
from threading import Event, Thread

import psycopg
import pytest

import seriatim as sq
from seriatim.box.server.binaries import NEWEST, Owner, find_binaries
from seriatim.box.server.embedded import EmbeddedServer, serving
from seriatim.operations import queues
from tests.box.embedding import User, data_of, has_gone, has_no_supervisor, is_root, put_box, servers_in, supervisor_of
from tests.command import command, environment

pytestmark = pytest.mark.dear

DEADLINE_S = 120.0

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """The present folder: there is nothing in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SERIATIM_DSN", raising=False)
    yield tmp_path
    assert has_gone(tmp_path)


@pytest.fixture
def folder(empty):
    """The present folder: there is a box in it, which nobody has used."""
    put_box(empty)
    return empty


@pytest.fixture
def user(empty):
    """Starts processes that use the server; none is left behind."""
    started = []

    def start(*arguments):
        started.append(User(*arguments))
        return started[-1]

    yield start
    for one in started:
        one.kill()


def taken(folder: Path) -> list[tuple[int, int]]:
    with sq.MessageBox.open() as box, box.session() as tx:
        return tx.connection.execute("SELECT number, count FROM seriatim.tickets ORDER BY number").fetchall()


@pytest.mark.proves(
    "a killed user keeps the embedded PostgreSQL from stopping with its last user no longer than the others do"
)
@linux
def test_the_last_of_three_processes_stops_it_though_one_was_killed(empty, user):
    users = [user(empty) for _ in range(3)]
    firsts = sorted(one.ready().first for one in users)
    assert firsts == [1, 11, 21]
    killed, *others = users
    killed.kill()
    assert [one.end() for one in others] == [0, 0]
    assert has_gone(empty)
    assert taken(empty) == [(1, 10), (11, 10), (21, 10)]


@pytest.mark.proves("the embedded PostgreSQL stops though none of its users could say goodbye")
@linux
def test_it_stops_when_all_its_users_were_killed(folder, user):
    users = [user(folder).ready() for _ in range(2)]
    for one in users:
        one.kill()
    assert has_gone(folder)
    assert taken(folder) == [(1, 10), (11, 10)]


@pytest.mark.proves("a start of the embedded PostgreSQL that was killed halfway leaves no server behind")
@linux
def test_it_stops_with_a_user_that_was_killed_while_starting_it(empty, user):
    one = user(empty)
    while not (empty / ".seriatim/postgres/supervisor.lock").exists() and one.process.poll() is None:
        pass
    one.kill()
    assert taken(empty) in ([], [(1, 10)])


@pytest.mark.proves("the server ends with its supervisor, and the next user starts both")
@pytest.mark.telling
@linux
def test_a_killed_supervisor_takes_the_server_along_and_the_next_user_starts_it(folder, user):
    one = user(folder).ready()
    os.kill(supervisor_of(data_of(folder)), signal.SIGKILL)
    assert has_no_supervisor(folder)
    assert taken(folder) == [(1, 10)]
    assert one.end() == 0


@pytest.mark.proves("an open box starts the server again, or finds that another process has")
@linux
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("first", ["the open box", "another process"])
def test_an_open_box_finds_the_server_again_whose_supervisor_was_killed(folder, user, how, first):
    with sq.MessageBox.open() as box:
        define_orders(box)
        box.publish(sq.Message(type="order", message_id="before"))
        os.kill(supervisor_of(data_of(folder)), how)
        assert has_no_supervisor(folder)
        if first == "another process":
            assert user(folder).ready().first == 1
        once_it_is_back(lambda: box.publish(sq.Message(type="order", message_id="after")))
        found = []
        while len(found) < 2:
            found += once_it_is_back(lambda: received(box))
        assert found == ["before", "after"]


@pytest.mark.proves("a worker that has connections of its own starts the server again")
@linux
def test_a_worker_goes_on_after_the_supervisor_was_killed(folder):
    """Its connections are its own, by the DSN; nobody uses the box that it was given."""
    attempts = Queue()

    def handle(message, tx):
        attempts.put(message.message_id)
        if attempts.qsize() == 1:
            os.kill(supervisor_of(data_of(folder)), signal.SIGKILL)
            tx.connection.execute("SELECT pg_sleep(60)")

    with sq.MessageBox.open() as box:
        define_orders(box)
        box.publish(sq.Message(type="order", message_id="one"))
        worker = sq.Worker(box, "orders", handle, workers=1)
        working = Thread(target=worker.run)
        working.start()
        deadline = time.monotonic() + DEADLINE_S
        while attempts.qsize() < 2 and time.monotonic() < deadline:
            working.join(0.1)
        worker.stop()
        once_it_is_back(partial(queues.queues, box))
        working.join()
    assert attempts.qsize() == 2


_KILLING = """
import os, signal
from pathlib import Path

from tests.box.embedding import supervisor_of

def handle(message, tx):
    with Path("attempts").open("a") as attempts:
        print(message.message_id, file=attempts)
    if len(Path("attempts").read_text().splitlines()) == 1:
        os.kill(supervisor_of(Path(".seriatim/postgres/data").absolute()), signal.SIGKILL)
        tx.connection.execute("SELECT pg_sleep(60)")
"""


@pytest.mark.proves("the processes of `seriatim work` start the server again")
@linux
def test_worker_processes_go_on_after_the_supervisor_was_killed(folder):
    (folder / "killing.py").write_text(_KILLING)
    with sq.MessageBox.open() as box:
        define_orders(box)
        box.publish(sq.Message(type="order", message_id="one"))
    given = environment() | {"PYTHONPATH": os.pathsep.join(sys.path)}
    given.pop("SERIATIM_DSN", None)
    words = command("work", "orders", "--handler", "killing:handle", "--workers", "1")
    with subprocess.Popen(words, cwd=folder, env=given) as process:
        deadline = time.monotonic() + DEADLINE_S
        while tried(folder) < 2 and time.monotonic() < deadline and process.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
        process.terminate()
    assert process.returncode == 0
    assert tried(folder) == 2


def tried(folder):
    note = folder / "attempts"
    return len(note.read_text().splitlines()) if note.exists() else 0


def define_orders(box):
    box.define(
        sq.MessageType("order"),
        sq.Queue("orders", policy=sq.Unordered()),
        sq.Subscription("all", where="type = 'order'", to="orders"),
    )


def once_it_is_back(do):
    while True:
        with suppress(sq.Unavailable):
            return do()


def dispensed(box):
    with box.session() as tx:
        return tx.dispense("crm").first


def received(box):
    with box.session() as tx:
        return [one.message_id for one in tx.receive("orders", limit=2)]


@pytest.mark.proves("the supervisor starts a killed server again while it has users")
@linux
def test_a_killed_server_comes_back_for_its_users(folder):
    with sq.MessageBox.open() as box:
        with box.session() as tx:
            tx.dispense("crm", count=10)
        dsn = box.dsn
        os.kill(int((data_of(folder) / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
        with sq.MessageBox.open() as other:  # waits for an answer
            assert other.dsn == dsn
        # A connection that was idle for more than a second is asked before it is used; a younger one is lost.
        assert once_it_is_back(lambda: dispensed(box)) == 11


@pytest.mark.proves("the supervisor doesn't give up on a server that is killed again and again")
@linux
def test_a_server_that_is_killed_as_soon_as_it_answers_comes_back_each_time(folder):
    with sq.MessageBox.open() as box:
        for number in range(5):
            with sq.MessageBox.open() as other, other.session() as tx:
                assert tx.dispense("crm").first == number + 1
            os.kill(int((data_of(folder) / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
        with sq.MessageBox.open() as other:
            assert other.dsn == box.dsn


@pytest.mark.proves("an answer of the embedded PostgreSQL is on disk though all its processes are killed at once")
@linux
def test_what_was_answered_is_there_after_all_of_the_server_was_killed(folder):
    """`box.publish` commits before it is on disk, and answers after."""
    answered = Queue()

    def publish(box, group, killed):
        while not killed.is_set():
            with suppress(sq.Unavailable):  # also of the kill before, which nobody noticed who had his answer already
                (message_id,) = box.publish(sq.Message(type="order", body=b"x" * 500, context={"customer": group}))
                answered.put(message_id)

    known = set()
    with sq.MessageBox.open() as box:
        box.define(
            sq.MessageType("order", properties={"customer": "string"}),
            sq.Queue("orders", policy=sq.Fifo(), group="customer"),
            sq.Subscription("all", where="type = 'order'", to="orders"),
        )
        for _ in range(3):
            killed = Event()
            publishers = [Thread(target=publish, args=(box, f"c{n}", killed)) for n in range(4)]
            for one in publishers:
                one.start()
            known |= {answered.get(timeout=180) for _ in range(200)}
            for pid in servers_in(data_of(folder)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            killed.set()
            for one in publishers:
                one.join()
            while not answered.empty():
                known.add(answered.get())
            with sq.MessageBox.open() as other, other.session() as tx:  # waits for an answer
                there = tx.connection.execute("SELECT message_id FROM seriatim.messages").fetchall()
                assert known <= {message_id for (message_id,) in there}


@linux
def test_a_note_that_names_somebody_else_is_not_believed(folder):
    assert taken(folder) == []
    assert has_gone(folder)
    # What a machine leaves that lost its power, after the number has gone to another process of the same user.
    owner = data_of(folder).stat().st_uid
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, user=owner, cwd="/") as somebody:
        note = f"{somebody.pid}\n{data_of(folder)}\n1\n5432\n/tmp\n\n  1 1\nready\n"
        (data_of(folder) / "postmaster.pid").write_text(note)
        os.chown(data_of(folder) / "postmaster.pid", owner, -1)
        assert taken(folder) == []


def test_permissions_of_folders_that_were_there_stay(empty):
    before = {place: place.stat().st_mode for place in (empty, *empty.parents)}
    assert taken(empty) == []
    assert {place: place.stat().st_mode for place in before} == before
    assert data_of(empty).stat().st_mode & 0o777 == 0o700


def test_boxes_of_one_process_share_it(folder):
    with sq.MessageBox.open() as one, sq.MessageBox.open(schema="other") as other:
        assert one.dsn == other.dsn
        one.close()
        with other.session() as tx:
            assert tx.dispense("crm").first == 1


@linux
def test_tables_of_the_application_are_not_put_into_the_box(folder):
    with sq.MessageBox.open() as box, box.session() as tx:
        tx.connection.execute("CREATE TABLE orders (number bigint)")
        found = tx.connection.execute("SELECT schemaname FROM pg_tables WHERE tablename = 'orders'").fetchall()
    assert found == [("public",)]


def test_the_path_may_be_long(empty, monkeypatch):
    long = empty.joinpath(*["a empty with a name that goes on and on"] * 4)
    long.mkdir(parents=True)
    monkeypatch.chdir(long)
    assert taken(long) == []
    assert has_gone(long)
    monkeypatch.chdir(empty)
    assert taken(empty) == []


def test_what_it_says_when_it_cannot_start(empty):
    assert taken(empty) == []
    assert has_gone(empty)
    (data_of(empty) / "postgresql.conf").write_text("no_such_setting = 1\n")
    with pytest.raises(sq.EnvironmentProblem, match="doesn't start") as caught:
        sq.MessageBox.open()
    assert "server.log" in str(caught.value)


def test_data_keep_their_version(tmp_path):
    old = EmbeddedServer(tmp_path / "postgres", major=16)
    with psycopg.connect(old.dsn) as connection:
        assert connection.info.server_version // 10000 == 16
    again = EmbeddedServer(tmp_path / "postgres")
    with psycopg.connect(again.dsn) as connection:
        assert connection.info.server_version // 10000 == 16
    with sq.MessageBox.open(old.dsn) as box, box.session() as tx:
        tx.publish([sq.Message(type="order")])
        assert tx.dispense("crm").first == 1
    again.close()
    old.close()


def test_a_version_that_the_wheel_has_not():
    with pytest.raises(sq.EnvironmentProblem, match="no PostgreSQL 12"):
        find_binaries(12)


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(sq.EnvironmentProblem, match="can't be used"):
        EmbeddedServer(tmp_path / "file" / "postgres")


@linux
def test_the_folder_of_an_only_user_can_be_removed_afterwards(tmp_path):
    with serving(tmp_path / "postgres") as server:
        assert server.dsn
        assert servers_in(tmp_path / "postgres" / "data")
    assert servers_in(tmp_path / "postgres" / "data") == []
    shutil.rmtree(tmp_path / "postgres")


@pytest.mark.skipif(not is_root(), reason="only root runs PostgreSQL as somebody else")
def test_root_copies_programs_that_another_user_cannot_reach(tmp_path):
    nobody = pwd.getpwnam("nobody")
    owner = Owner(nobody.pw_uid, nobody.pw_gid)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    found = find_binaries().root
    packages = found.parents[1]
    for one in (found, packages / f"{found.parent.name}.libs"):  # programs look for libraries there
        shutil.copytree(one, home / one.relative_to(packages))
    hidden = type(find_binaries())(NEWEST, home / found.relative_to(packages))
    with tempfile.TemporaryDirectory() as cache:
        Path(cache).chmod(0o755)
        copy = hidden.reachable_by(owner, Path(cache))
        assert copy.root.is_relative_to(cache)
        assert hidden.reachable_by(owner, Path(cache)) == copy
        assert find_binaries().reachable_by(None) == find_binaries()
        for prepared in (copy.root, Path(cache)):
            prepared.chmod(0o777)
            with pytest.raises(sq.EnvironmentProblem, match="others may write"):
                hidden.reachable_by(owner, Path(cache))
            prepared.chmod(0o755)
    assert home.stat().st_mode & 0o777 == 0o700


@pytest.mark.proves("the embedded PostgreSQL runs for a user who is not root")
@linux
@pytest.mark.skipif(not is_root(), reason="the other tests run without root already")
def test_without_root(empty, user):
    """In a user namespace, where this user is another one, who may still read this Python."""
    nobody = pwd.getpwnam("nobody")
    other = ["unshare", "--user", f"--map-user={nobody.pw_uid}", f"--map-group={nobody.pw_gid}"]
    try:
        subprocess.run([*other, "true"], check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this machine makes no user namespaces")
    one = user(empty, *other).ready()
    server = next(iter(servers_in(data_of(empty))))
    assert data_of(empty).stat().st_uid == Path(f"/proc/{server}").stat().st_uid == os.geteuid()
    assert one.end() == 0
