"""The HTTP port against a real server: what it sends, and what it makes of each answer."""

from __future__ import annotations

import socket
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

import seriatim as sq
from seriatim.endpoints import HttpPort
from seriatim.operations import messages
from tests.box.shop import define, publish, rows
from tests.endpoints.handed import hand
from tests.endpoints.handed import message as handed
from tests.endpoints.receiver import receiving
from tests.runtime.workers.test_worker import work


@pytest.fixture
def receiver():
    with receiving() as one:
        yield one


def faults(box):
    query = "SELECT kind, error_class, error, retry_at IS NOT NULL AS again FROM {schema}.faults ORDER BY fault_id"
    return rows(box, query)


def test_a_message_is_posted_as_a_cloud_event(box, receiver):
    define(box)
    properties = {"amount": "decimal(8,2)", "paid": "boolean", "at": "timestamp"}
    box.define(sq.MessageType("order", properties={"customer": "string", "version": "long"} | properties))
    moment = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
    context = {"customer": "Zoë 100%", "version": 1, "amount": Decimal("1.50"), "paid": True, "at": moment}
    message = sq.Message(type="order", body=b"\x00binary", content_type="application/x-thing", context=context)
    extensions = {"amount": "amount", "paid": "paid", "at": "at", "none": "nothing"}
    port = HttpPort(receiver.url, headers={"Authorization": "Bearer hush"}, extensions=extensions)
    with closing(port):
        box.publish(message)
        assert [one.reason for one in messages.messages(box, status="unrouted")] == []
        assert work(box, port) == 1
    ((headers, body),) = receiver.got
    assert body == message.body
    sent = {name.lower(): value for name, value in headers.items()}
    assert len(sent.pop("idempotency-key")) == 32
    assert sent.pop("ce-time").endswith("Z")
    assert {name: value for name, value in sent.items() if name.startswith(("ce-", "content-", "auth"))} == {
        "authorization": "Bearer hush",
        "ce-amount": "1.50",
        "ce-at": "2026-05-01T12:00:00Z",
        "ce-id": message.message_id,
        "ce-paid": "true",
        "ce-partitionkey": "Zo%C3%AB%20100%25",
        "ce-sequence": "0000000000000000001",
        "ce-source": "/queues/shop/groups/Zo%25C3%25AB%2520100%2525",
        "ce-specversion": "1.0",
        "ce-type": "order",
        "content-length": "7",
        "content-type": "application/x-thing",
    }
    assert receiver.paths == ["/orders?token=hush"]


def test_what_may_pass_is_tried_again_with_the_same_key_and_in_order(box, receiver):
    define(box, retry=sq.Retry(10, delay=0.01, factor=1))
    publish(box, 1, 2)
    receiver.answers = [(status, {}) for status in (500, 503, 408, 425, 429, 0)]  # 0: it breaks off
    with closing(HttpPort(receiver.url)) as port:
        work(box, port)
    numbers = [int(headers["ce-sequence"]) for headers, _ in receiver.got]
    keys = [headers["Idempotency-Key"] for headers, _ in receiver.got]
    assert numbers == [*7 * [1], 2]
    assert len(set(keys[:7])) == 1
    assert keys[6] != keys[7]
    assert [(fault.kind, fault.again) for fault in faults(box)] == 6 * [("transient", True)]
    assert "hush" not in "".join(fault.error for fault in faults(box))


def test_what_will_not_pass_stops_the_group_and_no_other(box, receiver):
    define(box)
    statuses = [400, 401, 404, 409, 410, 422, 301]
    for customer in map(str, statuses):
        publish(box, 1, 2, customer=customer)
    receiver.answers = [(status, {}) for status in statuses]
    receiver.said = b"no such\n customer" + 9_000 * b"!"
    with closing(HttpPort(receiver.url)) as port:
        work(box, port, done=lambda: len(faults(box)) == len(statuses))
        assert len(receiver.got) == len(statuses)
        publish(box, 1, customer="other")
        work(box, port, done=lambda: len(receiver.got) == len(statuses) + 1)
    assert {(fault.kind, fault.error_class, fault.again) for fault in faults(box)} == {("business", "Business", False)}
    told = "".join(fault.error for fault in faults(box))
    assert all(f"the answer was {status}: no such customer!" in told for status in statuses)
    assert len(told) < 500 * len(statuses)
    assert "hush" not in told


