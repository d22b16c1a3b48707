"""An input file that is deleted when it was read is no loss; one that is deleted before stops the run by name."""

from __future__ import annotations

import gzip
import json
import os
import shutil

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
    unread = [put(tmp_path, "a b+%.json", 5), put(tmp_path, "c.json.gz", 6)]

    with pytest.raises(SeriatimError, match="the service is away"):
        run(pipeline, once=True, conf=CONF)
    assert not all(file.exists() for file in read)  # Spark has removed what a batch before had read
    (tmp_path / "away").unlink()

    for file in unread:
        shutil.move(file, tmp_path / file.name)
    with pytest.raises(EnvironmentProblem, match=r"2 input files are gone since batch \d+ was begun") as caught:
        run(pipeline, once=True, conf=CONF)
    assert all(str(file) in caught.value.what for file in unread)

    for file in unread:
        shutil.move(tmp_path / file.name, file)
    (account,) = run(pipeline, once=True, conf=CONF).accounts
    assert (account.released, account.missing) == (2, 0)
    assert [int(row["version"]) for row in table_of(tmp_path / "out", "json").to_pylist()] == list(range(1, 7))
