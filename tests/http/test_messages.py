"""Messages over HTTP: events of CloudEvents, plain JSON, and what becomes of a message."""

from __future__ import annotations

import json
import threading

import psycopg
import pytest

import seriatim as sq
from seriatim.box.definitions.known import Known
from seriatim.http.openapi import openapi
from seriatim.http.reading import checked
from seriatim.operations import grants
from seriatim.operations.tokens import create_token, revoke_token

EVENT = {"specversion": "1.0", "id": "A234", "source": "/shop", "type": "order"}
STRUCTURED = {"Content-Type": "application/cloudevents+json; charset=utf-8"}
BATCH = {"Content-Type": "application/cloudevents-batch+json"}


def order(id_, **more):
    return {**EVENT, "id": id_, "data": {"customer": "c1"}, **more}


def told(answer, status):
    assert answer.status_code == status, answer.text
    found = answer.json()
    if status >= 400:
        assert answer.headers["content-type"] == "application/problem+json"
        checked("Problem", found)
    return found


def test_an_event_in_binary_mode(face):
    # The example of the specification's binding to HTTP, with the type of this box.
    headers = {
        "ce-specversion": "1.0", "ce-type": "order", "ce-time": "2018-04-05T03:56:24Z", "ce-id": "1234-1234-1234",
        "ce-source": "/mycontext/subcontext", "ce-note": "Euro%20%E2%82%AC%20%F0%9F%98%80", "Content-Type": "application/json; charset=utf-8",
    }  # fmt: skip
    answer = face.post("/v1/messages", headers=headers, content=b'{"customer":  "c1", "total": 1.10}')
    assert told(answer, 201) == {"id": "1234-1234-1234", "result": "new", "queues": ["orders"]}
    assert told(face.post("/v1/messages", headers=headers, content=b'{"customer": "c1"}'), 200)["result"] == "known"
    status = told(face.get(answer.headers["location"]), 200)
    checked("MessageStatus", status)
    assert status["state"] == "waiting"
    (message,) = face.received()
    assert (message.message_id, message.body, message.content_type) == (
        "1234-1234-1234",
        b'{"customer":  "c1", "total": 1.10}',
        "application/json; charset=utf-8",
    )
    assert dict(message.context) == {"customer_id": "c1", "source": "/mycontext/subcontext"}
    assert told(face.get(answer.headers["location"]), 200)["state"] == "done"


def test_an_event_of_an_undeclared_type_keeps_all_attributes(face):
    headers = {
        "ce-specversion": "1.0",
        "ce-type": "few",
        "ce-id": "1",
        "ce-source": "/s",
        "ce-note": "Euro%20%E2%82%AC",
        "ce-other": '"a \\"b\\""',
    }
    told(face.post("/v1/messages", headers=headers, content=b"\x00\xff"), 201)
    (message,) = face.received("few")
    assert (message.body, message.context["note"], message.context["other"], message.context["source"]) == (
        b"\x00\xff",
        "Euro €",
        'a "b"',
        "/s",
    )


def test_an_event_in_structured_mode(face):
    text = '{"specversion": "1.0", "id": "1", "source": "/s", "type": "few", "datacontenttype": null, "data": {"a":  1.10, "b": 12345678901234567890123}, "number": 7, "flag": true}'
    told(face.post("/v1/messages", headers=STRUCTURED, content=text), 201)
    told(
        face.post(
            "/v1/messages",
            headers=STRUCTURED,
            json={**EVENT, "type": "few", "datacontenttype": "text/xml", "data": '<much wow="xml"/>'},
        ),
        201,
    )
    first, second = face.received("few")
    assert first.body == b'{"a":  1.10, "b": 12345678901234567890123}'  # as it was written
    assert (first.content_type, first.context["number"], first.context["flag"]) == ("application/json", 7, True)
    assert (second.body, second.content_type) == (b'<much wow="xml"/>', "text/xml")
    told(face.post("/v1/messages", headers=STRUCTURED, json={**EVENT, "id": "3", "data_base64": "AAH/"}), 202)


def test_a_batch_is_one_transaction_and_tells_of_each(face):
    events = [
        order("1"),
        order("2", source="/other"),
        order("1", source="/other"),
        order("1"),
        {**EVENT, "type": "nobody's"},
    ]
    found = told(face.post("/v1/messages", headers=BATCH, json=events), 201)
    checked("TakenAll", found)
    assert [(one["id"], one["result"]) for one in found["messages"]] == [
        ("1", "new"),
        ("2", "new"),
        ("1", "new"),
        ("1", "known"),
        ("A234", "unrouted"),
    ]
    assert told(face.post("/v1/messages", headers=BATCH, json=events[:2]), 200)["messages"][0]["result"] == "known"
    assert [one.message_id for one in face.received()] == ["1", "2", "1"]
    assert told(face.post("/v1/messages", headers=BATCH, json=[]), 200) == {"messages": []}
    told(face.post("/v1/messages", headers=BATCH, json=[order("7"), order("8", type="other")]), 403)
    told(face.post("/v1/messages", headers=BATCH, json=[order("7"), {"specversion": "1.0"}]), 400)
    assert told(face.get("/v1/messages/7"), 404)["state"] == "unknown"


