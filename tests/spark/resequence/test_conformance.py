"""The conformance cases on Spark: the same expectations as in memory, from a static frame and from a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random

import pytest
from pyspark.sql import SparkSession

from seriatim import Sequencer
from tests.conformance import on_spark
from tests.conformance.by_chance import BROUGHT, fates
from tests.conformance.case import Case, Result, check
from tests.conformance.cases import CASES
from tests.conformance.in_memory import InMemory
from tests.soak import seed

STREAMED = [case for case in CASES if on_spark.cannot_run(case) is None]
#: Rounds without a window are judged once a call, and a frame is one call: their steps would lose their meaning.
STATIC = [case for case in STREAMED if not case.per_call]
#: What says the regions of messages, for the cases in which two regions send them: a query of their own, in which all have one horizon.
MERGING = {"region": "region", "message_id": "id", "horizon": 10}


@pytest.fixture(scope="module")
def static(spark: SparkSession) -> Mapping[str, Result]:
    merged = on_spark.run_static(spark, [case for case in STATIC if case.regions], **MERGING)
    return merged | on_spark.run_static(spark, [case for case in STATIC if not case.regions])


@pytest.fixture(scope="module")
def streamed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Result]:
    plain, merged = ([case for case in STREAMED if case.regions is regions] for regions in (False, True))
    found = on_spark.run_streaming(spark, merged, tmp_path_factory.mktemp("regions"), **MERGING)
    return found | on_spark.run_streaming(spark, plain, tmp_path_factory.mktemp("conformance"))


@pytest.mark.telling
@pytest.mark.parametrize("case", STATIC, ids=lambda case: case.name)
def test_a_frame_that_ends(case: Case, static: Mapping[str, Result]) -> None:
    check(case, static[case.name])


@pytest.mark.telling
@pytest.mark.parametrize("case", STREAMED, ids=lambda case: case.name)
def test_a_query(case: Case, streamed: Mapping[str, Result]) -> None:
    check(case, streamed[case.name])


@pytest.mark.parametrize("brought", BROUGHT[1:])
def test_what_chance_brings_becomes_in_a_frame_what_it_becomes_in_memory(
    spark: SparkSession, brought: Callable[[Random], Case]
) -> None:
    chance = Random(seed())
    cases = [replace(brought(chance), name=f"case {number}") for number in range(40)]
    found = on_spark.run_static(spark, cases)
    for case in cases:
        assert fates(found[case.name]) == fates(InMemory(Sequencer, "whole").run(case)), case
