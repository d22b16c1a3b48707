"""Messages for queues of two regions over HTTP: by the regions of the server's file, and never to one box alone."""

from __future__ import annotations

from contextlib import contextmanager

import httpx
import pytest

import seriatim as sq
from seriatim.http.serving import HttpServer
from seriatim.operations import grants
from seriatim.operations.tokens import create_token
from tests.box.roles import as_role, make, rows
from tests.http.test_command import served
from tests.http.test_messages import told
from tests.regions.away import away
from tests.regions.conftest import two  # noqa: F401 -- a fixture
from tests.regions.test_work_command import file  # noqa: F401 -- a fixture


def status(number, ident, **more):
    return {"type": "status", "message_id": ident, "context": {"session": "s", "number": number}, **more}


@pytest.fixture
def caller(two):  # noqa: F811
    """The token of a role that may publish to one queue of both regions, and not to the other one."""
    two.regions.define(
        sq.RegionalQueue("secret", group="session", sequence="number"),
        sq.Subscription("to-secret", where="type = 'secret'", to="secret"),
    )
    make(two.first, "app", "srv")
    grants.grant(two.first, "app", publish=["status"])
    yield create_token(two.first, "shop", role="app", publish=["status", "secret"], server="srv")
    rows(two.first, "DROP OWNED BY app, srv; DROP ROLE app, srv")  # here, for others of the databases go first


@contextmanager
def serving(two, token, regions):  # noqa: F811
    with as_role(two.first, "srv") as box:
        server = HttpServer(box, "127.0.0.1:0", regions=regions)
        server.start()
        try:
            headers = {"Authorization": f"Bearer {token}"}
            with httpx.Client(base_url=server.address, headers=headers, timeout=180) as client:
                yield client
        finally:
            server.close()


def test_without_regions_it_is_refused(two, caller):  # noqa: F811
    with serving(two, caller, None) as client:
        problem = told(client.post("/v1/messages", json=status(1, "m1")), 422)
    assert "--regions FILE" in problem["remedy"]
    with pytest.raises(sq.UsageError, match="--regions FILE"):  # as by the other doors
        two.first.publish(sq.Message(type="status", context={"session": "s", "number": 1}))
    assert two.has(two.first) == []


def test_it_is_in_both_boxes_or_unavailable(two, caller):  # noqa: F811
    with serving(two, caller, two.regions) as client:
        assert told(client.post("/v1/messages", json=status(1, "m1")), 201)["queues"] == ["status"]
        with away(two, "b", "journal"):
            answer = client.post("/v1/messages", json=status(2, "m2"))
        assert (told(answer, 503)["code"], int(answer.headers["Retry-After"]) > 0) == ("unavailable", True)
        for code in (201, 200):  # sent again, as a caller does
            told(client.post("/v1/messages", json=[status(2, "m2"), status(3, "m3")]), code)
        assert two.has(two.first) == two.has(two.second) == [("s", 1, "m1"), ("s", 2, "m2"), ("s", 3, "m3")]
        event = {"specversion": "1.0", "id": "e", "source": "/shop", "type": "status", "session": "s", "number": 4}
        refused = client.post("/v1/messages", json=event, headers={"Content-Type": "application/cloudevents+json"})
        assert "plain JSON" in told(refused, 422)["detail"]


def test_an_idempotency_key_is_the_tokens_own_and_says_what_is_known(two, caller):  # noqa: F811
    other = create_token(two.first, "web", role="app", publish=["status"], server="srv")
    with serving(two, caller, two.regions) as client:

        def sent(token, number, key="1"):
            headers = {"Authorization": f"Bearer {token}", "Idempotency-Key": key}
            body = {"type": "status", "context": {"session": "s", "number": number}}
            answer = client.post("/v1/messages", json=body, headers=headers)
            return answer.status_code, answer.json()

        new = (201, {"id": "key:shop 1", "result": "new", "queues": ["status"]})
        assert sent(caller, 1) == new
        assert sent(other, 2) == (201, new[1] | {"id": "key:web 1"})
        assert sent(caller, 1) == (200, new[1] | {"result": "known", "queues": []})
        batch = [status(3, "m3"), status(3, "m3"), status(4, "m4")]
        results = [told(client.post("/v1/messages", json=batch), code)["messages"] for code in (201, 200)]
    assert [[one["result"] for one in found] for found in results] == [["new", "known", "new"], ["known"] * 3]
    held = [("s", 1, "key:shop 1"), ("s", 2, "key:web 1"), ("s", 3, "m3"), ("s", 4, "m4")]
    assert two.has(two.first) == two.has(two.second) == held


def test_neither_the_role_nor_the_token_may_more_than_elsewhere(two, caller):  # noqa: F811
    batch = [status(1, "m1"), status(1, "m2", type="secret")]
    with serving(two, caller, two.regions) as client:
        assert "may not publish to the queue" in told(client.post("/v1/messages", json=batch), 403)["detail"]
        grants.grant(two.first, "app", publish=["secret"])
        told(client.post("/v1/messages", json=batch), 201)
        narrow = create_token(two.first, "narrow", role="app", publish=["status"], server="srv")
        client.headers["Authorization"] = f"Bearer {narrow}"
        batch = [status(2, "m3"), status(2, "m4", type="secret")]
        assert "'secret'" in told(client.post("/v1/messages", json=batch), 403)["detail"]
    assert [one[2] for one in two.has(two.first)] == ["m1", "m2"]


def test_the_command_has_the_regions_of_a_file(two, caller, file):  # noqa: F811
    with served(two.first, "--regions", str(file)) as (address, _):
        headers = {"Authorization": f"Bearer {caller}"}
        told(httpx.post(f"{address}/v1/messages", headers=headers, json=status(1, "m1"), timeout=180), 201)
    assert two.has(two.first) == two.has(two.second) == [("s", 1, "m1")]
