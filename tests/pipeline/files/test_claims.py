"""``claims: journal`` in pipeline files, and what doesn't go together with it."""

from __future__ import annotations

import pytest

from seriatim.pipeline.declared.pipeline import JournalPlace
from tests.pipeline.files.test_regions import BOTH, ORDER, _folder, entry, read  # noqa: F401 -- its folders are made for each test

JOURNAL = 'journal: {dsn: "${JOURNAL}", region: b}\n'
TOP = "claims: journal\n" + JOURNAL
TABLE = "deliver: {format: table, table: out.parcels}"
DSN = "postgresql://me:secret@j/db"


def test_two_runs_deliver_in_turn():
    pipeline, faults = read(BOTH, top=TOP, deliver=TABLE, JOURNAL=DSN)
    assert faults == []
    assert pipeline.claims == JournalPlace(DSN, "b")
    assert (pipeline.claims.lease_s, pipeline.claims.schema) == (10.0, None)
    assert (pipeline.route[0].deliver.format, pipeline.route[0].deliver.options) == ("table", {"table": "out.parcels"})
    assert "secret" not in repr(pipeline)
    top = TOP.replace("region: b", "region: a, schema: ours, lease: 45s")
    pipeline, faults = read(BOTH, top=top, deliver="deliver: {queue: parcels}", JOURNAL=DSN)
    assert faults == []
    assert (pipeline.claims.lease_s, pipeline.claims.schema) == (45.0, "ours")
    # Ordinals may differ between the runs.
    assert pipeline.route[0].deliver.options == {
        "type": "all",
        "queue": "parcels",
        "group": "group",
        "sequence": "sequence",
    }
    kafka = "deliver: {format: kafka, options: {kafka.bootstrap.servers: 'k:1', topic: parcels}}"
    assert read(BOTH, top=TOP, deliver=kafka, JOURNAL=DSN)[1] == []
    assert (
        read(BOTH, top=TOP, order=ORDER.replace("}", ", late: deliver}"), deliver="deliver: drop", JOURNAL=DSN)[1] == []
    )


@pytest.mark.parametrize(
    ("top", "changed", "expected"),
    [
        ("claims: lock\n" + JOURNAL, {}, "claims can't be 'lock' (one of journal)"),
        ("claims: journal\n", {}, "claims: journal needs a journal (add journal: {dsn: "),
        (JOURNAL, {"deliver": "deliver: drop"}, "a journal is for claims: journal (add claims: journal"),
        ("", {}, "a table of the journal's database needs claims: journal (add claims and journal; or format: jdbc"),
        (TOP.replace(", region: b", ""), {}, "journal.region is missing"),
        (TOP.replace("region: b", "region: c"), {}, "journal.region can't be 'c' (one of a, b)"),
        (TOP.replace("region: b", "region: b, lease: 200ms"), {}, "journal.lease must be from 1 s to a day"),
        (
            TOP.replace("region: b", "region: b, leese: 2s"),
            {},
            "unknown key 'leese' in journal (did you mean 'lease'?)",
        ),
        (TOP, {"receive": entry("", said="")}, "claims: journal is for a pipeline that receives from two regions"),
        (TOP, {"order": "resequence: {policy: fifo, group: parcel}"}, "fifo has none that both regions know"),
        (
            TOP,
            {"order": ORDER.replace("sequence: number", "sequence: ticket")},
            "each of two runs stamps tickets of its own",
        ),
        *(
            (
                TOP,
                {"order": ORDER.replace("}", f", late: {late}}}")},
                "a late message has a number through which all is delivered",
            )
            for late in ("deliver", "suspend")
        ),
        (
            TOP,
            {"order": ORDER.replace("group: parcel", "group: {by: parcel, expire_after: 1d, expire_to: nothing}")},
            "begin their numbers again",
        ),
        (TOP, {"deliver": "deliver: {format: json, path: out/all}"}, "two runs can't write one folder"),
        (TOP, {"deliver": "deliver: {service: s, from_service: t}"}, "what is sent in a dialog is sent once"),
        (TOP, {"deliver": "deliver: {format: table, table: a.b.c}"}, "'a.b.c' is not the name of a table"),
        (TOP, {"deliver": "deliver: {format: table}"}, "deliver.table is missing"),
        (TOP, {"deliver": "deliver: {format: table, table: x, path: y}"}, "unknown key 'path'"),
    ],
)
def test_what_is_wrong_is_told_with_its_place_and_what_to_do(top, changed, expected):
    given = {"receive": BOTH, "deliver": TABLE} | changed
    faults = read(given.pop("receive"), top=top, JOURNAL=DSN, **given)[1]
    assert len(faults) == 1, faults
    assert expected in faults[0]
    assert faults[0].startswith("pipeline.yaml:")
