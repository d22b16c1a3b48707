"""A driver that is started again when it dies, and ends with its supervisor."""

from __future__ import annotations

import json
import os
import re
import signal

import pytest

from tests.cli.test_metrics import got
from tests.command import called, command
from tests.faults.process import children, in_session, started, until, wait_for_end
from tests.faults.test_end import FILE, delivered


def put(folder, name, *numbers):
    lines = [json.dumps({"group": "a", "number": number}) for number in numbers]
    (folder / f".{name}").write_text("\n".join(lines) + "\n")
    (folder / f".{name}").rename(folder / "in" / name)


def there(folder):
    """What has been delivered; nothing while a batch that was killed is put in its place again."""
    try:
        return sorted(delivered(folder))
    except FileNotFoundError:
        return []


@pytest.mark.proves("a supervisor starts a killed driver again, and a driver ends with its supervisor")
def test_a_killed_driver_is_started_again_and_ends_with_its_supervisor(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "orders.yaml").write_text(FILE)
    put(tmp_path, "1.json", 2, 1, 4)
    words = command("run", "orders.yaml", "--json", "--supervise", "--log-format", "json")
    with started(words, tmp_path, tmp_path / "told") as running:
        until(lambda: there(tmp_path) == [1, 2], running.process)
        (driver,) = children(running.process.pid)
        os.kill(driver, signal.SIGKILL)
        put(tmp_path, "2.json", 3)
        until(lambda: there(tmp_path) == [1, 2, 3, 4], running.process)
        (second,) = children(running.process.pid)
        assert second != driver
        own = in_session(second)
        running.process.kill()  # the supervisor
        running.process.wait()
        for one in own:
            wait_for_end(one)
    told = [json.loads(line) for line in (tmp_path / "told.err").read_text().splitlines()]
    assert [(one["event"], one["message"]) for one in told] == [
        ("driver_replaced", "pipeline orders: the driver was killed by signal 9, and is started again in 1 s")
    ]
    assert (told[0]["pipeline"], told[0]["code"]) == ("orders", -9)
    assert delivered(tmp_path) == [1, 2, 3, 4]
    assert json.loads((tmp_path / "told").read_text().splitlines()[-1])["ending"] == "stopped"  # it finished its batch


@pytest.mark.proves("a supervisor serves its driver's metrics, and passes a signal on")
def test_it_tells_its_metrics_and_is_stopped_by_a_signal(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "orders.yaml").write_text(FILE)
    put(tmp_path, "1.json", 1, 3)
    words = command("run", "orders.yaml", "--json", "--supervise", "--metrics", "127.0.0.1:0")
    with started(words, tmp_path, tmp_path / "told") as running:
        until(lambda: there(tmp_path) == [1], running.process)
        told = (tmp_path / "told.err").read_text()
        address = re.fullmatch(r"metrics are at (http://127\.0\.0\.1:\d+)/metrics\n", told)[1]
        released = re.compile(r'^seriatim_run_rows_total\{.*disposition="released".*\} 1\.0$', re.MULTILINE)
        until(
            lambda: released.search(got(address, "/metrics")[1]), running.process
        )  # it is told when its batch is committed
        metrics = got(address, "/metrics")[1]
        for line in (
            "seriatim_run_held_messages{",
            "seriatim_run_holes",
            "seriatim_run_batch_seconds_count{",
            "seriatim_run_last_batch",
        ):
            assert re.search(rf"^{re.escape(line)}.* [1-9]", metrics, re.MULTILINE), metrics
        assert got(address, "/readyz")[0] == 200
        running.process.send_signal(signal.SIGINT)
        assert running.wait() == 0
    assert (tmp_path / "told.err").read_text() == told
    assert running.progress()[-1]["ending"] == "stopped"


@pytest.mark.proves("a supervisor doesn't start a driver again that fails at once")
def test_what_fails_at_once_is_told(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "orders.yaml").write_text(FILE)
    (tmp_path / ".seriatim" / "pipelines" / "orders" / "query").mkdir(parents=True)
    result = called(tmp_path, "run", "orders.yaml", "--supervise")
    assert result.returncode == 3
    assert "the checkpoint doesn't say of which pipeline it is" in result.stderr
    result = called(tmp_path, "run", "orders.yaml", "--supervise", "--once")
    assert result.returncode == 2
    assert "--supervise goes on until it is stopped" in result.stderr
