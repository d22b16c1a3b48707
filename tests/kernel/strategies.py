"""Random policies, messages and calls. Numbers are small, so that they meet: equal, due at once, full."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from seriatim import VOID, BestEffort, Fifo, Policy, Standard, UnitOfWork, Unordered
from tests.kernel.comparison import Call

GROUPS = ("a", "b", "c")

_odd_groups = st.sampled_from([None, "", "x\0", "y" * 1025, b"\xff", 3])
_odd_sequences = st.sampled_from(
    [
        *(
            None,
            True,
            1.5,
            2.0,
            float("nan"),
            2.0**53,
            "2",
            "-03",
            " 4\n",
            "4.0",
            "",
            "x",
            Decimal("5.00"),
            Decimal("5.5"),
        ),
        *(2**63, -(2**63) - 1, 2**63 - 1, 2**63 - 2, (0, 1), (0, 3), (0, 0)),
    ]
)
_lates = st.sampled_from(["set_aside", "deliver", "suspend"])

_on_holes = st.one_of(
    st.fixed_dictionaries({"hole_timeout": st.just(None)}),
    st.fixed_dictionaries(
        {"hole_timeout": st.sampled_from([2, 3, 5]), "on_hole": st.sampled_from(["wait", "skip", "skip"])}
    ),
    st.fixed_dictionaries({"hole_timeout": st.sampled_from([2, 3, 5]), "on_hole": st.just("skip")}),
)
_restarts = st.one_of(
    st.fixed_dictionaries({"restart_after": st.sampled_from([0, 8])}),
    st.fixed_dictionaries(
        {"restart_after": st.sampled_from([1, 2, 3]), "on_restart": st.sampled_from(["report", "suspend"])}
    ),
)
standards = st.builds(
    lambda on_hole, restart, **others: Standard(**on_hole, **restart, **others),
    on_hole=_on_holes,
    restart=_restarts,
    remember=st.sampled_from([None, 0, 1, 2]),
    start=st.sampled_from([1, 1, 0, -3, "first"]),
    increment=st.sampled_from([1, 1, 1, 2, 3]),
    hole_retries=st.sampled_from([0, 0, 1, 2]),
    late=_lates,
    capacity=st.sampled_from([None, None, 1, 2, 3]),
)
windowed = st.builds(
    BestEffort, window=st.sampled_from([2, 3, 5]), buffer=st.sampled_from([0, 0.1, 0.5, 1, 2]), late=_lates
)
windowless = st.builds(BestEffort, max_rows=st.sampled_from([None, 1, 2]), late=_lates)
_timeouts, _starts = st.sampled_from([None, 2, 5]), st.sampled_from([1, 1, 0])
units_of_work = st.one_of(
    st.builds(UnitOfWork, size=st.integers(1, 4), timeout=_timeouts, start=_starts),
    st.builds(UnitOfWork, size=st.just("size"), timeout=_timeouts, start=_starts),
    st.builds(UnitOfWork, last=st.just("last"), timeout=_timeouts, start=_starts),
    st.builds(
        UnitOfWork, size=st.integers(1, 4), timeout=st.sampled_from([2, 5]), start=_starts,
        on_timeout=st.just("deliver"), once=st.booleans(),
    ),
    st.builds(UnitOfWork, size=st.just("size"), timeout=_timeouts, once=st.just(False)),
    st.builds(UnitOfWork, last=st.just("last"), timeout=_timeouts, start=_starts, once=st.just(False)),
)  # fmt: skip
by_arrival = st.sampled_from([Fifo(), Unordered()])

ALL_POLICIES: dict[str, st.SearchStrategy[Policy]] = {
    "standard": standards,
    "best_effort with a window": windowed,
    "best_effort without a window": windowless,
    "unit_of_work": units_of_work,
    "by arrival": by_arrival,
}


@st.composite
def items(draw: st.DrawFn, *, most: int = 8, odd: bool = True) -> list[tuple[Any, Any, dict[str, Any]]]:
    """Messages of a few groups. The values say what a set's size is."""
    group = st.sampled_from(GROUPS)
    number = st.integers(-4, 12)
    if odd:
        group = st.one_of(group, group, group, group, group, _odd_groups)
        number = st.one_of(number, number, number, number, number, _odd_sequences)
    message = st.fixed_dictionaries(
        {},
        optional={
            "size": st.sampled_from([2, 3, 3, 4, 0, None, "3", "x", 1.5]),
            "last": st.sampled_from([False, False, True]),
            "content": st.sampled_from([0, 0, 1, 1j]),
        },
    )
    says = st.one_of(message, message, message, message, st.just(VOID))
    return draw(st.lists(st.tuples(group, number, says), max_size=most))


_moments = st.sampled_from([-3, 0, 0, 1, 1, 2, 3, 5, 9])


@st.composite
def calls(draw: st.DrawFn, *, most: int = 8) -> list[Call]:
    """What a program and its operators may do to a queue in order. Time goes on, mostly."""
    now, script = 0.0, []
    for _ in range(draw(st.integers(1, most))):
        now = max(0.0, now + draw(_moments))
        kind = draw(st.sampled_from(["offer", "offer", "offer", "advance", "advance", "act"]))
        if kind == "offer":
            script.append(Call("offer", (draw(items()),), {"now": now}))
        elif kind == "advance":
            script.append(Call("advance", (now,)))
        else:
            script.append(draw(actions(now)))
    return script


@st.composite
def actions(draw: st.DrawFn, now: float) -> Call:
    """An operator's action, fitting or not."""
    group = draw(st.sampled_from(GROUPS))
    name = draw(
        st.sampled_from(
            [
                "suspend",
                "suspend",
                "resume",
                "resume",
                "skip_message",
                "skip_message",
                "skip_hole",
                "skip_hole",
                "reset",
                "abort",
                "close",
                "close",
            ]
        )
    )
    keywords: dict[str, Any] = {"now": now}
    if name == "skip_hole":
        keywords["through"] = draw(st.one_of(st.none(), st.integers(-4, 12)))
    if name == "skip_message":
        keywords["sequence"] = draw(st.one_of(st.none(), st.integers(-4, 12)))
    if name == "reset":
        keywords["next"] = draw(st.integers(-4, 12))
    if name == "close":
        keywords["at_once"] = draw(st.booleans())
    return Call(name, (group,), keywords)


@st.composite
def timed_items(draw: st.DrawFn, *, most: int = 14) -> list[tuple[Any, Any, dict[str, Any], float]]:
    """Messages with their own times, in no order."""
    plain = draw(items(most=most))
    return [(*item, float(draw(st.integers(0, 20)))) for item in plain]
