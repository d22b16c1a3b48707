"""A fixed corpus: every conformance case and seeded random scripts, fast enough to hold against each mutation.

It consists of checks with names, so that the one which is known to catch a mutation can go first.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from seriatim import VOID, BestEffort, Fifo, Policy, Sequencer, Standard, UnitOfWork
from tests.conformance.case import Case, Cutting, check
from tests.conformance.cases import CASES
from tests.conformance.in_memory import InMemory
from tests.kernel.arrival_times import check_falling_times, check_settled
from tests.kernel.comparison import Call, check_replay, check_script
from tests.kernel.weights import check_weights

CAUGHT = 3
SEED = 2
SCRIPTS = 400
#: Scripts behind these that catch what they don't: a group that is closed at once while it is closing.
RARE_SCRIPTS = (814,)
#: The same of what two regions send: a number that the other region shows between two runs.
RARE_MERGES = (210,)
REPLAYS = 150
WEIGHTS = 100
STAYS = 250
MERGES = 80


def policy_of(dice: random.Random) -> Policy:
    """A policy with small numbers."""
    late: Any = dice.choice(["set_aside", "deliver", "suspend"])
    kind = dice.randrange(8)
    if kind < 4:
        timeout, on_hole = dice.choice([None, 2, 3]), dice.choice(["wait", "skip", "skip"])
        return Standard(
            start=dice.choice([1, 1, 0, -3, "first"]),
            increment=dice.choice([1, 1, 1, 2]),
            hole_timeout=timeout,
            hole_retries=dice.choice([0, 0, 1, 2]),
            on_hole="wait" if timeout is None else on_hole,
            late=late,
            capacity=dice.choice([None, None, 1, 2, 3]),
            **restarts_of(dice),
        )
    if kind == 4:
        return BestEffort(max_rows=dice.choice([None, 1, 2]), late=late)
    if kind < 7:
        return BestEffort(window=dice.choice([2, 3, 5]), buffer=dice.choice([0, 0.1, 0.5, 1]), late=late)
    if dice.random() < 0.2:
        return Fifo()
    timeout = dice.choice([None, 2, 5])
    size: Any = dice.choice([1, 2, 3, "size", "size", "size"])
    return dice.choice([UnitOfWork(size=size, timeout=timeout), UnitOfWork(last="last", timeout=timeout)])


def restarts_of(dice: random.Random) -> dict[str, Any]:
    """When a producer is suspected to have begun anew."""
    after = dice.choice([0, 1, 2, 2, 3, 8])
    on_restart = dice.choice(["report", "suspend"]) if after else "report"
    return {"restart_after": after, "on_restart": on_restart, "remember": dice.choice([None, 0, 1, 2, 64])}


def items_of(dice: random.Random, most: int) -> list[tuple[Any, Any, dict[str, Any]]]:
    """Messages of three groups."""
    items = []
    for _ in range(dice.randrange(most)):
        says: dict[str, Any] = {}
        if dice.random() < 0.3:
            says["size"] = dice.choice([2, 3, 3, 4, 0, "3", "x"])
        if dice.random() < 0.2:
            says["last"] = True
        if dice.random() < 0.8:
            says["content"] = dice.choice([0, 0, 1, 1j])
        odd = dice.choice([None, True, 2**63 - 1, 2**63, "2", "x", 3.0, 1.5])
        value: Any = VOID if dice.random() < 0.1 else says
        items.append((dice.choice("aaabc"), odd if dice.random() < 0.03 else dice.randint(-4, 9), value))
    return items


def script_of(dice: random.Random) -> list[Call]:
    """Offers, advances and actions."""
    script, now = [], 0.0
    for _ in range(dice.randrange(4, 12)):
        now = max(0.0, now + dice.choice([-2, 0, 1, 1, 2, 3, 5]))
        name = dice.choice(["offer"] * 5 + ["advance"] * 3 + ["act"] * 2)
        if name == "offer":
            script.append(Call("offer", (items_of(dice, 7),), {"now": now}))
        elif name == "advance":
            script.append(Call("advance", (now,)))
        else:
            script.append(action_of(dice, now))
    return script


def action_of(dice: random.Random, now: float) -> Call:
    """An operator's action, fitting or not."""
    name = dice.choice(
        [
            "suspend",
            "resume",
            "resume",
            "skip_message",
            "skip_message",
            "skip_hole",
            "reset",
            "abort",
            "close",
            "close",
            "restart",
        ]
    )
    keywords: dict[str, Any] = {"now": now}
    if name == "skip_hole" and dice.random() < 0.5:
        keywords["through"] = dice.randint(-4, 9)
    if name == "reset":
        keywords["next"] = dice.randint(-4, 9)
    if name == "close":
        keywords["at_once"] = dice.random() < 0.3
    if name == "skip_message" and dice.random() < 0.7:
        keywords["sequence"] = dice.randint(-4, 9)
    return Call(name, (dice.choice("aab"),), keywords)


def policy_with_stays(dice: random.Random) -> Policy:
    """One of those whose groups messages can open and close."""
    while not isinstance(policy := policy_of(dice), Standard):
        if dice.random() < 0.5:
            return Fifo()
    return policy