@pytest.mark.parametrize(
    ("source", "begins"),
    [
        (None, "/queues/shop"),
        ("https://shop.example/orders/", "https://shop.example/orders"),
        ("urn:shop:orders", "urn:shop:orders"),
    ],
)
def test_events_of_a_group_have_a_source_of_their_own_and_sort_as_text(receiver, source, begins):
    numbers = (1, 2, 9, 10, 99, 100, 2**63 - 1)
    with closing(HttpPort(receiver.url, source=source)) as port:
        assert hand(port, *map(handed, numbers)) is None
        assert hand(port, handed(1), group="c/2") is None
        assert hand(port, handed(1), incarnation=3) is None  # the group was forgotten, and begins anew
        assert hand(port, handed(None), group=None) is None  # of a queue without order
    *first, other, again, without = [headers for headers, _ in receiver.got]
    sent = [headers["ce-sequence"] for headers in first]
    assert sent == sorted(sent)
    assert [int(one) for one in sent] == list(numbers)
    assert {headers["ce-source"] for headers in first} == {f"{begins}/groups/c1"}
    assert other["ce-source"] == f"{begins}/groups/c%252F2"
    assert again["ce-source"] == f"{begins}/groups/c1;incarnation=3"
    assert without["ce-source"].rstrip("/") == begins
    assert "ce-sequence" not in without


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ({"Retry-After": "120"}, 120),
        ({"Retry-After": "Fri, 01 May 2026 12:02:00 GMT", "Date": "Fri, 01 May 2026 12:00:00 GMT"}, 120),
        ({"Retry-After": "Fri, 01 May 1998 12:02:00 GMT"}, 0),
        ({"Retry-After": "99999999"}, 86_400),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "²"}, None),
        ({"Retry-After": "Fri, 01 May 99999999999999999999 12:02:00 GMT"}, None),
        ({}, None),
    ],
)
def test_the_answer_says_when_to_come_again(said, seconds):
    import httpx

    from seriatim.endpoints.http import _retry_after

    headers = httpx.Headers({name: value.encode() for name, value in said.items()})
    assert _retry_after(headers) == seconds


def test_the_box_waits_as_long_as_the_answer_says(box, receiver):
    define(box)
    publish(box, 1)
    receiver.answers = [(503, {"Retry-After": "3600"})]
    with closing(HttpPort(receiver.url)) as port:
        work(box, port, done=lambda: faults(box))
    query = "SELECT extract(epoch FROM retry_at - at)::float8 AS seconds FROM {schema}.faults"
    assert rows(box, query)[0].seconds == pytest.approx(3600, abs=60)


def test_nobody_listens(box):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        place = f"http://127.0.0.1:{taken.getsockname()[1]}"
        define(box)
        publish(box, 1)
        with closing(HttpPort(place.replace("//", "//user:hush@") + "/x", timeout=120)) as port:
            work(box, port, done=lambda: faults(box))
    (fault,) = faults(box)
    assert (fault.kind, fault.error) == ("transient", f"{place}: ConnectError at {place}")


def test_who_does_not_answer_in_time_is_asked_again(box):
    define(box)
    publish(box, 1)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        closing(HttpPort(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.2)) as port,
    ):
        work(box, port, done=lambda: faults(box))
    assert [(fault.kind, "ReadTimeout" in fault.error) for fault in faults(box)] == [("transient", True)]


def test_the_key_tells_an_edited_message_from_what_it_was(box, receiver):
    from seriatim.operations.groups import retry

    define(box)
    publish(box, 1)
    receiver.answers = [(422, {})]
    with closing(HttpPort(receiver.url)) as port:
        work(box, port, done=lambda: faults(box))
        retry(box, "shop", "c1", actor="me", reason="typing error", body=b"better")
        work(box, port)
    (first, _), (second, body) = receiver.got
    assert body == b"better"
    assert first["ce-id"] == second["ce-id"]
    assert first["Idempotency-Key"] != second["Idempotency-Key"]


def test_the_key_tells_edited_properties_from_what_they_were(box, receiver):
    from seriatim.operations import edits

    define(box)
    box.define(sq.MessageType("order", properties={"customer": "string", "version": "long", "note": "string"}))
    box.publish(sq.Message(type="order", context={"customer": "c1", "version": 1, "note": "bad"}))
    receiver.answers = [(422, {})]
    with closing(HttpPort(receiver.url, extensions={"note": "note"})) as port:
        work(box, port, done=lambda: faults(box))
        (one,) = edits.export(box, state="faulted")
        better = replace(one, context={**one.context, "note": "good"})
        list(edits.retry(box, edits.plan(box, [better]), actor="me", reason="typing error"))
        work(box, port)
    (first, _), (second, _) = receiver.got
    assert (first["ce-note"], second["ce-note"]) == ("bad", "good")
    assert first["Idempotency-Key"] != second["Idempotency-Key"]


