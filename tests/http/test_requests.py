"""Requests over HTTP: who asks waits for the reply, or fetches it later; nobody else does."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

import seriatim as sq
from seriatim.http.reading import checked
from seriatim.operations.tokens import create_token
from seriatim.testing.work import work_off
from tests.http.conftest import QUEUES
from tests.http.test_messages import STRUCTURED, told

EVENT = {"specversion": "1.0", "source": "/shop", "type": "few", "data": {"sku": "apple"}}
WAIT = {"Prefer": "respond-async, wait=30"}


def answer(message, tx):
    return sq.Message(type="price", body=b'{"cents":  50}', content_type="application/json", context={"sku": "apple"})


def ask(face, id_="1", headers=WAIT, client=None, **more):
    return (client or face).post(
        "/v1/messages?reply=price", headers=STRUCTURED | headers, json={**EVENT, "id": id_, **more}
    )


def serve(face, handler=answer, **options):
    """Handle requests until one was handled."""
    while not work_off(face.box, "few", handler, **options):
        pass


def test_who_waits_gets_the_reply_as_an_event(face):
    with ThreadPoolExecutor(1) as caller:
        asked = caller.submit(ask, face)
        serve(face)
        reply = asked.result()
    assert reply.headers["content-type"] == "application/cloudevents+json"
    event = told(reply, 200)
    checked("Event", event)
    assert (event["type"], event["data"], event["sku"]) == ("price", {"cents": 50}, "apple")
    again = ask(face, headers={})  # the same event is the same request
    assert (again.status_code, again.content) == (200, reply.content)
    assert face.get(reply.headers["content-location"]).content == reply.content
    assert not work_off(face.box, "few", answer)


def test_a_reply_that_comes_later_is_fetched_where_it_was_said(face):
    pending = ask(face, headers={})
    found = told(pending, 202)
    checked("Pending", found)
    assert told(face.get(pending.headers["location"]), 202) == found
    assert told(ask(face, headers={}), 202) == found
    with ThreadPoolExecutor(1) as caller:
        asked = caller.submit(face.get, pending.headers["location"], headers=WAIT)
        serve(face)
        assert told(asked.result(), 200)["data"] == {"cents": 50}
    other = create_token(face.box, "other", role="app", publish=QUEUES, server="srv")
    with face.with_token(other) as stranger:
        assert told(stranger.get(pending.headers["location"]), 404)["code"] == "not-found"
    assert told(face.get("/v1/replies/request-0"), 404)["code"] == "not-found"


def test_an_idempotency_key_is_of_one_token(face):
    message, key = {"type": "few", "body": "?"}, {"Idempotency-Key": "k"}
    mine = [told(face.post("/v1/messages?reply=price", headers=key, json=message), 202) for _ in range(2)]
    with face.with_token(create_token(face.box, "other", role="app", publish=QUEUES, server="srv")) as stranger:
        other = told(stranger.post("/v1/messages?reply=price", headers=key, json=message), 202)
    assert mine[0] == mine[1]
    assert other["id"] != mine[0]["id"]


def test_a_request_that_fails_is_told_at_once(face):
    face.box.define(sq.Queue("few", policy=sq.Unordered(), errors="continue", retry=sq.Retry(attempts=1)))

    def fail(message, tx):
        raise sq.Business("no such thing")

    with ThreadPoolExecutor(1) as caller:
        asked = caller.submit(ask, face)
        serve(face, fail, fails=True)
        problem = told(asked.result(), 502)
    assert problem["code"] == "request-failed"
    assert "no such thing" in problem["detail"]
    assert told(face.get(f"/v1/replies/{problem['id']}"), 502)["code"] == "request-failed"


@pytest.mark.parametrize(
    ("query", "headers", "body", "status"),
    [
        ("reply=price", {}, {**EVENT, "id": "1", "type": "nothing"}, 422),
        ("reply=price&delay=5", {}, {**EVENT, "id": "1"}, 422),
        ("reply=price&unique=k", {}, {**EVENT, "id": "1"}, 422),
        ("reply=", {}, {**EVENT, "id": "1"}, 422),
        ("reply=price", {"Prefer": "wait=soon"}, {**EVENT, "id": "1"}, 400),
        ("reply=price", {"Content-Type": "application/cloudevents-batch+json"}, [{**EVENT, "id": "1"}], 422),
        ("reply=price", {"Content-Type": "application/json"}, {"type": "few", "context": {"correlation_id": "c"}}, 422),
    ],
)
def test_what_cannot_be_asked(face_to_refuse, query, headers, body, status):
    answer = face_to_refuse.post(f"/v1/messages?{query}", headers=STRUCTURED | headers, content=json.dumps(body))
    told(answer, status)
    assert face_to_refuse.received("few") == []


def test_many_callers_wait_on_few_connections(face):
    face.box.define(sq.Queue("few", policy=sq.Unordered()))
    with ThreadPoolExecutor(30) as callers:
        asked = [callers.submit(ask, face, str(number), data=number) for number in range(30)]
        done = 0
        while done < 30:
            done += work_off(face.box, "few", lambda message, tx: sq.Message(type="price", body=message.body))
        assert [told(one.result(), 200)["data"] for one in asked] == list(range(30))
