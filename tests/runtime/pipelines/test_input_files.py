"""An input file is read once, whatever its name is; deleted afterwards it is no loss, and before it stops the run by name."""

from __future__ import annotations

import gzip
import json
import os
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from seriatim.errors import EnvironmentProblem, SeriatimError
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.run import run
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
