"""A client that goes away, and a box that does: the console goes on."""

from __future__ import annotations

import socket

import httpx

from tests.console.browser import served
from tests.console.conftest import Client

CUT = (
    b"",
    b"GE",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    b"GET /groups HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    b"GET /live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    (
        b"POST /act HTTP/1.1\r\nHost: 127.0.0.1\r\nSec-Fetch-Site: same-origin\r\n"
        b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 500\r\n\r\naction=retry&queue=shop"
    ),
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 70_000,
)


def test_a_client_that_goes_away_at_any_moment_leaves_the_others_alone(filled, caplog):
    with served(filled) as address:
        host, port = address.removeprefix("http://").split(":")
        for some in CUT:
            with socket.create_connection((host, int(port))) as connection:
                connection.sendall(some)
        assert httpx.get(f"{address}/groups").status_code == 200
    assert [one for one in caplog.records if one.levelname == "ERROR"] == []


def test_a_body_with_a_name_twice_is_shown_as_it_is(box):
    import seriatim as sq

    box.define(sq.Queue("shop", policy=sq.Unordered()), sq.Subscription("all", where="TRUE", to="shop"))
    with box.session() as tx:
        (one,) = tx.publish([sq.Message(type="t", content_type="application/json", body=b'{"a": 1, "a": 2}')])
    text = Client(box).get(f"/messages/{one}").text
    assert "{&#34;a&#34;: 1, &#34;a&#34;: 2}" in text
    assert "shown as text" in text


def test_filters_that_would_read_all_are_bounded(filled):
    client = Client(filled)
    for path in (
        "messages?error=%25",
        "messages?status=done&type=none",
        "groups?key=*x*&state=ready",
        "search?text=%25",
        "faults?error=_",
    ):
        assert client.get(f"/{path}").status_code == 200, path
