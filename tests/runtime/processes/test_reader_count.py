"""How many readers a queue has, by what there was to do."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from seriatim.runtime.processes.reader_count import BEHIND_S, IDLE_S, Readers, after_look

LIMITS = st.integers(1, 256).flatmap(lambda most: st.tuples(st.integers(0, most), st.just(most)))
#: Looks: seconds since the one before, and in how many groups there was something to do.
LOOKS = st.lists(st.tuples(st.floats(0.01, 5), st.integers(0, 300)), max_size=60)


def looked(looks, limits):
    """What the rule says after each look, with the moment and what was ready."""
    readers, now, found = Readers(), 0.0, []
    for pause, ready in looks:
        now += pause
        readers = after_look(readers, ready, *limits, now)
        found.append((now, ready, readers))
    return found


@given(LOOKS, LIMITS)
def test_never_fewer_than_the_minimum_nor_more_than_the_maximum(looks, limits):
    for _, ready, readers in looked(looks, limits):
        assert limits[0] <= readers.wanted <= limits[1]
        assert readers.wanted >= min(ready, 1)


@given(LOOKS, LIMITS)
def test_others_come_only_where_those_at_work_did_not_keep_up_and_no_more_than_twice_as_many(looks, limits):
    found = looked(looks, limits)
    for (_, _, before), (now, ready, after) in pairwise(found):
        if after.wanted > max(before.wanted, 1):
            assert after.wanted <= min(2 * before.wanted, ready)
            behind = [one for at, one, _ in found if now - BEHIND_S <= at <= now]
            assert all(one > before.wanted for one in behind)


@given(LOOKS, LIMITS)
def test_they_end_only_where_there_was_less_to_do_for_a_while(looks, limits):
    found = looked(looks, limits)
    for (_, _, before), (now, _, after) in pairwise(found):
        if after.wanted < before.wanted:
            lately = [ready for at, ready, _ in found if now - IDLE_S <= at <= now]
            assert max(lately) <= max(after.wanted, limits[0])


@given(st.integers(0, 300), LIMITS, LOOKS)
def test_under_a_steady_load_there_are_as_many_as_there_are_groups(ready, limits, looks):
    found = looked(looks, limits)
    begin = found[-1][2] if found else Readers()
    steady = max(limits[0], min(ready, limits[1]))
    now = found[-1][0] if found else 0.0
    for second in range(1, 60):
        begin = after_look(begin, ready, *limits, now + second)
    assert begin == Readers(steady)


def test_the_first_comes_at_once_and_goes_after_a_while():
    readers = after_look(Readers(), 1, 0, 4, 100.0)
    assert readers.wanted == 1
    for second in range(15):
        readers = after_look(readers, 0, 0, 4, 101.0 + second)
        assert readers.wanted == 1
    assert after_look(readers, 0, 0, 4, 116.0).wanted == 0
