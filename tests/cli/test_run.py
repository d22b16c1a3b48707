"""What `seriatim run` and `seriatim set-aside` tell: which groups wait for which numbers, and what was set aside, why."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from seriatim.cli.commands.run import SUMMARY, _tell
from seriatim.cli.main import main
from seriatim.errors import UsageError
from seriatim.runtime.pipelines.progress import RunSummary, SkippedHoles, SuspectedRestart, SuspectedRestarts
from seriatim.spark import held

PIPELINE = """\
name: orders
checkpoint: {folder}/checkpoint
buckets: 2
trigger: 0s
clock: event
time: at
receive:
  - location: shop
    source: {{format: json, path: {folder}/in, options: {{maxFilesPerTrigger: 1}}}}
    promote:
      at: {{path: $.at, type: timestamp}}
      customer: $.customer
      version: {{path: $.version, type: long}}
      pack: $.pack
      size: {{path: $.size, type: long}}
route:
  - to: ordered
    where: "pack IS NULL"
    resequence: {{policy: standard, group: customer, sequence: version}}
    deliver: {{format: json, path: {folder}/out/ordered}}
  - to: packs
    where: "pack IS NOT NULL"
    resequence: {{policy: unit_of_work, group: pack, sequence: version, size: size}}
    deliver: {{format: parquet, path: {folder}/out/packs}}
