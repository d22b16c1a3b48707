"""Readable transcripts: what a program sees, call by call. The documentation by example."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from seriatim import (
    ActionRefused,
    BestEffort,
    Event,
    Fifo,
    Policy,
    PolicyError,
    Released,
    Sequencer,
    Standard,
    UnitOfWork,
    Unordered,
    UsageError,
)
from seriatim.kernel import resequence as kernel
from seriatim.kernel.groups.arrivals import NOT_SAID, Arrivals
from seriatim.kernel.groups.state import State
from seriatim.kernel.values.outcome import EventKind


def numbers(outcome: Any) -> list[Any]:
    """The sequences that left, in order."""
    return [one.sequence for one in outcome.released]


def test_a_hole_opens_and_is_filled() -> None:
    s = Sequencer(Standard())
    out = s.offer([("cust-1", 3, "c"), ("cust-1", 1, "a")], now=0.0)
    assert out.released == [Released("cust-1", 1, "a", 1, late=False)]
    assert out.events == [Event("hole_opened", "cust-1", 2, 2)]
    assert s.group("cust-1") == ("waiting", 2, 1, 0.0, 1, 1)
    out = s.offer([("cust-1", 2, "b")], now=7.5)
    assert out.released == [Released("cust-1", 2, "b", 2), Released("cust-1", 3, "c", 3)]
    assert out.events == [Event("hole_filled", "cust-1", 2, 2)]
    assert s.group("cust-1") == ("ready", 4, 0, None, 3, 3)


def test_a_hole_within_one_call_is_not_reported() -> None:
    out = Sequencer(Standard()).offer([("g", 2, "b"), ("g", 1, "a")], now=0.0)
    assert numbers(out) == [1, 2]
    assert out.events == []


def test_a_hole_is_reported_then_skipped_and_its_message_is_late() -> None:
    s = Sequencer(Standard(hole_timeout="100s", hole_retries=1, on_hole="skip"))
    s.offer([("g", 1, "a"), ("g", 4, "d"), ("g", 6, "f")], now=0.0)
    assert s.advance(99.9).events == []
    assert s.advance(100.0).events == [Event("hole_overdue", "g", 2, 3)]
    out = s.advance(200.0)
    assert numbers(out) == [4]
    assert out.events == [
        Event("hole_overdue", "g", 2, 3),
        Event("hole_skipped", "g", 2, 3),
        Event("hole_opened", "g", 5, 5),
    ]
    assert s.group("g").hole_since == 200.0
    out = s.offer([("g", 3, "c")], now=201.0)
    assert [(item.sequence, item.value) for item in out.late] == [(3, "c")]
    assert out.late[0].reason != ""


def test_a_hole_times_out_and_an_operator_skips_part_of_it() -> None:
    s = Sequencer(Standard(hole_timeout=100))
    s.offer([("g", 5, "e")], now=0.0)
    assert s.advance(1000.0).events == [Event("hole_overdue", "g", 1, 4), Event("timed_out", "g", 1, 4)]
    assert s.group("g").state == "timed_out"
    out = s.skip_hole("g", through=3, now=1001.0)
    assert out.events == [Event("hole_skipped", "g", 1, 3), Event("hole_opened", "g", 4, 4)]
    assert (s.group("g").state, s.group("g").hole_since) == ("waiting", 1001.0)
    out = s.offer([("g", 4, "d")], now=1002.0)
    assert numbers(out) == [4, 5]


def test_over_several_groups_what_set_a_message_free_decides_the_order() -> None:
    s = Sequencer(Standard())
    out = s.offer([("a", 2, ""), ("b", 1, ""), ("c", 2, ""), ("a", 1, ""), ("b", 2, ""), ("c", 1, "")], now=0.0)
    assert [(one.group, one.sequence) for one in out.released] == [
        ("b", 1),
        ("a", 1),
        ("a", 2),
        ("b", 2),
        ("c", 1),
        ("c", 2),
    ]


def test_over_several_groups_timers_fire_in_order_of_due_time() -> None:
    s = Sequencer(Standard(hole_timeout=10, on_hole="skip"))
    s.offer([("late", 2, "")], now=5.0)
    s.offer([("early", 4, "")], now=5.5)
    s.offer([("late", 4, "")], now=6.0)
    assert [(one.group, one.sequence) for one in s.advance(100.0).released] == [("late", 2), ("early", 4), ("late", 4)]


def test_a_late_message_suspends_and_the_operator_decides() -> None:
    s = Sequencer(Standard(hole_timeout=10, on_hole="skip", late="suspend"))
    s.offer([("g", 3, "c")], now=0.0)
    assert numbers(s.advance(10.0)) == [3]
    assert numbers(s.offer([("g", 4, "d"), ("g", 1, "a"), ("g", 5, "e"), ("g", 2, "b")], now=11.0)) == [4]
    assert (s.group("g").state, s.group("g").held) == ("suspended", 3)
    out = s.skip_message("g", now=12.0)
    assert [item.sequence for item in out.dead] == [1]
    assert s.group("g").state == "suspended"
    out = s.resume("g", now=13.0)
    assert [(one.sequence, one.late, one.ordinal) for one in out.released] == [(2, True, 3), (5, False, 4)]
    assert s.group("g").state == "ready"


def test_what_does_not_fit_the_state_is_refused_with_the_state_and_what_is_allowed() -> None:
    s = Sequencer(Standard())
    s.offer([("g", 1, "")], now=0.0)
    with pytest.raises(ActionRefused, match=r"ready.*allowed: suspend") as refused:
        s.skip_hole("g")
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)
    s.suspend("g")
    with pytest.raises(ActionRefused, match="suspended"):
        s.skip_message("g")
    s.close("g", at_once=True)
    with pytest.raises(ActionRefused, match="closed"):
        s.resume("g")
    assert s.group("g").state == "closed"


def test_a_refused_action_changes_nothing() -> None:
    s = Sequencer(Standard(increment=2, hole_timeout=10))
    s.offer([("g", 5, "")], now=0.0)
    before = s.group("g")
    for refused in (lambda: s.reset("g", next=4), lambda: s.skip_hole("g", through=2), lambda: s.resume("g")):
        with pytest.raises(ActionRefused):
            refused()
    assert s.group("g") == before
    assert s.advance(10.0).events[0] == Event("hole_overdue", "g", 1, 3)


def test_actions_and_views_are_for_groups_that_there_are() -> None:
    s = Sequencer(Standard())
    with pytest.raises(UsageError, match="nobody"):
        s.resume("nobody")
    with pytest.raises(UsageError, match="nobody"):
        s.group("nobody")


def test_a_window_of_50_s_and_ten_per_cent() -> None:
    s = Sequencer(BestEffort(window=50, buffer=0.10))
    s.offer([("g", 10, ""), ("g", 20, "")], now=0.0)
    assert numbers(s.advance(50.0)) == []
    s.offer([("g", 15, ""), ("g", 25, "")], now=51.0)
    s.offer([("g", 5, ""), ("g", 30, "")], now=53.0)
    assert numbers(s.advance(54.999999)) == []
    assert numbers(s.advance(55.0)) == [5, 10, 15, 20]
    out = s.offer([("g", 18, ""), ("g", 40, "")], now=57.0)
    assert [item.sequence for item in out.late] == [18]
    assert numbers(s.advance(109.999999)) == []
    assert numbers(s.advance(110.0)) == [25, 30, 40]


@pytest.mark.parametrize(
    ("most", "first", "second", "rest", "late"),
    [
        (10, [1, 2, 3, 5, 7, 8, 10, 11, 12, 13], [], [], [4, 6, 9]),
        (3, [1, 2, 3], [4, 5, 6], [7, 8, 9, 10, 11, 12, 13], []),
    ],
)
def test_at_most_so_many_a_round(
    most: int, first: list[int], second: list[int], rest: list[int], late: list[int]
) -> None:
    s = Sequencer(BestEffort(max_rows=most))
    assert numbers(s.offer([("g", n, "") for n in (1, 2, 3, 5, 7, 8, 10, 11, 12, 13)], now=0.0)) == first
    out = s.offer([("g", n, "") for n in (4, 6, 9)], now=1.0)
    assert (numbers(out), [item.sequence for item in out.late]) == (second, late)
    assert numbers(s.advance(1.0)) == rest


def test_times_may_be_seconds_or_datetimes() -> None:
    s = Sequencer(BestEffort(by="time"))
    noon = datetime(2024, 2, 29, 12, tzinfo=UTC)
    first, last = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
    offered = [last, noon, noon.timestamp() - 1, first, noon.replace(tzinfo=None, microsecond=1)]
    out = s.offer([("g", moment, "") for moment in offered], now=0.0)
    assert numbers(out) == [first, noon.timestamp() - 1, noon, noon.replace(tzinfo=None, microsecond=1), last]


def test_tickets_are_in_order_of_epoch_and_number() -> None:
    s = Sequencer(Standard())
    out = s.offer([("crm", (0, 2), ""), ("crm", (0, 1), ""), ("crm", (1, 1), ""), ("crm", (0, 0), "")], now=0.0)
    assert numbers(out) == [(0, 1), (0, 2)]
    assert [item.sequence for item in out.invalid] == [(0, 0)]
    by_effort = Sequencer(BestEffort()).offer([("crm", (1, 1), ""), ("crm", (0, 2**53 - 1), "")], now=0.0)
    assert numbers(by_effort) == [(0, 2**53 - 1), (1, 1)]


def test_tickets_are_contiguous_over_a_turn_over() -> None:
    s = Sequencer(Standard(), start_from={"crm": 2**53 - 2})
    out = s.offer([("crm", (1, 1), ""), ("crm", (0, 2**53 - 2), ""), ("crm", (0, 2**53 - 1), "")], now=0.0)
    assert numbers(out) == [(0, 2**53 - 2), (0, 2**53 - 1), (1, 1)]


def test_a_set_is_told_its_size_by_a_function_of_the_value() -> None:
    s = Sequencer(UnitOfWork(size=lambda value: value or None, timeout="1m"))
    assert numbers(s.offer([("g", 2, 0), ("g", 1, 3)], now=0.0)) == []
    out = s.offer([("g", 3, 0)], now=1.0)
    assert numbers(out) == [1, 2, 3]
    assert [(event.kind, event.group) for event in out.events] == [("closed", "g")]
    assert s.group("g").state == "closed"


def test_an_incomplete_set_is_dead_after_its_time() -> None:
    s = Sequencer(UnitOfWork(last=lambda value: value == "end", timeout=60))
    s.offer([("g", 3, "end"), ("g", 1, "")], now=0.0)
    out = s.advance(60.0)
    assert sorted(item.sequence for item in out.dead) == [1, 3]
    assert [item.sequence for item in s.offer([("g", 2, "")], now=61.0).late] == [2]


def test_without_a_time_the_clock_stands_still() -> None:
    s = Sequencer(Standard(hole_timeout=10, on_hole="skip"))
    assert s.offer([("g", 2, "")]).events == [Event("hole_opened", "g", 1, 1)]
    assert s.group("g") == ("waiting", 1, 1, 0.0, None, 0)
    assert numbers(s.advance(9.0)) == []
    assert numbers(s.advance(10.0)) == [2]


def test_where_input_ends_time_runs_out() -> None:
    s = Sequencer(Standard(hole_timeout="7d", on_hole="skip"))
    s.offer([("g", 2, ""), ("g", 5, "")], now=0.0)
    assert numbers(s.finish()) == [2, 5]
    assert s.counts()["held"] == 0


def test_a_watermark_moves_time_for_all_groups() -> None:
    s = Sequencer(Standard(hole_timeout=10, on_hole="skip"))
    s.replay([("g", 2, "", 0.0)], watermark=9.0)
    assert numbers(s.replay([], watermark=3.0)) == []
    assert numbers(s.advance(5.0)) == []
    assert numbers(s.replay([], watermark=10.0)) == [2]


def test_history_is_replayed_with_the_time_outs_it_would_have_had() -> None:
    s = Sequencer(Standard(hole_timeout=10, on_hole="skip", late="deliver"))
    out = s.replay([("g", 1, "too late", 11.0), ("g", 2, "waits", 0.0), ("g", 3, "after", 12.0)], watermark=12.0)
    assert [(one.sequence, one.late, one.ordinal) for one in out.released] == [
        (2, False, 1),
        (1, True, 2),
        (3, False, 3),
    ]


def test_by_arrival_and_without_any_order() -> None:
    assert numbers(Sequencer(Fifo()).offer([("g", 3, ""), ("g", None, ""), ("g", 1, "")])) == [3, None, 1]
    out = Sequencer(Unordered()).offer([(None, 3, ""), ("g", 1, "")])
    assert [(one.group, one.ordinal) for one in out.released] == [(None, None), ("g", None)]


def test_conservation_in_numbers() -> None:
    s = Sequencer(Standard(hole_timeout=10, on_hole="skip", capacity=1))
    s.offer([("g", 1, ""), ("g", 1, ""), ("g", None, ""), ("g", 3, ""), ("g", 4, "")], now=0.0)
    s.advance(10.0)
    s.offer([("g", 2, ""), ("g", 9, "")], now=11.0)
    assert dict(s.counts()) == {
        "in": 7,
        "released": 2,
        "held": 1,
        "late": 1,
        "duplicate": 1,
        "invalid": 1,
        "rejected": 1,
        "dead": 0,
        "void": 0,
        "copy": 0,
    }
    s.abort("g", now=12.0)
    assert (s.counts()["held"], s.counts()["dead"]) == (0, 1)


@pytest.mark.parametrize("wrong", [("g", 1), None, 7])
def test_what_is_not_a_message_is_a_usage_error(wrong: Any) -> None:
    s = Sequencer(Standard())
    with pytest.raises(UsageError):
        s.offer([("g", 1, "fine"), wrong], now=0.0)
    assert s.counts()["in"] == 0
    assert numbers(s.offer([("g", 1, "fine")], now=0.0)) == [1]


def test_a_call_that_fails_takes_nothing_in() -> None:
    s = Sequencer(UnitOfWork(size=int))
    with pytest.raises(ValueError, match="many"):
        s.offer([("g", 1, "2"), ("g", 2, "many")], now=0.0)
    assert s.counts()["in"] == 0
    with pytest.raises(UsageError):
        s.replay([("g", 1, "2", 0.0), ("g", 2, "2", "yesterday")])
    assert s.counts()["in"] == 0


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), "yesterday", True, None])
def test_what_is_not_a_time_is_a_usage_error(wrong: Any) -> None:
    with pytest.raises(UsageError):
        Sequencer(Standard()).advance(wrong)


def waiting() -> Any:
    """A group that waits behind the numbers 1 and 2."""
    s = Sequencer(Standard())
    s.offer([("g", 3, "c")], now=0.0)
    return s


@pytest.mark.parametrize(
    "act",
    [
        lambda: Sequencer("standard"),
        lambda: Sequencer(Standard(), start_from={"g": "2"}),
        lambda: Sequencer(Standard(), start_from=[("g", 2)]),
        lambda: waiting().offer(None),
        lambda: waiting().replay([("g", 1, "a")]),
        lambda: waiting().skip_hole("g", through="2"),
        lambda: waiting().skip_hole("g", through=True),
        lambda: waiting().reset("g", next=None),
        lambda: waiting().reset("g", next=1.5),
    ],
)
def test_what_can_be_no_argument_is_a_usage_error(act: Any) -> None:
    with pytest.raises(UsageError):
        act()


def test_numbers_of_numpy_are_numbers() -> None:
    assert numbers(waiting().skip_hole("g", through=np.int64(2))) == [3]
    assert numbers(Sequencer(Standard(), start_from={"g": np.int64(7)}).offer([("g", 7, "x")])) == [7]


def test_a_hole_that_is_filled_in_part_names_the_numbers_that_came() -> None:
    s = Sequencer(Standard(hole_timeout=100))
    s.offer([("g", 10, "j")], now=0.0)
    out = s.offer([("g", 1, "a"), ("g", 2, "b")], now=1.0)
    assert out.events == [Event("hole_filled", "g", 1, 2), Event("hole_opened", "g", 3, 9)]
    out = s.offer([("g", number, "x") for number in range(3, 10)] + [("g", 11, "k")], now=2.0)
    assert out.events == [Event("hole_filled", "g", 3, 9)]


@pytest.mark.parametrize("hole_timeout", [None, 0, "0s"])
def test_a_hole_is_skipped_only_where_there_is_a_time_for_it(hole_timeout: float | str | None) -> None:
    with pytest.raises(PolicyError, match=r'on_hole="skip" requires a hole_timeout') as refused:
        Standard(on_hole="skip", hole_timeout=hole_timeout)
    assert "add a hole_timeout" in str(refused.value)


@pytest.mark.parametrize("overdue", [False, True])
def test_which_events_are_kept_where_not_all_are(overdue: bool) -> None:
    """A hole that opens isn't, nor is one that is filled in time."""

    def comes(state: State, number: int, now: int) -> kernel.Outcome:
        columns = (np.array([one], np.int64) for one in (0, number, number, now * 1_000_000, NOT_SAID, 1, 0))
        return kernel.offer(policy, state, Arrivals(*columns))

    policy = Standard(hole_timeout=10)
    first = comes(kernel.new_state(policy, 1), 2, 0)
    fired = kernel.advance(policy, first.state, (10 if overdue else 9) * 1_000_000)
    last = comes(fired.state, 1, 11)
    told = [
        (EventKind(kind).word, kept)
        for one in (first, fired, last)
        for kind, kept in zip(one.events.kind.tolist(), one.events.kept.tolist(), strict=True)
    ]
    reports = [("hole_overdue", True), ("timed_out", True)] if overdue else []
    assert told == [("hole_opened", False), *reports, ("hole_filled", overdue)]


