"""What a result says of the message in hand: its id, and what both belong to; in every handler, lease and port."""

from __future__ import annotations

import asyncio

import pytest

import seriatim as sq
from seriatim.endpoints import QueuePort
from seriatim.testing.work import work_off
from tests.box.shop import rows


@pytest.fixture
def mill(box):
    box.define(
        sq.Queue("work", sq.Fifo(), group="correlation_id", default_group="none"),
        sq.Queue("told", sq.Unordered()),
        sq.Subscription("work", where="type = 'job' AND parent_id IS NULL", to="work"),
        sq.Subscription("told", where="type = 'told'", to="told"),
    )
    return box


def job(name, **context):
    return sq.Message(type="job", message_id=name, context=context)


def told(name=None, **context):
    return sq.Message(type="told", body=(name or "").encode(), context=context)


def results(box):
    """Parent and correlation of what was told, in order."""
    stored = rows(box, "SELECT context FROM {schema}.spool WHERE type = 'told' ORDER BY arrival_id, position")
    return [(one.context.get("parent_id"), one.context.get("correlation_id")) for one in stored]


HANDLERS = {
    "returned": lambda message, tx: told(),
    "published": lambda message, tx: tx.publish(told()) and None,
    "port": QueuePort("told"),
}


@pytest.mark.parametrize("options", [{}, {"mode": "leased", "lease": 5}], ids=["turns", "leased"])
@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_results_belong_to_what_their_cause_belongs_to(mill, handler, options):
    mill.publish([job("a"), job("b", correlation_id="c")])
    work_off(mill, "work", handler, **options)
    stored = rows(mill, "SELECT context FROM {schema}.spool WHERE message_id NOT IN ('a', 'b')")
    said = {(one.context.get("parent_id"), one.context.get("correlation_id")) for one in stored}
    assert said == {("a", "a"), ("b", "c")}


def test_coroutines_and_what_a_result_says_itself(mill):
    mill.publish([job("a"), job("b", correlation_id="c")])

    async def handle(message, tx):
        await tx.publish(told(correlation_id="own"))
        return told(parent_id="another", correlation_id=None)

    work_off(mill, "work", handle)
    assert sorted(results(mill)) == sorted([("a", "own"), ("another", "a"), ("b", "own"), ("another", "c")])


def test_of_several_in_hand_each_result_belongs_to_its_own(mill):
    """To the one that iterating has given last, or to the one that it names; afterwards to none."""
    mill.publish([job("a", correlation_id="c"), job("b", correlation_id="c")])

    def together(delivery, tx):
        tx.publish(told())
        for _ in delivery:
            tx.publish(told())
        tx.publish(told(), cause=delivery.messages[0])
        return [told(), sq.Answer(delivery.messages[1], told())]

    work_off(mill, "work", together, batch=True)
    nobody, a, b = (None, None), ("a", "c"), ("b", "c")
    assert results(mill) == [nobody, a, b, a, nobody, b]


def test_sessions_without_a_worker(mill):
    mill.publish([job("a"), job("b", correlation_id="c")])
    with mill.session() as tx:
        tx.receive("work").done()
        tx.publish(told())  # until its transaction ends

    async def receive():
        async with sq.AsyncMessageBox(mill) as box, box.session() as tx:
            async for _ in await tx.receive("work"):
                await tx.publish(told())
                mill.publish(told())  # in another transaction, which may be for anything

    asyncio.run(receive())
    assert sorted(results(mill), key=str) == sorted([("a", "a"), ("b", "c"), (None, None)], key=str)


def test_what_results_in_a_dialog_belongs_to_the_conversation(mill):
    mill.define(
        sq.Contract("Ask", {"Question": "initiator"}),
        sq.Queue("asking", sq.Fifo(), group="conversation_group"),
        sq.Queue("asked", sq.Fifo(), group="conversation_group"),
        sq.Service("Asker", queue="asking"),
        sq.Service("Answerer", queue="asked", contracts=["Ask"]),
    )
    with mill.session() as tx:
        tx.send(tx.begin_dialog("Asker", "Answerer", contract="Ask"), "Question", b"?")
    seen = []

    def handle(message, tx):
        seen.append((message.message_id, str(message.dialog.conversation_id)))
        return told()

    work_off(mill, "asked", handle)
    assert results(mill) == seen
