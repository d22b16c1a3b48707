"""By default a queue keeps the messages that failed before they were done, and of the others no more than one that keeps nothing."""

from __future__ import annotations

from datetime import timedelta

import pytest

import seriatim as sq
from seriatim.box.operators import purge
from seriatim.operations import find, trace
from tests.box.console import TRANSIENT, define, failing, publish, received, rows


@pytest.mark.parametrize("policy", [sq.Standard(), sq.Fifo(), sq.Unordered()])
@pytest.mark.parametrize("count", [1, 2])
def test_what_never_failed_is_completed_as_where_nothing_is_kept(box, policy, count):
    completions = {}
    for keep in ("nothing", "faults"):
        more = {"group": None, "sequence": None} if isinstance(policy, sq.Unordered) else {}
        define(box, policy=policy, keep=keep, **more)
        publish(box, *(range(1, 1 + count) if keep == "nothing" else range(1 + count, 1 + 2 * count)))
        with box.session() as tx:
            delivery = tx.receive("shop", limit=count)
            completions[keep] = (delivery.completion.name, delivery.completion.parameters.get("keep"), len(delivery))
            delivery.done()
    assert completions["faults"] == completions["nothing"]
    assert rows(box, "SELECT count(*) FROM {schema}.history") == [(0,)]
    assert rows(box, "SELECT count(*) FROM {schema}.spool") == [(0,)]


def test_what_failed_before_is_kept_with_its_faults(box):
    define(box, retry=sq.Retry(delay=0))
    failed, _ = publish(box, 1, 2)
    failing(box, TRANSIENT)
    assert received(box) == [1, 2]
    steps = [str(one.kind) for one in trace.trace_message(box, failed)]
    assert steps == ["received", "routed", "released", "fault", "done"]
    (one,) = find.find(box, failed).messages
    assert (one.status, one.error) == ("done", "TimeoutError: try later")
    assert rows(box, "SELECT sequence, done_by = current_setting('application_name') FROM {schema}.history") == [
        (1, True)
    ]
    (now,) = rows(box, "SELECT done_at FROM {schema}.history")[0]
    for days, left in ((29, 1), (31, 0)):
        purge.run(box.access, now=now + timedelta(days=days))
        assert rows(box, "SELECT count(*) FROM {schema}.history") == [(left,)]
    assert rows(box, "SELECT count(*) FROM {schema}.spool") == [(0,)]
