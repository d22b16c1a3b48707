"""The oracle against the cases, so that each vouches for the other; and the cases' own promises."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conformance.case import Arrive, Case, Recorded, check
from tests.conformance.cases import CASES, LATER, RECORDED
from tests.conformance.in_memory import InMemory
from tests.oracle import Oracle

PORTABLE = [case for case in CASES if not (case.has_actions or case.per_call or case.unwatched)]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_oracle_agrees(case: Case) -> None:
    check(case, InMemory(Oracle).run(case))


@pytest.mark.parametrize("cutting", ["whole", "singly"])
@pytest.mark.parametrize("case", PORTABLE, ids=lambda case: case.name)
def test_a_case_means_the_same_however_it_is_cut(case: Case, cutting: str) -> None:
    check(case, InMemory(Oracle, cutting).run(case))


def test_names_are_unique() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_messages_come_in_order_of_time(case: Case) -> None:
    times = [message.at for message in case.messages]
    assert times == sorted(times)
    assert all(step.messages for step in case.steps if isinstance(step, Arrive))


def test_no_recorded_case_is_forgotten(shared: Path) -> None:
    ours = [case.source for case in RECORDED if isinstance(case.source, Recorded)] + list(LATER)
    theirs = [
        (one["suite"], one["case"])
        for one in json.loads((shared / "vectors" / "cases.json").read_text(encoding="utf-8"))
    ]

    def covers(source: Recorded, suite: str, name: str) -> bool:
        return suite.startswith(source.suite) and name == source.case

    forgotten = [(suite, name) for suite, name in theirs if sum(covers(s, suite, name) for s in ours) != 1]
    assert forgotten == []
    invented = [source for source in ours if not any(covers(source, suite, name) for suite, name in theirs)]
    assert invented == []