def test_the_key_tells_messages_with_one_id_apart_that_have_no_order(receiver):
    one = handed(None)
    another = replace(one, ticket=one.ticket._replace(number=2))
    with closing(HttpPort(receiver.url)) as port:
        for message in (one, another, one):
            assert hand(port, message, group=None) is None
    first, second, third = (headers["Idempotency-Key"] for headers, _ in receiver.got)
    assert first == third != second


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"url": "ftp://host/x"}, "must begin with http:// or https://"),
        ({"url": "/x"}, "must begin with http:// or https://"),
        ({"url": "http://host:hush/"}, "can't be read"),
        ({"url": None}, "url can't be None"),
        ({"url": "http://host:99999/"}, "has no port 99999"),
        ({"url": "http://host:0/"}, "has no port 0"),
        ({"timeout": 0}, "timeout can't be 0"),
        ({"timeout": "2d"}, "timeout can't be '2d'"),
        ({"extensions": {"a_b": "x"}}, "can't be the name of an event's extension"),
        ({"extensions": {"id": "x"}}, "can't be the name of an event's extension"),
        ({"headers": {"X": "a\r\nY: b"}}, "contains a line break"),
        ({"headers": {"X": "ä"}}, "isn't ASCII text"),
        ({"headers": {"content-type": "text/plain"}}, "the port gives the header 'content-type' itself"),
        ({"headers": {"IDEMPOTENCY-KEY": "1"}}, "the port gives the header 'IDEMPOTENCY-KEY' itself"),
        ({"headers": {"Ce-Id": "1"}}, "the port gives the header 'Ce-Id' itself"),
        ({"headers": {"X": 1, "Authorization": "hush"}}, "headers can't be a dict"),
        ({"response_headers": 5, "response": "price"}, "response_headers can't be 5"),
        ({"source": "http://[::"}, "source can't be"),
        ({"source": 1}, "source can't be"),
    ],
)
def test_what_cannot_be_is_refused(given, told):
    with pytest.raises(sq.UsageError, match=told) as error:
        HttpPort(**{"url": "http://host/x"} | given)
    assert "hush" not in str(error.value)


def test_what_is_answered_is_published_once_in_the_transaction_of_the_message(box, receiver):
    """A worker that dies between the answer and the commit posts again with the same key; one answer is published."""
    define(box, retry=sq.Retry(10, delay=0.01, factor=1))
    box.define(
        sq.Queue("answers", sq.Fifo(), group="correlation_id"), sq.Subscription("a", where="type = 'a'", to="answers")
    )
    box.publish([
        sq.Message(type="order", message_id=f"m{n}", context={"customer": "c1", "version": n, "correlation_id": "c"})
        for n in (1, 2)
    ])  # fmt: skip
    headers = {"Content-Type": "text/x-answer", "ETag": "7"}
    receiver.answers = [(200, headers), (200, headers), (503, {}), (404, {})]
    dies = [True]
    with closing(HttpPort(receiver.url, response="a", response_headers={"etag": "tag"}, refused="answer")) as port:

        def handle(message, tx):
            answers = port(message, tx)
            if dies.pop() if dies else False:
                raise sq.Transient("between the answer and the commit")
            return answers

        handle.run_length = port.run_length
        assert work(box, handle) == 4
    keys = [headers["Idempotency-Key"] for headers, _ in receiver.got]
    assert keys[0] == keys[1]
    assert keys[2] == keys[3] != keys[0]
    with box.session() as tx:
        answers = list(tx.receive("answers", limit=10))
    assert [(one.body, one.content_type, one.context) for one in answers] == [
        (receiver.said, "text/x-answer", {"status": 200, "tag": "7", "parent_id": "m1", "correlation_id": "c"}),
        (receiver.said, None, {"status": 404, "parent_id": "m2", "correlation_id": "c"}),
    ]


def test_answers_that_are_too_long_or_refused_are_faults(box, receiver):
    define(box, errors="continue")
    publish(box, 1, 2)
    receiver.answers = [(200, {}), (404, {})]
    with closing(HttpPort(receiver.url, response="a", response_bytes=5)) as port:
        work(box, port)
    told = [(one.kind, one.error.partition(": ")[2]) for one in faults(box)]
    assert told == [
        (
            "business",
            "the answer has more than 5 bytes (the receiver has taken the message; give the port more response_bytes)",
        ),
        ("business", "the answer was 404: that's the answer"),
    ]
    for wrong in ({"refused": "answer"}, {"response": ""}, {"response": "a", "response_bytes": -1},
                  {"response": "a", "refused": "no"}, {"response": "a", "response_headers": {"ETag": "status"}}):  # fmt: skip
        with pytest.raises(sq.UsageError):
            HttpPort(receiver.url, **wrong)
