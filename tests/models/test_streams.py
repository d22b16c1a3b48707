"""The rules of streams that the model's small states don't show: rooms, fragments, refusals, whole arrays, and the chain itself."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seriatim.kernel.streams import BatchKind, Decision, Side, Status, StreamAnswer
from tests.models import chain, streams
from tests.models.stream_numbers import NONE, following, was_restored


def _received(received=5, *, over=False, busy=False, room=100, **batch):
    asked = {
        "kind": BatchKind.MESSAGES,
        "after": 5,
        "count": 3,
        "equal": True,
        "fits": True,
        "incomplete": False,
    } | batch
    known = streams.Receivers(*map(_one, (received, over, busy, room)))
    told = streams.received(known, streams.Batches(*map(_one, asked.values())))
    return tuple(column[0] for column in told.lists())


def _answered(answer, received, acked=5, sent=8, kept=5, status=Status.OPEN, *, equal=True, current=True, known=True):
    senders = streams.Senders(*map(_one, (acked, sent, kept, status)))
    answers = streams.Answers(*map(_one, (answer, received, equal, current, known)))
    decision, through = streams.answered(senders, answers)
    return Decision(decision[0]), int(through[0])


def _one(value):
    return np.array([value])


# ---- the chain


def test_the_chain_is_what_the_reference_says():
    stream, message, header, body = bytes(range(16)), b"m" * 16, b"header", b"body"
    content = hashlib.sha256(b"\0\0\0\6" + header + body).digest()
    begins = hashlib.sha256(b"seriatim stream" + stream).digest()
    assert chain.content_digest(header, body) == content
    assert chain.extended(chain.first(stream), [message], [content]) == [
        begins,
        hashlib.sha256(begins + message + content).digest(),
    ]


def test_no_byte_can_move_from_the_header_to_the_body():
    assert chain.content_digest(b"ab", b"c") != chain.content_digest(b"a", b"bc")


# ---- the receiver


@pytest.mark.parametrize(
    ("known", "batch", "answer"),
    [
        ({}, {}, (StreamAnswer.THROUGH, 8, 0, 3, False, False)),
        # Two messages are there already.
        ({"received": 7}, {}, (StreamAnswer.THROUGH, 8, 2, 1, False, False)),
        ({"received": 8}, {}, (StreamAnswer.THROUGH, 8, 3, 0, False, False)),
        # A batch that doesn't reach the receiver's number says nothing of what it has, early or late.
        ({"received": 9}, {"equal": False}, (StreamAnswer.THROUGH, 9, 0, 0, False, False)),
        ({"received": 4}, {"equal": False}, (StreamAnswer.THROUGH, 4, 0, 0, False, False)),
        ({}, {"equal": False}, (StreamAnswer.BROKEN, 5, 0, 0, False, False)),
        ({}, {"fits": False}, (StreamAnswer.BROKEN, 5, 0, 0, False, False)),
        ({"room": 2}, {}, (StreamAnswer.WAIT, 7, 0, 2, False, False)),
        ({"room": 0}, {}, (StreamAnswer.WAIT, 5, 0, 0, False, False)),
        ({"room": -3}, {}, (StreamAnswer.WAIT, 5, 0, 0, False, False)),
        ({"busy": True}, {}, (StreamAnswer.WAIT, 5, 0, 0, False, False)),
        ({"busy": True}, {"kind": BatchKind.END}, (StreamAnswer.WAIT, 5, 0, 0, False, False)),
        ({}, {"incomplete": True}, (StreamAnswer.MISSING, 8, 0, 3, False, False)),
        ({"over": True}, {}, (StreamAnswer.GONE, 5, 0, 0, False, False)),
        ({"over": True}, {"kind": BatchKind.END}, (StreamAnswer.GONE, 5, 0, 0, False, False)),
        ({}, {"kind": BatchKind.CLOSE, "count": 0}, (StreamAnswer.GONE, 5, 0, 0, True, False)),
        # What the sender takes for the end isn't.
        ({"received": 4}, {"kind": BatchKind.CLOSE, "count": 0}, (StreamAnswer.THROUGH, 4, 0, 0, False, False)),
        ({}, {"kind": BatchKind.CLOSE, "count": 0, "equal": False}, (StreamAnswer.BROKEN, 5, 0, 0, False, False)),
        (
            {"received": 2},
            {"kind": BatchKind.END, "count": 0, "equal": False},
            (StreamAnswer.GONE, 2, 0, 0, True, True),
        ),
    ],
)
def test_a_batch_is_taken_as_far_as_it_fits(known, batch, answer):
    assert _received(**known, **batch) == answer


# ---- the sender


@pytest.mark.parametrize(
    ("answer", "decision"),
    [
        (_answered(StreamAnswer.THROUGH, 7), (Decision.ACK, 7)),
        (_answered(StreamAnswer.THROUGH, 7, current=False), (Decision.ACK, 7)),
        (_answered(StreamAnswer.WAIT, 6), (Decision.LATER, 6)),
        (_answered(StreamAnswer.MISSING, 6), (Decision.FRAGMENTS, 6)),
        (_answered(StreamAnswer.THROUGH, 9, equal=False), (Decision.END, 5)),
        (_answered(StreamAnswer.THROUGH, 7, equal=False), (Decision.END, 5)),
        (_answered(StreamAnswer.THROUGH, 7, equal=False, current=False), (Decision.STALE, 5)),
        (_answered(StreamAnswer.THROUGH, 3, equal=False), (Decision.END, 5)),
        (_answered(StreamAnswer.THROUGH, 3, kept=2), (Decision.REPEAT, 3)),
        (_answered(StreamAnswer.WAIT, 3, kept=2), (Decision.REPEAT, 3)),
        (_answered(StreamAnswer.THROUGH, 3, kept=2, equal=False), (Decision.END, 5)),
        (_answered(StreamAnswer.THROUGH, 3, kept=2, current=False), (Decision.STALE, 5)),
        (_answered(StreamAnswer.BROKEN, 5), (Decision.END, 5)),
        (_answered(StreamAnswer.BROKEN, 5, current=False), (Decision.STALE, 5)),
        (_answered(StreamAnswer.GONE, 0), (Decision.LOST, 5)),
        # The peer has never heard of it: nothing is over, it isn't let in.
        (_answered(StreamAnswer.GONE, 0, known=False), (Decision.LATER, 5)),
        (_answered(StreamAnswer.GONE, 0, sent=5, status=Status.CLOSING), (Decision.OVER, 5)),
        (_answered(StreamAnswer.GONE, 0, status=Status.CLOSING, current=False), (Decision.STALE, 5)),
        (_answered(StreamAnswer.THROUGH, 5, sent=5, status=Status.CLOSING), (Decision.LATER, 5)),
        (_answered(StreamAnswer.THROUGH, 3, sent=5, kept=0, status=Status.CLOSING), (Decision.REPEAT, 3)),
        (_answered(StreamAnswer.GONE, 0, status=Status.ENDING), (Decision.OVER, 5)),
        (_answered(StreamAnswer.WAIT, 3, kept=0, status=Status.ENDING), (Decision.LATER, 5)),
        (_answered(StreamAnswer.THROUGH, 7, status=Status.ENDING), (Decision.LATER, 5)),
    ],
)
def test_an_answer_is_believed_by_its_chain_or_by_its_question(answer, decision):
    assert answer == decision


@given(st.data())
def test_an_answer_without_the_token_takes_nothing_but_what_the_chain_proves(data):
    number = st.integers(0, 6)
    acked = data.draw(number)
    kept, sent = data.draw(st.integers(0, acked)), data.draw(st.integers(acked, 7))
    answer, received, equal = data.draw(st.sampled_from(StreamAnswer)), data.draw(number), data.draw(st.booleans())
    status = data.draw(st.sampled_from(Status))
    decision, through = _answered(answer, received, acked, sent, kept, status, equal=equal, current=False)
    assert acked <= through <= sent
    if through > acked:
        assert equal
        assert through == received
    assert decision in {Decision.STALE, Decision.ACK, Decision.LATER, Decision.FRAGMENTS}


def test_the_side_that_went_back_is_told():
    senders = streams.Senders(*(np.full(5, number) for number in (5, 8, 5, Status.OPEN)))
    answers = streams.Answers(
        np.array(
            [StreamAnswer.THROUGH, StreamAnswer.THROUGH, StreamAnswer.BROKEN, StreamAnswer.BROKEN, StreamAnswer.GONE]
        ),
        np.array([3, 9, 6, 3, 0]),
        np.zeros(5, np.bool_),
        np.ones(5, np.bool_),
        np.ones(5, np.bool_),
    )
    sides = [Side.RECEIVER, Side.SENDER, Side.UNKNOWN, Side.RECEIVER, Side.SENDER]
    assert streams.went_back(senders, answers).tolist() == sides
    lacks, perhaps = streams.lost_above(senders, answers)
    assert (lacks.tolist(), perhaps.tolist()) == ([3, 5, 5, 3, 5], [0, 0, 0, 0, 5])


def test_a_stream_is_idle_when_all_is_acknowledged_and_nothing_came():
    senders = streams.Senders(
        *map(np.array, ([5, 5, 5, 5], [5, 6, 5, 5], [5] * 4, [Status.OPEN, Status.OPEN, Status.CLOSING, Status.OPEN]))
    )
    idle = streams.is_idle(senders, np.array([0, 0, 0, 1]), now=10, stream_idle=10)
    assert idle.tolist() == [True, False, False, False]


# ---- numbers

_SETS = st.sets(st.integers(1, 30), max_size=15)


def _ranges(numbers):
    return NONE.with_numbers(np.array(sorted(numbers), np.int64))


def _numbers(ranges):
    assert (ranges.first <= ranges.last).all()
    assert (ranges.first[1:] > ranges.last[:-1] + 1).all()
    return {number for first, last in zip(*ranges.lists(), strict=True) for number in range(first, last + 1)}


@given(_SETS, _SETS)
def test_ranges_are_sets_of_numbers(one, other):
    ours, theirs = _ranges(one), _ranges(other)
    assert _numbers(ours) == one
    assert _numbers(ours.joined(theirs)) == one | other
    assert _numbers(ours.without(theirs)) == one - other
    assert ours.contain(np.arange(32)).tolist() == [number in one for number in range(32)]
    assert ours.highest == max(one, default=0)


def test_many_numbers_that_are_over_are_one_range():
    assert NONE.with_numbers(np.arange(1, 100_001)).lists() == [[1], [100_000]]


def test_a_box_that_was_restored_goes_on_above_what_its_peer_knows():
    assert following(4, 2) == 5
    assert following(4, 9) == 10
    assert was_restored(4, 9, is_same=True)
    assert was_restored(4, 4, is_same=False)
    assert not was_restored(4, 4, is_same=True)
