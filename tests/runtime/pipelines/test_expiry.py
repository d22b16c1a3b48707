"""Groups of a pipeline that rest: with a tombstone, and with none; through Spark's state, from files to files."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from seriatim.cli.main import main
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.run import run
from tests.delivered import table_of
from tests.runtime.pipelines.test_commands import put

pytestmark = pytest.mark.usefixtures("spark")

FILE = """
name: orders
checkpoint: {folder}/checkpoint
buckets: 1
trigger: 0s
receive:
  - location: crm
    source: {{format: json, path: {folder}/in, options: {{maxFilesPerTrigger: 1}}}}
    promote: {{customer: $.customer, version: {{path: $.version, type: long}}}}
route:
  - to: kept
    resequence: {{policy: standard, group: customer, sequence: version, expire_after: 1ms}}
    deliver: {{format: json, path: {folder}/out/kept}}
  - to: anew
    resequence: {{policy: standard, group: customer, sequence: version, expire_after: 1ms, expire_to: nothing}}
    deliver: {{format: parquet, path: {folder}/out/anew}}
"""
#: More than have to have expired before any leaves the index.
GROUPS = 300


def test_groups_that_rest_go_on_or_begin_anew(tmp_path):
    (tmp_path / "in").mkdir()
    file = tmp_path / "pipeline.yaml"
    file.write_text(FILE.format(folder=tmp_path))
    put(tmp_path, "a", [(f"g{number}", 1) for number in range(GROUPS)])
    put(tmp_path, "b", [("g1", 2), ("g2", 1)])
    put(tmp_path, "c", [("g3", 2), ("g3", 1)])
    accounts = {one.destination: one for one in run(load(file), once=True).accounts}
    assert (accounts["kept"].released, accounts["kept"].duplicate) == (GROUPS + 2, 2)
    assert (accounts["anew"].released, accounts["anew"].held) == (GROUPS + 3, 1)

    kept = [
        (one["group"], one["version"], one["ordinal"]) for one in table_of(tmp_path / "out/kept", "json").to_pylist()
    ]
    assert sorted(one for one in kept if one[1] > 1) == [("g1", 2, 2), ("g3", 2, 2)]
    rows = table_of(tmp_path / "out/anew", "parquet").to_pylist()
    anew = [(one["group"], one["version"], one["ordinal"], one["incarnation"]) for one in rows]
    assert sorted(one for one in anew if one[3]) == [("g2", 1, 1, 1), ("g3", 1, 1, 2), ("g3", 2, 2, 2)]
    assert len({(group, ordinal, incarnation) for group, _, ordinal, incarnation in anew}) == len(anew)
    assert "incarnation" not in table_of(tmp_path / "out/kept", "json").column_names

    def shown(*words):
        done = CliRunner().invoke(main, [*words, "--pipeline", str(file), "--json"])
        assert done.exit_code == 0, done.output
        return json.loads(done.output)

    cold = shown("group", "show", "g7", "--queue", "kept")
    assert [cold[name] for name in ("state", "next", "ordinal", "held")] == ["ready", 2, 1, 0]
    back = shown("group", "show", "g3", "--queue", "kept")
    assert [back[name] for name in ("next", "ordinal")] == [3, 2]
    every = shown("groups", "--all", "--queue", "kept", "--limit", "1000")
    assert len(every) == len({one["group"] for one in every}) == GROUPS
    counts = CliRunner().invoke(main, ["pipeline", "show", str(file), "--json"])
    assert {one["queue"]: one["groups"] for one in json.loads(counts.output)["destinations"]}["kept"] == GROUPS
