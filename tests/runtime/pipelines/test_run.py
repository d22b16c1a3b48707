"""A pipeline from files to files, in this process: what arrives leaves in order, once, whenever it is stopped."""

from __future__ import annotations

import json
import os
import random
import shutil
from dataclasses import replace

import pyarrow as pa
import pytest
from pyarrow import parquet

from seriatim.errors import CheckpointMismatch, SeriatimError, UsageError
from seriatim.pipeline.files.pipeline_file import load
from seriatim.runtime.pipelines.run import run
from seriatim.runtime.pipelines.set_aside import read_set_aside
from seriatim.runtime.stop_signal import Stop
from tests.delivered import table_of

FILE = """
name: orders
checkpoint: {folder}/checkpoint
buckets: 2
trigger: 0s
receive:
  - location: crm
    source: {{format: json, path: {folder}/in, options: {{maxFilesPerTrigger: 1}}}}
    promote: {{customer: $.customer, version: {{path: $.version, type: long}}}}
route:
  - to: ordered
    resequence: {{policy: standard, group: customer, sequence: version{options}}}
    deliver: {{format: json, path: {folder}/out/ordered}}
  - to: archive
    resequence: {{policy: fifo, group: customer}}
    deliver: {{format: parquet, path: {folder}/out/archive}}
"""

pytestmark = pytest.mark.usefixtures("spark")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path


def pipeline(folder, options=""):
    file = folder / "pipeline.yaml"
    file.write_text(FILE.format(folder=folder, options=options))
    return load(file)


def put(folder, name, rows):
    lines = [row if isinstance(row, str) else json.dumps({"customer": row[0], "version": row[1]}) for row in rows]
    hidden = folder / "in" / f".{name}"
    hidden.write_text("\n".join(lines) + "\n")
    # Files are taken in order of their times; two of one moment would be taken in either order.
    moment = 1_700_000_000 + len(list((folder / "in").glob("*.json")))
    os.utime(hidden, (moment, moment))
    hidden.rename(folder / "in" / f"{name}.json")


def delivered(folder, destination="ordered", kind="json"):
    """Per customer the versions and ordinals, as pyarrow finds them."""
    found = {}
    table = table_of(folder / "out" / destination, kind)
    for row in table.to_pylist():
        found.setdefault(row["group"], []).append((row["version"], row["ordinal"]))
    return found


def numbered(*versions):
    return [(version, ordinal) for ordinal, version in enumerate(versions, start=1)]


def account(summary, destination="ordered"):
    return next(one for one in summary.accounts if one.destination == destination)


