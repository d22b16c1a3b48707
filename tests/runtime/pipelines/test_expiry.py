"""Groups of a pipeline that rest: with a tombstone, and with none; through Spark's state, from files to files."""

from __future__ import annotations

import json
import statistics

import pytest
from click.testing import CliRunner

from seriatim.cli.main import main
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.run import run
from tests.delivered import table_of
from tests.runtime.pipelines.test_commands import put
from tests.soak import sized

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
    resequence: {{policy: standard, group: {{by: customer, expire_after: 1ms}}, sequence: version}}
    deliver: {{format: json, path: {folder}/out/kept}}
  - to: anew
    resequence: {{policy: standard, group: {{by: customer, expire_after: 1ms, expire_to: nothing}}, sequence: version}}
    deliver: {{format: parquet, path: {folder}/out/anew}}
"""
#: More than have to have expired before any leaves the index.
GROUPS = 300


@pytest.mark.soak
def test_groups_that_rest_go_on_or_begin_anew_and_the_state_stays_as_small_as_it_was(spark, tmp_path, figures):
    """Each batch has new groups, which expire before the next one; some of the first come back at the end."""
    (tmp_path / "in").mkdir()
    file = tmp_path / "pipeline.yaml"
    file.write_text(FILE.format(folder=tmp_path))
    batches = sized(200, 12)
    put(tmp_path, "a", [(f"g{number}", 1) for number in range(GROUPS)])
    for batch in range(1, batches - 2):
        put(tmp_path, f"new-{batch}", [(f"new-{batch}-{number}", 1) for number in range(GROUPS)])
    put(tmp_path, "b", [("g1", 2), ("g2", 1)])
    put(tmp_path, "c", [("g3", 2), ("g3", 1)])
    seconds = []
    summary = run(load(file), once=True, progress=lambda now: seconds.append(now.seconds))
    accounts = {one.destination: one for one in summary.accounts}
    new = GROUPS * (batches - 3)
    assert (accounts["kept"].released, accounts["kept"].duplicate) == (GROUPS + new + 2, 2)
    assert (accounts["anew"].released, accounts["anew"].held) == (GROUPS + new + 3, 1)

    # As Spark keeps a state of each of its last batches: early ones, and those before the groups that come back.
    first, last = sizes(spark, tmp_path, batches // 2), sizes(spark, tmp_path, batches - 3)
    assert last["index"] <= 1.15 * first["index"]
    grown = (batches - 3 - batches // 2) * GROUPS
    assert 0 < last["cold"] - first["cold"] <= 40 * grown
    assert (first["bodies"], last["bodies"]) == (0, 0)
    told = [statistics.median(some) for some in (seconds[batches // 4 : batches // 2], seconds[-batches // 4 : -2])]
    figures(
        f"{batches} batches of {GROUPS} new groups: {first['index']:,} and then {last['index']:,} bytes read and written in each, "
        f"{told[0]:.2f} s and then {told[1]:.2f} s a batch"
    )

    kept = [
        (one["group"], one["version"], one["ordinal"]) for one in table_of(tmp_path / "out/kept", "json").to_pylist()
    ]
    assert sorted(one for one in kept if one[1] > 1) == [("g1", 2, 2), ("g3", 2, 2)]
    rows = table_of(tmp_path / "out/anew", "parquet").to_pylist()
    anew = [(one["group"], one["version"], one["ordinal"], one["incarnation"]) for one in rows]
    again = sorted(one for one in anew if one[0] in {"g1", "g2", "g3"} and one[3])
    # Each batch but the first has forgotten those of the one before it.
    assert again == [("g2", 1, 1, batches - 2), ("g3", 1, 1, batches - 1), ("g3", 2, 2, batches - 1)]
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
    every = shown("groups", "--all", "--queue", "kept", "--limit", "100000")
    assert len(every) == len({one["group"] for one in every}) == GROUPS + new
    counts = CliRunner().invoke(main, ["pipeline", "show", str(file), "--json"])
    assert {one["queue"]: one["groups"] for one in json.loads(counts.output)["destinations"]}["kept"] == GROUPS + new


def sizes(spark, folder, batch):
    """The bytes of the index after a batch, of held bodies, and of groups that rest."""
    reader = spark.read.format("statestore").option("operatorId", 0).option("batchId", batch)
    place = str(folder / "checkpoint" / "query")
    (index,) = (
        reader.option("stateVarName", "index").load(place).where("key.bucket >= 0").select("value.value").collect()
    )
    bodies = reader.option("stateVarName", "bodies").load(place)
    told = [
        (row.chunk, row.bytes)
        for row in bodies.selectExpr("user_map_key.chunk chunk", "length(user_map_value.packet) bytes").collect()
    ]
    return {
        "index": len(index.value),
        "bodies": sum(size for chunk, size in told if chunk >= 0),
        "cold": sum(size for chunk, size in told if chunk < 0),
    }
