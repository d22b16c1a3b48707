"""The rules of claims on whole arrays, compared with loops that are obviously right."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seriatim.kernel.regions import claims
from seriatim.kernel.regions.claims import EntryState, JournalAnswer, Known, SessionState
from seriatim.kernel.values.time import NEVER
from tests.models import forgetting

_NOW = 10
_SESSION = st.tuples(
    st.sampled_from([1, 10]),
    st.sampled_from([1, 10]),
    st.integers(0, 3),
    st.sampled_from(SessionState),
    st.sampled_from([5, 15]),
    st.sampled_from([NEVER, 4]),
)
_MESSAGE = st.tuples(
    st.integers(-1, 7),
    st.sampled_from(Known),
    st.sampled_from([-1, EntryState.KNOWN, EntryState.PENDING, EntryState.RESERVED, EntryState.VOID]),
    st.sampled_from([5, 15]),
    st.integers(0, 8),
)


def _one_by_one(session, messages, most):
    """What is answered to the messages of one session, in a loop."""
    start, step, done, state, lease, forgotten = session
    following, taken, stopped = done + step, 0, False
    for number, known, entry, until, published in messages:
        waits = entry == EntryState.RESERVED or (entry == EntryState.PENDING and until > _NOW)
        answer = JournalAnswer.AHEAD
        if number < start or (number - start) % step:
            answer = JournalAnswer.INVALID
        elif known == Known.OTHER:
            answer = JournalAnswer.CONFLICT
            stopped = stopped or (number > done and entry != EntryState.VOID)
        elif number <= done or entry == EntryState.VOID:
            answer = JournalAnswer.OVER
        elif published < forgotten:
            answer, stopped = JournalAnswer.FORGOTTEN, True
        elif state == SessionState.SUSPENDED:
            answer = JournalAnswer.SUSPENDED
        elif state == SessionState.WORKING and lease > _NOW:
            answer = JournalAnswer.WORKING
        elif stopped or number != following or taken == most:
            stopped = True
        elif waits:
            answer, stopped = JournalAnswer.LATER, True
        else:
            answer, taken, following = JournalAnswer.TAKEN, taken + 1, following + step
        yield answer


@given(st.lists(st.tuples(_SESSION, st.lists(_MESSAGE, max_size=5)), max_size=4), st.integers(1, 3))
def test_a_region_gets_the_next_numbers_without_a_gap(several, most):
    sessions, rows, expected = [], [], []
    for session, messages in several:
        start, step, done, *rest = session
        on_the_step = (start, step, start + step * (done - 1), *rest)
        ours = sorted({start + step * place + (place == 6): (place, *other) for place, *other in messages}.items())
        ours = [(number, *other) for number, (_, *other) in ours]
        rows += [(len(sessions), *one) for one in ours]
        expected += _one_by_one(on_the_step, ours, most)
        sessions.append(on_the_step)
    table = claims.Sessions(*_columns(sessions, 6))
    asked = claims.ClaimRequests(*_columns(rows, 6))
    found = claims.claimed(table, asked, _NOW, most)
    assert found.answer.tolist() == expected
    for answer, again in zip(*found.lists(), strict=True):
        assert (again != NEVER) == (answer in (JournalAnswer.WORKING, JournalAnswer.LATER))


def _columns(rows, many):
    return np.array(rows, np.int64).reshape(-1, many).T


def _ints(*values):
    return np.array(values, np.int64)


@pytest.mark.parametrize(
    ("changed", "counts"),
    [
        ({}, True),
        ({"last": 9}, True),
        ({"state": SessionState.IDLE}, False),
        ({"state": SessionState.SUSPENDED}, False),
        ({"same_claim": False}, False),
        ({"same_version": False}, False),
        ({"first": 7, "last": 7}, False),
        ({"last": 5}, False),
    ],
)
def test_a_completion_counts_for_the_present_claim_and_the_next_numbers(changed, counts):
    row = {
        "state": SessionState.WORKING, "done_through": 5, "increment": 1, "same_claim": True, "same_version": True,
        "first": 6, "last": 6,
    } | changed  # fmt: skip
    assert claims.completes(claims.Holders(*(np.array([one]) for one in row.values()))).tolist() == [counts]


def test_a_message_that_fails_is_tried_again_or_stops_its_session_or_is_over():
    entry, state = claims.failed(
        _ints(1, 3, 3, 1), _ints(3, 3, 3, 3), passes=np.array([True, True, True, False]),
        goes_on=np.array([False, False, True, False]),
    )  # fmt: skip
    assert entry.tolist() == [EntryState.PENDING, EntryState.FAILED, EntryState.FAILED, EntryState.FAILED]
    assert state.tolist() == [SessionState.IDLE, SessionState.SUSPENDED, SessionState.IDLE, SessionState.SUSPENDED]


@pytest.mark.parametrize(
    ("changed", "skips"),
    [
        ({}, True),
        ({"since": 6}, False),
        ({"since": NEVER}, False),
        ({"timeout": 0}, False),
        ({"known": True}, False),
        ({"lowest": 6}, False),
        ({"state": SessionState.WORKING}, False),
        ({"state": SessionState.WORKING, "lease_until": 9}, True),
        ({"state": SessionState.SUSPENDED}, False),
    ],
)
def test_a_hole_is_skipped_when_its_time_has_run_out_and_nothing_of_it_is_known(changed, skips):
    row = {
        "state": SessionState.IDLE, "lease_until": 15, "done_through": 5, "increment": 1, "lowest": 8, "known": False,
        "since": 5, "timeout": 5,
    } | changed  # fmt: skip
    assert claims.holes_to_skip(claims.Holes(*(np.array([one]) for one in row.values())), _NOW).tolist() == [skips]


@given(st.lists(st.tuples(st.integers(0, 3), st.sets(st.integers(1, 8))), max_size=4))
def test_all_is_over_up_to_the_first_number_that_is_not(several):
    rows = [(at, number * 10) for at, (done, over) in enumerate(several) for number in sorted(over) if number > done]
    session, number = _columns(rows, 2)
    done = _ints(*(done * 10 for done, _ in several))
    expected = []
    for through, over in several:
        expected.append(10 * next(number for number in range(through, 10) if number + 1 not in over))
    assert claims.run_over(session, number, done, _ints(*[10] * len(several))).tolist() == expected


def test_a_session_begins_where_the_box_that_asks_has_ended():
    assert claims.raised(_ints(0, 0, 5), _ints(NEVER, 7, 3)).tolist() == [0, 7, 5]
    assert claims.recovered(_ints(3, 1), _ints(2, 4), _ints(1, 2)).tolist() == [3, 4]


def test_a_session_is_forgotten_when_both_regions_have_nothing_as_old():
    idle, used = (
        _ints(SessionState.IDLE, SessionState.IDLE, SessionState.IDLE, SessionState.SUSPENDED),
        _ints(1, 4, 9, 1),
    )
    assert forgetting.forgettable(idle, used, 10, 5, 4, 8).tolist() == [True, False, False, False]
    assert forgetting.forgettable(idle, used, 10, 5, 8, NEVER).tolist() == [False] * 4
    assert forgetting.watermark(9, 5) == 5
    assert forgetting.watermark(9, NEVER) == NEVER


def test_reservations_end():
    state = _ints(EntryState.RESERVED, EntryState.RESERVED, EntryState.KNOWN)
    assert claims.reservations_over(state, _ints(10, 11, 0), 10).tolist() == [True, False, False]


def test_the_number_of_a_message_that_has_another_one_is_void_unless_the_journal_knows_it():
    entry = _ints(-1, -1, -1, EntryState.KNOWN, EntryState.RESERVED)
    withdrawn, renumbered = np.array([True, False, False, True, True]), np.array([False, True, False, True, False])
    found = claims.voided(entry, withdrawn=withdrawn, renumbered=renumbered)
    assert found.tolist() == [True, True, False, False, False]


def test_a_worker_has_died_where_its_lease_is_over_and_another_region_takes_over():
    states = np.array(
        [SessionState.WORKING, SessionState.WORKING, SessionState.WORKING, SessionState.IDLE, SessionState.SUSPENDED],
        np.int64,
    )
    leases = np.array([_NOW, _NOW + 1, _NOW, _NOW, _NOW], np.int64)
    asked = np.array([True, True, False, True, True])
    assert claims.lost(states, leases, asked=asked, now=_NOW).tolist() == [True, False, False, False, False]