def test_what_is_there_leaves_in_order_and_the_next_run_goes_on_also_from_a_backup(folder):
    chance = random.Random(1)
    rows = [(f"c{n % 5}", n // 5 + 1) for n in range(500) if n != 7]
    chance.shuffle(rows)
    put(folder, "a", [*rows[:250], rows[3], "not JSON"])
    put(folder, "b", rows[250:])
    told = []
    summary = run(pipeline(folder), once=True, progress=told.append)
    assert summary.ending == "once"
    assert delivered(folder) == {f"c{n}": numbered(*range(1, 101)) for n in (0, 1, 3, 4)} | {"c2": numbered(1)}
    ordered = account(summary)
    assert (ordered.arrived, ordered.released, ordered.held) == (501, 401, 98)
    assert (ordered.duplicate, ordered.invalid, ordered.missing) == (1, 1, 0)
    assert summary.holes == 1
    assert [progress.batch for progress in told] == sorted({progress.batch for progress in told})
    of_batches = [account(progress) for progress in told]
    assert sum(one.arrived for one in of_batches) == ordered.arrived
    assert [one.held_before for one in of_batches] == [0, *(one.held for one in of_batches[:-1])]
    assert not any(one.missing for progress in told for one in progress.accounts)

    backup = folder.parent / f"{folder.name}-backup"
    for part in ("checkpoint", "out"):
        shutil.copytree(folder / part, backup / part)

    def restore(part):
        shutil.rmtree(folder / part)
        shutil.copytree(backup / part, folder / part)

    put(folder, "c", [("c2", 2)])
    put(folder, "d", [("c0", 1)])
    for time in ("first", "from the backup"):
        again = account(run(pipeline(folder), once=True))
        assert (again.held_before, again.arrived, again.released, again.duplicate, again.held) == (98, 2, 99, 1, 0)
        assert delivered(folder)["c2"] == numbered(*range(1, 101))
        if time == "first":
            restore("checkpoint")
            with pytest.raises(
                CheckpointMismatch, match=r"destination \w+: the port has batch \d+, .* it is older \(restore both"
            ):
                run(pipeline(folder), once=True)
            restore("out")

    archive = delivered(folder, "archive", "parquet")
    texts = "".join((folder / "in" / f"{name}.json").read_text() for name in "abcd")
    lines = [json.loads(line) for line in texts.splitlines() if line.startswith("{")]
    for customer, found in archive.items():
        assert found == numbered(*(line["version"] for line in lines if line["customer"] == customer))
    aside = list(read_set_aside(folder / "checkpoint" / "set-aside"))
    assert sorted((one.destination, one.disposition) for one in aside) == [
        ("archive", "invalid"),
        ("ordered", "duplicate"),
        ("ordered", "duplicate"),
        ("ordered", "invalid"),
    ]
    assert {one.reason.split(": ", 1)[0] for one in aside if one.disposition == "invalid"} == {"a.json:252"}


def test_stopped_between_batches_it_goes_on_where_it_was(folder):
    for name in "abcd":
        put(folder, name, [("c", "abcd".index(name) + 1)])
    stop = Stop()
    stopped = run(pipeline(folder), stop=stop, progress=lambda _: stop.request())
    assert stopped.ending == "stopped"
    rest = run(pipeline(folder), once=True)
    assert 1 <= account(stopped).released < 4
    assert account(stopped).arrived == account(stopped).released
    assert delivered(folder) == {"c": numbered(1, 2, 3, 4)}
    assert account(rest).missing == 0


def test_first_numbers_come_from_a_file_and_finish_lets_time_run_out(folder):
    (folder / "first.csv").write_text("customer,first\nc,7\n")
    put(folder, "a", [("c", 8), ("c", 7), ("c", 6), ("d", 1), ("e", 1), ("e", 3), ("f", 2)])
    start = f", start_from: {{format: csv, path: {folder}/first.csv, group: customer, next: first}}"
    summary = run(pipeline(folder, f"{start}, hole_timeout: 1h, on_hole: skip"), finish=True)
    assert summary.ending == "finished"
    assert delivered(folder) == {"c": numbered(7, 8), "d": numbered(1), "e": numbered(1, 3), "f": numbered(2)}
    assert (account(summary).invalid, account(summary).held) == (1, 0)


def test_first_numbers_that_are_none(folder):
    (folder / "first.csv").write_text("customer,first\nc,x\n")
    options = f", start_from: {{format: csv, path: {folder}/first.csv, group: customer, next: first}}"
    with pytest.raises(UsageError, match=r"start_from of ordered: .*first\.csv: group 'c' has no first number"):
        run(pipeline(folder, options), once=True)


def test_an_empty_folder_and_then_a_checkpoint_or_a_port_of_another_pipeline(folder):
    summary = run(pipeline(folder), once=True)
    assert summary.batches == 0
    assert not list((folder / "out").rglob("part-*"))
    with pytest.raises(CheckpointMismatch, match="its pipeline is orders, yours is parcels"):
        run(replace(pipeline(folder), name="parcels"), once=True)
    with pytest.raises(CheckpointMismatch, match="out/ordered: the folder has batches of another checkpoint"):
        run(replace(pipeline(folder), checkpoint=folder / "other"), once=True)


def test_files_of_another_schema(folder):
    """Columns that are gone, new or elsewhere are taken by their names; another type is refused by the file, and nothing is lost."""

    def put_columns(number, **columns):
        file = folder / "in" / f"{number}.parquet"
        parquet.write_table(pa.table(columns), file)
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))

    declared = pipeline(folder)
    (received,) = declared.receive
    source = replace(received.source, format="parquet")
    promote = tuple(replace(one, path=one.name) for one in received.promote)
    declared = replace(declared, receive=(replace(received, source=source, promote=promote),))
    put_columns(1, customer=["a"], version=[1], note=["x"])
    put_columns(2, more=[1.5], version=[2], customer=["a"])
    put_columns(3, customer=["a"], version=["3"])
    (folder / "in" / "4.parquet").write_text("no Parquet at all")
    os.utime(folder / "in" / "4.parquet", (1_700_000_004, 1_700_000_004))
    with pytest.raises(
        SeriatimError, match=r"reading file .*/in/3\.parquet\. .*\[version\]\. Expected Spark type bigint"
    ) as caught:
        run(declared, once=True)
    assert "\n" not in str(caught.value)
    assert delivered(folder) == {"a": numbered(1, 2)}
    put_columns(3, customer=["a"], version=[3])
    with pytest.raises(SeriatimError, match=r"the query failed: .*4\.parquet is not a Parquet file") as caught:
        run(declared, once=True)
    assert "\n" not in str(caught.value)
    assert delivered(folder) == {"a": numbered(1, 2, 3)}


