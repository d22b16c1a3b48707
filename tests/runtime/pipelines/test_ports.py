"""A run whose port fails: the others go on, it is told which and why, and mended it gets everything in order."""

from __future__ import annotations

import json
import re
import threading

import pytest
from click.testing import CliRunner

from seriatim.cli.main import main
from seriatim.errors import InvariantBroken
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines import run as module
from seriatim.runtime.pipelines.progress import Ports, Routing, Running, RunSummary
from seriatim.runtime.pipelines.run import run
from seriatim.runtime.stop_signal import Stop
from tests.delivered import table_of
from tests.night import command, leads

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

DEADLINE_S = 240.0

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def file(tmp_path):
    (tmp_path / "in").mkdir()
    path = tmp_path / "pipeline.yaml"
    path.write_text(FILE.format(folder=tmp_path))
    return path


@pytest.fixture
def stop():
    """A request to stop that comes by itself when a test would wait for ever."""
    asked = Stop()
    deadline = threading.Timer(DEADLINE_S, asked.request)
    deadline.start()
    yield asked
    deadline.cancel()


def put(folder, *versions):
    lines = [json.dumps({"customer": "c", "version": version}) for version in versions]
    hidden = folder / "in" / f".{versions[0]}"
    hidden.write_text("\n".join(lines) + "\n")
    hidden.rename(folder / "in" / f"{versions[0]}.json")


def delivered(folder, destination, kind):
    rows = table_of(folder / destination, kind).to_pylist()
    assert [row["ordinal"] for row in rows] == list(range(1, len(rows) + 1))
    return [row["version"] for row in rows]


def test_a_port_breaks_and_is_mended_while_the_run_goes_on(tmp_path, file, stop):
    archive, away = tmp_path / "archive", tmp_path / "away"
    told = []

    def progress(now):
        if now.batch == 0:
            archive.rename(away)
            archive.write_text("")
            put(tmp_path, 3, 4)

    def tell(news):
        if isinstance(news, Ports):
            told.append(news)
            if news.waiting:
                archive.unlink()
                away.rename(archive)
            else:  # all that waited has been delivered, without another batch
                stop.request()

    put(tmp_path, 1, 2)
    summary = run(load(file), stop=stop, progress=progress, tell=tell)
    first, last = told
    assert [one.destination for one in first.waiting] == ["archive"]
    assert re.fullmatch(f"{archive}/.staging-[0-9]+: Not a directory", first.waiting[0].reason)
    assert last.waiting == summary.waiting == ()
    assert (summary.batches, summary.undelivered, summary.ending) == (2, 0, "stopped")
    assert [(one.arrived, one.released) for one in summary.accounts] == [(4, 4), (4, 4)]
    assert summary.routing == Routing(received=4, routed=4)
    assert delivered(tmp_path, "ordered", "json") == delivered(tmp_path, "archive", "parquet") == [1, 2, 3, 4]


def test_a_port_that_cannot_be_written_at_the_start_delays_nobody_else(tmp_path, file, monkeypatch):
    (tmp_path / "archive").write_text("")
    put(tmp_path, 1, 2)
    result = CliRunner().invoke(main, ["run", str(file), "--once"])
    assert result.exit_code == 3
    assert "archive: 2 rows of 1 batch waiting since 20" in result.stderr
    assert f"{tmp_path}/archive: can't deliver: File exists" in result.stderr
    row = leads("ports", result.stderr)
    (tmp_path / ".seriatim" / "pipelines").mkdir(parents=True)  # where the checkpoint would be by default
    (tmp_path / ".seriatim" / "pipelines" / "orders").symlink_to(tmp_path / "checkpoint")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SERIATIM_DSN", raising=False)
    asked = CliRunner().invoke(main, ["doctor"])
    assert asked.exit_code == 1
    assert "wrong   ports         pipeline 'orders': 2 rows for archive since 20" in asked.stdout
    assert leads("ports", asked.stdout) == row
    assert command(row, "seriatim run", FILE=str(file)) == ["seriatim", "run", str(file)]  # as below
    assert delivered(tmp_path, "ordered", "json") == [1, 2]

    put(tmp_path, 3)
    again = CliRunner().invoke(main, ["run", str(file), "--once", "--json"])
    assert again.exit_code == 3
    lines = [json.loads(line) for line in again.stdout.splitlines()]
    assert lines[0]["event"] == "ports"
    batch = next(line for line in lines if line["event"] == "batch" and line["spread"]["tasks"])
    assert batch["spread"]["tasks"] * batch["spread"]["most"] == 2  # two messages: in one task, or in two
    waiting = lines[-1]["waiting"]
    assert [(one["destination"], one["rows"], one["batches"]) for one in waiting] == [("archive", 3, 2)]

    (tmp_path / "archive").unlink()
    mended = CliRunner().invoke(main, ["run", str(file), "--once"])
    assert mended.exit_code == 0, mended.output
    assert delivered(tmp_path, "archive", "parquet") == [1, 2, 3]
    assert "ok      ports " in CliRunner().invoke(main, ["doctor", "--all"]).stdout


def test_a_batch_that_takes_long_is_told_of(tmp_path, file, monkeypatch):
    monkeypatch.setattr(module, "_TELL_S", 0.0)
    told = []
    put(tmp_path, 1)
    run(load(file), once=True, tell=told.append)
    running = [news for news in told if isinstance(news, Running)]
    assert running
    assert {news.batch for news in running} <= {0, 1, 2}
    assert all(news.seconds >= 0 for news in running)


def test_the_law_of_the_router_is_checked():
    RunSummary("p", "once", 1.0, 1, (), 0, Routing(received=6, routed=3, unrouted=2, invalid=1)).check()
    with pytest.raises(InvariantBroken, match="route: the law of conservation is broken by -1"):
        RunSummary("p", "once", 1.0, 1, (), 0, Routing(received=6, routed=6, unrouted=1)).check()
