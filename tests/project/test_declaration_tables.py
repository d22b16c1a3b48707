"""The tables of declarations in the reference are what the declarations say; and a plain field is one line of its class."""

from __future__ import annotations

import json
import runpy
from dataclasses import dataclass
from pathlib import Path

import pytest

from seriatim.errors import UsageError
from seriatim.kernel.fields import Whole, from_stored, takes, to_stored
from seriatim.kernel.groups.policy import Fifo
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.queue_parts import Remote
from seriatim.pipeline.files.declared import read_declared
from seriatim.pipeline.text.document import Language, Problems, read
from seriatim.pipeline.text.section import Section

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    return runpy.run_path(str(ROOT / "scripts" / "declaration_tables.py"))


def test_the_tables_are_drawn_from_the_declarations(script):
    written = script["PAGE"].read_text(encoding="utf-8")
    assert written == script["page"](written), "run python scripts/declaration_tables.py"
    for name in script["TABLES"]:
        assert f"<!-- table of {name} -->\n| key" in written, name


@dataclass(frozen=True, slots=True)
class Painted(Queue):
    """A queue with one parameter more.

    Args:
        shade: how dark it is, 1 to 9.
    """

    shade: int = takes(Whole(1, 9), 5)


def test_a_plain_parameter_is_one_line(script, tmp_path):
    """The line of the field is all: checks, the reader of files, the stored form, other boxes and the reference know it."""
    queue = Painted("q", Fifo(), "key", shade=7)
    with pytest.raises(UsageError, match=r"queue 'q': shade can't be 10 \(a whole number from 1 to 9\)"):
        Painted("q", Fifo(), "key", shade=10)

    def in_file(line: str) -> tuple[Painted | None, list[str]]:
        file = tmp_path / "box.yaml"
        file.write_text(f"group: key\n{line}\n", encoding="utf-8")
        problems = Problems(file)
        table = read(file, problems, {}, language=Language("box file", "", "box-file"))
        found = read_declared(Section(table, problems), Painted, {"name": "q", "policy": Fifo()})
        return found, [str(one).partition("box.yaml:")[2] for one in problems.found()]

    assert in_file("shade: 7") == (queue, [])
    assert in_file("shade: 70") == (None, ["2:8: shade must be a whole number from 1 to 9, not 70"])

    stored = to_stored(queue)
    assert stored["shade"] == 7
    assert from_stored(Painted, json.loads(json.dumps(stored))) == queue
    del stored["shade"]  # a box that was filled by a version before it
    assert from_stored(Painted, stored).shade == 5

    with pytest.raises(UsageError, match="shade is for the box where messages are handed out"):
        Painted("q", Fifo(), "key", at=Remote("south"), shade=7)

    table = script["_table"](Painted)
    assert [one for one in table if "shade" in one] == ["| `shade` | 5 | how dark it is, 1 to 9 |"]
