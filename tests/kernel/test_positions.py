"""Positions: which values are some, and that they order messages as numbers do."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seriatim import BestEffort, Sequence, Sequencer
from seriatim.kernel.groups.positions import position_of
from seriatim.kernel.values.outcome import Reason
from seriatim.kernel.values.reading import whole_number
from tests.kernel import strategies
from tests.kernel.test_properties import prove


@pytest.mark.parametrize(
    ("value", "digits", "wanted"),
    [
        ("01ARZ3NDEKTSV4RRFFQ69G5FAV", False, b"01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        (b"\x00\xff", False, b"\x00\xff"),
        ("x" * 64, False, b"x" * 64),
        ("x" * 65, False, Reason.NOT_A_POSITION),
        ("\ud800", False, Reason.NOT_A_POSITION),
        ("", False, Reason.SEQUENCE_MISSING),
        (None, False, Reason.SEQUENCE_MISSING),
        (1.5, False, Reason.NOT_A_POSITION),
        (-1, False, Reason.NOT_A_POSITION),
        (10**56, False, str(10**56).zfill(64).encode()),
        ("0010", True, b"10".zfill(64)),
        ("1" * 65, True, Reason.NOT_A_POSITION),
        ("+1", True, Reason.NOT_A_POSITION),
        ([None, 1], False, Reason.SEQUENCE_MISSING),
        (["a\0", 1], False, Reason.NOT_A_POSITION),
        ([1] * 9, False, Reason.NOT_A_POSITION),
    ],
)
def test_which_values_are_positions(value: Any, digits: bool, wanted: bytes | Reason) -> None:
    assert position_of(value, digits=digits) == wanted


def test_parts_are_compared_one_after_another() -> None:
    ascending = [["0/9", 5], ["0/A", -1], ["0/A", 2], ["0/FFFFFFFF", 0], ["1/0", 0]]
    found = [position_of(one, digits=False) for one in ascending]
    assert found == sorted(found)
    texts = [["a", "z"], ["ab", "a"], ["b", ""]]
    assert sorted(texts[:2]) == sorted(texts[:2], key=lambda one: position_of(one, digits=False))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0/16B3748", 0x16B3748),
        ("1/0", 2**32),
        ("7FFFFFFF/ffffffff", 2**63 - 1),
        ("80000000/0", Reason.SEQUENCE_OVERFLOWS),
        ("0/123456789", Reason.SEQUENCE_NOT_A_NUMBER),
        ("/1", Reason.SEQUENCE_NOT_A_NUMBER),
    ],
)
def test_an_lsn_is_a_number(text: str, number: int | Reason) -> None:
    assert whole_number(text) == number


@prove
@given(
    policy=st.one_of(strategies.windowed, strategies.windowless),
    numbers=st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 12), st.sampled_from([0, 0, 1, 3])), max_size=20),
    data=st.data(),
)
def test_positions_order_messages_as_numbers_do(policy: BestEffort, numbers: list[Any], data: st.DataObject) -> None:
    """Also where a group is stopped and resumed in between, and however the ranks move."""
    plain = Sequencer(policy, sequence=Sequence("n"))
    other = Sequencer(replace(policy, by="position"), sequence=Sequence("position", format="digits"))
    now, cuts = 0.0, sorted(data.draw(st.lists(st.integers(0, len(numbers)), max_size=4)))
    for start, end in pairwise([0, *cuts, len(numbers)]):
        now += sum(wait for *_, wait in numbers[start:end])
        items = [
            (g, None, {"n": n, "position": f"{10 * n:03d}", "at": at})
            for at, (g, n, _) in enumerate(numbers[start:end], start)
        ]
        assert told(plain.offer(items, now=now)) == told(other.offer(items, now=now))
        assert told(plain.advance(now)) == told(other.advance(now))
        for group in plain.groups():
            assert plain.group(group).state == other.group(group).state
            if plain.group(group).state == "suspended" and data.draw(st.booleans()):
                assert told(plain.resume(group, now=now)) == told(other.resume(group, now=now))
    assert told(plain.finish()) == told(other.finish())
    assert plain.counts() == other.counts()


def told(outcome: Any) -> Any:
    released = [(one.group, one.value["at"], one.ordinal, one.late) for one in outcome.released]
    return released, [one.value["at"] for one in outcome.late], [event.kind for event in outcome.events]
