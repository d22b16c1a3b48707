"""The conformance cases on a bucket of Spark's operator, cut into calls in any way, with the state as bytes in between."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from seriatim import Sequencer, Unordered
from seriatim.spark.resequence import bucket
from tests.conformance import on_bucket, on_spark
from tests.conformance.by_chance import BROUGHT, fates
from tests.conformance.case import Case, check
from tests.conformance.cases import CASES
from tests.conformance.in_memory import InMemory
from tests.soak import seed

STEPPED = [case for case in CASES if on_spark.cannot_run(case) is None]
#: Of those that have groups.
RESTING = [case for case in STEPPED if not isinstance(case.policy, Unordered)]
#: An action is a command; each step is a call of its own.
ACTED = [
    case
    for case in CASES
    if case.has_actions and case.plain and not case.unwatched and not isinstance(case.policy, Unordered)
]
#: Rounds without a window are judged once a call.
CUT = [case for case in STEPPED if not case.per_call]


@pytest.mark.parametrize("case", STEPPED, ids=lambda case: case.name)
def test_step_by_step(case: Case) -> None:
    check(case, on_bucket.run(case, on_bucket.steps_of(case), by_step=True))


@pytest.mark.dear
@pytest.mark.parametrize("case", CUT, ids=lambda case: case.name)
def test_however_it_is_cut(case: Case) -> None:
    chance, count = Random(case.name), len(case.messages)
    cuts = [[], list(range(count)), *(chance.sample(range(count), chance.randrange(count + 1)) for _ in range(3))]
    for places in cuts:
        check(case, on_bucket.run(case, on_bucket.cut_at(case, places)))


@pytest.mark.parametrize("case", RESTING, ids=lambda case: case.name)
def test_groups_that_leave_a_tombstone_whenever_they_can(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "LEAST_PUT_AWAY", 1)
    check(case, on_bucket.run(case, on_bucket.steps_of(case), by_step=True, rests=True))


@pytest.mark.parametrize("case", ACTED, ids=lambda case: case.name)
def test_operators_act(case: Case) -> None:
    check(case, on_bucket.run_acted(case))


@pytest.mark.dear
@pytest.mark.parametrize("brought", BROUGHT)
def test_what_chance_brings_becomes_in_any_cut_what_it_becomes_in_memory(brought: Callable[[Random], Case]) -> None:
    chance = Random(seed())
    for number in range(50):
        case = brought(chance)
        wanted, count = fates(InMemory(Sequencer, "whole").run(case)), len(case.messages)
        for places in ([], range(count), chance.sample(range(count), chance.randrange(count))):
            found = fates(on_bucket.run(case, on_bucket.cut_at(case, places)))
            assert found == wanted, f"case {number}, cut at {sorted(places)}: {case}"
