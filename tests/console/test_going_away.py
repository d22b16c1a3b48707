"""A client that goes away, and a box that does: the console goes on."""

from __future__ import annotations

import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import islice
from urllib.parse import urlencode

import httpx
import psycopg
import pytest

from seriatim.operations import groups
from seriatim.operations.looking import open_to_look
from seriatim.operations.operator_log import operator_log
from tests.box.console import publish, received, rows
from tests.console.browser import served
from tests.console.conftest import Client
from tests.console.test_guard import form_of

pytestmark = pytest.mark.dear

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


def test_a_client_that_is_torn_away_at_each_byte_of_a_form_acts_once_at_most(filled, caplog):
    """Its connection is reset: while it sends, when it has sent all, and while it is answered."""
    body = urlencode(form_of(Client(filled), reason="r")).encode()
    with served(filled) as address:
        host, port = address.removeprefix("http://").split(":")
        form = (
            f"POST /act HTTP/1.1\r\nHost: {host}\r\nSec-Fetch-Site: same-origin\r\nContent-Length: {len(body)}\r\n"
            "Content-Type: application/x-www-form-urlencoded\r\n\r\n"
        ).encode() + body
        for sent in [*range(0, len(form), 11), len(form) - 1]:
            _torn((host, int(port)), form[:sent])
        assert [one.action for one in operator_log(filled) if one.group == "c1"] == []
        for _ in range(3):
            _torn((host, int(port)), form, reads=10)
        assert httpx.get(f"{address}/groups").status_code == 200
    assert [one.action for one in operator_log(filled) if one.group == "c1"] == ["retry"]
    assert [one for one in caplog.records if one.levelname == "ERROR"] == []


def _torn(place, some, reads=0):
    with socket.create_connection(place, 120) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.sendall(some)
        if reads:
            connection.recv(reads)


def test_a_box_that_goes_away_and_comes_back_is_told_and_shown_again(filled):
    def let_in(connection, *, is_open):
        name = psycopg.sql.Identifier(psycopg.conninfo.conninfo_to_dict(filled.dsn)["dbname"])
        connection.execute(psycopg.sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}").format(name, is_open))
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND NOT %s",
            [psycopg.conninfo.conninfo_to_dict(filled.dsn)["dbname"], is_open],
        )

    told, came = [], {"away": threading.Event(), "changed": threading.Event()}
    elsewhere = psycopg.conninfo.make_conninfo(filled.dsn, dbname="postgres")
    with (
        open_to_look(filled.dsn, schema=filled.schema, statement_s=5) as looking,
        psycopg.connect(elsewhere, autocommit=True) as server,
        served(looking) as address,
    ):
        assert httpx.get(f"{address}/groups", timeout=120).status_code == 200

        def listen():
            with httpx.stream("GET", f"{address}/live", timeout=120) as stream:
                for line in stream.iter_lines():
                    told.append(line)
                    for name, event in came.items():
                        if line == f"event: {name}":
                            event.set()

        listener = threading.Thread(target=listen)
        listener.start()
        try:
            let_in(server, is_open=False)
            assert came["away"].wait(120)
            away = httpx.get(f"{address}/groups", timeout=120)
            assert (away.status_code, "<h1>" in away.text) == (503, True)
            assert set(httpx.get(f"{address}/groups.json", timeout=120).json()) == {"error", "remedy"}
            assert httpx.get(f"{address}/healthz", timeout=120).status_code == 200
            assert httpx.get(f"{address}/readyz", timeout=120).status_code == 503
            with httpx.stream("GET", f"{address}/live", timeout=120) as shown_now:
                assert list(islice(shown_now.iter_lines(), 3)) == ["retry: 2000", "", "event: away"]
        finally:
            came["changed"].clear()
            let_in(server, is_open=True)
        assert came["changed"].wait(120)
        assert httpx.get(f"{address}/groups", timeout=120).status_code == 200
        assert httpx.get(f"{address}/readyz", timeout=120).status_code == 200
    listener.join(120)
    assert not listener.is_alive()


def test_ages_go_by_the_clock_of_the_database(filled, monkeypatch):
    """A console whose clock is hours behind hides no group that has waited long, and tells how long that is."""
    rows(filled, "UPDATE {schema}.known_groups SET since = since - 7200000000 WHERE group_key = 'c2' RETURNING 1")

    class Behind(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) - timedelta(hours=5)

    monkeypatch.setattr("seriatim.console.live.datetime", Behind)
    monkeypatch.setattr("seriatim.operations.looking.datetime", Behind)
    client = Client(filled)
    assert "c2" in {one["group"] for one in client.get("/groups.json").json()}
    assert ">2 h</time>" in client.get("/groups/shop/c2").text
    assert Behind.now(UTC) < datetime.now(UTC)


def test_ten_users_press_one_button_at_once_and_nine_are_told(filled):
    form = form_of(Client(filled), reason="r")
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: Client(filled).post("/act", form), range(10)))
    assert sorted(one.status_code for one in answers) == [303, *[409] * 9]
    told = [one.text for one in answers if one.status_code == 409]
    assert all("has changed since you looked: it is waiting now. Nothing was done" in one for one in told)
    assert [one.action for one in operator_log(filled) if one.group == "c1"] == ["retry"]


def test_ten_users_skip_one_hole_at_once_and_the_next_one_stays(filled):
    publish(filled, 12, group="c2")  # holes at 1, 4..6, 8 and 10..11
    assert not received(filled, "c2")
    form = form_of(Client(filled), "skip_hole", group="c2", reason="r")
    with ThreadPoolExecutor(10) as pool:
        answers = list(pool.map(lambda _: Client(filled).post("/act", form), range(10)))
    assert sorted(one.status_code for one in answers) == [303, *[409] * 9]
    assert groups.group_view(filled, "shop", "c2").next == 4
