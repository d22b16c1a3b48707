"""A pipeline whose processes are all told to end, as `timeout` does it, one whose Spark is killed, and one whose port hangs."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress

import pytest

from tests.command import command
from tests.faults.process import started, until

FILE = """
name: orders
trigger: 0s
spark: {spark.master: "local[1]", spark.sql.shuffle.partitions: 1}
receive:
  - location: crm
    source: {format: json, path: in}
    promote: {key: $.group, number: {path: $.number, type: long}}
route:
  - to: ordered
    resequence: {policy: standard, group: key, sequence: number}
    deliver: {format: json, path: out}
"""


def run(folder):
    (folder / "in").mkdir()
    lines = [json.dumps({"group": "a", "number": number}) for number in (2, 1, 3)]
    (folder / "in" / "orders.json").write_text("\n".join(lines) + "\n")
    (folder / "orders.yaml").write_text(FILE)
    return again(folder, "told")


def again(folder, told, *options):
    return started(command("run", "orders.yaml", "--json", *options), folder, folder / told)


def delivered(folder):
    """What is in place; what is staged may be incomplete."""
    lines = [line for one in sorted((folder / "out").glob("batch=*/*.json")) for line in one.read_text().splitlines()]
    return [int(json.loads(line)["number"]) for line in lines]


@pytest.mark.proves("a driver whose JVM is killed ends with one line and code 3")
def test_its_spark_is_killed(tmp_path):
    with run(tmp_path) as running:
        until(lambda: len(running.progress()) > 0, running.process)
        (java,) = [process for process, name in running.alive().items() if name == "java"]
        os.kill(java, signal.SIGKILL)
        assert running.wait() == 3  # something of the environment
    (line,) = (tmp_path / "told.err").read_text().splitlines()
    assert "Spark's process has ended" in line
    assert "the next run goes on where this one stopped" in line


@pytest.mark.proves("a second signal ends a run whose port hangs, and the next run delivers what waited")
def test_its_port_hangs(tmp_path):
    """What waits for it is read from a pipe, into which nobody writes."""
    waiting, ends = tmp_path / ".seriatim" / "pipelines" / "orders" / "waiting" / "ordered", []
    (tmp_path / "out").write_text("")  # it can't be claimed

    def hangs():
        with suppress(OSError):  # nobody reads from it yet
            ends.append(os.open(part, os.O_WRONLY | os.O_NONBLOCK))
        return bool(ends)

    with run(tmp_path) as running:
        until(lambda: any(waiting.glob("batch=*/part-*")), running.process)
        (part,) = waiting.glob("batch=*/part-*")
        content = part.read_bytes()
        part.unlink()
        os.mkfifo(part)
        (tmp_path / "out").unlink()
        until(hangs, running.process)
        os.kill(running.process.pid, signal.SIGTERM)
        os.kill(running.process.pid, signal.SIGINT)  # two of one kind might come as one
        assert running.wait() == 0, (tmp_path / "told.err").read_text()
        end = running.progress()[-1]
    assert end["ending"] == "stopped"
    assert [(one["destination"], one["rows"]) for one in end["waiting"]] == [("ordered", 3)]
    os.close(ends[0])
    part.unlink()
    part.write_bytes(content)
    with again(tmp_path, "again", "--once") as running:
        assert running.wait() == 0, (tmp_path / "again.err").read_text()
        assert running.progress()[-1]["waiting"] == []
    assert delivered(tmp_path) == [1, 2, 3]


@pytest.mark.proves("a driver that was frozen while another took over delivers nothing more")
def test_a_driver_that_stood_still_while_another_took_over_puts_nothing_in_place(tmp_path):
    """Its lock is lost, as on a folder that machines share. All processes of the other one are told to end when it has caught up."""
    with run(tmp_path) as running:
        until(lambda: len(running.progress()) > 0, running.process)
        known = 3
        while True:  # until it is caught with a batch written, and not in place
            known += 1000
            lines = [json.dumps({"group": "a", "number": number}) for number in range(known - 999, known + 1)]
            (tmp_path / "in" / f".{known}").write_text("\n".join(lines) + "\n")
            before = len(batches(tmp_path))
            (tmp_path / "in" / f".{known}").rename(tmp_path / "in" / f"{known}.json")
            until(lambda before=before: staged(tmp_path) or len(batches(tmp_path)) > before, running.process, 0.0005)
            if running.freezes() and staged(tmp_path) and len(delivered(tmp_path)) < known:
                break
            running.thaw()
        (tmp_path / ".seriatim" / "pipelines" / "orders" / "lock").unlink()
        with again(tmp_path, "later") as later:
            until(lambda: any(one["event"] == "batch" for one in later.progress()), later.process)
            os.killpg(later.process.pid, signal.SIGTERM)
            assert later.wait() == 0, (tmp_path / "later.err").read_text()
            assert later.progress()[-1]["ending"] == "stopped"
        assert (tmp_path / "later.err").read_text() == ""
        assert delivered(tmp_path) == list(range(1, known + 1))
        running.thaw()
        assert running.wait() == 3
    assert "a later run of this pipeline has taken over" in (tmp_path / "told.err").read_text()
    assert delivered(tmp_path) == list(range(1, known + 1))


def batches(folder):
    return list((folder / "out").glob("batch=*"))


def staged(folder):
    with suppress(FileNotFoundError):  # it has just come into its place
        return any(any(staging.iterdir()) for staging in (folder / "out").glob(".staging*"))
    return False
