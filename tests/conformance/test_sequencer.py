"""The conformance cases in memory."""

from __future__ import annotations

import pytest

from seriatim import Sequencer
from tests.conformance.case import Case, Cutting, check
from tests.conformance.cases import CASES
from tests.conformance.in_memory import InMemory

pytestmark = pytest.mark.telling


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_step_by_step(case: Case) -> None:
    check(case, InMemory(Sequencer).run(case))


@pytest.mark.parametrize("cutting", ["whole", "singly"])
@pytest.mark.parametrize(
    "case",
    [case for case in CASES if not (case.has_actions or case.per_call or case.unwatched)],
    ids=lambda case: case.name,
)
def test_however_it_is_cut(case: Case, cutting: Cutting) -> None:
    check(case, InMemory(Sequencer, cutting).run(case))
