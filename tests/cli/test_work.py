"""``seriatim work``: what it refuses, and that it works."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from tests.box.shop import define, left, publish, rows, seen
from tests.command import command, environment

ROOT = Path(__file__).parents[2]


def ended(box, *words):
    return subprocess.run(
        command("work", *words, "--dsn", box.dsn, "--schema", box.schema),
        cwd=ROOT, env=environment(), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nowhere", "--handler", "tests.runtime.started:step"], "there is no queue 'nowhere'"),
        (["shop", "shop", "--handler", "tests.runtime.started:step"], "queues are named once each"),
        (["shop", "--handler", "tests.runtime.nothing:step"], "there is no module 'tests.runtime.nothing'"),
        (["shop", "--handler", "tests.runtime.started:nothing"], "has no 'nothing'"),
        (["shop", "--handler", "tests.runtime.started:one"], "can't be called with a message and a session"),
        (["shop", "--handler", "nonsense"], "'nonsense' doesn't name a function"),
        (["shop", "--handler", "a=m:f", "--handler", "a=m:g"], "a has two handlers"),
        (["shop"], "there is no handler"),
        (["shop", "--handler", "tests.runtime.started:step", "--workers", "0"], "workers can't be 0"),
        (["shop", "--handler", "tests.runtime.started:step", "--processes", "0"], "processes can't be 0"),
        (["shop", "--handler", "tests.runtime.started:step", "--turn-limit", "soon"], "not a duration"),
    ],
)
def test_what_is_wrong_is_said(box, words, told):
    define(box)
    found = ended(box, *words)
    assert found.returncode == 2
    assert told in found.stderr
    assert "Traceback" not in found.stderr


def test_several_queues_and_types_and_processes(box):
    define(box)
    define(box, "other")
    publish(box, *range(1, 31))
    publish(box, *range(1, 31), customer="c2")
    words = ["shop", "other", "--handler", "order=tests.runtime.started:write", "--processes", "2", "--workers", "2"]
    words += ["--dsn", box.dsn, "--schema", box.schema, "--run-length", "7", "--rate", "500"]
    with subprocess.Popen(command("work", *words), cwd=ROOT, env=environment(), stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while left(box) + left(box, "other"):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        process.terminate()
        assert process.wait(60) == 0
    assert len(seen(box)) == 120
    assert rows(box, "SELECT 1 FROM {schema}.faults") == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--port", "http: {url: ftp://host}"], "isn't one of http or https"),
        (["--port", "http: {adress: x}"], "unknown key 'adress'"),
        (["--port", "queue: {name: x}", "--handler", "tests.runtime.started:step"], "--port and --handler exclude"),
    ],
)
def test_a_port_that_is_wrong_is_said(box, words, told):
    define(box)
    found = ended(box, "shop", *words)
    assert found.returncode == 2
    assert told in found.stderr
    assert "Traceback" not in found.stderr


def test_a_port(box, tmp_path):
    define(box)
    publish(box, 1, 2, 3)
    words = ["shop", "--port", f"files: {{path: '{tmp_path}', suffix: .txt}}", "--dsn", box.dsn, "--schema", box.schema]
    with subprocess.Popen(command("work", *words), cwd=ROOT, env=environment(), stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while left(box):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        process.terminate()
        assert process.wait(60) == 0
    assert [path.name for path in sorted(tmp_path.rglob("*.txt"))] == [f"000000-{n:019d}.txt" for n in (1, 2, 3)]
