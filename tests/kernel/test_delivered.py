"""What is still to be delivered, where several runs of a pipeline deliver in turn: every message once, in order, whoever delivers it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from seriatim.kernel.regions.delivered import portions, undelivered
from seriatim.kernel.values.time import NEVER

#: For each message in the order in which it leaves: its group. Its number is its place in the group.
GROUPS = st.lists(st.integers(0, 3), min_size=1, max_size=30)
#: Who delivers next, and how many portions of its oldest batch before somebody else does.
TURNS = st.lists(st.tuples(st.integers(0, 1), st.integers(1, 3)), max_size=20)


def ints(values):
    return np.array(list(values), np.int64)


def batches(messages, cuts):
    """The messages cut into batches; a batch may be empty."""
    ends = [*sorted(min(one, len(messages)) for one in cuts), len(messages)]
    return [messages[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


@given(GROUPS, st.lists(st.integers(0, 30), max_size=5), st.lists(st.integers(0, 30), max_size=5), st.randoms(), TURNS)
def test_runs_that_take_turns_deliver_each_message_once_and_in_order(groups, cuts, others, chance, turns):
    counts = [0] * 4
    messages = []
    for group in groups:
        counts[group] += 1
        messages.append((group, counts[group]))
    # The other run has the groups among each other in another order.
    mixed, left = [], list(messages)
    while left:
        first = dict(reversed(left))
        one = chance.choice(sorted(first.items()))
        left.remove(one)
        mixed.append(one)
    runs = [batches(messages, cuts), batches(mixed, others)]
    through, out = ints([NEVER] * 4), []

    def deliver(run, most):
        while run:
            rows = run[0]
            group, number = ints(g for g, _ in rows), ints(n for _, n in rows)
            new = np.flatnonzero(undelivered(group, number, through)) if rows else ints([])
            for begin, end in portions(group[new], number[new], 2):
                for at in new[begin:end].tolist():
                    out.append(rows[at])
                    through[rows[at][0]] = rows[at][1]
                most -= 1
                if not most:
                    return  # it stops in the midst of a batch, which it keeps
            del run[0]

    for who, most in turns:
        deliver(runs[who], most)
    deliver(runs[0], 10_000)
    for group in range(4):
        assert [number for one, number in out if one == group] == list(range(1, counts[group] + 1))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=20), st.integers(1, 5))
def test_portions_are_whole_and_keep_the_rows_of_a_message_together(messages, most):
    rows = [(place, group) for place, (group, size) in enumerate(messages) for _ in range(size)]
    group, number = ints(one for _, one in rows), ints(place for place, _ in rows)
    cut = list(portions(group, number, most))
    assert [at for begin, end in cut for at in range(begin, end)] == list(range(len(rows)))
    for begin, end in cut:
        assert end - begin <= most or len(set(number[begin:end].tolist())) == 1
        assert end == len(rows) or number[end] != number[end - 1]
