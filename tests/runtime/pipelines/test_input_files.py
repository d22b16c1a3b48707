"""An input file is read once, whatever its name is; deleted afterwards it is no loss, before it stops the run by name, and changed it is told."""

from __future__ import annotations

import gzip
import json
import os
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from seriatim.cli.main import main
from seriatim.errors import EnvironmentProblem, SeriatimError
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.run import run
from seriatim.runtime.pipelines.unread_files import InputFiles, UnreadFile
from seriatim.runtime.stop_signal import Stop
from tests.delivered import table_of

FILE = """
name: orders
checkpoint: {folder}/checkpoint
buckets: 2
trigger: 0s
receive:
  - location: shop
    source: {{format: json, path: {folder}/shop}}
    promote: {{customer: $.customer, version: {{path: $.version, type: long}}}}
  - location: crm
    source: {{format: json, path: {folder}/crm, options: {{cleanSource: delete, maxFilesPerTrigger: 2}}}}
    promote: {{customer: $.customer, version: {{path: $.version, type: long}}}}
process: {{function: service_that_is_away:ask, on_error: fail}}
route:
  - to: ordered
    resequence: {{policy: standard, group: customer, sequence: version}}
    deliver: {{format: json, path: {folder}/out}}
"""
SERVICE = """
from pathlib import Path
import pyarrow.compute as pc

def ask(messages):
    if pc.max(messages["version"]).as_py() > 4 and Path("{folder}/away").exists():
        raise ConnectionError("the service is away")
    return messages
"""
# More batches than Spark keeps single entries in its log for.
CONF = {"spark.sql.streaming.fileSource.log.compactInterval": "2"}

pytestmark = pytest.mark.usefixtures("spark")


def put(folder, name, version):
    text = json.dumps({"customer": "c", "version": version}).encode()
    file = folder / "crm" / name
    file.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    os.utime(file, (1_700_000_000 + version, 1_700_000_000 + version))
    return file


def test_files_that_are_gone(tmp_path):
    for name in ("crm", "shop"):
        (tmp_path / name).mkdir()
    (tmp_path / "shop" / "empty.json").write_text("")
    (tmp_path / "away").touch()
    (tmp_path / "service_that_is_away.py").write_text(SERVICE.format(folder=tmp_path))
    (tmp_path / "pipeline.yaml").write_text(FILE.format(folder=tmp_path))
    pipeline = load(tmp_path / "pipeline.yaml")
    read = [put(tmp_path, f"{version}.json", version) for version in range(1, 5)]
    # Spark lists the other twice for the name that looks like a pattern, so that the number of files is as it was.
    unread = [put(tmp_path, "a [1]+%.json", 5), put(tmp_path, "c.json.gz", 6)]

    with pytest.raises(SeriatimError, match="the service is away"):
        run(pipeline, once=True, conf=CONF)
    assert not all(file.exists() for file in read)  # Spark has removed what a batch before had read
    (tmp_path / "away").unlink()

    shutil.move(unread[0], tmp_path / unread[0].name)
    with pytest.raises(EnvironmentProblem, match="an input file is gone"):
        run(pipeline, once=True, conf=CONF)
    shutil.move(unread[1], tmp_path / unread[1].name)
    with pytest.raises(EnvironmentProblem, match=r"2 input files are gone since batch \d+ was begun") as caught:
        run(pipeline, once=True, conf=CONF)
    assert all(str(file) in caught.value.what for file in unread)

    for file in unread:
        shutil.move(tmp_path / file.name, file)
    (account,) = run(pipeline, once=True, conf=CONF).accounts
    assert (account.released, account.missing) == (2, 0)
    assert [int(row["version"]) for row in table_of(tmp_path / "out", "json").to_pylist()] == list(range(1, 7))