def test_plain_json_and_its_key(face):
    message = {"type": "order", "context": {"customer_id": "c1"}, "body": {"a": 1}}
    key = {"Idempotency-Key": "once"}
    assert told(face.post("/v1/messages", json=message, headers=key), 201) == {
        "id": "once",
        "result": "new",
        "queues": ["orders"],
    }
    assert told(face.post("/v1/messages", json=message, headers=key), 200)["result"] == "known"
    other = create_token(face.box, "other", role="app", publish=["orders"], server="srv")
    with face.with_token(other) as client:  # each token has an id space of its own
        assert told(client.post("/v1/messages", json=message, headers=key), 201)["id"] == "once"
    assert told(face.post("/v1/messages", json=message), 201)["id"]
    named = {**message, "message_id": "m1", "body": "text", "content_type": "text/plain"}
    assert told(face.post("/v1/messages", json=[named, named]), 201)["messages"][1]["result"] == "known"
    assert [(one.message_id, one.body) for one in face.received()][-1] == ("m1", b"text")
    told(face.post("/v1/messages", json=[message], headers=key), 422)


def test_a_delay_a_moment_a_unique_key_and_no_queue(face):
    message = {"type": "order", "context": {"customer_id": "c1"}}
    assert told(face.post("/v1/messages?unique=k", json=message), 201)["result"] == "new"
    second = told(face.post("/v1/messages?unique=k", json=message), 200)
    assert second["result"] == "waiting"
    assert second["waiting"]
    told(face.post("/v1/messages?delay=1h", json=message), 201)
    told(face.post("/v1/messages?visible_at=2040-01-01T00:00:00Z", json=message), 201)
    told(face.post("/v1/messages?unrouted=refuse", json={"type": "nobody's"}), 422)
    assert told(face.post("/v1/messages?unrouted=keep", json={"type": "nobody's"}), 202)["result"] == "unrouted"
    assert len(face.received()) == 1
    for query in (
        "delay=-1",
        "delay=x",
        "delay=1&delay=2",
        "visible_at=yesterday",
        "visible_at=2040-13-01T00:00:00Z",
        "unrouted=x",
        "dealy=1",
        "unique=",
    ):
        assert face.post(f"/v1/messages?{query}", json=message).status_code in (400, 422), query


def test_a_full_queue_and_a_body_that_is_too_large(face):
    for _ in range(2):
        told(face.post("/v1/messages", json={"type": "few"}), 201)
    answer = face.post("/v1/messages", json={"type": "few"})
    assert told(answer, 503)["code"] == "queue-full"
    assert int(answer.headers["retry-after"]) > 0
    told(face.post("/v1/messages", json={"type": "order", "body": "x" * 2**23}), 413)

    def pieces():
        for _ in range(10):
            yield b" " * 2**20

    told(face.post("/v1/messages", content=pieces(), headers={"Content-Type": "application/json"}), 413)


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        (STRUCTURED, b"\xff", 400),
        (STRUCTURED, b"", 400),
        (STRUCTURED, json.dumps(EVENT).encode()[:-1], 400),
        (STRUCTURED, b'{"specversion": "1.0", "id": "1", "id": "2", "source": "/s", "type": "order"}', 400),
        (STRUCTURED, b'{"specversion": "1.0", "id": "1", "source": "/s", "type": "order", "data": {"a": 1, "a": 2}}', 400),
        (STRUCTURED, b'{"specversion": "1.0", "id": "1", "source": "/s", "type": "order", "data": NaN}', 400),
        (STRUCTURED, json.dumps({**EVENT, "specversion": "0.3"}).encode(), 400),
        (STRUCTURED, json.dumps({**EVENT, "Note": "x"}).encode(), 400),
        (STRUCTURED, json.dumps({**EVENT, "note": {}}).encode(), 400),
        (STRUCTURED, json.dumps({**EVENT, "data": 1, "data_base64": ""}).encode(), 400),
        (STRUCTURED, json.dumps({**EVENT, "data_base64": "x"}).encode(), 400),
        (STRUCTURED, json.dumps({**EVENT, "time": "yesterday"}).encode(), 422),
        (STRUCTURED, json.dumps({**EVENT, "id": "x" * 2000}).encode(), 422),
        (STRUCTURED, json.dumps({**EVENT, "id": "a\0b"}).encode(), 422),
        (STRUCTURED, json.dumps({**EVENT, "id": "\ud800"}).encode(), 422),
        (STRUCTURED, b"[" * 100_000, 400),
        (STRUCTURED, b'{"specversion": "1.0", "number": ' + b"9" * 5000 + b"}", 400),
        ({"Content-Type": "application/cloudevents+avro"}, b"x", 415),
        ({"Content-Type": "text/plain"}, b"x", 415),
        ({"Content-Type": "application/json; charset=latin-1"}, b"{}", 415),
        ({"Content-Type": "application/json"}, b"{}", 422),
        ({"Content-Type": "application/json"}, b'{"type": "order", "context": {"a": {}}}', 422),
        ({"Content-Type": "application/json"}, b'{"type": "order", "more": 1}', 422),
        ({"Content-Type": "application/json"}, b'{"type": "order", "context": {"ticket": 1}}', 422),
        ({"ce-id": "1", "ce-source": "/s", "ce-type": "order"}, b"", 400),
        ({**{f"ce-{name}": value for name, value in EVENT.items()}, "ce-customer_id": "c1"}, b"", 400),
        ({**{f"ce-{name}": value for name, value in EVENT.items()}, "ce-datacontenttype": "text/plain"}, b"", 400),
        ({**{f"ce-{name}": value for name, value in EVENT.items()}, "ce-note": "%ff"}, b"", 400),
        ({**{f"ce-{name}": value for name, value in EVENT.items()}, "ce-note": b"\xff"}, b"", 400),
    ],
)  # fmt: skip
def test_what_is_not_as_it_should_be_is_refused(face_to_refuse, headers, body, status):
    told(face_to_refuse.post("/v1/messages", headers=headers, content=body), status)


