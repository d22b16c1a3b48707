"""Messages at which the user's code ends its worker: set aside, and the others go on, whatever starts how often."""

from __future__ import annotations

import json
import os

import pytest

from seriatim.errors import QueryFailed
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines import attempts
from seriatim.runtime.pipelines.progress import Again
from seriatim.runtime.pipelines.run import run
from seriatim.runtime.pipelines.set_aside import read_set_aside
from tests.delivered import table_of

pytestmark = pytest.mark.usefixtures("spark")

FILE = """
name: orders
checkpoint: {folder}/checkpoint
buckets: 2
trigger: 0s
receive:
  - location: crm
    source: {{format: json, path: {folder}/in, options: {{maxFilesPerTrigger: 1}}}}
    promote: {{customer: $.customer, version: {{path: $.version, type: long}}, how: $.how}}
process: {{function: steps_that_end_workers:enrich, returns: {{double: long}}}}
route:
  - to: ordered
    process: {{function: steps_that_end_workers:leave, returns: {{label: string}}}}
    resequence: {{policy: standard, group: customer, sequence: version}}
    deliver: {{format: json, path: {folder}/out}}
"""
STEPS = """
import os, signal
import pyarrow as pa
import pyarrow.compute as pc

def enrich(messages):
    for how in messages["how"].to_pylist():
        if how in ("SIGKILL", "SIGSEGV"):
            os.kill(os.getpid(), getattr(signal, how))
        if how == "raise":
            raise ValueError("no such order")
    return messages.append_column("double", pc.multiply(messages["version"], 2))

def leave(messages):
    if "exit" in messages["how"].to_pylist():
        os._exit(0)
    return messages.append_column("label", pa.array([f"no. {one}" for one in messages["double"].to_pylist()]))
"""


def put(folder, name, hows):
    lines = [json.dumps({"customer": "c", "version": version, "how": how}) for version, how in hows.items()]
    file = folder / "in" / f"{name}.json"
    file.write_text("\n".join(lines) + "\n")
    os.utime(file, (1_700_000_000 + name, 1_700_000_000 + name))


@pytest.mark.proves("messages at which the user's code ends its Python worker are set aside by a pipeline")
def test_they_are_set_aside_and_the_others_go_on(tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    (tmp_path / "steps_that_end_workers.py").write_text(STEPS)
    (tmp_path / "pipeline.yaml").write_text(FILE.format(folder=tmp_path))
    pipeline = load(tmp_path / "pipeline.yaml")
    ends = {7: "SIGKILL", 30: "SIGSEGV", 31: "raise", 55: "exit"}
    put(tmp_path, 1, {version: ends.get(version) for version in range(1, 61)})

    monkeypatch.setattr(attempts, "WAITS_S", ())
    with pytest.raises(QueryFailed, match=r"Python worker exited unexpectedly .*; tried 1 times without"):
        run(pipeline, once=True)

    monkeypatch.setattr(attempts, "WAITS_S", (0.0,))
    put(tmp_path, 2, {version: "SIGKILL" if version == 62 else None for version in range(61, 70)})
    put(tmp_path, 3, dict.fromkeys([*ends, 62]))
    told = []
    (account,) = run(pipeline, once=True, tell=told.append).accounts
    assert [(one.what, one.attempt) for one in told if isinstance(one, Again)] == [("a Python worker ended", 1)]
    assert (account.arrived, account.released, account.invalid, account.held, account.missing) == (74, 69, 5, 0, 0)
    rows = table_of(tmp_path / "out", "json").to_pylist()
    assert [(row["version"], row["ordinal"], row["label"]) for row in rows] == [
        (version, version, f"no. {2 * version}") for version in range(1, 70)
    ]
    aside = read_set_aside(tmp_path / "checkpoint" / "set-aside", "invalid")
    assert {one.message_id: one.reason.partition("\n")[0] for one in aside} == {
        "crm/1.json:7": "process steps_that_end_workers:enrich: it ended its process: signal 9 (SIGKILL)",
        "crm/1.json:30": "process steps_that_end_workers:enrich: it ended its process: signal 11 (SIGSEGV)",
        "crm/1.json:31": "process steps_that_end_workers:enrich: ValueError: no such order",
        "crm/1.json:55": "process steps_that_end_workers:leave: it ended its process: exit code 0",
        "crm/2.json:2": "process steps_that_end_workers:enrich: it ended its process: signal 9 (SIGKILL)",
    }
