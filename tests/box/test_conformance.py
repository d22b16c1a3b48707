"""The conformance cases in queues of a message box: the same expectations as in memory, however they are handed out."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import seriatim as sq
from tests.conformance.case import Case, check
from tests.conformance.cases import CASES
from tests.conformance.in_box import InBox, cannot_run

BOXED = [case for case in CASES if cannot_run(case) is None]


@pytest.fixture(scope="module", params=[50, 1], ids=["in runs", "one by one"])
def engine(postgresql: str, request: pytest.FixtureRequest) -> Iterator[InBox]:
    """All cases, each in a queue of one box."""
    with sq.MessageBox.open(postgresql, schema=f"conformance_{request.param}") as box:
        yield InBox(box, BOXED, request.param)


@pytest.mark.parametrize("case", BOXED, ids=lambda case: case.name)
def test_a_queue(case: Case, engine: InBox) -> None:
    check(case, engine.run(case))


def test_the_laws_of_the_box_hold_after_all_of_them(engine: InBox) -> None:
    for case in BOXED:
        if case.name not in engine.done:
            engine.run(case)
    assert engine.box.broken() == []


def test_nearly_all_cases_apply() -> None:
    assert len(BOXED) >= len(CASES) - 3
