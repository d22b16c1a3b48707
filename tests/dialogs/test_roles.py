"""Roles: what is counted and delivered in transactions apart is so for who may only receive; and a full queue is no way in."""

from __future__ import annotations

import psycopg
import pytest

import seriatim as sq
from seriatim.operations import dialogs
from seriatim.operations.grants import grant
from seriatim.operations.groups import groups
from tests.box.given_up import given_up
from tests.dialogs.talking import begun, taken


@pytest.fixture
def role(talk):
    """A box as a role of its own has it that may nothing yet, and the role's name."""
    name = f"{talk.schema}_role"
    with psycopg.connect(talk.dsn, autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {name} LOGIN")
    talk.define(sq.Queue("inventory", group="conversation_group", max_messages=1, retry=sq.Retry(rollbacks=2)))

    def opened(**rights):
        grant(talk, name, **rights)
        return sq.MessageBox.open(talk.dsn.replace("seriatim@", f"{name}@"), schema=talk.schema)

    yield opened
    with psycopg.connect(talk.dsn, autocommit=True) as owner:
        owner.execute(f"DROP SCHEMA {talk.schema} CASCADE")
        owner.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")


def test_who_may_only_receive_fetches_what_waits_and_counts_rollbacks(talk, role):
    first, second = begun(talk, b"1"), begun(talk, b"2")
    assert [one.waiting for one in (*dialogs.dialogs(talk, handle=first), *dialogs.dialogs(talk, handle=second))] == [
        0,
        1,
    ]
    with role(receive=["inventory"]) as box:
        assert taken(box, "inventory") == [("AddItem", b"1")]
        for _ in range(2):
            with given_up(box.session()) as tx:
                assert [one.body for one in tx.receive("inventory")] == [b"2"]
        assert taken(box, "inventory") == []
    (group,) = groups(talk, "inventory", state="suspended")
    assert group.suspended_by == "seriatim"


def test_who_may_not_publish_to_a_queue_may_not_where_it_is_full(talk, role):
    begun(talk, b"1")
    with role(receive=["orders"]) as box:
        with box.session() as tx:
            handle = tx.begin_dialog("Orders", "Inventory", contract="AddItem")
        with pytest.raises(sq.EnvironmentProblem, match="may not publish to"), box.session() as tx:
            tx.send(handle, "AddItem", b"2")
    (side,) = dialogs.dialogs(talk, handle=handle)
    assert side.waiting == 0
