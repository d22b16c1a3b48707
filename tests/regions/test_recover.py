"""A journal that went back in time: it learns from the boxes, and nothing that was over is handed out again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

import seriatim as sq
from seriatim.errors import Unavailable, UsageError
from seriatim.regions import recovering
from tests.regions.away import away
from tests.regions.two import NAME, Two, message
from tests.regions.working import Handled, go_back, keep

_WHO = {"actor": "ann", "reason": "the standby lacked something"}


@pytest.fixture
def two(two: Two) -> Iterator[Two]:
    """Copies may be handed out at once in both regions."""
    with sq.Regions(two.first, two.second, two.journal, name=NAME, prefer=0, patience="30s", retry_after=0) as regions:
        yield replace(two, regions=regions)


def _over(two: Two) -> dict[str, tuple[int, int]]:
    """Of each session what the journal knows: through which number it was sent, and is over."""
    return {one.session: (one.sent_through, one.done_through) for one in two.journal.sessions(name=NAME)}


def test_nothing_that_was_over_is_handed_out_again(two: Two) -> None:
    handled = Handled(two.regions)
    two.regions.publish([message("s", number) for number in (1, 2)])
    handled.work("a")
    handled.work("b")
    keep(two.journal)
    two.regions.publish([message("s", 3), message("t", 1)])
    handled.work("a")  # only its box knows that they are over
    two.regions.publish([message("s", 4), message("u", 1)])
    handled.work("b")
    go_back(two.journal)

    two.regions.publish([message("s", 5), message("t", 2)])
    done = two.regions.recover(**_WHO)
    assert (done.incarnation, done.raised, done.asked) == (2, 3, ("a", "b"))
    assert _over(two) == {"s": (5, 4), "t": (2, 1), "u": (1, 1)}
    assert handled.work("b") == [("s", 5), ("t", 2)]
    assert handled.work("a") == []
    assert (handled.of("s"), handled.of("t"), handled.of("u")) == ([1, 2, 3, 4, 5], [1, 2], [1])
    assert two.has(two.first) == two.has(two.second) == []
    assert [one.action for one in two.journal.log(name=NAME)] == ["recovered", "recover"]


def test_a_number_that_a_box_has_isnt_given_out_again(two: Two) -> None:
    keep(two.journal)
    with sq.Regions(two.first, two.second, two.journal, name=NAME, numbers="journal", patience="30s") as sender:
        assert [one.number for one in sender.publish([message("s", ident="m1"), message("s", ident="m2")])] == [1, 2]
        go_back(two.journal)
        two.regions.recover(**_WHO)
        assert [one.number for one in sender.publish(message("s", ident="m3"))] == [3]
    assert [(number, ident) for _, number, ident in two.has(two.second)] == [(1, "m1"), (2, "m2"), (3, "m3")]


def test_a_box_that_cant_be_asked_is_named_and_only_left_out_on_request(two: Two) -> None:
    handled = Handled(two.regions)
    two.regions.publish([message("s", 1), message("t", 1)])
    keep(two.journal)
    handled.work("a")
    go_back(two.journal)
    with away(two, "b"):
        with pytest.raises(Unavailable, match=r"region b can't be asked.*--without b.*may be handed out once more"):
            two.regions.recover(**_WHO)
        assert two.journal.log(name=NAME) == []  # the journal wasn't touched
        assert two.regions.recover(without=["b"], **_WHO).asked == ("a",)
    assert _over(two) == {"s": (1, 1), "t": (1, 1)}
    with away(two, "a"):
        go_back(two.journal)
        done = two.regions.recover(without=["a"], known={"status": {"s": 1}}, **_WHO)
    assert (done.raised, _over(two)) == (1, {"s": (1, 1), "t": (1, 0)})
    with pytest.raises(UsageError, match="no region 'c'"):
        two.regions.recover(without=["c"], **_WHO)


def test_boxes_are_read_in_portions(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovering, "_PORTION", 7)
    for box, step in zip(two.boxes, (2, 3), strict=True):
        two.rows(
            box,
            "INSERT INTO {0}.region_sessions SELECT queue_id, 's' || n, n + 5, CASE WHEN n %% 5 > 0 THEN n END "
            "FROM {0}.region_queues CROSS JOIN generate_series(0, 40, %s) AS n RETURNING 1",
            step,
        )
    told: list[tuple[int, int]] = []
    two.regions.recover(progress=lambda done, total: told.append((done, total)), **_WHO)
    assert (len(told) >= 4, told[-1]) == (True, (35, 35))  # 21 sessions of one box, 14 of the other
    expected = {f"s{n}": (n + 5, n if n % 5 else 0) for n in range(41) if n % 2 == 0 or n % 3 == 0}
    assert _over(two) == expected