def test_what_is_compared_in_memory() -> None:
    def reasons(sequencer: Sequencer, first: object, second: object) -> list[str]:
        out = sequencer.offer([("g", 1, first), ("g", 1, second)], now=0)
        return [item.reason.partition(":")[0] for item in out.duplicates]

    again = ["its number was taken in before"]
    assert reasons(Sequencer(Standard()), b"a", b"b") == ["conflicts"]
    assert reasons(Sequencer(Standard()), {"a": 1, "b": [2, None]}, {"b": [2, None], "a": 1}) == again
    assert reasons(Sequencer(Standard()), {"a": 1}, {"a": 1.5}) == ["conflicts"]
    assert reasons(Sequencer(Standard()), object(), object()) == again  # neither bytes, text nor JSON-like
    assert reasons(Sequencer(Standard(), compare="a"), {"a": 1, "b": 1}, {"a": 1, "b": 2}) == again
    assert reasons(Sequencer(Standard(), compare=["a", "b"]), {"a": 1, "b": 1}, {"a": 1, "b": 2}) == ["conflicts"]
    assert reasons(Sequencer(Standard(), compare=len), [1, 2], [3, 4]) == again
    assert reasons(Sequencer(Standard(), compare=len), [1, 2], [3]) == ["conflicts"]


