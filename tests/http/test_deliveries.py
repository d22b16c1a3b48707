"""Deliveries over HTTP: a run of one group under a lease, taken and ended by requests."""

from __future__ import annotations

import base64
import json
from concurrent.futures import ThreadPoolExecutor

import pytest

import seriatim as sq
from seriatim.http.reading import checked
from seriatim.operations import groups
from seriatim.operations.tokens import create_token, revoke_token
from tests.http.conftest import waiting
from tests.http.test_messages import told

ORDERS = "/v1/queues/orders/deliveries"


def order(n, group="c1", **more):
    return sq.Message(type="order", message_id=f"{group}-{n}", context={"customer_id": group}, **more)


def taken(face, **wanted):
    found = told(face.post(ORDERS, json=wanted), 200)
    checked("Delivery", found)
    return found


def call(face, delivery, verb, status=200, **body):
    found = told(face.post(f"{ORDERS}/{delivery['delivery']}/{verb}", json=body), status)
    if status == 200:
        checked("Until" if verb == "renew" else "Done", found)
    return found


def test_a_run_is_taken_renewed_completed_in_parts_and_publishes(face):
    nothing = face.post(ORDERS, json={})
    assert (nothing.status_code, nothing.content) == (204, b"")
    assert not {"content-type", "content-length", "transfer-encoding"} & nothing.headers.keys()
    face.box.publish([order(n, body=b'{"n":  %d}' % n, content_type="application/json") for n in range(3)])
    delivery = taken(face, limit=2, lease="60s")
    assert [(one["id"], one["position"], one["ordinal"], one["attempt"], one["late"], one["data"]) for one in delivery["messages"]] == [
        ("c1-0", 1, 1, 1, False, {"n": 0}), ("c1-1", 2, 2, 1, False, {"n": 1}),
    ]  # fmt: skip
    assert json.loads(delivery["messages"][0]["context"]) == {"customer_id": "c1"}
    assert face.post(ORDERS, json={}).status_code == 204  # nobody else gets the group
    assert call(face, delivery, "renew", lease=120)["until"] > delivery["until"]
    result = {"type": "few", "message_id": "r1", "body": "x"}
    answer = call(face, delivery, "complete", through=1, publish=[result])
    assert (answer["done"], answer["over"], answer["published"], answer["repeated"]) == (1, False, ["r1"], False)
    assert call(face, delivery, "complete", through=1, publish=[result])["repeated"]
    call(face, delivery, "complete", 409, through=1, publish=[{**result, "body": "y"}])
    event = {"specversion": "1.0", "id": "r1", "source": "/js", "type": "few", "position": 2}
    call(face, delivery, "complete", 403, publish=[{"type": "other"}])
    assert call(face, delivery, "complete", publish=[event])["over"]
    call(face, delivery, "renew", 410)
    assert [one.message_id for one in face.received("few")] == ["r1", "/js r1"]
    second = taken(face)
    assert second["token"] > delivery["token"]
    assert [one["id"] for one in second["messages"]] == ["c1-2"]


def test_a_lease_ends_by_each_verb(face):
    face.box.publish([order(n) for n in range(4)])
    delivery = taken(face, limit=3)
    answer = call(face, delivery, "fail", at=2, kind="transient", error="not now", retry_after="0s")
    assert (answer["done"], answer["over"], answer["then"]) == (1, True, "retry")
    delivery = taken(face, wait=60)
    assert [(one["id"], one["attempt"]) for one in delivery["messages"]] == [("c1-1", 2)]
    call(face, delivery, "dead_letter", at=1, reason="nobody's")
    delivery = taken(face, wait=60)
    assert [one["id"] for one in delivery["messages"]] == ["c1-2", "c1-3"]
    call(face, delivery, "postpone", at=2, delay="0s")
    delivery = taken(face, wait=60)
    assert told(face.client.delete(f"{ORDERS}/{delivery['delivery']}"), 200)["over"]
    delivery = taken(face)
    assert [(one["id"], one["attempt"]) for one in delivery["messages"]] == [("c1-3", 1)]
    for verb, body in (
        ("fail", {}),
        ("fail", {"at": 0}),
        ("postpone", {"at": 1}),
        ("complete", {"through": 9}),
        ("complete", {"more": 1}),
        ("renew", {"lease": "1 year"}),
    ):
        assert f"schema {face.box.schema}" not in call(face, delivery, verb, 422, **body)["detail"]
    assert call(face, delivery, "complete", 422, through=9)["remedy"] == "from 1 to 1"
    told(face.post(f"{ORDERS}/x/complete", json={}), 404)
    told(face.post("/v1/queues/other/deliveries", json={}), 403)


