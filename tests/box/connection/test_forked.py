"""A process that was forked has nothing of the sessions that were open, and makes connections of its own."""

from __future__ import annotations

import json
import os
import warnings
from uuid import uuid4

import psycopg
import pytest

import seriatim as sq
from seriatim.operations import invariants, queues


def in_child(work):
    """What a piece of work answers in a process that is forked for it; an error as its class and text."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # from Python 3.12 on: this process has threads
        child = os.fork()
    if not child:
        try:
            try:
                answer = work()
            except BaseException as error:  # noqa: BLE001 -- whatever it is, it is what is asked
                answer = [type(error).__name__, str(error)]
            os.write(writing, json.dumps(answer, default=repr).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as told:
        answer = json.load(told)
    os.waitpid(child, 0)
    return answer


@pytest.fixture
def queued(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string"}),
        sq.Queue("q", group="customer"),
        sq.Subscription("all", where="type = 'order'", to="q"),
    )
    box.publish([sq.Message(type="order", context={"customer": "c"}) for _ in range(3)])
    return box


REFUSED = "the session was begun before this process was forked"


@pytest.mark.parametrize("whose", ["box", "application"])
def test_a_session_is_refused_in_the_child_and_goes_on_in_the_parent(queued, whose):
    with (
        psycopg.connect(queued.dsn) as connection,
        queued.session(connection if whose == "application" else None) as tx,
    ):
        delivery, own = tx.receive("q"), tx.connection
        verbs = [
            lambda: tx.connection, lambda: tx.publish(sq.Message(type="order")), lambda: tx.receive("q"),
            delivery.done, delivery.put_back, lambda: delivery.done_through(0), lambda: list(delivery),
            lambda: tx.dispense("till"), lambda: tx.begin_dialog("a", "b"), lambda: tx.send(uuid4(), "x"),
        ]  # fmt: skip
        if whose == "box":
            verbs += [
                lambda: own.execute("SELECT 1"),
                own.commit,
                tx.commit_and_receive,
                own.rollback,
                lambda: psycopg.Cursor(own).execute(""),
            ]
        for verb in verbs:
            kind, told = in_child(verb)
            assert (kind, told.split(" (")[0]) == ("UsageError", REFUSED)
        delivery.done()
    assert [one.arrived + one.queued for one in queues.queues(queued)] == [2]


def test_leaving_it_in_the_child_does_nothing_to_the_transaction(queued):
    def leave(session, *error):
        session.__exit__(*error or (None, None, None))

    with queued.session() as tx:
        pid = tx.connection.info.backend_pid
        tx.receive("q").done()
        other = queued.session()
        other.__enter__().dispense("till")
        assert in_child(lambda: leave(other))[0] == "UsageError"
        assert in_child(lambda: leave(other, ValueError, ValueError("x"), None)) is None
        assert tx.connection.execute("SELECT pg_backend_pid()").fetchone() == (pid,)
        leave(other)
    assert [one.arrived + one.queued for one in queues.queues(queued)] == [2]


def test_the_box_makes_connections_of_its_own_in_the_child(queued):
    def handled():
        with queued.session() as tx:
            backend = tx.connection.info.backend_pid
            done = [one.context["customer"] for one in tx.receive("q")]
        queued.publish(sq.Message(type="order", context={"customer": "d"}))
        queued.close()
        return [backend, done]

    with queued.session() as tx:
        mine = tx.connection.info.backend_pid
        backend, done = in_child(handled)
        assert backend != mine
        assert done == ["c"]
        tx.connection.execute("SELECT 1")
    assert [one.arrived + one.queued for one in queues.queues(queued)] == [3]
    assert invariants.broken(queued) == []
