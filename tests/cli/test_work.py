"""``seriatim work``: what it refuses, and that it works."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from seriatim import Retry
from seriatim.cli.main import main
from seriatim.operations.queues import set_queue
from seriatim.operations.workers import workers
from tests.box.shop import define, left, publish, rows, seen
from tests.command import command, environment
from tests.databases import box_with

ROOT = Path(__file__).parents[2]


#: What is refused before anything begins changes nothing.
shop = box_with(define, "module")


@pytest.fixture
def assert_refused(shop, monkeypatch, capfd):
    """Runs the command in this process, which has imported all that it needs; its own processes write to the same terminal."""
    monkeypatch.chdir(ROOT)

    def run(told, *words):
        found = CliRunner().invoke(main, ["work", *words, "--dsn", shop.dsn, "--schema", shop.schema])
        said = capfd.readouterr().err + found.stderr
        assert found.exit_code == 2, said
        assert told in said
        assert "Traceback" not in said

    return run


@pytest.mark.dear
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nowhere", "--handler", "tests.runtime.started:step"], "there is no queue 'nowhere'"),
        (
            ["shop.py:handle"],
            "there is no queue 'shop.py:handle' (a handler is named behind the queue: --handler shop:handle)",
        ),
        (["shop", "--handler", "shop.py:handle"], "'shop.py:handle' names a file, not a module (write shop:handle)"),
        (
            ["shop", "shop", "--handler", "tests.runtime.started:step"],
            "queue 'shop' is named twice (name each queue once)",
        ),
        (["shop", "--handler", "tests.runtime.nothing:step"], "there is no module 'tests.runtime.nothing'"),
        (["shop", "--handler", "tests.runtime.started:nothing"], "has no 'nothing'"),
        (["shop", "--handler", "tests.runtime.started:one"], "can't be called with a message and a session"),
        (["shop", "--handler", "nonsense"], "'nonsense' doesn't name a function"),
        (["shop", "--handler", "a=m:f", "--handler", "a=m:g"], "a has two handlers"),
        (["shop"], "there is no handler (give a function; a command takes --handler MODULE:FUNCTION)"),
        (["shop", "--handler", "tests.runtime.started:step", "--workers", "0"], "workers can't be 0"),
        (["shop", "--handler", "tests.runtime.started:step", "--processes", "0"], "processes can't be 0"),
        (["shop", "--handler", "tests.runtime.started:step", "--turn-limit", "soon"], "not a duration"),
    ],
)
def test_what_is_wrong_is_said(assert_refused, words, told):
    assert_refused(told, *words)


def children(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def imports(pid, library):
    """Whether a worker process has come so far in what it imports; at first it is a copy of its supervisor."""
    try:
        is_worker = "seriatim.runtime.processes.worker_process" in Path(f"/proc/{pid}/cmdline").read_text()
        return is_worker and library in Path(f"/proc/{pid}/maps").read_text()
    except OSError:  # it has just ended
        return False


def test_a_key_that_is_pressed_while_processes_begin_ends_them_in_peace(box):
    define(box)
    words = ["shop", "--handler", "tests.runtime.started:step", "--dsn", box.dsn, "--schema", box.schema]
    with subprocess.Popen(
        command("work", *words), cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        deadline = time.monotonic() + 180
        while not any(imports(child, "numpy") for child in children(process.pid)):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=180)
    assert process.returncode == 0, told
    assert "working on shop: 1 process of 8 threads a queue; Ctrl-C stops it" in told
    assert "Traceback" not in told


@pytest.mark.dear
def test_several_queues_and_types_and_processes(box):
    define(box)
    define(box, "other")
    publish(box, *range(1, 31))
    publish(box, *range(1, 31), customer="c2")
    words = [
        "shop",
        "other",
        "--handler",
        "order=tests.runtime.started:write_awaited",
        "--processes",
        "2",
        "--workers",
        "2",
    ]
    words += ["--dsn", box.dsn, "--schema", box.schema, "--run-length", "7", "--rate", "500"]
    with subprocess.Popen(command("work", *words), cwd=ROOT, env=environment(), stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 180
        while left(box) + left(box, "other"):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        process.terminate()
        assert process.wait(180) == 0
    assert len(seen(box)) == 120
    assert rows(box, "SELECT 1 FROM {schema}.faults") == []


def test_what_the_database_refuses_at_the_commit_ends_no_process(box):
    define(box, retry=Retry(1))
    rows(
        box,
        "CREATE TABLE {schema}_lines (v int REFERENCES {schema}_lines (w) DEFERRABLE INITIALLY DEFERRED, w int UNIQUE)",
    )
    publish(box, 1, 2)
    words = ["shop", "--handler", "tests.runtime.started:refused", "--dsn", box.dsn, "--schema", box.schema]
    with subprocess.Popen(
        command("work", *words), cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 180
        while not rows(box, "SELECT FROM {schema}.groups WHERE state = 'faulted'"):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        publish(box, 1, customer="c2")
        while len(rows(box, "SELECT FROM {schema}.groups WHERE state = 'faulted'")) < 2:
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        process.terminate()
        _, told = process.communicate(timeout=180)
    assert process.returncode == 0, told
    assert "couldn't begin" not in told
    faults = rows(box, "SELECT sequence, error_class FROM {schema}.faults")
    assert [tuple(fault) for fault in faults] == [(1, "ForeignKeyViolation")] * 2


@pytest.mark.dear
def test_a_queue_that_is_dropped_ends_processes_that_have_worked(box):
    define(box)
    publish(box, 1)
    words = ["shop", "--handler", "tests.runtime.started:write", "--dsn", box.dsn, "--schema", box.schema]
    with subprocess.Popen(
        command("work", *words), cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 180
        while left(box):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        box.drop(subscription="shop", queue="shop")
        _, told = process.communicate(timeout=180)
    assert process.returncode == 2, told
    assert "there is no queue 'shop'" in told
    assert "a worker process couldn't go on: see above" in told
    assert "Traceback" not in told


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--port", "http: {url: ftp://host}"], "must begin with http:// or https://"),
        (["--port", "http: {adress: x}"], "unknown key 'adress'"),
        (
            ["--port", "queue: {name: x}", "--handler", "tests.runtime.started:step"],
            "--port and --handler can't be combined",
        ),
    ],
)
def test_a_port_that_is_wrong_is_said(assert_refused, words, told):
    assert_refused(told, "shop", *words)


def test_a_port(box, tmp_path):
    define(box)
    publish(box, 1, 2, 3)
    words = ["shop", "--port", f"files: {{path: '{tmp_path}', suffix: .txt}}", "--dsn", box.dsn, "--schema", box.schema]
    with subprocess.Popen(command("work", *words), cwd=ROOT, env=environment(), stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 180
        while left(box):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        process.terminate()
        assert process.wait(180) == 0
    assert [path.name for path in sorted(tmp_path.rglob("*.txt"))] == [f"000000-{n:019d}.txt" for n in (1, 2, 3)]


@pytest.mark.dear
def test_what_is_set_counts_before_options_and_is_obeyed_by_processes_at_work(box):
    define(box)
    words = [
        "shop",
        "--handler",
        "tests.runtime.started:write",
        "--processes",
        "2",
        "--workers",
        "2",
        "--rate",
        "600/m",
    ]
    words += ["--dsn", box.dsn, "--schema", box.schema, "--run-length", "7"]

    def until(condition):
        deadline = time.monotonic() + 180
        while not condition():
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)

    def obeyed():
        return [(one.threads, one.run_length, one.rate) for one in workers(box, "shop")]

    with subprocess.Popen(command("work", *words), cwd=ROOT, env=environment(), stderr=subprocess.DEVNULL) as process:
        until(lambda: obeyed() == [(2, 7, 5.0)] * 2)
        set_queue(box, "shop", workers=12, rate=1000)  # more threads than it had connections for
        until(lambda: obeyed() == [(12, 7, 500.0)] * 2)
        publish(box, *range(1, 31))
        until(lambda: not left(box))
        set_queue(box, "shop", workers=None, rate=None, in_flight=1)
        until(lambda: sorted(obeyed()) == [(0, 7, 5.0), (1, 7, 5.0)])
        publish(box, *range(31, 36))
        until(lambda: not left(box))
        process.terminate()
        assert process.wait(180) == 0
    assert workers(box) == []
    assert seen(box) == [("c1", n) for n in range(1, 36)]
