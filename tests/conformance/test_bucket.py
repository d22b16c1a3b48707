"""The conformance cases on a bucket of Spark's operator, cut into calls in any way, with the state as bytes in between."""

from __future__ import annotations

from random import Random

import pytest

from tests.conformance import on_bucket, on_spark
from tests.conformance.case import Case, check
from tests.conformance.cases import CASES

STEPPED = [case for case in CASES if on_spark.cannot_run(case) is None]
#: Rounds without a window are judged once a call.
CUT = [case for case in STEPPED if not case.per_call]


@pytest.mark.parametrize("case", STEPPED, ids=lambda case: case.name)
def test_step_by_step(case: Case) -> None:
    check(case, on_bucket.run(case, on_bucket.steps_of(case), by_step=True))


@pytest.mark.parametrize("case", CUT, ids=lambda case: case.name)
def test_however_it_is_cut(case: Case) -> None:
    chance, count = Random(case.name), len(case.messages)
    cuts = [[], list(range(count)), *(chance.sample(range(count), chance.randrange(count + 1)) for _ in range(3))]
    for places in cuts:
        check(case, on_bucket.run(case, on_bucket.cut_at(case, places)))