def test_a_conflict_is_told_once_a_call_with_a_count() -> None:
    sequencer = Sequencer(Standard())
    out = sequencer.offer([("g", 1, "a"), ("g", 1, "b"), ("h", 1, "a"), ("g", 1, "c"), ("h", 1, "b")], now=0)
    assert out.events == [Event("conflict", "g", 1, 1, 2), Event("conflict", "h", 1, 1, 1)]
    assert [one.count for one in sequencer.offer([("g", 1, "d")], now=1).events] == [1]


def test_what_cannot_be_compared_in_memory_is_refused() -> None:
    with pytest.raises(UsageError, match="compare requires the policy Standard"):
        Sequencer(Fifo(), compare="a")
    for wrong in (3, [], [3]):
        with pytest.raises(UsageError, match="compare can't be"):
            Sequencer(Standard(), compare=wrong)  # type: ignore[arg-type]
    for remember in (-1, 1025, True, "64"):
        with pytest.raises(PolicyError, match="remember must be"):
            Standard(remember=remember)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match='on_restart="suspend" requires a restart_after'):
        Standard(restart_after=0, on_restart="suspend")


def of(region: object, *numbers: int, **more: object) -> list[tuple[str, int, dict[str, object]]]:
    return [("g", number, {"region": region, "id": str(number), **more}) for number in numbers]