def uncommit(folder):
    """As a crash between the delivery of the last batch and Spark's own commit leaves it."""
    commits = folder / "checkpoint" / "query" / "commits"
    last = max(int(file.name) for file in commits.iterdir() if file.name.isdecimal())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


def test_a_batch_in_flight_is_finished_as_it_was_begun(folder):
    put(folder, "1", [("a", 3), ("a", 4), ("a", 5)])
    first = run(pipeline(folder, ", capacity: 1"), once=True)
    ordered = first.accounts[0]
    assert (ordered.held, ordered.rejected) == (1, 2)
    uncommit(folder)
    put(folder, "2", [("a", 6), ("a", 7)])
    second = run(pipeline(folder, ", capacity: 10"), once=True)
    # The batch that ran again rejected the same two; what came later was held under the new capacity.
    assert second.accounts[0].held == 3
    rejected = read_set_aside(folder / "checkpoint" / "set-aside", "rejected")
    assert len(list(rejected)) == 2


def test_a_batch_in_flight_that_a_stop_cancels_is_finished_as_it_was_begun_by_the_next_run(folder):
    put(folder, "1", [("a", 3), ("a", 4), ("a", 5)])
    run(pipeline(folder, ", capacity: 1"), once=True)
    uncommit(folder)
    stop = Stop()
    for _ in range(2):  # the second one: at once
        stop.request()
    assert run(pipeline(folder, ", capacity: 10"), once=True, stop=stop).ending == "stopped"
    assert run(pipeline(folder, ", capacity: 10"), once=True).accounts[0].held == 1
    assert len(list(read_set_aside(folder / "checkpoint" / "set-aside", "rejected"))) == 2


CHANGED = """
name: orders
checkpoint: {folder}/checkpoint
buckets: 2
trigger: 0s
receive:
  - location: crm
    source: {{format: json, path: {folder}/in, options: {{maxFilesPerTrigger: 1}}}}
    promote: {{customer: $.customer, version: {{path: $.version, type: long}}{more}}}
route:
{route}
"""
#: What every format has to quote.
NOTE = 'a "quoted";, word,\nand a line'
ORDERED = "resequence: {{policy: standard, group: customer, sequence: version{start}}}, deliver: {{format: json, path: {folder}/out/{name}}}"


#: Destinations whose ports fail, by their names, with their formats and options.
BLOCKED = {
    "archive": ("parquet", ""),
    "lines": ("json", ""),
    "table": ("csv", ""),
    "bare": ("csv", ", options: {header: false, sep: ';'}"),
}


def declared(folder, *names, start="", more="", blocked=False):
    """The pipeline with destinations of these names: ordered, and by arrival those of `BLOCKED`."""
    start_from = f", start_from: {{format: csv, path: {folder}/first.csv, group: customer, next: first}}"
    routes = [
        f"  - {{to: {name}, {ORDERED.format(folder=folder, name=name, start=start_from if name == 'seeded' else start)}}}"
        for name in names
    ]
    routes += [
        f"  - {{to: {name}, resequence: {{policy: fifo, group: customer}}, deliver: {{format: {kind}, path: {folder}/out/{name}{options}}}}}"
        for name, (kind, options) in BLOCKED.items()
        if blocked
    ]
    file = folder / "pipeline.yaml"
    file.write_text(CHANGED.format(folder=folder, more=more, route="\n".join(routes)))
    return load(file)


