"""The classic examples of putting messages back in order."""

from __future__ import annotations

from seriatim.kernel.groups.policy import BestEffort, Standard
from tests.conformance.case import CLOCK, Case, at, later, of, together

_RULE = "classic example"

CLASSIC = (
    Case(
        "55 arrives after 56 to 100",
        _RULE,
        Standard(),
        (at(0, "g", *range(56, 101), leaves={}), at(1, "g", 55, leaves={"g": list(range(55, 101))})),
        start_from={"g": 55},
        released={"g": list(range(55, 101))},
    ),
    Case(
        "1, 2, 3, 4, 6 and then 5",
        _RULE,
        Standard(),
        (at(0, "g", 1, 2, 3, 4, 6, leaves={"g": [1, 2, 3, 4]}), at(1, "g", 5, leaves={"g": [5, 6]})),
        released={"g": [1, 2, 3, 4, 5, 6]},
    ),
    Case(
        "2, 3, 4 before 1",
        _RULE,
        Standard(),
        (at(0, "g", 2, 3, 4, leaves={}), at(1, "g", 1)),
        released={"g": [1, 2, 3, 4]},
    ),
    Case(
        "a window of 50 s and 10%: a lower and a higher one at 0, 51, 53 and 57 s",
        _RULE,
        BestEffort(window=50, buffer=0.10),
        (at(0, "g", 10, 20), at(51, "g", 15, 25), at(53, "g", 5, 30), at(57, "g", 18, 40), later(111)),
        note="fixed at 50 with 20 the highest, left at 55; the next round is 25, 30, 40 and leaves at 110",
        released={"g": [5, 10, 15, 20, 25, 30, 40]},
        late={"g": [18]},
        held={"clock": [1]},
    ),
    Case(
        "gaps in a round of one call, at most 10: all that is there leaves, what follows is late",
        _RULE,
        BestEffort(max_rows=10),
        (at(0, "g", 1, 2, 3, 5, 7, 8, 10, 11, 12, 13), at(1, "g", 4, 6, 9, leaves={})),
        released={"g": [1, 2, 3, 5, 7, 8, 10, 11, 12, 13]},
        late={"g": [4, 6, 9]},
    ),
    Case(
        "gaps in a round of one call, at most 3: what is left is due at once",
        _RULE,
        BestEffort(max_rows=3),
        (at(0, "g", 13, 2, 3, 5, 7, 8, 10, 11, 12, 1, leaves={"g": [1, 2, 3]}), at(1, "g", 4, 6, 9)),
        note="the lowest three of all that wait are the next round: 4, 6 and 9 come in time",
        released={"g": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]},
    ),
    Case(
        "insert, update and delete of one row in the wrong order",
        _RULE,
        Standard(),
        (at(0, "row-7", of(3, "delete"), of(2, "update")), at(1, "row-7", of(1, "insert"))),
        released={"row-7": [1, 2, 3]},
        labels={"row-7": ["insert", "update", "delete"]},
    ),
    Case(
        "a parcel that arrives before it left",
        _RULE,
        BestEffort(by="time", window=60),
        (at(0, "parcel", of(1_700_050_000.0, "arrived")), at(30, "parcel", of(1_700_000_000.0, "left")), later(67)),
        released={"parcel": [1_700_000_000.0, 1_700_050_000.0]},
        labels={"parcel": ["left", "arrived"]},
        held={"clock": [1]},
    ),
    Case(
        "two customers: a hole in one doesn't hold up the other",
        _RULE,
        Standard(),
        (together(at(0, "a", 2), at(0, "b", 1), at(0, "a", 3), at(0, "b", 2)), later(10)),
        released={"b": [1, 2], **CLOCK},
        held={"a": [2, 3]},
        states={"a": "waiting", "b": "ready"},
    ),
)
