"""A console that knows no users opens with the token that it prints; a proxy is believed if it is said which one that is."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from urllib.parse import quote

import httpx
import pytest

from seriatim.console.serving import TOKEN, server_of
from seriatim.errors import EnvironmentProblem, UsageError
from tests.console.conftest import NASTY, SAME, fill
from tests.databases import box_with

filled = box_with(fill, scope="module")


@contextmanager
def served(box, **options):
    """A console as the command makes it."""
    server = server_of(box, **{"listen": "127.0.0.1:0"} | options)
    thread = threading.Thread(target=server.serve_until_stopped)
    thread.start()
    try:
        yield server
    finally:
        server.handle_exit(15, None)
        thread.join(120)


@pytest.mark.parametrize(
    "path", ["/", "/groups", "/groups.json", "/messages", "/search?text=c1", "/metrics", "/live", "/nothing"]
)
def test_nothing_of_the_box_is_told_without_the_token(console, path):
    for headers in (
        {},
        {"authorization": "Bearer wrong"},
        {"cookie": f"{console.cookie}=wrong"},
        {"authorization": "Basic YTpi"},
    ):
        answer = httpx.get(f"{console.address}{path}", headers=headers)
        assert answer.status_code == 401, headers
        assert "open the address that it printed" in answer.text
        assert "shop" not in answer.text
    assert httpx.get(f"{console.address}{path}", params={"token": "wrong"}).status_code == 401


def test_nothing_is_changed_without_the_token(console):
    form = {"action": "queue.off", "name": "shop", "reason": "r"}
    for query in ("", f"?token={console.token}"):  # which opens pages, and does nothing
        assert httpx.post(f"{console.address}/act{query}", data=form, headers=SAME).status_code == 401


def test_the_address_that_is_printed_opens_it_and_a_cookie_keeps_it_open(console):
    with httpx.Client(base_url=console.address) as browser:
        answer = browser.get(f"/groups/shop/c1?token={console.token}&limit=3")
        assert (answer.status_code, answer.headers["location"]) == (303, "/groups/shop/c1?limit=3")
        there = f"/groups/shop/{quote(NASTY[:-5], safe='')}"
        assert browser.get(f"{there}?token={console.token}").headers["location"] == there
        told = answer.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(told.split("; ")), told
        page = browser.get("/groups/shop/c1")
        assert page.status_code == 200
        assert console.token not in page.text
        seen = re.search(r'name="seen" value="([^"]+)"', page.text)[1]
        form = {"action": "suspend", "queue": "shop", "group": "c1", "reason": "r", "seen": seen}
        assert browser.post("/act", data=form, headers=SAME).status_code == 303
    assert httpx.get(f"{console.address}/", headers={"authorization": f"Bearer {console.token}"}).status_code == 200


def test_health_and_files_are_for_everybody(console):
    for path in ("/healthz", "/readyz", "/static/console.css"):
        assert httpx.get(f"{console.address}{path}").status_code == 200


@pytest.fixture(scope="module")
def console(filled):
    with served(filled) as server:
        server.token = server.opens_at.partition("?token=")[2]
        server.cookie = f"seriatim-{server.address.rpartition(':')[2]}"
        yield server


def test_two_consoles_have_two_tokens_and_two_cookies(filled, console):
    with served(filled, prefix="/ops") as other, httpx.Client() as browser:
        assert "/ops/?token=" in other.opens_at
        answer = browser.get(other.opens_at)
        assert "Path=/ops" in answer.headers["set-cookie"]
        assert browser.get(console.opens_at).status_code == 303
        assert browser.get(f"{other.address}/ops/groups").status_code == 200
        assert browser.get(f"{console.address}/groups").status_code == 200
        assert httpx.get(other.opens_at.partition("?")[0], params={"token": console.token}).status_code == 401


def test_the_token_may_be_given_by_the_environment(filled):
    with served(filled, environment={TOKEN: "a-token-of-my-own"}) as server:
        assert server.opens_at.endswith("/?token=a-token-of-my-own")
    for wrong in ("", "short", "with a space in it", "ümläute-und-mehr-davon"):
        with pytest.raises(UsageError, match="can't be a token"):
            server_of(filled, listen="127.0.0.1:0", environment={TOKEN: wrong})


def test_without_a_token_only_if_that_is_said(filled, tmp_path):
    with served(filled, needs_token=False) as server:
        assert "token" not in server.opens_at
        assert httpx.get(f"{server.address}/").status_code == 200
    users = tmp_path / "users"
    users.touch(0o600)
    with pytest.raises(UsageError, match="no token where users are known"):
        server_of(filled, listen="127.0.0.1:0", users=users, needs_token=False)
    with served(filled, users=users) as server:
        assert "token" not in server.opens_at
        assert httpx.get(f"{server.address}/?token=x").headers["www-authenticate"].startswith("Basic ")


def test_a_proxy_at_a_unix_socket_is_believed_and_no_other_process(filled, tmp_path):
    path = tmp_path / "console.sock"
    named = {"x-forwarded-user": "ann", "host": "localhost"}
    with served(filled, listen=f"unix:{path}", header="X-Forwarded-User", proxies=["unix"]) as server:
        assert server.opens_at == f"unix:{path}/"
        assert path.stat().st_mode & 0o777 == 0o660
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), base_url="http://localhost") as proxy:
            assert ">ann<" in proxy.get("/", headers=named).text
            assert proxy.get("/").status_code == 403
        with pytest.raises(EnvironmentProblem, match="Address already in use"):
            server_of(filled, listen=f"unix:{path}", header="X-Forwarded-User", proxies=["unix"])
    # One that a process has left is replaced.
    assert path.is_socket()
    server_of(filled, listen=f"unix:{path}", header="X-Forwarded-User", proxies=["unix"]).close()
    with served(filled, header="X-Forwarded-User", proxies=["10.0.0.7"]) as server:
        assert httpx.get(f"{server.address}/", headers=named).status_code == 403
