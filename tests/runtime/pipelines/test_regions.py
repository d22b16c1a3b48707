"""A pipeline of which two regions send the messages: from files, and from two message boxes."""

from __future__ import annotations

import json
import os

import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.cli.main import main
from seriatim.errors import CheckpointMismatch
from seriatim.operations.pipelines.pipelines import counts_of
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.run import run
from seriatim.runtime.pipelines.set_aside import read_set_aside
from tests.databases import fresh_box
from tests.delivered import table_of

SOURCE = """\
  - location: carrier
    source: {{format: json, path: {folder}/{region}}}
    promote: {{id: $.id, parcel: $.parcel, number: {{path: $.number, type: long}}}}
"""
OF_REGION = SOURCE + "    region: {region}\n    message_id: id\n"
FILE = """\
name: status
checkpoint: {folder}/checkpoint
buckets: 2
trigger: 0s
{more}receive:
{receive}route:
  - to: parcels
    where: "number > 0"
    resequence: {{policy: standard, group: parcel, sequence: number}}
    deliver: {{format: json, path: {folder}/out/parcels}}
  - to: seen
    resequence: {{policy: fifo, group: parcel}}
    deliver: {{format: parquet, path: {folder}/out/seen}}
"""
BOXES = """\
name: status
checkpoint: {folder}/checkpoint
buckets: 2
receive:
  - queue: status
    region: a
    box: {{dsn: "${{BOX_A}}", schema: {schema}}}
    promote: {{parcel: parcel, number: {{path: number, type: long}}}}
  - queue: status
    region: b
    box: {{dsn: "${{BOX_B}}", schema: {schema}}}
    promote: {{parcel: parcel, number: {{path: number, type: long}}}}
route:
  - to: parcels
    resequence: {{policy: standard, group: parcel, sequence: number}}
    deliver: {{format: json, path: {folder}/out/parcels}}
"""

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def folder(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    return tmp_path


def pipeline(folder, *, receive=None, more=""):
    sources = receive or [OF_REGION.format(folder=folder, region=name) for name in ("a", "b")]
    path = folder / "pipeline.yaml"
    path.write_text(FILE.format(folder=folder, receive="".join(sources), more=more))
    return load(path)


def put(folder, region, moment, *numbers, **ids):
    lines = [{"id": ids.get(f"_{n}", f"p-{n}"), "parcel": "p", "number": n} for n in numbers]
    hidden = folder / region / f".{moment}"
    hidden.write_text("".join(json.dumps(line) + "\n" for line in lines))
    os.utime(hidden, (1_700_000_000 + moment, 1_700_000_000 + moment))
    hidden.rename(folder / region / f"{moment}.json")


def delivered(folder, destination, kind):
    table = table_of(folder / "out" / destination, kind)
    return sorted((row["ordinal"], row["number"], row["region"]) for row in table.to_pylist())


def test_one_region_stops_and_comes_back(folder):
    put(folder, "a", 1, 2, 1, 3, 5)
    put(folder, "b", 1, 1, 1, 0)  # under the name that the file of the other region has
    parcels, seen = run(pipeline(folder), once=True).accounts
    assert (parcels.arrived, parcels.released, parcels.held, parcels.copy, parcels.duplicate) == (6, 3, 1, 1, 1)
    assert (seen.arrived, seen.released, seen.copy, seen.duplicate, seen.missing) == (7, 5, 1, 1, 0)

    put(folder, "b", 2, 2, 3, 4, 5, 6)
    put(folder, "a", 3, 6, 5, 7, _7="other")
    put(folder, "b", 4, 7)
    parcels, seen = run(pipeline(folder), once=True).accounts
    assert (parcels.held_before, parcels.arrived, parcels.released, parcels.held, parcels.missing) == (1, 9, 4, 0, 0)
    assert (parcels.copy, parcels.duplicate) == (4, 2)
    assert [number for _, number, _ in delivered(folder, "parcels", "json")] == [1, 2, 3, 4, 5, 6, 7]
    assert {region for _, _, region in delivered(folder, "parcels", "json")} == {"a", "b"}
    # By arrival each id leaves once: 7 was sent under two.
    assert sorted(number for _, number, _ in delivered(folder, "seen", "parquet")) == [0, 1, 2, 3, 4, 5, 6, 7, 7]
    aside = list(read_set_aside(folder / "checkpoint" / "set-aside"))
    assert {one.disposition for one in aside} == {"duplicate"}  # copies are counted, and not kept
    assert "carrier/a/3.json:2" in {one.message_id for one in aside if one.destination == "seen"}
    (counts,) = (one for one in counts_of(folder / "pipeline.yaml").destinations if one.queue == "parcels")
    assert (counts.released, counts.copy, counts.duplicate) == (7, 5, 3)

    pipeline(folder, more="horizon: 2h\n")
    told = CliRunner().invoke(main, ["check", str(folder / "pipeline.yaml")])
    assert told.exit_code == 0, told.output
    assert "receive  carrier/b: json files in" in told.output
    assert "horizon 1 h → 7200 s: from the next batch on" in told.output
    with pytest.raises(
        CheckpointMismatch, match=r"its locations are carrier/a \(json in .*, yours are carrier \(json in"
    ):
        run(pipeline(folder, receive=[SOURCE.format(folder=folder, region="a")]), once=True)


def test_each_region_has_a_message_box_of_its_own(folder, box, databases, monkeypatch):
    with fresh_box(databases) as other:
        for one, numbers in ((box, (1, 3, 4)), (other, (2, 3, 1))):
            one.define(
                sq.MessageType("status", properties={"parcel": "string", "number": "long"}),
                sq.Queue("status", policy=sq.Unordered()),
                sq.Subscription("all", where="type = 'status'", to="status"),
            )
            with one.session() as tx:
                tx.publish(
                    sq.Message(type="status", context={"parcel": "p", "number": n}, message_id=f"m{n}") for n in numbers
                )
        monkeypatch.setenv("BOX_A", box.dsn)
        monkeypatch.setenv("BOX_B", other.dsn)
        path = folder / "pipeline.yaml"
        path.write_text(BOXES.format(folder=folder, schema=box.schema))
        told = CliRunner().invoke(main, ["check", str(path)])
        assert told.exit_code == 0, told.output
        (parcels,) = run(load(path), once=True).accounts
    assert (parcels.arrived, parcels.released, parcels.copy, parcels.duplicate) == (6, 4, 2, 0)
    found = table_of(folder / "out" / "parcels", "json").to_pylist()
    assert [(row["ordinal"], row["number"], row["message_id"]) for row in found] == [
        (n, n, f"m{n}") for n in (1, 2, 3, 4)
    ]
    assert {row["number"]: row["region"] for row in found} == {2: "b", 4: "a"} | {
        n: found[n - 1]["region"] for n in (1, 3)
    }
