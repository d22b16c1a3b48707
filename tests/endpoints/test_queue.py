"""The queue port: what is handed on keeps its order, by the ordinal that it carries."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.endpoints import QueuePort
from tests.box.shop import define, left, rows, see, seen
from tests.runtime.workers.test_worker import work


@pytest.fixture
def second(box):
    """A queue that goes by the ordinals of the first one."""
    define(box, retry=sq.Retry(delay=0.05))
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long", "place": "long"}),
        sq.Queue("second", policy=sq.Standard(), group="customer", sequence="place"),
    )


def test_each_is_handed_on_once_and_in_order(box, second):
    parts = [sq.Part("picture", "image/png", b"png")]
    with box.session() as tx:
        for who in ("a", "b"):
            tx.publish([
                sq.Message(
                    type="order", body=b"x", parts=parts, content_type="text/plain",
                    context={"customer": who, "version": n},
                ) for n in (3, 1, 2)
            ])  # fmt: skip
    port, failed = QueuePort("second", ordinal="place"), []

    def handle(message, tx):
        if message.sequence == 2 and not failed:
            failed.append(1)
            raise sq.Transient
        return port(message, tx)

    work(box, handle)
    got = []

    def last(message, tx):
        see(box, message, tx)
        got.append((message.body, message.parts, message.content_type, "parent_id" in message.context))

    work(box, last, queue="second")
    assert [n for who, n in seen(box) if who == "a"] == [n for who, n in seen(box) if who == "b"] == [1, 2, 3]
    assert got == [(b"x", tuple(parts), "text/plain", True)] * 6


def test_a_batch_goes_together(box, second):
    with box.session() as tx:
        tx.publish([sq.Message(type="order", context={"customer": "a", "version": n}) for n in (1, 2, 3)])
    work(box, QueuePort("second", ordinal="place"), batch=True)
    assert left(box, "second") == 3


def test_a_queue_that_is_not_there_is_a_fault(box):
    define(box)
    box.publish(sq.Message(type="order", context={"customer": "a", "version": 1}))
    work(box, QueuePort("nowhere"), done=lambda: rows(box, "SELECT FROM {schema}.faults"))
    assert "nowhere" in rows(box, "SELECT error FROM {schema}.faults")[0].error
    with pytest.raises(sq.UsageError):
        QueuePort("")
