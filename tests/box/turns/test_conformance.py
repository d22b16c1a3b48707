"""The conformance cases in queues of a message box: the same expectations as in memory, however they are handed out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

import pytest

import seriatim as sq
from seriatim.box.turns import turn_reading
from seriatim.operations import invariants
from tests.conformance.by_chance import BROUGHT, fates
from tests.conformance.case import Case, check
from tests.conformance.cases import CASES
from tests.conformance.in_box import InBox, cannot_run
from tests.conformance.in_memory import InMemory
from tests.soak import seed

BOXED = [case for case in CASES if cannot_run(case) is None]


LIMITS = [pytest.param(50, id="in runs"), pytest.param(1, id="one by one", marks=pytest.mark.dear)]

#: Of queues that may hand out without a turn, as receivers do who ask for a run or have waited.
STRAIGHT = [case for case in BOXED if isinstance(case.policy, sq.Fifo)]


def engine_of(postgresql: str, cases: list[Case], limit: int, *, straight: bool, how: str = "whole") -> Iterator[InBox]:
    """All cases, each in a queue of one box."""
    with sq.MessageBox.open(postgresql, schema=f"conformance_{limit}_{straight}_{how}".lower()) as box:
        yield InBox(box, cases, limit, straight=straight)


@pytest.fixture(scope="module", params=LIMITS)
def engine(postgresql: str, request: pytest.FixtureRequest) -> Iterator[InBox]:
    """Turns judge everything."""
    yield from engine_of(postgresql, BOXED, request.param, straight=False)


@pytest.fixture(scope="module", params=[1, 3])
def in_parts(postgresql: str, request: pytest.FixtureRequest) -> Iterator[InBox]:
    """Turns judge everything, and read hardly any of it: what costs a turn a part of a long group is the same as all of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(turn_reading, "PORTION", turn_reading.Portion(held=request.param, arrived=2, together=4, each=1))
        yield from engine_of(postgresql, BOXED, request.param, straight=False, how="in_parts")


@pytest.fixture(scope="module", params=LIMITS)
def straight(postgresql: str, request: pytest.FixtureRequest) -> Iterator[InBox]:
    """Turns judge what has to be judged."""
    yield from engine_of(postgresql, STRAIGHT, request.param, straight=True)


@pytest.mark.parametrize("case", BOXED, ids=lambda case: case.name)
def test_a_queue(case: Case, engine: InBox) -> None:
    check(case, engine.run(case))


@pytest.mark.dear
@pytest.mark.parametrize("case", BOXED, ids=lambda case: case.name)
def test_a_queue_in_parts(case: Case, in_parts: InBox) -> None:
    # What a turn takes in is a batch: a conflict of a part is told, too.
    check(case, replace(in_parts.run(case), conflicts=None))


@pytest.mark.parametrize("case", STRAIGHT, ids=lambda case: case.name)
def test_a_queue_without_turns(case: Case, straight: InBox) -> None:
    check(case, straight.run(case))


def run_all(engine: InBox, cases: list[Case]) -> InBox:
    for case in cases:
        if case.name not in engine.done:
            engine.run(case)
    return engine


def test_the_laws_of_the_box_hold_after_all_of_them(engine: InBox) -> None:
    assert invariants.broken(run_all(engine, BOXED).box) == []


@pytest.mark.dear
def test_the_laws_of_the_box_hold_after_all_in_parts(in_parts: InBox) -> None:
    assert invariants.broken(run_all(in_parts, BOXED).box) == []


def test_the_laws_of_the_box_hold_after_all_without_turns(straight: InBox) -> None:
    assert invariants.broken(run_all(straight, STRAIGHT).box) == []


@pytest.mark.dear
@pytest.mark.parametrize("brought", BROUGHT[1:])
@pytest.mark.parametrize("limit", [50, 2])
def test_what_chance_brings_becomes_in_a_queue_what_it_becomes_in_memory(
    box: sq.MessageBox, brought: Callable[[Random], Case], limit: int
) -> None:
    chance = Random(seed())
    cases = [replace(brought(chance), name=f"case {number}") for number in range(15)]
    engine = InBox(box, cases, limit, straight=False)
    for case in cases:
        assert fates(engine.run(case)) == fates(InMemory(sq.Sequencer).run(case)), case
    assert invariants.broken(box) == []


def test_nearly_all_cases_apply() -> None:
    refused = [case for case in CASES if case.regions]
    assert len(BOXED) >= len(CASES) - len(refused) - 9
