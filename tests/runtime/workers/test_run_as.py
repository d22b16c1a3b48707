"""A handler that runs as another role of the database."""

from __future__ import annotations

import pytest
from psycopg import sql

import seriatim as sq
from seriatim.operations.grants import grant
from tests.box.operators.test_roles import team  # noqa: F401 -- a fixture
from tests.box.shop import left, publish, rows
from tests.runtime.workers.test_worker import work


@pytest.fixture
def clerk(team):  # noqa: F811
    """A box, and the name of a role that may write into one table, and publish for one queue."""
    box, role = team
    name, _ = role("clerk", "NOLOGIN")
    grant(box, name, publish=["pick"])
    rows(box, "CREATE TABLE {schema}_done (who text, version bigint)")
    rows(box, "CREATE TABLE {schema}_not (who text)")
    with box.session() as tx:
        statement = f"GRANT INSERT ON {box.schema}_done TO {{0}}; GRANT {{0}} TO CURRENT_USER"
        tx.connection.execute(sql.SQL(statement).format(sql.Identifier(name)))
    yield box, name
    rows(box, "DROP TABLE {schema}_done, {schema}_not")


def faults(box):
    return [(fault.error_class, fault.sequence) for fault in rows(box, "SELECT * FROM {schema}.faults ORDER BY 1")]


def done(box):
    return [tuple(row) for row in rows(box, "SELECT who, version FROM {schema}_done ORDER BY version")]


def test_what_the_handler_does_is_done_by_the_role_and_the_rest_is_not(clerk):
    box, name = clerk

    def handle(message, tx):
        if message.sequence != 2:  # which writes nothing
            statement = f"INSERT INTO {box.schema}_done VALUES (current_user, %s)"
            tx.connection.execute(statement, [message.sequence])
        if message.sequence == 3:
            return sq.Message(type="note", context={"to": "pick"})
        return None

    publish(box, 1, 2, 3, 4)
    assert work(box, handle, run_as=name, workers=1) == 4
    assert done(box) == [(name, 1), (name, 3), (name, 4)]
    assert left(box, "pick") == 1
    assert faults(box) == []


@pytest.mark.parametrize("what", ["write", "publish", "complete", "reset"])
def test_what_the_role_may_not_is_a_fault_of_the_message_alone(clerk, what):
    box, name = clerk

    def handle(message, tx):
        if message.sequence == 2:
            match what:
                case "write":
                    tx.connection.execute(f"INSERT INTO {box.schema}_not VALUES (current_user)")
                case "publish":
                    return sq.Message(type="order", context={"customer": "vip", "version": 1})
                case "complete":
                    tx.connection.execute(f"DELETE FROM {box.schema}.entries")
                case "reset":
                    tx.connection.execute("RESET ROLE")
                    tx.connection.execute(f"INSERT INTO {box.schema}_not VALUES (current_user)")
        tx.connection.execute(f"INSERT INTO {box.schema}_done VALUES ('it', %s)", [message.sequence])
        return None

    publish(box, 1, 2, 3)
    work(box, handle, run_as=name, workers=1, done=lambda: faults(box))
    ((kind, sequence),) = faults(box)
    assert (kind, sequence) == (
        {"reset": "UsageError", "publish": "EnvironmentProblem"}.get(what, "InsufficientPrivilege"),
        2,
    )
    assert done(box) == [("it", 1)]
    assert rows(box, "SELECT FROM {schema}_not") == []
    assert left(box) == 2


def test_a_role_that_cannot_be_taken_is_said_at_once(clerk, team):  # noqa: F811
    box, name = clerk
    with pytest.raises(sq.EnvironmentProblem, match=r"the handler can't run as 'nobody_such': role .* does not exist"):
        sq.Worker(box, "shop", print, run_as="nobody_such")
    other, dsn = team[1]("other")
    grant(box, other, receive=["shop"])
    with (
        sq.MessageBox.open(dsn, schema=box.schema) as theirs,
        pytest.raises(sq.EnvironmentProblem, match="permission denied to set role"),
    ):
        sq.Worker(theirs, "shop", print, run_as=name)