def test_an_attempt_is_found_again_and_another_token_finds_nothing(face):
    face.box.publish([order(n) for n in range(2)])
    first = taken(face, attempt_id="a1")
    assert taken(face, attempt_id="a1") == first
    call(face, first, "complete", through=1)
    again = taken(face, attempt_id="a1")
    assert (again["done"], [one["position"] for one in again["messages"]], again["until"]) == (1, [2], first["until"])
    other = create_token(face.box, "other", role="app", receive=["orders"], server="srv")
    with face.with_token(other) as client:
        told(client.post(f"{ORDERS}/{first['delivery']}/complete", json={}), 410)
        assert client.post(ORDERS, json={"attempt_id": "a1"}).status_code == 204
    call(face, first, "complete")
    assert told(face.post(ORDERS, json={"attempt_id": "a1"}), 410)["code"] == "lease-lost"


def test_bodies_of_each_kind_and_size(face):
    large = bytes(range(256)) * 5000
    bodies = [b"plain", b"\xff\x00", b'{"a": 1.10}', large]
    face.box.publish(
        [order(n, body=one, content_type="text/plain" if n == 0 else None) for n, one in enumerate(bodies)]
    )
    one, two, three, four = taken(face)["messages"]
    assert one["data"] == "plain"
    assert base64.b64decode(two["data_base64"]) == bodies[1]
    assert three["data"] == {"a": 1.10}
    assert "data" not in four
    answer = face.get(four["dataref"])
    assert answer.status_code == 200
    assert answer.content == large
    told(face.get(four["dataref"].replace("/4/", "/5/")), 422)


def test_a_large_body_comes_with_any_content_type_that_a_message_can_have(face):
    kinds = {" text/plain\r\n": "text/plain"}
    kinds |= dict.fromkeys(["text/plain\r\nX: y", "text/ü", "\n"], "application/octet-stream")
    large = b"x" * (2**20 + 1)
    face.box.publish([order(n, body=large, content_type=one) for n, one in enumerate(kinds)])
    answers = [face.get(one["dataref"]) for one in taken(face)["messages"]]
    assert [(one.status_code, one.headers["content-type"]) for one in answers] == [(200, one) for one in kinds.values()]
    assert {one.content for one in answers} == {large}


