"""A pipeline with user code, from files to files: faults of the senders and of the code, and the order behind them."""

from __future__ import annotations

from typing import Any

import pytest

from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.run import run
from seriatim.runtime.pipelines.set_aside import read_set_aside
from seriatim.testing import faulty_feed
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
    promote: {{customer: $.customer, version: {{path: $.version, type: long}}, total: {{path: $.total, type: double}}}}
process: {{function: steps_of_a_run:tax, returns: {{tax: double}}}}
route:
  - to: ordered
    resequence: {{policy: standard, group: customer, sequence: version}}
    deliver: {{format: json, path: {folder}/out/ordered}}
  - to: lines
    process: {{function: steps_of_a_run:lines, returns: {{line: long, body: string}}}}
    resequence: {{policy: standard, group: customer, sequence: version}}
    deliver: {{format: parquet, path: {folder}/out/lines}}
"""
#: Version 3 is of no interest to anyone, and who asks for a tax on a negative total is told so.
STEPS = """
import pyarrow as pa
import pyarrow.compute as pc

def tax(messages):
    if pc.min(messages["total"]).as_py() < 0:
        raise ValueError("a negative total")
    taxed = messages.append_column("tax", pc.divide(messages["total"], 4.0))
    return taxed.filter(pc.not_equal(taxed["version"], 3))

def lines(messages):
    ids = pa.chunked_array([*messages["message_id"].chunks, *messages["message_id"].chunks])
    line = pa.array([1] * len(messages) + [2] * len(messages))
    return pa.table({"message_id": ids, "line": line, "body": pc.cast(line, pa.string())})
"""
VERSIONS = [version for version in range(1, 21) if version != 3]


def delivered(folder: Any, kind: str, *names: str) -> dict[str, list[tuple[Any, ...]]]:
    """Per customer what was delivered."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in table_of(folder, kind).to_pylist():
        found.setdefault(row["group"], []).append(tuple(row[name] for name in names))
    return found


def test_code_on_the_way(tmp_path):
    orders = [{"customer": f"c{n % 4}", "version": n // 4 + 1, "total": 4.0 * n} for n in range(80)]
    sent = [{**order, "total": -1.0} if place == 16 else order for place, order in enumerate(orders)]
    feed = faulty_feed(sent, seed=3, displaced=0.5, repeated=0.05, delayed=0.05, dropped=0.05, broken=0.05)
    assert 16 not in feed.truth.lost
    feed.write(tmp_path / "in", files=3)
    (tmp_path / "steps_of_a_run.py").write_text(STEPS)
    (tmp_path / "pipeline.yaml").write_text(FILE.format(folder=tmp_path))
    pipeline = load(tmp_path / "pipeline.yaml")

    for account in run(pipeline, once=True).accounts:
        failed = 1 + (16 in feed.truth.repeated)
        assert account.invalid == len(feed.truth.broken) + failed
        assert account.held > 0
    again = [orders[place] for place in sorted({16, *feed.truth.lost})]
    faulty_feed(again, seed=1).write(tmp_path / "in", begin=3)
    for account in run(pipeline, once=True).accounts:
        assert (account.invalid, account.held, account.missing) == (0, 0, 0)

    taxed = delivered(tmp_path / "out" / "ordered", "json", "version", "ordinal", "tax")
    assert taxed == {f"c{n}": [(version, version, 4.0 * (version - 1) + n) for version in VERSIONS] for n in range(4)}
    lines = delivered(tmp_path / "out" / "lines", "parquet", "version", "ordinal", "line", "body")
    both = [(version, version, line, str(line).encode()) for version in VERSIONS for line in (1, 2)]
    assert lines == {f"c{n}": both for n in range(4)}
    aside = read_set_aside(tmp_path / "checkpoint" / "set-aside", "invalid")
    reasons = [one.reason for one in aside if "process" in one.reason]
    assert len(reasons) == 2 * failed
    assert {reason.partition("\n")[0] for reason in reasons} == {
        "process steps_of_a_run:tax: ValueError: a negative total"
    }
    assert all("steps_of_a_run.py" in reason for reason in reasons)
