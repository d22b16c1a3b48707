"""What people report of their feeds, through a message box: their scripts as they are, but for the line that says what the numbers mean."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import seriatim as sq
from seriatim.operations import invariants

pytestmark = pytest.mark.dear

HL7 = """sequence=sq.Sequence("msh13", restarts="msh13 = -1", unnumbered="msh13 = 0")"""


def ended(shared: Path, number: str, *replaced: tuple[str, str]) -> subprocess.CompletedProcess[str]:
    """Runs a script in a process of its own, with other text in some places."""
    found = sorted((shared / "cases").glob(f"{number}-*.py"))
    if not found:
        pytest.skip("the folder of reports isn't here")
    source = found[0].read_text(encoding="utf-8")
    for before, after in replaced:
        assert source.count(before) == 1, before
        source = source.replace(before, after)
    return subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=120, check=False)


def test_hl7_says_that_it_begins_anew(shared: Path) -> None:
    line = 'sq.Queue("plain", sq.Standard(start="first"), group="sender", sequence="msh13")'
    done = ended(shared, "46", (line, line.replace('sequence="msh13"', HL7)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "plain [1, 2, 3, 0, 4, -1, 1, 2, 3]" in done.stdout


def test_a_set_that_stays_incomplete_is_one_failure(shared: Path) -> None:
    done = ended(shared, "43")
    assert done.returncode == 0, done.stdout + done.stderr


def test_or_it_leaves_as_a_whole_with_what_is_missing(box: sq.MessageBox) -> None:
    box.define(
        sq.MessageType("p", properties={"set": "string", "n": "long"}),
        sq.Queue("sets", sq.UnitOfWork(size=3, timeout="1ms", on_timeout="deliver"), group="set", sequence="n"),
        sq.Subscription("p", where="type = 'p'", to="sets"),
    )

    def part(key: str, n: int) -> sq.Message:
        return sq.Message(type="p", body=f"{key}{n}".encode(), context={"set": key, "n": n})

    box.publish([part("B", 1), part("B", 2), part("B", 3)])
    box.publish([part("A", 1), part("A", 3)])
    seen: list[tuple[list[str], bool, tuple[int, ...]]] = []

    def on_set(delivery: sq.Delivery, tx: sq.Session) -> None:
        first = delivery.messages[0]
        seen.append((sorted(one.body.decode() for one in delivery), first.partial, first.missing))

    sq.Worker(box, "sets", on_set, batch=True).run(until_idle=True)
    with box.session() as tx:  # whoever looks next finds that its time is over
        if (delivery := tx.receive("sets", wait=10)) is not None:
            on_set(delivery, tx)
    assert sorted(seen) == [(["A1", "A3"], True, (2,)), (["B1", "B2", "B3"], False, ())]
    box.publish(part("A", 2))
    sq.Worker(box, "sets", on_set, batch=True).run(until_idle=True)
    assert len(seen) == 2
    assert invariants.broken(box) == []
