"""A port that hangs makes its own destination wait, also over a restart of the query, and keeps no run from ending."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress

import pytest

from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines import attempts
from seriatim.runtime.pipelines.progress import Again, Ports
from seriatim.runtime.pipelines.run import run
from seriatim.runtime.stop_signal import Stop
from tests.delivered import table_of

FILE = """
name: orders
checkpoint: {folder}/checkpoint
buckets: 2
trigger: 0s
receive:
  - location: crm
    source: {{format: json, path: {folder}/in}}
    promote: {{customer: $.customer, version: {{path: $.version, type: long}}}}
route:
  - to: ordered
    resequence: {{policy: standard, group: customer, sequence: version}}
    deliver: {{format: json, path: {folder}/ordered}}
  - to: archive
    resequence: {{policy: fifo, group: customer}}
    deliver: {{format: parquet, path: {folder}/archive}}
"""
PROCESS = "process: {function: steps_that_end_a_worker_once:enrich, returns: {double: long}}"
STEPS = """
import os, signal
from pathlib import Path
import pyarrow.compute as pc

def enrich(messages):
    marker = Path(__file__).with_name("ended")
    if 5 in messages["version"].to_pylist() and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return messages.append_column("double", pc.multiply(messages["version"], 2))
"""

DEADLINE_S = 240.0

pytestmark = pytest.mark.usefixtures("spark")


class Hang:
    """The port `archive` breaks with batch 1, works again, and hangs then: in place of a waiting file there is a pipe."""

    def __init__(self, folder):
        self.folder = folder
        self.content = b""
        self.pipe = None
        #: The pipe's other end, from when on somebody reads from it.
        self.end = None

    def put(self, *versions):
        lines = [json.dumps({"customer": "c", "version": version}) for version in versions]
        hidden = self.folder / "in" / f".{versions[0]}"
        hidden.write_text("\n".join(lines) + "\n")
        hidden.rename(self.folder / "in" / f"{versions[0]}.json")

    def progress(self, now):
        if now.batch == 0:
            (self.folder / "archive").rename(self.folder / "away")
            (self.folder / "archive").write_text("")
            self.put(3, 4)

    def looked(self):
        """Whether it hangs since just now."""
        if self.pipe is None:
            (self.pipe,) = self.waiting() or (None,)
            if self.pipe is not None:
                self.content = self.pipe.read_bytes()
                self.pipe.unlink()
                os.mkfifo(self.pipe)
                (self.folder / "archive").unlink()
                (self.folder / "away").rename(self.folder / "archive")
        if self.pipe is None or self.end is not None:
            return False
        with suppress(OSError):  # nobody reads from it yet
            self.end = os.open(self.pipe, os.O_WRONLY | os.O_NONBLOCK)
        return self.end is not None

    def waiting(self):
        return list((self.folder / "checkpoint" / "waiting" / "archive").glob("batch=*/part-*"))

    def release(self):
        """It gets what it waits for."""
        os.write(self.end, self.content)
        os.close(self.end)


@pytest.fixture
def hang(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "pipeline.yaml").write_text(FILE.format(folder=tmp_path))
    hang = Hang(tmp_path)
    hang.put(1, 2)
    return hang


@pytest.fixture
def stop():
    """A request to stop that comes by itself when a test would wait for ever."""
    asked = Stop()
    deadline = threading.Timer(DEADLINE_S, asked.request)
    deadline.start()
    yield asked
    deadline.cancel()


def delivered(folder, kind):
    rows = table_of(folder, kind).to_pylist()
    assert [row["ordinal"] for row in rows] == list(range(1, len(rows) + 1))
    return [row["version"] for row in rows]


def test_a_run_that_is_to_end_at_once_does_not_wait_for_it(tmp_path, hang, stop):
    def looked():
        if hang.looked():
            stop.request()
            stop.request()

    pipeline = load(tmp_path / "pipeline.yaml")
    summary = run(pipeline, stop=stop, progress=hang.progress, looked=looked)
    assert summary.ending == "stopped"
    assert [(one.destination, one.batches) for one in summary.waiting] == [("archive", 1)]
    (carrier,) = (thread for thread in threading.enumerate() if thread.name == "carrier of archive")
    hang.release()
    carrier.join()
    assert delivered(tmp_path / "archive", "parquet") == [1, 2, 3, 4]


@pytest.mark.proves("a port that hangs delays no other one when the query is begun again")
def test_the_others_go_on_when_the_query_is_begun_again(tmp_path, hang, stop, monkeypatch):
    monkeypatch.setattr(attempts, "WAITS_S", (0.0,))
    (tmp_path / "steps_that_end_a_worker_once.py").write_text(STEPS)
    (tmp_path / "pipeline.yaml").write_text(FILE.format(folder=tmp_path).replace("route:", f"{PROCESS}\nroute:"))
    restarts = []

    def looked():
        if hang.looked():
            hang.put(5)

    def progress(now):
        hang.progress(now)
        if hang.end is not None and now.accounts[0].released == 1:  # the last one
            assert delivered(tmp_path / "ordered", "json") == [1, 2, 3, 4, 5]
            assert delivered(tmp_path / "archive", "parquet") == [1, 2]
            hang.release()

    def tell(news):
        restarts.extend([news.what] if isinstance(news, Again) else [])
        if isinstance(news, Ports) and not news.waiting:
            stop.request()

    pipeline = load(tmp_path / "pipeline.yaml")
    summary = run(pipeline, stop=stop, progress=progress, tell=tell, looked=looked)
    assert restarts == ["a Python worker ended"]
    assert (summary.ending, summary.waiting) == ("stopped", ())
    assert [(one.arrived, one.released, one.missing) for one in summary.accounts] == [(5, 5, 0), (5, 5, 0)]
    assert delivered(tmp_path / "archive", "parquet") == delivered(tmp_path / "ordered", "json") == [1, 2, 3, 4, 5]
