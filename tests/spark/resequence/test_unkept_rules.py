"""Rules for which no checkpoint has a place yet are refused before a query starts."""

from __future__ import annotations

import pytest

from seriatim import Fifo, Queue, Standard, UsageError
from seriatim.spark.resequence.stage import _judged_here


@pytest.mark.parametrize(
    ("policy", "compare", "what"),
    [
        (Standard(remember=64), None, "compare and remember have no effect on Spark yet"),
        (Standard(), "amount", "compare and remember have no effect on Spark yet"),
        (Standard(on_restart="suspend"), None, "restart_after and on_restart have no effect on Spark yet"),
        (Standard(restart_after=3), None, "restart_after and on_restart have no effect on Spark yet"),
    ],
)
def test_what_a_checkpoint_keeps_no_place_for_is_refused(policy, compare, what):
    with pytest.raises(UsageError, match=what) as refused:
        _judged_here(Queue("q", policy, "key", "n"), compare)
    assert refused.value.where == "queue 'q'"
    if compare is not None:
        with pytest.raises(UsageError, match=what):
            _judged_here(Queue("q", policy, "key", "n", compare=compare), None)


def test_other_queues_are_judged_without_them():
    judged = _judged_here(Queue("q", Standard(hole_timeout=5), "key", "n"), None)
    assert judged.policy == Standard(hole_timeout=5, remember=0, restart_after=0)
    assert _judged_here(Queue("q", Fifo(), "key"), None) == Queue("q", Fifo(), "key")