def test_a_connection_that_dies_while_an_event_is_read_is_no_bug(face, monkeypatch):
    told(face.post("/v1/messages", headers=STRUCTURED, content=json.dumps(order("1"))), 201)  # the token is known
    current, cut = Known.current, threading.Event()

    def cut_before(known, statements):
        if not cut.is_set():
            cut.set()
            with psycopg.connect(face.box.dsn, autocommit=True) as connection:
                pid = statements.connection.info.backend_pid
                assert connection.execute("SELECT pg_terminate_backend(%s, 60000)", [pid]).fetchone() == (True,)
        return current(known, statements)

    monkeypatch.setattr(Known, "current", cut_before)
    assert (
        told(face.post("/v1/messages", headers=STRUCTURED, content=json.dumps(order("2"))), 503)["code"]
        == "unavailable"
    )
    told(face.post("/v1/messages", headers=STRUCTURED, content=json.dumps(order("2"))), 201)


def test_a_state_tells_nothing_of_queues_that_the_token_does_not_name(face):
    face.box.define(sq.Subscription("orders-too", "type = 'order'", "other"))
    grants.grant(face.box, "app", receive=["other"], see=["other"])
    secrets = {one: create_token(face.box, one, role="app", receive=[one], server="srv") for one in ("other", "few")}
    face.box.publish(sq.Message(type="order", message_id="m1", context={"customer_id": "c1"}))

    def state(token):
        with face.with_token(token) as client:
            found = client.get("/v1/messages/m1").json()
        return found["state"], found.get("reason"), [(one["queue"], one["state"]) for one in found.get("queues", [])]

    assert state(face.token) == ("waiting", "it is ready, or nobody has looked at it yet", [("orders", "waiting")])
    with face.with_token(secrets["other"]) as client:
        place = "/v1/queues/other/deliveries"
        delivery = told(client.post(place, json={}), 200)["delivery"]
        told(client.post(f"{place}/{delivery}/dead_letter", json={"at": 1, "reason": "theirs alone"}), 200)
    assert state(secrets["other"]) == (
        "dead",
        "dead: its handler made it a dead letter: theirs alone",
        [("other", "dead")],
    )
    assert state(secrets["few"]) == ("unknown", None, [])
    assert face.received("orders")
    assert state(face.token) == ("done", "", [])


def test_nothing_is_open_without_a_token(face):
    with face.with_token(None) as client:
        assert client.get("/healthz").status_code == 200
        for path in ("/", "/v1/openapi.json", "/v1/messages/1", "/v1/queues/orders/deliveries", "/../etc/passwd"):
            answer = client.get(path)
            assert told(answer, 401)["code"] == "token"
            assert answer.headers["www-authenticate"].startswith("Bearer")
    with face.with_token("sq_wrong") as client:
        told(client.post("/v1/messages", json={"type": "order"}), 401)
    told(face.post("/v1/messages", json={"type": "other"}), 403)
    for path in ("/seriatim/v1/messages", "/v1/messages/", "/v1/%2e%2e/messages", "//v1/messages"):
        assert "--http-prefix" in told(face.get(path), 404)["remedy"]
    assert told(face.get("/v1/messages"), 405)
    assert face.get("/v1/openapi.json").json() == json.loads(json.dumps(openapi()))
    reading = create_token(face.box, "reads", role="app", receive=["orders"], server="srv")
    with face.with_token(reading) as client:
        told(client.post("/v1/messages", json={"type": "order"}), 403)
    revoke_token(face.box, "shop")
    while face.get("/v1/messages/1").status_code != 401:  # within a second
        pass
