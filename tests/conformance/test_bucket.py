"""The conformance cases on a bucket of Spark's operator, cut into calls in any way, with the state as bytes in between."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from seriatim import Fifo, Policy, Sequence, Sequencer, Standard, Unordered
from seriatim.kernel.groups.numbers import not_on_spark
from seriatim.spark.resequence import bucket
from tests.conformance import on_bucket, on_spark
from tests.conformance.case import Arrive, Case, Message, Result, check
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
    if case.has_actions
    and case.plain
    and not case.unwatched
    and not isinstance(case.policy, Unordered)
    and not_on_spark(case.policy) is None
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


def by_chance(chance: Random) -> Case:
    """A case of two groups, with any of the rules that a pipeline's state keeps something for."""
    numbered = chance.random() < 0.6
    policy: Policy = Fifo()
    if numbered:
        timeout = chance.choice([None, 5])
        restart_after = chance.choice([0, 1, 2, 3])
        policy = Standard(
            start=chance.choice([1, "first"]),
            hole_timeout=timeout,
            on_hole=chance.choice(["wait", "skip"]) if timeout else "wait",
            late=chance.choice(["set_aside", "deliver", "suspend"]),
            capacity=chance.choice([None, 3]),
            remember=chance.choice([0, 2, 64]),
            restart_after=restart_after,
            on_restart=chance.choice(["report", "suspend"]) if restart_after else "report",
        )
    opens, closes = chance.random() < 0.4, chance.random() < 0.4
    messages: list[Message] = []
    voids: set[tuple[str, int]] = set()
    time = 0.0
    for place in range(chance.randrange(4, 30)):
        time += chance.choice([0, 0, 1, 3])
        group, number = chance.choice("ab"), chance.randrange(1, 9) if numbered else place
        properties = {"opens": opens and chance.random() < 0.3, "closes": closes and chance.random() < 0.15}
        if chance.random() < 0.15 and (group, number) not in voids:
            voids.add((group, number))
            properties["void"] = True
        messages.append(Message(group, number, time, chance.choice("xy"), properties))
    steps = tuple(Arrive((message,)) for message in messages)
    timeout = chance.choice([None, 4]) if opens else None
    return Case("by chance", "", policy, steps, opens=opens, closes=closes, unopened_timeout=timeout)


def numbered_by_chance(chance: Random) -> Case:
    """A case of two groups whose numbers mean something."""
    timeout = chance.choice([None, 5])
    start = chance.choice([1, "first", "lowest", "told"])
    policy = Standard(
        start=start,
        settle=3 if start == "lowest" else None,
        hole_timeout=timeout,
        on_hole=chance.choice(["wait", "skip"]) if timeout else "wait",
        late=chance.choice(["set_aside", "deliver", "suspend"]),
        capacity=chance.choice([None, 3]),
        remember=chance.choice([0, 2, 64]),
    )
    names = ("through", "base", "base_only", "unnumbered")
    says: dict[str, Any] = {name: name for name in names if chance.random() < 0.5}
    says |= chance.choice([{}, {"epoch": "epoch"}, {"restarts": "restarts"}])
    says |= {"modulus": chance.choice([5, 8])} if chance.random() < 0.4 else {}
    messages: list[Message] = []
    time = 0.0
    for _ in range(chance.randrange(4, 30)):
        time += chance.choice([0, 0, 1, 3])
        number = chance.randrange(0, 9)
        properties: dict[str, Any] = {"epoch": chance.choice([1, 1, 1, 2, 2, 3, None])}
        properties |= {name: True for name in ("base", "base_only", "unnumbered", "restarts") if chance.random() < 0.1}
        if chance.random() < 0.8:
            properties["through"] = number + chance.choice([0, 0, 1, 2, 3, -1])
        messages.append(Message(chance.choice("ab"), number, time, chance.choice("xy"), properties))
    steps = tuple(Arrive((message,)) for message in messages)
    return Case("numbered by chance", "", policy, steps, numbers=Sequence(**says))


@pytest.mark.dear
@pytest.mark.parametrize("brought", [by_chance, numbered_by_chance])
def test_what_chance_brings_becomes_in_any_cut_what_it_becomes_in_memory(brought: Callable[[Random], Case]) -> None:
    def fates(result: Result) -> dict[int, tuple[str, int | None, bool]]:
        return {fate.message: (fate.disposition, fate.ordinal, fate.late) for fate in result.fates}

    chance = Random(seed())
    for number in range(50):
        case = brought(chance)
        wanted, count = fates(InMemory(Sequencer, "whole").run(case)), len(case.messages)
        for places in ([], range(count), chance.sample(range(count), chance.randrange(count))):
            found = fates(on_bucket.run(case, on_bucket.cut_at(case, places)))
            assert found == wanted, f"case {number}, cut at {sorted(places)}: {case}"
