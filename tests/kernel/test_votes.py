"""The rules of votes on whole arrays, compared with loops that are obviously right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seriatim.kernel.regions.votes import (
    NO_NUMBER,
    Reply,
    SendStep,
    Vote,
    VoteRequests,
    barred,
    may_bar,
    next_numbers,
    send_steps,
    voted,
)  # fmt: skip

_ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 6), st.integers(0, 6), st.booleans(), st.booleans(), st.booleans()),
    max_size=12,
)


@given(_ROWS)
def test_a_number_is_taken_if_it_is_above_all_that_is_known_or_known_for_a_message_that_has_no_other(rows):
    rows = sorted(rows)
    columns = (
        (np.array(column) for column in zip(*rows, strict=True))
        if rows
        else [np.zeros(0, np.int64)] * 3 + [np.zeros(0, np.bool_)] * 3
    )
    found = voted(VoteRequests(*columns)).tolist()
    single = [
        Vote.STALE if stale else Vote.HELD if same
        else Vote.GRANTED if number > through and not elsewhere else Vote.REFUSED
        for _, number, through, same, stale, elsewhere in rows
    ]  # fmt: skip
    refused = {row[0] for row, vote in zip(rows, single, strict=True) if vote == Vote.REFUSED}
    assert found == [
        Vote.REFUSED if row[0] in refused and vote != Vote.STALE else vote
        for row, vote in zip(rows, single, strict=True)
    ]


def test_the_next_number_is_above_the_highest_that_two_know():
    def number(*known):
        through = [np.array([0 if one is None else one]) for one in known]
        return int(next_numbers(through, [np.array([one is not None]) for one in known], np.array([10]))[0])

    assert number(40, 30, 20) == 50
    assert number(40, None, 60) == 70
    assert number(None, None, 60) == NO_NUMBER


_F, _N, _A, _G = Reply.FOR, Reply.NOT_ASKED, Reply.AWAY, Reply.AGAINST


@pytest.mark.parametrize(
    ("replies", "step"),
    [
        ((_N, _N, _N), SendStep.ASK_BOX),
        ((_F, _N, _N), SendStep.ASK_BOX),
        ((_A, _N, _N), SendStep.ASK_BOX),
        ((_F, _F, _N), SendStep.ANSWER),
        ((_F, _A, _N), SendStep.ASK_JOURNAL),
        ((_A, _F, _F), SendStep.ANSWER),
        ((_F, _G, _N), SendStep.WITHDRAW),
        ((_F, _A, _G), SendStep.WITHDRAW),
        ((_G, _F, _F), SendStep.WITHDRAW),
        ((_F, _A, _A), SendStep.GIVE_UP),
        ((_A, _A, _N), SendStep.GIVE_UP),
    ],
)
def test_a_sender_asks_the_boxes_first_and_the_journal_for_one_that_is_away(replies, step):
    assert send_steps(*(np.array([one]) for one in replies)).tolist() == [step]


@pytest.mark.parametrize(
    ("replies", "step"),
    [
        ((_N, _N, _N), SendStep.ASK_BOX),
        ((_F, _N, _N), SendStep.ANSWER),
        ((_A, _N, _N), SendStep.ASK_BOX),
        ((_A, _F, _N), SendStep.ANSWER),
        ((_G, _N, _N), SendStep.WITHDRAW),
        ((_A, _A, _N), SendStep.GIVE_UP),
    ],
)
def test_a_sender_that_is_content_with_one_box_never_asks_the_journal(replies, step):
    assert send_steps(*(np.array([one]) for one in replies), enough=1).tolist() == [step]


def test_a_sender_has_a_message_barred_if_one_box_has_voted_and_both_have_answered():
    first, second = map(np.array, zip((_F, _G), (_G, _F), (_G, _N), (_F, _A), (_A, _G), strict=True))
    assert may_bar(first, second).tolist() == [True, True, False, False, False]
    same, stale = np.array([False, True, False, False, True]), np.array([False, False, True, False, False])
    published, forgotten = np.array([5, 5, 5, 4, 4]), np.array([5] * 5)
    expected = [Vote.GRANTED, Vote.HELD, Vote.STALE, Vote.STALE, Vote.HELD]
    assert barred(same, stale, published, forgotten).tolist() == expected