#: Names that Spark takes for patterns, among others; each location has all of them.
NAMES = ["plain.json", "a[1].json", "b {x,y}.json", "c*.json", "d?.json", "e\\f.json", "plain too.json"]
READ_ONCE = """
name: orders
checkpoint: {folder}/checkpoint
buckets: 2
trigger: 0s
receive:
  - location: lines
    source: {{format: json, path: {folder}/lines}}
    promote: {{customer: $.customer, version: {{path: $.version, type: long}}}}
  - location: files
    source: {{format: json, path: "{folder}/kinds/[of] a kind/fi*s", options: {{multiLine: true}}}}
    promote: {{customer: $.customer, version: {{path: $.version, type: long}}}}
  - location: rows
    source: {{format: parquet, path: {folder}/rows}}
    promote: {{customer: customer, version: {{path: version, type: long}}}}
route:
  - to: ordered
    resequence: {{policy: fifo, group: customer}}
    deliver: {{format: json, path: {folder}/out/ordered}}
  - to: loose
    resequence: {{policy: unordered}}
    deliver: {{format: json, path: {folder}/out/loose}}
"""


def test_files_whose_names_look_like_patterns_are_read_once(tmp_path):
    """Spark lists the other files of a batch once more for each of them."""
    lines, files, rows = tmp_path / "lines", tmp_path / "kinds" / "o a kind" / "fi[l]es", tmp_path / "rows"
    for folder in (lines, files, rows):
        folder.mkdir(parents=True)
    (tmp_path / "pipeline.yaml").write_text(READ_ONCE.format(folder=tmp_path))

    for number, name in enumerate(NAMES):
        text = json.dumps({"customer": "c", "version": number}).encode()
        (lines / name).write_bytes(text)
        (files / name).write_bytes(text)
        pq.write_table(pa.table({"customer": ["c"], "version": pa.array([number], pa.int64())}), rows / name)
    for account in run(load(tmp_path / "pipeline.yaml"), once=True).accounts:
        assert (account.released, account.missing) == (3 * len(NAMES), 0)
        rows = table_of(tmp_path / "out" / account.destination, "json").to_pylist()
        assert sorted(int(row["version"]) for row in rows) == sorted(3 * [*range(len(NAMES))])


LATEST = """
name: latest
checkpoint: {folder}/checkpoint
buckets: 2
trigger: 0s
receive:
  - location: bank
    source: {{format: csv, path: {folder}/in}}
    promote: {{account: account, seq: {{path: seq, type: long}}}}
  - location: deep
    source: {{format: json, path: "{folder}/deep/*", options: {{recursiveFileLookup: "true", pathGlobFilter: "*.json"}}}}
    promote: {{account: $.account, seq: {{path: $.seq, type: long}}}}
route:
  - to: ordered
    resequence: {{policy: standard, group: account, sequence: seq}}
    deliver: {{format: json, path: {folder}/out}}
"""


