"""What a handler calls or returns that can't succeed, whatever the data and the time: one attempt."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.operations import groups
from seriatim.operations.faults import faults
from seriatim.testing import work_off
from tests.databases import box_with

pytestmark = pytest.mark.dear


def _prepared(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string"}),
        sq.Queue("orders", sq.Fifo(), group="customer", retry=sq.Retry(5)),
        sq.Subscription("orders", where="type = 'order'", to="orders"),
    )


box = box_with(_prepared)


def _with_connection(tx):
    with tx.connection:
        pass


async def _awaited(message, tx):
    return "ok"


HANDLERS = {
    "text": (lambda message, tx: "ok", "the handler returned str (return None, a seriatim.Message,"),
    "true": (lambda message, tx: True, "the handler returned bool"),
    "a coroutine's text": (_awaited, "the handler returned str"),
    "too many": (lambda message, tx: sq.Consumed(2), "the handler consumed 2 messages, but got only 1"),
    "a commit": (lambda message, tx: tx.connection.commit(), "Explicit commit() forbidden"),
    "a rollback": (lambda message, tx: tx.connection.rollback(), "Explicit rollback() forbidden"),
    "a block of the connection": (lambda message, tx: _with_connection(tx), "Explicit commit() forbidden"),
    "a commit in SQL": (lambda message, tx: tx.connection.execute("COMMIT"), "the handler ended the transaction"),
    "autocommit": (lambda message, tx: tx.connection.set_autocommit(True), "a session is one transaction"),
    "a receive": (lambda message, tx: tx.receive("orders"), "a handler can't receive in the transaction"),
    "a dictionary": (lambda message, tx: tx.publish({"type": "order"}), 'dict is not a message (write sq.Message(type="…"'),
    "wrong parameters": (lambda message, tx: tx.connection.execute("SELECT %s", []), "the query has 1 placeholder"),
}  # fmt: skip


@pytest.mark.parametrize("mode", ["turn", "leased"])
@pytest.mark.parametrize("what", list(HANDLERS))
def test_it_has_one_attempt(box, what, mode):
    handler, told = HANDLERS[what]
    box.publish(sq.Message(type="order", context={"customer": "c1"}))
    work_off(box, "orders", handler, fails=True, **({} if mode == "turn" else {"mode": mode}))
    (fault,) = faults(box, "orders")
    assert (fault.kind, fault.attempt, fault.retry_at) == ("business", 1, None)
    assert told in fault.error


def test_what_may_pass_is_tried_again(box):
    box.publish(sq.Message(type="order", context={"customer": "c1"}))
    work_off(box, "orders", lambda message, tx: tx.connection.execute("SELECT * FROM there_soon"), fails=True)
    (fault,) = faults(box, "orders")
    assert (fault.kind, fault.retry_at is None) == ("unexpected", False)


def test_a_class_that_the_user_names_counts(box):
    import psycopg

    box.publish(sq.Message(type="order", context={"customer": "c1"}))
    work_off(
        box, "orders", HANDLERS["a commit"][0], fails=True, faults=sq.FaultKinds(transient=[psycopg.ProgrammingError])
    )
    assert [one.kind for one in faults(box, "orders")] == ["transient"]


@pytest.mark.parametrize("mode", ["turn", "leased"])
def test_a_part_of_a_set_is_not_done(box, mode):
    box.define(
        sq.MessageType("part", properties={"customer": "string", "nr": "long"}),
        sq.Queue("sets", sq.UnitOfWork(size=3), group="customer", sequence="nr"),
        sq.Subscription("sets", where="type = 'part'", to="sets"),
    )
    box.publish([sq.Message(type="part", context={"customer": "c1", "nr": nr}) for nr in (1, 2, 3)])
    with_mode = {} if mode == "turn" else {"mode": mode}
    assert work_off(box, "sets", lambda delivery, tx: sq.Consumed(2), fails=True, **with_mode) == 3
    (fault,) = faults(box, "sets")
    assert (fault.kind, fault.sequence) == ("business", 1)
    assert "consumed 2 messages of a set of 3" in fault.error
    groups.retry(box, "sets", "c1", actor="ann", reason="the handler is mended")
    assert work_off(box, "sets", lambda delivery, tx: sq.Consumed(3), **with_mode) == 3
    with box.session() as tx:
        assert tx.receive("sets") is None
