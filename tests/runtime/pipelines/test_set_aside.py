"""Which message of a set-aside folder a message is doesn't depend on which of them are read."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

import pytest

from seriatim.errors import CheckpointMismatch
from seriatim.runtime.pipelines.set_aside import SetAsideFilter, read_set_aside

FILES = {
    "batch=0000000003/part-00000.json": [("d", "m1", "a"), ("d", "m1", "b"), ("d", "m2", "b"), (None, "m1", "b")],
    "batch=0000000003/part-00001.json": [("e", "m1", "a"), ("d", "m1", "a")],
    "batch=0000000007/part-00000.json": [("d", "m1", "b")],
}


@pytest.fixture
def folder(tmp_path):
    for second, (name, rows) in enumerate(FILES.items()):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        lines = [line(*row) for row in rows]
        file.write_text("".join(f"{one}\n" for one in lines), encoding="utf-8")
        os.utime(file, (second, second))
    return tmp_path


def line(destination, message_id, group):
    fields = {"destination": destination, "message_id": message_id, "group": group, "location": "crm"}
    return json.dumps({**fields, "disposition": "late", "reason": f"for {group}", "sequence": 1})


def read(folder, **wanted):
    """The messages that are asked for: (batch, destination, id, group, number)."""
    found = read_set_aside(folder, wanted=SetAsideFilter(**wanted))
    return [(one.batch, one.destination, one.message_id, one.group, one.number) for one in found]


EVERY = [
    (3, "d", "m1", "a", 0),
    (3, "d", "m1", "b", 1),
    (3, "d", "m2", "b", 0),
    (3, None, "m1", "b", 0),
    (3, "e", "m1", "a", 0),
    (3, "d", "m1", "a", 2),
    (7, "d", "m1", "b", 0),
]


def test_messages_with_one_id_are_numbered_in_each_batch_and_destination(folder):
    assert read(folder) == EVERY


@pytest.mark.parametrize("group", ["a", "b"])
def test_a_filter_leaves_the_numbers_as_they_are(folder, group):
    of_group = [one for one in EVERY if one[3] == group]
    assert read(folder, group=group) == of_group
    assert read(folder, reason=f"FOR {group}") == of_group


def test_files_of_another_time_count_for_the_numbers(folder):
    assert read(folder, since=datetime.fromtimestamp(1, UTC)) == EVERY[4:]
    assert read(folder, until=datetime.fromtimestamp(1, UTC)) == EVERY[:4]
    assert read(folder, since=datetime.fromtimestamp(3, UTC)) == []


def test_a_damaged_line_is_named(folder):
    (folder / "batch=0000000003/part-00001.json").write_text(line("d", "m1", "a") + "\n{}\n", encoding="utf-8")
    with pytest.raises(CheckpointMismatch, match="the line is damaged") as raised:
        read(folder, group="b")
    assert raised.value.where == f"{folder}/batch=0000000003/part-00001.json:2"
