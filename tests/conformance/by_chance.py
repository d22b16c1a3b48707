"""Cases by chance: any of the rules that an engine keeps something for, and messages that meet. What becomes of them in memory is what has
to become of them elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from seriatim import BestEffort, Fifo, Policy, Sequence, Standard, UnitOfWork
from tests.conformance.case import Arrive, Case, Message, Result


def fates(result: Result) -> dict[int, tuple[Any, ...]]:
    """By message what became of it, and what its set lacks."""
    return {fate.message: (fate.disposition, fate.ordinal, fate.late, fate.lacks or ()) for fate in result.fates}


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


def sets_by_chance(chance: Random) -> Case:
    """A case of two keys whose sets may stay incomplete, and may be used again."""
    start, timeout = chance.choice([0, 1]), chance.choice([None, 2, 5])
    size: dict[str, Any] = chance.choice([{"size": "size"}, {"size": 3}, {"last": "is_last"}])
    policy = UnitOfWork(
        **size, start=start, timeout=timeout, once=chance.choice([True, False]),
        on_timeout="dead" if timeout is None else chance.choice(["dead", "deliver", "deliver"]),
    )  # fmt: skip
    messages: list[Message] = []
    time = 0.0
    for _ in range(chance.randrange(4, 30)):
        time += chance.choice([0, 0, 1, 3])
        properties = {
            "size": chance.choice([None, 2, 3, 3, 4]) if "size" in size else None,
            "is_last": chance.random() < 0.3,
        }
        messages.append(Message(chance.choice("ab"), chance.randrange(0, 5), time, chance.choice("xyz"), properties))
    return Case("sets by chance", "", policy, tuple(Arrive((message,)) for message in messages))


def placed_by_chance(chance: Random) -> Case:
    """A case of two groups in order of positions, in rounds by time."""
    policy = BestEffort(
        by="position",
        window=chance.choice([1, 3, 6]),
        buffer=chance.choice([0, 0.5]),
        late=chance.choice(["set_aside", "deliver", "suspend"]),
    )
    says = chance.choice(
        [
            {"by": "position"},
            {"by": "position", "format": "digits"},
            {"by": ["lsn", "index"]},
            {"by": ["position", "index"]},
        ]
    )
    says |= {"void": "leaves_nothing"} if chance.random() < 0.4 else {}
    messages: list[Message] = []
    time = 0.0
    for number in range(chance.randrange(4, 30)):
        time += chance.choice([0, 0, 1, 3])
        properties: dict[str, Any] = {
            "position": chance.choice(["0", "1", "10", "010", "2", "11", "9" * 40, "z"]),
            "lsn": chance.choice(["0/1", "0/A", "0/B", "1/0"]),
            "index": chance.choice([-1, 0, 1, 2**40]),
            "leaves_nothing": chance.random() < 0.15,
        }
        messages.append(Message(chance.choice("ab"), number, time, "", properties))
    return Case("placed by chance", "", policy, tuple(Arrive((one,)) for one in messages), numbers=Sequence(**says))


BROUGHT: list[Callable[[Random], Case]] = [by_chance, numbered_by_chance, sets_by_chance, placed_by_chance]
