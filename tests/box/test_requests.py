"""Requests and their replies: who waits gets the first message of a type that belongs to the request, once, and again until it is over."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta

import pytest
from psycopg.types.json import Jsonb

import seriatim as sq
from seriatim.box.operators import purge
from seriatim.box.tick import tick
from seriatim.box.views.invariants import audit
from seriatim.operations import dead_letters, doctor, invariants, links
from seriatim.operations.grants import grant
from seriatim.testing.work import work_off
from tests.box import roles
from tests.box.links.pairs import order, paired
from tests.box.shop import rows
from tests.databases import box_with


def with_service(box):
    """A service that prices: no queue gets its replies."""
    box.define(
        sq.Queue("asked", sq.Unordered(), retry=sq.Retry(attempts=1), errors="continue"),
        sq.Subscription("asked", where="type = 'question'", to="asked"),
    )


prepared = box_with(with_service)
#: For calls that are refused.
shared = box_with(with_service, scope="module")


@pytest.fixture
def service(prepared):
    yield prepared
    assert invariants.broken(prepared) == []
    with prepared.access.transaction() as transaction:
        assert audit(transaction, 10) == []


def question(body=b"?", **given):
    return sq.Message(type="question", body=body, **given)


def answer(message, tx):
    return sq.Message(type="answer", body=b"to " + message.body, parts=[sq.Part("p", "text/plain", b"x")])


@pytest.fixture
def answering(service):
    """A worker that answers while the test asks."""
    worker = sq.Worker(service, "asked", answer)
    thread = threading.Thread(target=worker.run)
    thread.start()
    yield service
    worker.stop()
    thread.join()


def test_who_waits_gets_the_reply(answering):
    reply = answering.request(question(b"1"), reply="answer", wait="30s")
    assert (reply.body, reply.type, reply.correlation_id) == (b"to 1", "answer", None)
    assert reply.parts == (sq.Part("p", "text/plain", b"x"),)
    assert reply.context["correlation_id"] == reply.id
    assert answering.reply(reply.id) == reply == answering.replies(reply.id)[0]
    assert rows(answering, "SELECT FROM {schema}.unrouted") == []


def test_many_coroutines_wait_on_few_connections(answering):
    async def ask():
        async with sq.AsyncMessageBox(answering) as box:
            asked = [box.request(question(str(n).encode()), reply="answer", wait=60) for n in range(100)]
            return await asyncio.gather(*asked)

    assert [one.body for one in asyncio.run(ask())] == [f"to {n}".encode() for n in range(100)]


def test_a_reply_is_found_later_until_its_time_is_over(service):
    pending = service.request(question(), reply="answer", wait=0.01)
    assert isinstance(pending, sq.Pending)
    assert service.reply(pending.id) == pending
    assert service.replies(pending.id) == []
    work_off(service, "asked", answer)
    reply = service.reply(pending.id)
    assert reply.body == b"to ?"
    purge.run(service.access)
    assert service.reply(pending.id) == reply
    done = purge.run(service.access, now=pending.until + timedelta(seconds=1))
    assert (done.requests, rows(service, "SELECT FROM {schema}.replies")) == (1, [])
    with pytest.raises(sq.NotFound, match="no open request"):
        service.reply(pending.id)
    # What comes later is an ordinary message.
    service.publish(sq.Message(type="answer", context={"correlation_id": pending.id}))
    assert len(rows(service, "SELECT FROM {schema}.unrouted")) == 1


def test_a_request_is_made_once(service):
    message = question(message_id="q")
    first = service.request(message, reply="answer")
    assert service.request(message, reply="answer", wait=0.01) == first
    work_off(service, "asked", answer)
    again = service.request(message, reply="answer", wait=60)
    assert (again.id, again.body) == (first.id, b"to ?")
    with pytest.raises(sq.UsageError, match="with a reply of type 'answer'"):
        service.request(message, reply="another")
    service.publish(question(message_id="told"))
    with pytest.raises(sq.UsageError, match="published before, and is no open request"):
        service.request(question(message_id="told"), reply="answer")


def test_several_replies_in_order_beside_subscriptions(service):
    service.define(
        sq.Queue("copies", sq.Unordered()), sq.Subscription("copies", where="type = 'answer'", to="copies"),
        sq.Queue("asked too", sq.Unordered()), sq.Subscription("too", where="type = 'question'", to="asked too"),
    )  # fmt: skip
    pending = service.request(question(), reply="answer")
    for queue, body in (("asked", b"1"), ("asked too", b"2")):
        work_off(service, queue, lambda message, tx, body=body: sq.Message(type="answer", body=body))
    assert [one.body for one in service.replies(pending.id, 2, wait=30)] == [b"1", b"2"]
    assert [one.body for one in service.replies(pending.id, wait=0.01)] == [b"1", b"2"]
    assert service.reply(pending.id).body == b"1"
    with service.session() as tx:
        assert [one.body for one in tx.receive("copies", limit=10)] == [b"1", b"2"]
    assert service.reply(pending.id).body == b"1"


def test_replies_by_sql_are_routed_by_who_waits(service):
    pending = service.request(question(), reply="answer")
    with service.session() as tx:
        context = Jsonb({"correlation_id": pending.id})
        tx.connection.execute(f"SELECT {service.schema}.publish('answer', 'by SQL', %s)", [context])
    assert service.reply(pending.id, wait=30).body == b"by SQL"
    assert rows(service, "SELECT FROM {schema}.unrouted") == []


def test_further_along_a_chain_and_by_refusing_publishers(service):
    """What belongs to a request passes on; a reply that no queue wants is no slip."""
    service.define(
        sq.BoxSettings(unrouted="refuse"),
        sq.Queue("next", sq.Fifo(), group="correlation_id"), sq.Subscription("next", where="type = 'more'", to="next"),
    )  # fmt: skip
    pending = service.request(question(b"a"), reply="answer")
    work_off(service, "asked", lambda message, tx: sq.Message(type="more", body=b"more"))
    work_off(service, "next", answer)
    assert service.reply(pending.id).body == b"to more"


def test_a_dead_letter_is_told_at_once(service):
    told = []

    def ask():
        try:
            service.request(question(message_id="q"), reply="answer", wait=60)
        except sq.RequestFailed as error:
            told.append(error)

    def fail(message, tx):
        raise sq.Business("no such thing")

    caller = threading.Thread(target=ask)
    caller.start()
    while not told:
        work_off(service, "asked", fail, fails=True)
        caller.join(0.05)
    (error,) = told
    assert "no such thing" in error.what
    assert "dead" in error.what
    assert error.where == "queue 'asked'"
    with pytest.raises(sq.RequestFailed):
        service.replies(error.id)
    (letter,) = dead_letters.dead_letters(service)
    dead_letters.requeue(service, letter.entry_id, actor="ann", reason="again")
    assert isinstance(service.reply(error.id), sq.Pending)
    work_off(service, "asked", answer)
    assert service.reply(error.id).body == b"to ?"


@pytest.mark.parametrize("by", ["a worker", "SQL"])
def test_a_request_may_be_set_aside_again_and_is_answered_in_the_end(service, by):
    def fail(message, tx):
        raise sq.Business("no such thing")

    def failing():
        if by == "a worker":
            work_off(service, "asked", fail, fails=True)
            return
        with service.session() as tx:
            row = tx.connection.execute(f"SELECT delivery FROM {service.schema}.receive('asked')").fetchone()
            tx.connection.execute(f"SELECT {service.schema}.fail(%s, 1, 'business', 'no such thing')", row)
        tick(service.access)

    pending = service.request(question(), reply="answer")
    for _ in range(2):
        failing()
        with pytest.raises(sq.RequestFailed):
            service.reply(pending.id)
        (letter,) = dead_letters.dead_letters(service)
        dead_letters.requeue(service, letter.entry_id, actor="ann", reason="again")
        assert isinstance(service.reply(pending.id), sq.Pending)
    work_off(service, "asked", answer)
    assert service.reply(pending.id).body == b"to ?"


def test_what_is_no_reply_is_an_ordinary_message(service):
    """Of another type, or with a correlation that nobody has asked under. A reply that is published twice is one."""
    pending = service.request(question(), reply="answer")
    never = f"request-{'0' * 32}"
    for kind, correlation in (("price", pending.id), ("answer", never), ("answer", "request-")):
        service.publish(sq.Message(type=kind, context={"correlation_id": correlation}))
    assert service.reply(pending.id, wait=0.01) == pending
    with pytest.raises(sq.NotFound):
        service.reply(never)
    assert len(rows(service, "SELECT FROM {schema}.unrouted")) == 3
    reply = sq.Message(type="answer", message_id="r", body=b"once", context={"correlation_id": pending.id})
    for _ in range(2):
        service.publish(reply)
    assert [one.body for one in service.replies(pending.id)] == [b"once"]


def test_large_replies_and_several_are_given_to_who_waits(service):
    """What the thread that listens leaves to the callers, and what it reads for them."""
    large = b"x" * 100_000
    pending = service.request(question(), reply="answer")
    told = []

    def wait(count):
        told.append([one.body for one in service.replies(pending.id, count, wait=60)])

    for count, body in ((1, large), (2, b"small")):
        caller = threading.Thread(target=wait, args=(count,))
        caller.start()
        service.publish(sq.Message(type="answer", body=body, context={"correlation_id": pending.id}))
        caller.join()
    assert told == [[large], [large, b"small"]]


def test_in_a_transaction_and_in_a_handler(service):
    service.define(sq.Queue("jobs", sq.Unordered()), sq.Subscription("jobs", where="type = 'job'", to="jobs"))
    with service.session() as tx:
        pending = tx.request(question(), reply="answer")
        with pytest.raises(sq.NotFound, match="not committed"):
            service.reply(pending.id, wait=60)
    service.publish(sq.Message(type="job", context={"correlation_id": "c"}))
    made, refused = [], []

    def handle(message, tx):
        for wait in (
            lambda: service.request(question(), reply="answer", wait=60),
            lambda: service.reply(pending.id, wait=60),
            lambda: service.replies(pending.id, wait=60),
        ):
            with pytest.raises(sq.UsageError, match="a handler can't wait") as error:
                wait()
            refused.append(error)
        made.append(tx.request(question(b"from a handler"), reply="answer"))

    async def handle_too(message, tx):
        with pytest.raises(sq.UsageError, match="a handler can't wait"):
            await sq.AsyncMessageBox(service).reply(pending.id, wait=60)
        made.append(await tx.request(question(b"from a coroutine"), reply="answer"))

    work_off(service, "jobs", handle)
    service.publish(sq.Message(type="job", context={"correlation_id": "c"}))
    work_off(service, "jobs", handle_too)
    work_off(service, "asked", answer)
    replies = [service.reply(one.id) for one in (pending, *made)]
    assert [(one.body, one.correlation_id) for one in replies] == [
        (b"to ?", None), (b"to from a handler", "c"), (b"to from a coroutine", "c"),
    ]  # fmt: skip


def test_who_asked_is_not_told_when_the_request_is_over(service):
    """The clean-up may be deleting it: a row that refers to it would wait for that, and fail."""

    def fail(message, tx):
        raise ValueError("no price")

    service.request(question(), reply="answer")
    rows(service, "UPDATE {schema}.open_requests SET until = clock_timestamp() RETURNING until")
    work_off(service, "asked", fail, fails=True)
    assert [one.queue for one in dead_letters.dead_letters(service)] == ["asked"]
    assert rows(service, "SELECT FROM {schema}.replies") == []


@pytest.mark.parametrize(
    ("ask", "error", "why"),
    [
        (
            lambda box: box.request(question(context={"correlation_id": "c"}), reply="a"),
            sq.UsageError,
            "can't be given",
        ),
        (
            lambda box: box.request(question(context={"unique_key": "k"}), reply="a"),
            sq.UsageError,
            "unique_key of a request can't be given",
        ),
        (lambda box: box.request([question()], reply="a"), sq.UsageError, "list is not a message"),
        (lambda box: box.request(question(), reply=""), sq.UsageError, "type of a reply"),
        (lambda box: box.request(question(), reply="a", keep=0), sq.UsageError, "kept for 0"),
        (lambda box: box.request(question(), reply="a", keep="31d"), sq.UsageError, "at most 30 days"),
        (lambda box: box.request(question(), reply="a", wait=-1), sq.UsageError, "cannot wait"),
        (lambda box: box.request(sq.Message(type="questoin"), reply="a"), sq.Unrouted, "no subscription"),
        (lambda box: box.reply("request-0"), sq.NotFound, "no open request"),
        (lambda box: box.reply("a\0b"), sq.UsageError, "no id"),
        (lambda box: box.reply(7), sq.UsageError, "no id"),
        (lambda box: box.replies("request-0", 0), sq.UsageError, "0 replies"),
    ],
)
def test_what_cannot_be_asked_is_told_at_once(shared, ask, error, why):
    with pytest.raises(error, match=why):
        ask(shared)
    assert rows(shared, "SELECT FROM {schema}.open_requests") == rows(shared, "SELECT FROM {schema}.spool") == []


def test_another_role_finds_nothing(service):
    roles.make(service, "asker", "other")
    for name in ("asker", "other"):
        grant(service, name, publish=["asked"])
    with roles.as_role(service, "asker") as asker, roles.as_role(service, "other") as other:
        pending = asker.request(question(), reply="answer", wait=0.01)
        work_off(service, "asked", answer)
        assert asker.reply(pending.id, wait=30).body == b"to ?"
        for stranger in (other, service):
            with pytest.raises(sq.NotFound):
                stranger.reply(pending.id)


def test_over_a_link_the_far_box_leads_the_reply_back(databases, caplog):
    with paired(databases) as pair:
        near, far = pair.near, pair.far
        near.define(pair.link())
        first = near.request(order(1), reply="price")
        told = "goes over link 'far', by which the other box may send to no queue here"
        assert told in caplog.text
        near.define(pair.link(queues=["answers"]))
        far.define(sq.Subscription("prices", where="type = 'price'", to="answers"))
        caplog.clear()
        second = near.request(order(2), reply="price")
        assert told not in caplog.text
        links.transmit(near)
        work_off(far, "orders", price)
        links.transmit(far)
        links.transmit(near)
        assert [near.reply(one.id, wait=30).body for one in (first, second)] == [b"for 1", b"for 2"]


def price(message, tx):
    return sq.Message(type="price", body=b"for " + message.body, context={"customer": message.context["customer"]})


def test_doctor_names_requests_that_nobody_answers(service):
    (finding,) = [one for one in doctor.findings_of(service) if one.name == "requests"]
    assert finding.state == "ok"
    pending = service.request(question(message_id="q"), reply="answer")
    rows(service, "UPDATE {schema}.open_requests SET asked_at = asked_at - interval '2 hours'")
    (finding,) = [one for one in doctor.findings_of(service) if one.name == "requests"]
    assert "1 request for 'answer' without a reply" in finding.found
    assert "seriatim trace q" in finding.remedy
    work_off(service, "asked", answer)
    assert service.reply(pending.id).body == b"to ?"
