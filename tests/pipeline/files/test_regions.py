"""Locations that two regions send, in pipeline files, and what is wrong there."""

from __future__ import annotations

from pathlib import Path

import pytest

from seriatim.pipeline.declared.pipeline import BoxPlace
from seriatim.pipeline.files import pipeline_file

FILE = """\
name: status
{top}receive:
{receive}route:
  - to: all
    {order}
    {deliver}
"""
ORDER = "resequence: {policy: standard, group: parcel, sequence: number}"
DELIVER = "deliver: {format: json, path: out/all}"
PROMOTE = "promote: {id: $.id, parcel: $.parcel, number: {path: $.number, type: long}}"


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()


def entry(
    region: str, *more: str, promote: str = PROMOTE, location: str = "carrier", said: str = "message_id: id"
) -> str:
    lines = [f"- location: {location}", f"source: {{format: json, path: {region or 'a'}}}"]
    lines += [f"region: {region}"] if region else []
    return "\n    ".join(["  " + lines[0], *lines[1:], promote, *([said] if said else []), *more]) + "\n"


def boxed(region: str, *more: str) -> str:
    return "\n    ".join([f"  - queue: status\n    region: {region}", PROMOTE.replace("$.", ""), *more]) + "\n"


BOTH = entry("a") + entry("b")


def read(receive: str, *, top: str = "", order: str = ORDER, deliver: str = DELIVER, **environment: str):
    path = Path("pipeline.yaml")
    path.write_text(FILE.format(receive=receive, top=top, order=order, deliver=deliver))
    pipeline, faults = pipeline_file.examine(path, environment)
    return pipeline, [str(one) for one in faults]


def test_a_location_may_be_received_from_two_regions():
    pipeline, faults = read(BOTH, top="horizon: 2h\n")
    assert faults == []
    assert [(one.location, one.region, one.title, one.message_id) for one in pipeline.receive] == [
        ("carrier", "a", "carrier/a", "id"),
        ("carrier", "b", "carrier/b", "id"),
    ]
    assert pipeline.merges
    assert pipeline.horizon_s == 7200.0
    assert not read(entry("", said=""))[0].merges


def test_the_region_is_a_property_that_filters_and_code_know():
    assert read(BOTH, order="where: \"region = 'a'\"\n    " + ORDER)[1] == []


def test_each_region_may_have_a_message_box_of_its_own():
    boxes = [boxed(name, f"box: {{dsn: '${{BOX_{name.upper()}}}', schema: {name}}}") for name in ("a", "b")]
    pipeline, faults = read("".join(boxes), BOX_A="postgresql://x:secret@a/db", BOX_B="postgresql://b/db")
    assert faults == []
    assert [one.box for one in pipeline.receive] == [
        BoxPlace("postgresql://x:secret@a/db", "a"),
        BoxPlace("postgresql://b/db", "b"),
    ]
    options = [one.source.options for one in pipeline.receive]
    assert [one["schema"] for one in options] == ["a", "b"]
    assert "secret" not in str(options)
    assert list(pipeline.other_boxes) == [one["dsn"].strip("${}") for one in options]
    assert not pipeline.needs_box
    assert "secret" not in repr(pipeline)


UNORDERED = "resequence: {policy: unordered}"


@pytest.mark.parametrize(
    ("receive", "others", "expected"),
    [
        (entry("a") + entry("a"), {}, "region a of location 'carrier' is given twice"),
        (entry("b"), {}, "location 'carrier' is received from region b only (add an entry of this location with region: a"),
        (entry("a") + entry("", said=""), {}, "location 'carrier' says no region, and others of the pipeline do"),
        (BOTH + entry("", said="", location="other"), {}, "location 'other' says no region"),
        (entry("a").replace("region: a", "region: c") + entry("b"), {}, "region can't be 'c'"),
        (entry("a") + entry("b", said=""), {}, "message_id is missing: by which property is a message known in both regions?"),
        (entry("a") + entry("b", said="message_id: idd"), {}, "the location promotes no property 'idd' (did you mean 'id'?"),
        (entry("a", said="message_id: message_id") + entry("b"), {}, "message_id names the row of a file"),
        (entry("", said="message_id: id"), {}, "message_id is for messages of two regions (add region: a, or b)"),
        (entry("a") + entry("b", "stamp: false"), {}, "stamps the messages of region b otherwise than those of a"),
        (entry("a") + entry("b", promote=PROMOTE.replace("{id", "{region: $.r, id")), {}, "region is the property that says which"),
        (entry("a", "box: {dsn: x}") + entry("b"), {}, "the messages come from no box"),
        (boxed("a", "box: {schema: x}") + boxed("b"), {}, "box.dsn is missing"),
        (BOTH, {"order": UNORDERED}, "ordered by Standard or Fifo, not by Unordered"),
        (BOTH, {"order": ORDER.replace("group: parcel", 'group: {by: parcel, opens: "number = 1"}')}, "can't open or close groups"),
        (BOTH, {"top": "horizon: 0s\n"}, "horizon must be above 0"),
        (entry("", said=""), {"top": "horizon: 1h\n"}, "horizon is for messages of two regions"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) and not value.startswith("  -") else "",
)  # fmt: skip
def test_what_is_wrong_with_regions(receive, others, expected):
    faults = read(receive, **others)[1]
    assert len(faults) == 1, faults
    assert expected in faults[0]


def test_what_two_regions_send_may_be_dropped():
    assert read(BOTH, order="deliver: drop", deliver="")[1] == []


def test_the_subscriptions_of_a_box_get_each_message_once():
    path = Path("pipeline.yaml")
    path.write_text("name: status\nreceive:\n" + BOTH + "route: box\n")
    (fault,) = pipeline_file.check(path)
    assert str(fault).startswith(
        "pipeline.yaml:13:8: the subscriptions of a box don't put messages in order, so each would go"
    )
    assert fault.remedy == "name destinations with resequence: and deliver: {queue: …}"