def test_destinations_come_and_go(folder):
    keys = [f"k{n}" for n in range(9)]  # in both buckets
    (folder / "out").mkdir()
    for name in BLOCKED:
        (folder / "out" / name).write_text("no folder")  # so what is released for it waits
    put(folder, "1", [*((key, 1) for key in keys), *((key, 3) for key in keys)])
    first = run(declared(folder, "ordered", blocked=True), once=True)
    assert (account(first).held, first.waiting[0].rows) == (9, 18)

    # One is added, with first numbers and without; the batch in flight is finished as it was begun.
    uncommit(folder)
    (folder / "first.csv").write_text("customer,first\nk0,5\nk1,5\nk8,6\n")
    put(
        folder,
        "2",
        [("k0", 5), ("k1", 5), ("k8", 5), ("k2", 4), json.dumps({"customer": "new", "version": 7, "note": NOTE})],
    )
    more = ", note: $.note"
    second = run(declared(folder, "ordered", "seeded", "later", start=", start: 1", more=more, blocked=True), once=True)
    assert account(second, "seeded").arrived == account(second, "later").arrived == 5
    assert delivered(folder, "seeded") == {"k0": numbered(5), "k1": numbered(5)}
    assert account(second, "seeded").held == 2  # k2 and new, which have no first number in the file
    assert account(second, "seeded").invalid == 1
    assert not list((folder / "out" / "later").glob("batch=*"))
    assert not (folder / "checkpoint" / "first-numbers" / "later-1").exists()

    # Two are taken away, which still hold messages, or whose port has some waiting.
    gone = declared(folder, "seeded", "later", start=", start: 1", more=more)
    with pytest.raises(CheckpointMismatch, match=r"destination 'ordered'.*: 14 messages are held"):
        run(gone, once=True)
    with pytest.raises(CheckpointMismatch, match=r"destination 'archive'.*: 23 messages wait for its port"):
        run(gone, once=True, abandon=["ordered", "lines", "table", "bare"])
    third = run(gone, once=True, abandon=["ordered", *BLOCKED])
    assert (account(third).held_before, account(third).dead, account(third).held) == (14, 14, 0)
    aside = list(read_set_aside(folder / "checkpoint" / "set-aside", "dead"))
    of_ordered = [one for one in aside if one.destination == "ordered"]
    assert {one.reason for one in of_ordered} == {"its destination was taken away"}
    assert sorted((one.group, one.sequence) for one in of_ordered) == sorted(
        [*((key, 3) for key in keys), ("k0", 5), ("k1", 5), ("k8", 5), ("k2", 4), ("new", 7)]
    )
    released = [one for one in aside if one.destination == "archive"]
    for name in BLOCKED:
        waited = [one for one in aside if one.destination == name]
        assert {one.reason for one in waited} == {"its destination was taken away before its port took it"}
        assert len({one.message_id for one in waited}) == len(waited) == 23
        # What was written as CSV is text.
        kind = str if BLOCKED[name][0] == "csv" else int
        rows = [(one.group, one.fields["version"], one.fields["ordinal"]) for one in waited]
        assert sorted(rows) == sorted(
            (one.group, kind(one.fields["version"]), kind(one.fields["ordinal"])) for one in released
        )
        (new,) = (one for one in waited if one.group == "new")
        assert json.loads(new.fields["body"]) == {"customer": "new", "version": 7, "note": NOTE}
        assert (new.fields["note"], new.fields["version"]) == (NOTE, kind(7))
        assert not (folder / "checkpoint" / "waiting" / name).exists()

    # One comes again: as another one, with ordinals from 1 and an incarnation.
    put(folder, "3", [("k0", 1), ("k0", 6)])
    fourth = run(declared(folder, "seeded", "later", "ordered", start=", start: 1", more=more), once=True)
    assert (account(fourth).arrived, account(fourth).released, account(fourth).held) == (2, 1, 1)
    rows = table_of(folder / "out" / "ordered", "json").to_pylist()
    assert [(row["ordinal"], row["incarnation"]) for row in rows if row["group"] == "k0"] == [(1, None), (1, 1)]
    assert delivered(folder, "seeded")["k0"] == numbered(5, 6)


def test_a_start_that_is_refused_has_set_nothing_aside(folder):
    (folder / "out").mkdir()
    for name in BLOCKED:
        (folder / "out" / name).write_text("no folder")
    put(folder, "1", [("a", 1)])
    waiting = run(declared(folder, "ordered", blocked=True), once=True).waiting
    (folder / "first.csv").write_text("customer,first\na,no number\n")
    with pytest.raises(SeriatimError, match="has no first number"):
        run(declared(folder, "ordered", "seeded"), once=True, abandon=[*BLOCKED])
    assert run(declared(folder, "ordered", blocked=True), once=True).waiting == waiting


def test_what_is_abandoned_waits_with_the_messages_set_aside_of_its_batch(folder):
    set_aside = folder / "set aside"
    (folder / "out").mkdir()
    for file in (*(folder / "out" / name for name in BLOCKED), set_aside):
        file.write_text("no folder")
    put(folder, "1", [("a", 1), ("a", 1), ("b", 1)])
    put(folder, "2", [("a", 2)])  # nothing is set aside of its batch
    first = run(replace(declared(folder, "ordered", blocked=True), set_aside=set_aside), once=True)
    assert {(one.destination, one.rows) for one in first.waiting} == {
        ("set-aside", 1),
        *((name, 4) for name in BLOCKED),
    }
    set_aside.unlink()
    second = run(replace(declared(folder, "ordered"), set_aside=set_aside), once=True, abandon=[*BLOCKED])
    assert second.waiting == ()
    aside = [(one.destination, one.disposition, one.group) for one in read_set_aside(set_aside)]
    waited = [(name, "dead", group) for name in BLOCKED for group in "aaab"]
    assert sorted(aside) == sorted([("ordered", "duplicate", "a"), *waited])