def test_files_that_are_written_again_appended_to_or_hidden_are_told(tmp_path):
    inbox, deep = tmp_path / "in", tmp_path / "deep" / "a"
    inbox.mkdir()
    (deep / "b").mkdir(parents=True)
    (deep / "_tmp").mkdir()
    (tmp_path / "pipeline.yaml").write_text(LATEST.format(folder=tmp_path))
    pipeline = load(tmp_path / "pipeline.yaml")

    def write(path, text, second):
        path.write_text(text)
        os.utime(path, (1_700_000_000 + second, 1_700_000_000 + second))

    write(inbox / "latest [1].csv", "account,seq\nA,1\nA,2\n", 1)
    write(inbox / "log.csv", "account,seq\nB,1\n", 2.25)
    write(inbox / "gone.csv", "account,seq\nC,1\n", 3)
    write(deep / "b" / "0.json", json.dumps({"account": "D", "seq": 1}), 4)
    # Nobody means these as input.
    for name in ("_SUCCESS", ".0.json.crc", "_empty.csv"):
        write(inbox / name, "" if name == "_empty.csv" else "x", 4)
    write(deep / "_tmp" / "1.json", "{}", 5)
    write(deep / "_other.txt", "x", 5)
    first = run(pipeline, once=True, conf=CONF)
    assert first.is_whole
    assert not first.unread

    write(inbox / "latest [1].csv", "account,seq\nA,3\nA,4\n", 6)
    with (inbox / "log.csv").open("a") as file:
        file.write("B,2\n")
    (inbox / "gone.csv").unlink()
    write(inbox / "_hidden.csv", "account,seq\nA,3\n", 7)
    write(deep / "b" / ".hidden.json", "{}", 7)
    write(inbox / "new.csv", "account,seq\nC,2\n", 8)
    wanted = (
        *(UnreadFile(str(inbox / name), "changed") for name in ("latest [1].csv", "log.csv")),
        *(UnreadFile(str(path), "hidden") for path in (deep / "b" / ".hidden.json", inbox / "_hidden.csv")),
    )
    second = run(pipeline, once=True, conf=CONF)
    assert (second.unread.changed, second.unread.hidden, second.unread.first) == (2, 2, wanted)
    assert not second.is_whole
    assert sum(account.released for account in second.accounts) == 1

    # With an empty file in its place there is nothing that isn't read; what was restored as it was hasn't changed, also from an archive with whole seconds.
    write(inbox / "latest [1].csv", "", 9)
    write(inbox / "log.csv", "account,seq\nB,1\n", 2)
    assert InputFiles(pipeline, tmp_path / "checkpoint" / "query").look().first == wanted[2:]

    result = CliRunner().invoke(main, ["run", str(tmp_path / "pipeline.yaml"), "--once", "--strict"])
    assert result.exit_code == 1
    *_, head, one, other = result.stdout.splitlines()
    assert head == "2 input files aren't read, or not as they are now:"
    assert [one, other] == [
        f"  {file.path} isn't read, because its name begins with _ or .: give it another name" for file in wanted[2:]
    ]
    result = CliRunner().invoke(main, ["check", str(tmp_path / "pipeline.yaml")])
    assert result.exit_code == 0
    assert [line for line in result.stderr.splitlines() if "isn't read" in line] == [
        f"warning: {file.path} isn't read, because its name begins with _ or .: give it another name"
        for file in wanted[2:]
    ]


def test_a_long_run_tells_of_a_file_once(tmp_path, caplog, monkeypatch):
    inbox = tmp_path / "in"
    inbox.mkdir()
    (tmp_path / "deep").mkdir()
    (tmp_path / "pipeline.yaml").write_text(LATEST.format(folder=tmp_path))
    (inbox / "0.csv").write_text("account,seq\nA,1\n")
    monkeypatch.setattr("seriatim.runtime.pipelines.run._FILES_S", 0.0)
    stop = Stop()

    def told():
        return [one.file for one in caplog.records if getattr(one, "event", "") == "input_file_not_read"]

    def progress(_):
        with (inbox / "0.csv").open("a") as file:
            file.write("A,2\n")
        os.utime(inbox / "0.csv", (1_700_000_000, 1_700_000_000))

    def looked():
        if told() and not stop.requested:  # a second request would end it at once
            stop.request()

    summary = run(load(tmp_path / "pipeline.yaml"), progress=progress, looked=looked, stop=stop)
    assert summary.unread.first == (UnreadFile(str(inbox / "0.csv"), "changed"),)
    assert told() == [str(inbox / "0.csv")]


def test_of_many_files_the_first_are_named(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "deep").mkdir()
    (tmp_path / "pipeline.yaml").write_text(LATEST.format(folder=tmp_path))
    for number in range(12):
        (tmp_path / "in" / f"_{number:02}.csv").write_text("x")
    files = InputFiles(load(tmp_path / "pipeline.yaml"), tmp_path / "no query yet")
    found = files.look()
    assert (found.changed, found.hidden, len(files.unread())) == (0, 12, 12)
    assert [one.path for one in found.first] == [str(tmp_path / "in" / f"_{number:02}.csv") for number in range(10)]