def test_what_two_regions_send_in_memory() -> None:
    s = Sequencer(Standard(), region="region", message_id=lambda value: value["id"])
    out = s.offer([*of("a", 1, 2), *of("b", 2, 3), *of("eu", 4), *of("b", 4, id=None)], now=0)
    assert numbers(out) == [1, 2, 3]
    assert [(item.sequence, item.reason) for item in out.copies] == [(2, "the other region has shown it before")]
    assert [item.reason for item in out.invalid] == ["its region is neither a nor b", "its message id is missing"]
    assert (s.counts()["copy"], s.counts()["invalid"]) == (1, 2)


def test_of_which_content_a_copy_has_to_be_in_memory() -> None:
    s = Sequencer(Standard(), region="region", message_id="id", compare="text")
    out = s.offer([*of("a", 1, 2, text="x"), *of("b", 1, text="x"), *of("b", 2, text="y")], now=0)
    assert ([item.sequence for item in out.copies], [item.sequence for item in out.duplicates]) == ([1], [2])


def test_how_many_runs_are_known_that_one_region_only_has_shown() -> None:
    s = Sequencer(Standard(remember=0, restart_after=0), region="region", message_id="id")
    last = 2 * 1024 + 4
    s.offer(of("a", *range(1, last + 1)), now=0)
    s.offer(of("b", *range(2, last + 1, 2)), now=1)
    out = s.offer(of("b", *range(1, last + 1, 2)), now=2)
    assert [item.sequence for item in out.duplicates] == [1, 3]
    assert len(out.copies) == 1024


@pytest.mark.parametrize(
    ("policy", "given", "error", "what"),
    [
        (Standard(), {"region": "region"}, UsageError, "region and message_id belong together"),
        (Fifo(), {"horizon": 1}, UsageError, "region and message_id belong together"),
        (BestEffort(), {}, PolicyError, "ordered by Standard or Fifo, not by BestEffort"),
        (Standard(), {"opens": bool}, PolicyError, "can't open or close groups"),
        (Standard(), {"horizon": "1h"}, PolicyError, "horizon is for Fifo"),
        (Fifo(), {"horizon": 0}, PolicyError, "horizon must be above 0"),
    ],
)
def test_what_can_not_come_from_two_regions_is_refused(
    policy: Policy, given: dict[str, Any], error: type[Exception], what: str
) -> None:
    both = {"region": "region", "message_id": "id"} if error is PolicyError else {}
    with pytest.raises(error, match=what):
        Sequencer(policy, **both, **given)
