"""A queue that retries its faulted groups by itself, after a while, so many times; then an operator has to."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import seriatim as sq
from seriatim.kernel.operators.recover import Recover, recovery_at
from seriatim.operations import groups
from seriatim.operations.grants import grant
from tests.box.console import BY, define, failing, publish, received, rows

HOUR = 3_600_000_000


def state(box, group="c1"):
    return groups.group_view(box, "shop", group).state


def test_so_many_times_and_then_it_is_left_to_an_operator(box):
    define(box, recover=sq.Recover(2, delay=0))
    publish(box, 1, 2)
    for nth in (1, 2):
        failing(box)
        assert box.tick().recovered == 1
        assert state(box) == "ready"
        (last,) = rows(box, "SELECT actor, reason FROM {schema}.operator_log ORDER BY operation_id DESC LIMIT 1")
        assert last == ("seriatim", f"recovery {nth} of 2")
    failing(box)
    assert box.tick().recovered == 0
    assert state(box) == "faulted"
    groups.retry(box, "shop", "c1", **BY)
    assert received(box) == [1, 2]


def test_another_message_of_the_group_has_its_own(box):
    define(box, recover=sq.Recover(1, delay=0))
    publish(box, 1, 2)
    failing(box)
    assert box.tick().recovered == 1
    failing(box, done=1)
    assert box.tick().recovered == 1
    assert received(box) == [2]


def test_not_before_its_time(box):
    define(box, recover=sq.Recover(1, delay=3600))
    publish(box, 1)
    failing(box)
    assert box.tick().recovered == 0
    rows(box, "UPDATE {schema}.faults SET at = at - interval '59 minutes' RETURNING 1")
    assert box.tick().recovered == 0
    rows(box, "UPDATE {schema}.faults SET at = at - interval '1 minute' RETURNING 1")
    assert box.tick().recovered == 1


def test_not_where_an_operator_has_suspended_the_group_or_the_queue_says_nothing(box):
    define(box, recover=sq.Recover(1, delay=0))
    publish(box, 1)
    failing(box)
    groups.suspend(box, "shop", "c1", **BY)
    assert box.tick().recovered == 0
    groups.resume(box, "shop", "c1", **BY)
    define(box)
    assert box.tick().recovered == 0
    assert state(box) == "faulted"


def test_a_role_that_is_not_the_owner_leaves_it_to_him(box):

    define(box, recover=sq.Recover(1, delay=0))
    publish(box, 1)
    failing(box)
    with box.session() as tx:
        tx.connection.execute("DROP ROLE IF EXISTS ticker")
        tx.connection.execute("CREATE ROLE ticker LOGIN")
    grant(box, "ticker", receive=["shop"], route=True)
    with sq.MessageBox.open(box.dsn.replace("seriatim@", "ticker@"), schema=box.schema) as own:
        assert own.tick().recovered == 0
    assert box.tick().recovered == 1


@given(
    limit=st.integers(0, 5), delay=st.integers(0, 8 * 10**14), factor=st.floats(1, 100), done=st.integers(0, 10),
    at=st.integers(0, 2**60),
)  # fmt: skip
def test_when(limit, delay, factor, done, at):
    found = recovery_at(Recover(limit, delay / 10**6, factor), done, at)
    if done >= limit:
        assert found is None
    else:
        assert found - at == pytest.approx(min(delay * factor**done, 2**61), rel=1e-9, abs=1)