def stays_of(dice: random.Random) -> dict[str, Any]:
    """What opens and closes groups."""
    which = dice.choice(["both", "both", "both", "opens", "closes"])
    found: dict[str, Any] = {} if which == "opens" else {"closes": lambda value: bool(value.get("last"))}
    if which != "closes":
        opens = {"opens": lambda value: value.get("size") in (2, 3, 4)}
        found |= opens | {"unopened_timeout": dice.choice([None, None, 2, 5])}
    return found


def merged(dice: random.Random, policy: Policy) -> dict[str, Any]:
    """What says the region and the id of a message."""
    found: dict[str, Any] = {"region": "region", "message_id": "id"}
    return found | {"horizon": dice.choice([1, 3, 8])} if isinstance(policy, Fifo) else found


def with_regions(dice: random.Random, items: list[Any]) -> list[Any]:
    """The messages, each from one of two regions; most of a number have one id."""
    found = []
    for group, sequence, value, *time in items:
        says: Any = value
        if value is not VOID:
            number = dice.choice(
                [f"{sequence}", f"{sequence}", f"{sequence}", "other", None if dice.random() < 0.1 else "x"]
            )
            says = {"region": dice.choice("aabb" if dice.random() < 0.98 else "c"), "id": number}
            says |= {"content": value["content"]} if "content" in value and dice.random() < 0.2 else {}
        found.append((group, sequence, says, *time))
    return found


def merges_of(dice: random.Random, script: list[Call]) -> list[Call]:
    """A script whose messages two regions send."""
    return [
        Call(call.name, (with_regions(dice, call.arguments[0]),), call.keywords) if call.name == "offer" else call
        for call in script
    ]


def replay_of(dice: random.Random) -> list[tuple[list[Any], float | None]]:
    """History in a few parts."""
    return [
        ([(*item, float(dice.randrange(20))) for item in items_of(dice, 14)], dice.choice([None, None, 5.0, 25.0]))
        for _ in range(dice.randrange(1, 4))
    ]


def checks() -> Iterator[tuple[str, Callable[[], None]]]:
    """Every check with its name, the cheapest first, so that most mutations fail soon. Each takes its own chances."""
    yield "falling times", check_falling_times
    yield "settled", check_settled
    yield from cases("steps", "whole")
    for name, numbers, checked in (
        ("script", [*range(SCRIPTS), *RARE_SCRIPTS], check_one_script),
        ("stays", range(STAYS), check_one_with_stays),
        ("merge", [*range(MERGES), *RARE_MERGES], check_one_merge),
        ("replay", range(REPLAYS), check_one_replay),
        ("weights", range(WEIGHTS), lambda dice: check_weights(policy_of(dice), dice)),
        ("weights of fifo", range(WEIGHTS // 10), lambda dice: check_weights(Fifo(), dice)),
    ):
        for number in numbers:
            yield f"{name} {number}", partial(by_chance, checked, f"{name} {number}")
    yield from cases("singly")


def by_chance(checked: Callable[[random.Random], None], name: str) -> None:
    """A check with the dice of its name."""
    checked(random.Random(f"{SEED} {name}"))


def check_one_script(dice: random.Random) -> None:
    check_script(policy_of(dice), script_of(dice), {})


def check_one_with_stays(dice: random.Random) -> None:
    check_script(policy_with_stays(dice), script_of(dice), {}, stays_of(dice))


def check_one_merge(dice: random.Random) -> None:
    """What two regions send, by calls and as history."""
    policy = policy_with_stays(dice)
    check_script(policy, merges_of(dice, script_of(dice)), {}, merged(dice, policy))
    parts = [(with_regions(dice, items), watermark) for items, watermark in replay_of(dice)]
    check_replay(policy, parts, merged(dice, policy))


def check_one_replay(dice: random.Random) -> None:
    policy = policy_of(dice)
    if not (isinstance(policy, BestEffort) and policy.window is None):
        check_replay(policy, replay_of(dice))


def cases(*cuttings: Cutting) -> Iterator[tuple[str, Callable[[], None]]]:
    """Every conformance case, cut in each of these ways."""
    for cutting in cuttings:
        engine = InMemory(Sequencer, cutting)
        for case in CASES:
            if engine.cannot_run(case) is None:
                yield f"{cutting}: {case.name}", partial(check_case, engine, case)


def check_case(engine: InMemory, case: Case) -> None:
    check(case, engine.run(case))


def play(first: str = "") -> int:
    """0 if the kernel passes every check, else `CAUGHT`; the last line written says which check failed.

    Args:
        first: the name of the check that goes ahead of all others.
    """
    every = list(checks())
    for name, checked in sorted(every, key=lambda one: one[0] != first):  # stable
        try:
            checked()
        except Exception as failure:  # noqa: BLE001 - a mutation may break the kernel in any way
            sys.stderr.write(f"{type(failure).__name__}: {str(failure)[:300]}\n{name}\n")
            return CAUGHT
    return 0