def test_bodies_between_those_of_a_run_are_as_they_were_published(face):
    """Small ones come with their messages, others after them: each is at its place, also when the attempt is repeated."""
    sizes = [10, 100_000, 2**20, 20, 2**20 + 1, 9000]
    bodies = [b"%d" % n * (size // len(b"%d" % n)) for n, size in enumerate(sizes)]
    face.box.publish([order(n, body=body, content_type="text/plain") for n, body in enumerate(bodies)])
    delivery = taken(face, attempt_id="a1")
    assert taken(face, attempt_id="a1") == delivery
    assert [one.get("data", "").encode() for one in delivery["messages"]] == [
        body if len(body) <= 2**20 else b"" for body in bodies
    ]
    assert face.get(delivery["messages"][4]["dataref"]).content == bodies[4]
    call(face, delivery, "complete", through=2)
    told(face.get(delivery["messages"][4]["dataref"].replace("/5/", "/1/")), 410)
    assert [one.get("data", "").encode() for one in taken(face, attempt_id="a1")["messages"]][:2] == bodies[2:4]


def test_a_set_comes_whole_and_the_bodies_beyond_the_limit_by_themselves(face):
    face.box.define(
        sq.MessageType("set", properties={"customer_id": "string", "n": "long"}),
        sq.Queue("orders", policy=sq.UnitOfWork(size=10), group="customer_id", sequence="n"),
        sq.Subscription("set", "type = 'set'", "orders"),
    )
    body = b"x" * 2**20
    face.box.publish(
        [
            sq.Message(type="set", context={"customer_id": "s", "n": n}, body=body, content_type="text/plain")
            for n in range(1, 11)
        ]
    )
    messages = taken(face, max_bytes=1000)["messages"]
    assert ["data" in one for one in messages] == [True] * 8 + [False] * 2
    assert face.get(messages[9]["dataref"]).content == body


def test_a_body_that_was_edited_is_the_edited_one(face):
    face.box.publish([order(n, body=b"{}") for n in range(2)])
    call(face, taken(face), "fail", at=1, kind="business", error="no")
    mended = b'"' + b"m" * 2**20 + b'"'
    groups.retry(face.box, "orders", "c1", body=mended, actor="me", reason="a test")
    (one,) = taken(face, wait=10)["messages"]
    assert "data" not in one
    assert face.get(one["dataref"]).content == mended


def test_a_run_ends_before_it_is_too_large(face):
    face.box.publish([order(n, body=b"x" * 3000) for n in range(5)])
    assert len(taken(face, max_bytes=7000)["messages"]) == 2


def test_what_is_null_counts_as_left_out(face):
    null = dict.fromkeys(("limit", "wait", "lease", "group", "attempt_id", "max_bytes"))
    assert face.post(ORDERS, json=null).status_code == 204
    face.box.publish([order(n) for n in range(3)])
    delivery = taken(face, **null)
    result = {
        "type": "few",
        "message_id": None,
        "context": None,
        "content_type": None,
        "position": None,
        "body_base64": None,
    }
    (published,) = call(face, delivery, "complete", through=1, publish=[result])["published"]
    assert call(face, delivery, "renew", lease=None)["until"]
    assert call(face, delivery, "complete", through=2, publish=None)["done"] == 2
    assert call(face, delivery, "fail", at=3, kind=None, error=None, retry_after=None)["over"]
    assert [(one.message_id, one.body) for one in face.received("few")] == [(published, b"")]
    key = {"Idempotency-Key": "once"}
    assert (
        told(
            face.post(
                "/v1/messages", json={"type": "order", "message_id": None, "context": {"customer_id": "c"}}, headers=key
            ),
            201,
        )["id"]
        == "once"
    )


@pytest.mark.parametrize(
    "body",
    [
        b"[]",
        b"x",
        b'{"limit": 0}',
        b'{"wait": -1}',
        b'{"lease": "2d"}',
        b'{"limit": 1, "limit": 2}',
        b'{"attempt_id": ""}',
        b"\xff",
    ],
)
def test_a_wrong_wish_is_refused(face_to_refuse, body):
    assert face_to_refuse.post(ORDERS, content=body, headers={"Content-Type": "application/json"}).status_code in (
        400,
        422,
    )


def test_a_token_that_was_revoked_while_it_waits_gets_nothing(face):
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(face.post, ORDERS, json={"wait": 30})
        waiting(face.box, 1)
        revoke_token(face.box, "shop")
        face.box.publish(order(1))
        told(answer.result(), 401)
    assert [one.message_id for one in face.received()] == ["c1-1"]


def test_a_second_request_of_an_attempt_takes_the_place_of_the_first(face):
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(face.post, ORDERS, json={"wait": 30, "attempt_id": "a"})
        waiting(face.box, 1)
        second = pool.submit(face.post, ORDERS, json={"wait": 30, "attempt_id": "a"})
        assert first.result().status_code == 204
        face.box.publish(order(1))
        assert second.result().status_code == 200
