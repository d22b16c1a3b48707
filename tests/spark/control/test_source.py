"""The control source as Spark asks it, without Spark: what is new, what a batch gets again, and when a query ends."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

from seriatim.errors import CheckpointMismatch
from seriatim.kernel.values.time import FOREVER
from seriatim.spark.control.due import Due, buckets_of
from seriatim.spark.control.log import FINISH, WAKE, ControlLog, hash_of
from seriatim.spark.control.source import TICK, ControlFormat, Controlled, _UntoldReader
from seriatim.spark.state.buckets import bucket_ids

BUCKETS = 4
ALL = [(bucket, TICK, None) for bucket in bucket_ids(BUCKETS)]


@pytest.fixture
def of(tmp_path: Path) -> Controlled:
    return Controlled("orders", BUCKETS, log=tmp_path / "control", folder=tmp_path / "due")


def reader_of(of: Controlled) -> Any:
    """A process of the source."""
    return ControlFormat(of.options()).simpleStreamReader(StructType())


def taken(reader: Any, start: dict[str, Any]) -> tuple[list[tuple[int, str, str | None]], dict[str, Any]]:
    rows, end = reader.read(start)
    found = list(rows)
    # Another process gets the same rows for this batch.
    assert list(reader.readBetweenOffsets(start, end)) == found
    return found, end


def test_at_a_start_every_bucket_is_woken_once(of: Controlled) -> None:
    reader = reader_of(of)
    rows, first = taken(reader, reader.initialOffset())
    assert rows == ALL
    assert taken(reader, first) == ([], first)
    # A later process doesn't know what is due in the state that it finds.
    later = reader_of(of)
    rows, second = taken(later, first)
    assert rows == ALL
    assert second["at"] > first["at"]
    assert taken(later, second) == ([], second)


def test_a_slot_is_woken_when_it_is_due_and_no_other(of: Controlled) -> None:
    reader = reader_of(of)
    _, first = taken(reader, reader.initialOffset())
    now = time.time_ns() // 1_000_000 * 1000
    told = Due(first["at"], (FOREVER, now, now + 3_600_000_000, now - 1))
    told.write(of.due_file(first["by"]))
    rows, second = taken(reader, first)
    assert rows == [(bucket, TICK, None) for bucket in buckets_of([1, 3], BUCKETS)]
    # Until the operator has obeyed and says so, what is known is old.
    assert taken(reader, second) == ([], second)
    Due(first["at"], (now,) * BUCKETS).write(of.due_file(first["by"]))
    assert taken(reader, second) == ([], second)
    Due(second["at"], (now, FOREVER, FOREVER, FOREVER)).write(of.due_file(first["by"]))
    rows, third = taken(reader, second)
    assert rows == [(bucket, TICK, None) for bucket in buckets_of([0], BUCKETS)]
    assert third["at"] == second["at"] + 1


def test_a_query_that_takes_what_is_there_now_takes_no_more(of: Controlled) -> None:
    assert of.log is not None
    log = ControlLog(of.log)
    log.append([{"kind": FINISH}])
    reader = reader_of(of)
    reader.prepareForTriggerAvailableNow()
    log.append([{"kind": FINISH}])
    rows, first = taken(reader, reader.initialOffset())
    assert rows == [(bucket, FINISH, None) for bucket in bucket_ids(BUCKETS)] + ALL
    assert first["log"] == 1
    Due(first["at"], (0,) * BUCKETS).write(of.due_file(first["by"]))
    assert taken(reader, first) == ([], first)
    # The next run takes the rest, and one that has taken more than is there now goes on with it.
    rows, second = taken(reader_of(of), first)
    assert second["log"] == 2
    again = reader_of(of)
    again.prepareForTriggerAvailableNow()
    assert taken(again, second)[1]["log"] == 2


def test_an_entry_that_wakes_calls_all_buckets_and_those_of_a_former_number(of: Controlled) -> None:
    assert of.log is not None
    log = ControlLog(of.log)
    reader = reader_of(of)
    _, first = taken(reader, reader.initialOffset())
    log.append([{"kind": WAKE}])
    rows, second = taken(reader, first)
    assert rows == ALL
    log.append([{"kind": WAKE, "former": 2 * BUCKETS}])
    rows, _ = taken(reader, second)
    emptied = sorted(set(bucket_ids(2 * BUCKETS)) - set(bucket_ids(BUCKETS)))
    assert emptied
    assert rows == ALL + [(bucket, TICK, None) for bucket in emptied]


def test_without_ticks_there_is_the_log_alone(of: Controlled, tmp_path: Path) -> None:
    still = Controlled("orders", BUCKETS, ticks=False, log=of.log, folder=tmp_path / "due")
    reader = reader_of(still)
    assert taken(reader, reader.initialOffset()) == ([], reader.initialOffset())
    ControlLog(tmp_path / "control").append([{"kind": FINISH}])
    rows, end = taken(reader, reader.initialOffset())
    assert rows == [(bucket, FINISH, None) for bucket in bucket_ids(BUCKETS)]
    assert taken(reader, end) == ([], end)


def test_entries_get_numbers_one_after_another(tmp_path: Path) -> None:
    log, other = ControlLog(tmp_path / "control"), ControlLog(tmp_path / "control")
    assert log.last() == 0
    assert [one.append([{"kind": FINISH, "n": n}]) for n, one in enumerate((log, other, log))] == [1, 2, 3]
    assert [entry["n"] for entry in log.read(0, 3)] == [0, 1, 2]
    assert log.read(2, 2) == []
    assert (log.last_after(0), log.last_after(3)) == (3, 3)
    assert sorted(file.name for file in (tmp_path / "control").iterdir()) == [f"{n:010d}" for n in (1, 2, 3)]


def headed(line: str) -> str:
    """The first file of a log with one entry."""
    return json.dumps({"of": "", "file": 1, "entries": 1, "hash": hash_of([line])}) + f"\n{line}\n"


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (None, "can't be read"),
        ('{"kind": "finish"', "damaged"),
        ('["finish"]\n', "damaged"),
        ('{"id": 1}\n', "damaged"),
        (headed('{"kind": "of tomorrow"}'), "of the kind 'of tomorrow', which this version of seriatim doesn't know"),
    ],
    ids=["missing", "cut", "not an object", "without a kind", "unknown kind"],
)
def test_a_log_that_cannot_be_read_is_refused_by_name(tmp_path: Path, content: str | None, what: str) -> None:
    log = ControlLog(tmp_path)
    file = tmp_path / "0000000001"
    if content is not None:
        file.write_text(content, encoding="utf-8")
    with pytest.raises(CheckpointMismatch, match=what) as caught:
        log.read(0, 1)
    assert str(file) in str(caught.value)


def untold(of: Controlled) -> Any:
    """A process of the source where Spark doesn't tell a source its starts (before 4.2)."""
    return _UntoldReader(reader_of(of))