"""
SKIPPING = "sequence: version, hole_timeout: 1m, on_hole: skip}"
#: Longer than what people want to see of their groups that wait.
WAITING = 13


def invoked(*words):
    return CliRunner().invoke(main, list(map(str, words)))


def put(folder, number, rows):
    """A file that is taken in as that batch, complete from the start."""
    hidden = folder / "in" / f".{number}"
    hidden.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in rows))
    os.utime(hidden, (1_700_000_000 + number, 1_700_000_000 + number))
    hidden.rename(folder / "in" / f"{number}.json")


def row(customer, version, minute=0, **more):
    return {"customer": customer, "version": version, "at": f"2026-01-01T00:{minute:02}:00Z", **more}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("orders")
    (made / "in").mkdir()
    (made / "pipeline.yaml").write_text(PIPELINE.format(folder=made))
    return made


@pytest.fixture(scope="module")
def ran(folder, spark):
    """The end of a run in which much went wrong, for people."""
    put(folder, 1, [*(row(f"c{n:02}", 3, minute=n) for n in range(WAITING)), row("c00", 4), row("c00", 7)])
    broken = ["no JSON", row("", 1), row("c99", "one"), row("c99", "two"), row("c99", 1), row("c99", 1), row("c99", 1)]
    put(folder, 2, [*broken, row(None, 2, minute=30, pack="p", size=5), row(None, 4, minute=30, pack="p")])
    result = invoked("run", folder / "pipeline.yaml", "--once", "--strict")
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return result


def test_the_last_lines_say_what_was_set_aside_and_why(ran, folder):
    head, *lines = ran.stdout.split("\n\n")[1].splitlines()
    assert head == (
        f"Set aside, in {folder}/checkpoint/set-aside (all of them: seriatim set-aside {folder}/pipeline.yaml):"
    )
    assert [" ".join(one.split()) for one in lines] == [
        "messages disposition destination reason such as",
        "2 duplicate ordered its number was taken in before shop/2.json:6 (c99 1)",
        "2 invalid ordered version: 'one' is not a long shop/2.json:3 (c99)",
        "1 invalid ordered not JSON: Expecting value: line 1 column 1 (char 0) shop/2.json:1",
        "1 invalid ordered the group key is missing shop/2.json:2 ( 1)",
    ]


def test_the_last_lines_say_which_groups_wait_for_which_numbers(ran):
    lines = ran.stdout.split("\n\n")[2].splitlines()
    assert lines[:3] == [
        "14 groups hold 17 messages, the longest waiting first:",
        "  destination  group  waits for  held  since",
        "  ordered      c00    1 to 2        3  2026-01-01 00:00:00+00:00",
    ]
    assert [one.split()[1] for one in lines[2:-2]] == [f"c{n:02}" for n in range(10)]
    assert lines[-2] == "  and 4 more groups"
    assert re.fullmatch(r"  all of them: \S+ groups --pipeline \S+/pipeline.yaml", lines[-1])


def test_strict_fails_where_something_waits_or_was_set_aside_and_the_rest_is_done(ran, folder):
    assert ran.exit_code == 1
    put(folder, 3, [row("c00", 1), row("c00", 2)])
    again = invoked("run", folder / "pipeline.yaml", "--once", "--json")
    end = json.loads(again.stdout.splitlines()[-1])
    assert (again.exit_code, end["exit_code"], end["reasons"], end["held_groups"]) == (0, 0, [], 14)
    c00 = {"destination": "ordered", "group": "c00", "held": 1, "missing_first": 5, "missing_last": 6}
    assert end["longest"][0] == c00 | {"since": "2026-01-01T00:00:00+00:00", "reason": "waits behind a missing number"}


def listed(folder, *words):
    result = invoked("set-aside", folder / "pipeline.yaml", *words)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_what_is_set_aside_has_a_header_and_filters(ran, folder):
    lines = listed(folder)
    assert lines[0].split() == ["destination", "disposition", "group", "sequence", "message", "reason"]
    assert lines[-1] == "2 duplicate, 4 invalid"
    assert len(listed(folder, "--group", "c99")) == 6
    assert listed(folder, "--location", "elsewhere") == [
        f"nothing of this is set aside in {folder}/checkpoint/set-aside"
    ]
    assert listed(folder, "--reason", "TAKEN IN")[-1] == "2 duplicate"
    assert listed(folder, "--since", "1h")[-1] == listed(folder)[-1]
    assert (
        listed(folder, "--until", "2026-01-01")[-1] == f"nothing of this is set aside in {folder}/checkpoint/set-aside"
    )
    (one,) = listed(folder, "--reason", "json", "--json")
    assert json.loads(one)["message_id"] == "shop/2.json:1"
    part = invoked("set-aside", folder / "pipeline.yaml", "--limit", "2")
    assert (len(part.stdout.splitlines()), part.stderr) == (4, "stopped at 2 of 6: --limit N lists more\n")
    wrong = invoked("set-aside", folder / "pipeline.yaml", "--since", "soon")
    assert (wrong.exit_code, wrong.stderr.partition(" (")[0]) == (2, "error: since can't be 'soon'")


@pytest.fixture(scope="module")
def skipped(tmp_path_factory, spark):
    """A run of three batches that skips holes, for people."""
    folder = tmp_path_factory.mktemp("skipped")
    (folder / "in").mkdir()
    text = PIPELINE.format(folder=folder).replace("sequence: version}", SKIPPING)
    (folder / "pipeline.yaml").write_text(text)
    wide = [row("s00", 1), row("s00", 6, minute=1), row("s00", 7, minute=1)]
    put(folder, 1, [*wide, *(row(f"s{n:02}", 2, minute=n) for n in range(1, WAITING)), row("s00", 1)])
    put(folder, 2, [row("end", 1, minute=50)])
    result = invoked("run", folder / "pipeline.yaml", "--once", "--strict")
    assert result.exit_code == 1, result.output
    return result


def test_the_last_lines_say_which_holes_were_skipped(skipped):
    head, *lines = skipped.stdout.split("\n\n")[2].splitlines()
    assert head == "13 holes were skipped, of 16 missing numbers:"
    assert [" ".join(one.split()) for one in lines] == [
        "destination group skipped",
        "ordered s00 2 to 5",
        *(f"ordered s{n:02} 1" for n in range(1, 10)),
        "and 3 more holes",
    ]


def test_skipped_holes_as_json():
    one, other = (
        SkippedHoles.of(1, 4, [("a", "c1", 2, 5)]),
        SkippedHoles.of(20, 20, [("a", "c2", n, n) for n in range(20)]),
    )
    summary = RunSummary("orders", "once", 1.0, 2, (), 0, skipped=one + other)
    told = SUMMARY.object_of(summary)["skipped"]
    assert (told["holes"], told["numbers"], len(told["first"])) == (21, 24, 10)
    assert told["first"][0] == {"destination": "a", "group": "c1", "first": 2, "last": 5}


def test_what_is_compared_and_what_opens_and_closes_groups_is_a_matter_of_the_file(tmp_path, spark):
    """A producer begins anew with other contents; a guest who checks in and out."""
    (tmp_path / "in").mkdir()
    text = PIPELINE.format(folder=tmp_path).replace("      size:", "      what: $.what\n      size:")
    text = text.replace(
        "sequence: version}", "sequence: version, compare: what, restart_after: 3, on_restart: suspend}"
    )
    fifo = "{policy: fifo, group: {by: pack, opens: \"what = 'in'\", closes: \"what = 'out'\", unopened_timeout: 1h}}"
    text = re.sub(r"\{policy: unit_of_work.*\}", fifo, text)
    (tmp_path / "pipeline.yaml").write_text(text)
    put(tmp_path, 1, [*(row("pump", n, what="old") for n in (1, 2, 3, 4, 6)), row("pump", 6, what="new")])
    guest = [row(None, None, pack="anna", what=what) for what in ("breakfast", "in", "out", "dinner")]
    put(
        tmp_path,
        2,
        [*(row("pump", n, what="new") for n in range(1, 4)), *guest, row(None, None, pack="bob", what="nap")],
    )
    result = invoked("run", tmp_path / "pipeline.yaml", "--once", "--json")
    assert result.exit_code == 0, result.output
    end = json.loads(result.stdout.splitlines()[-1])
    assert end["suspected"] == {"groups": 1, "first": [{"destination": "ordered", "group": "pump", "number": 3}]}
    assert {(one["disposition"], one["messages"], one["reason"]) for one in end["reasons"]} == {
        ("duplicate", 1, "conflicts: its number was taken in before with another content"),
        ("duplicate", 2, "its number was taken in before"),
        ("late", 1, "the group is closed"),
    }
    waits = {(one["group"], one["held"], one["reason"]) for one in end["longest"]}
    assert waits == {
        ("pump", 2, "its producer seems to have begun anew, and it waits for an operator"),
        ("bob", 1, "waits for a message that opens its group"),
    }


def test_suspected_restarts_for_people(capsys):
    first = tuple(SuspectedRestart("a", f"c{n}", n) for n in range(10))
    summary = RunSummary("orders", "once", 1.0, 2, (), 0, suspected=SuspectedRestarts(11, first))
    _tell(summary, Path("aside"), Path("orders.yaml"))
    head, *lines = capsys.readouterr().out.split("\n\n")[1].splitlines()
    assert head == "11 producers seem to have begun anew; the last number that tells so:"
    assert [" ".join(one.split()) for one in (*lines[:2], lines[-1])] == [
        "destination group number",
        "a c0 0",
        "and 1 more group",
    ]


def test_a_line_of_a_batch_tells_of_that_batch(skipped):
    _, *lines = skipped.stderr.splitlines()
    assert [re.sub(r" · [\d,.]+ rows/s · [\d.]+ s$", "", one) for one in lines] == [
        "orders: batch 0: received 16 · in 16 = released 1 + held 14 + duplicate 1 · holes 13",
        "orders: batch 1: received 1 · held before 14 + in 1 = released 14 + held 1 · holes 1",
        "orders: batch 2: received 0 · held before 1 + in 0 = released 1 + held 0 · holes 0",
    ]
    assert skipped.stdout.splitlines()[0].startswith("orders: took in all that was there, 3 batches in ")


def test_held_is_a_frame_of_what_waits(ran, folder, spark):
    found = held(folder / "checkpoint", spark=spark)
    assert [name for name, _ in found.dtypes] == [
        *("destination", "group", "sequence", "late", "reason", "missing_first", "missing_last", "since")
    ]
    some = found.where("group IN ('c01', 'p')").orderBy("group", "sequence").collect()
    moment = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    behind, apart = "waits behind a missing number", "waits for its round or its set to be complete"
    assert [tuple(one)[:7] for one in some] == [
        ("ordered", "c01", 3, False, behind, 1, 2),
        ("packs", "p", 2, False, apart, 1, 1),
        ("packs", "p", 4, False, apart, 1, 1),
    ]
    assert some[0].since.astimezone(UTC) == moment
    assert found.groupBy("group").count().count() == 14
    (whole,) = held(folder / "checkpoint", messages=True, spark=spark).where("group = 'c02'").collect()
    assert json.loads(whole.message.body) == row("c02", 3, minute=2)


def test_held_says_what_it_lacks(tmp_path, ran, spark):
    with pytest.raises(UsageError, match="there is no checkpoint with a committed batch"):
        held(tmp_path / "nowhere", spark=spark)
    stream = spark.readStream.format("rate").load().dropDuplicates(["value"])
    query = stream.writeStream.format("noop").trigger(once=True).start(checkpointLocation=str(tmp_path / "other"))
    query.awaitTermination()
    with pytest.raises(UsageError, match="the checkpoint has no state of resequence"):
        held(tmp_path / "other", spark=spark)