def rows_between(reader: Any, start: dict[str, Any], end: dict[str, Any]) -> list[tuple[int, str, str | None]]:
    return [row for part in reader.partitions(start, end) for row in reader.read(part)]


def test_untold_of_its_start_a_process_wakes_every_bucket_and_takes_the_log_from_where_the_query_is(
    of: Controlled,
) -> None:
    assert of.log is not None
    log = ControlLog(of.log)
    log.append([{"kind": FINISH}])
    reader = untold(of)
    first = reader.latestOffset()
    finish = [(bucket, FINISH, None) for bucket in bucket_ids(BUCKETS)]
    assert rows_between(reader, reader.initialOffset(), first) == finish + ALL
    # A query that takes what is there now asks for one offset before it tells the last batch; what was taken may be forgotten.
    log.append([{"kind": FINISH}])
    log.forget(2)
    later = untold(of)
    second = later.latestOffset()
    assert later.partitions(first, first) == []
    assert rows_between(later, first, second) == finish + ALL
    assert second["at"] >= first["at"]
    # Nothing new: the very same offset, in which nothing is read.
    assert later.latestOffset() == second
    assert later.partitions(second, second) == []


def test_untold_of_its_start_a_process_that_is_told_the_last_batch_first_goes_on_behind_it(of: Controlled) -> None:
    assert of.log is not None
    reader = untold(of)
    first = reader.latestOffset()
    later = untold(of)
    assert later.partitions(first, first) == []
    second = later.latestOffset()
    assert second["at"] == first["at"] + 1
    assert rows_between(later, first, second) == ALL
    # A batch that runs again has the same rows, though another process had planned it.
    again = untold(of)
    assert rows_between(again, first, second) == ALL
    now = time.time_ns() // 1_000_000 * 1000
    Due(second["at"], (now, FOREVER, FOREVER, FOREVER)).write(of.due_file(second["by"]))
    third = later.latestOffset()
    assert rows_between(later, second, third) == [(bucket, TICK, None) for bucket in buckets_of([0], BUCKETS)]


def test_untold_of_its_start_and_without_ticks_there_is_nothing_new_but_the_log(of: Controlled, tmp_path: Path) -> None:
    still = Controlled("orders", BUCKETS, ticks=False, log=of.log, folder=tmp_path / "due")
    for _ in range(2):
        reader = untold(still)
        assert reader.latestOffset() == reader.initialOffset() == reader.latestOffset()
