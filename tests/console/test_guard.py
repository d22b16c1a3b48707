"""What a page is protected from: other sites, other names, strangers, and what is in messages."""

from __future__ import annotations

import re
from hashlib import sha256
from importlib.resources import files
from urllib.parse import quote

import pytest

import seriatim as sq
from seriatim.box.faults.faults import Fault
from seriatim.console.guard import HEADERS
from seriatim.console.who import Actor, by_header, by_password, line_of, read_users
from seriatim.errors import UsageError
from seriatim.kernel.operators.fault import FaultKind
from seriatim.operations import groups
from seriatim.operations.operator_log import operator_log
from tests.box.console import define, failing, publish
from tests.console.conftest import SAME, Client, fill
from tests.databases import box_with

looked_at = box_with(fill, scope="module")
WILD = "<script>alert(1)</script>\x1b]0;x\x07\u202e"


def form_of(client, action="retry", group="c1", **more):
    """The form of a group's page, as a browser sends it."""
    text = client.get(f"/groups/shop/{group}").text
    seen = re.search(r'name="seen" value="([^"]+)"', text)
    given = {"seen": seen[1]} if seen else {"seen": "none"}
    return {"action": action, "queue": "shop", "group": group, "reason": "ticket 4711"} | given | more


def test_every_answer_has_the_headers_and_loads_nothing_from_elsewhere(client):
    for path in ("/", "/groups/shop/c1", "/nothing", "/groups.json", "/static/console.css"):
        answer = client.get(path)
        assert set(HEADERS) <= set(answer.headers), path
        assert "default-src 'none'" in answer.headers["content-security-policy"]
    text = client.get("/groups/shop/c1").text
    assert not re.findall(r'(?:src|href|action)="(?!/)', text.replace('href="#main"', ""))
    assert not re.findall(r"\son\w+=|style=|<script>", text)


def test_what_is_vendored_is_what_was_published():
    folder = files("seriatim.console") / "static" / "vendored"
    lines = (folder / "vendored.txt").read_text().splitlines()
    listed = {}
    for line in lines:
        name, package, version, digest = line.split()
        assert (package, version in name) == ("htmx.org", True)
        listed[name] = digest
    assert listed == {
        one.name: sha256(one.read_bytes()).hexdigest() for one in folder.iterdir() if one.name.endswith(".js")
    }


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (SAME, 303),
        ({"origin": "http://127.0.0.1:8470"}, 303),
        ({"sec-fetch-site": "cross-site", "origin": "http://127.0.0.1:8470"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "none"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"origin": "null"}, 403),
        ({}, 403),
    ],
)
def test_only_the_consoles_own_pages_change_anything(client, filled, headers, status):
    answer = client.post("/act", form_of(client), headers=headers)
    assert answer.status_code == status
    is_faulted = groups.group_view(filled, "shop", "c1").state == "faulted"
    assert is_faulted is (status != 303)


def test_another_name_is_refused_and_one_that_was_given_is_not(filled):
    client = Client(filled, origins=["https://ops.example.org"])
    assert client.get("/", headers={"host": "evil.example"}).status_code == 421
    assert client.get("/", headers={"host": "evil.example:8470"}).status_code == 421
    assert client.get("/", headers={"host": "localhost:8470"}).status_code == 200
    assert client.get("/", headers={"host": "[::1]:8470"}).status_code == 200
    assert client.get("/", headers={"host": "ops.example.org"}).status_code == 200
    own = {"host": "ops.example.org", "origin": "https://ops.example.org"}
    assert client.post("/act", form_of(client), headers=own).status_code == 303


def test_nothing_changes_by_looking(client, filled):
    before = len(operator_log(filled))
    form = form_of(client)
    for method in ("GET", "HEAD"):
        assert client.request(method, "/act", params=form).status_code == 404
    for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
        assert client.request(method, "/act", headers=SAME).status_code == 405
    assert client.get("/bulk?what=groups&action=retry").status_code == 200
    assert len(operator_log(filled)) == before


def test_a_prefix_is_there_whether_the_proxy_strips_it_or_not(filled):
    client = Client(filled, prefix="/seriatim")
    for path in ("/seriatim", "/seriatim/", "/", "/seriatim/groups/shop/c1", "/groups/shop/c1"):
        page = client.get(path)
        assert page.status_code == 200, path
        assert 'action="/seriatim/search"' in page.text
        assert not re.findall(r'(?:href|src|action)="/(?!seriatim)', page.text)
    assert client.get("/seriatimx").status_code == 404
    answer = client.post("/seriatim/act", form_of(client))
    assert answer.headers["location"].startswith("/seriatim/groups/shop/c1?done=")
    with pytest.raises(UsageError, match="the prefix can't be"):
        Client(filled, prefix="seriatim/")


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2fapp.py", "/static/vendored/vendored.txt", "/static/",
     "/..%2f..%2fetc%2fpasswd", "/%2e%2e/%2e%2e/etc/passwd", "//evil.example/", "/groups//", "/groups/shop/%00", "/%ff"],
)  # fmt: skip
def test_a_path_leads_nowhere_else(looked_at, path):
    answer = Client(looked_at).get(f"http://127.0.0.1:8470{path}")
    assert answer.status_code in (400, 404), answer.text
    assert "root:" not in answer.text


@pytest.mark.parametrize(
    "query", ["limit=9&limit=10", "suffix=x&prefix=y&self=z", "x=%ff", "limit=-5", "limit=99999999999999999999", "&".join(f"a{n}=1" for n in range(200)),
              "text=%00", "since=9999-99-99", f"key={'x' * 20_000}", "after_queue=%00&after_key=b"]
)  # fmt: skip
def test_an_odd_query_is_told_of_and_breaks_nothing(looked_at, query):
    for path in ("groups", "search", "messages"):
        assert Client(looked_at).get(f"/{path}?{query}").status_code in (200, 400, 404, 414)


def test_what_came_with_a_message_is_text(box):
    define(box)
    (message_id,) = publish(box, 1, group=WILD)
    failing(box, Fault(FaultKind.BUSINESS, "ValueError", WILD, "w1", WILD), group=WILD)
    client = Client(box)
    for path in ("/", "/messages", f"/messages/{message_id}", "/groups", "/faults", "/faults/1", "/search?text=" + quote(WILD),
                 "/groups/shop/" + quote(WILD, safe=""), "/bulk?what=groups&action=retry", "/groups?error=" + quote(WILD)):  # fmt: skip
        text = client.get(path).text
        assert "alert(1)" in text or path == "/", path
        assert "<script>alert" not in text, path
        shown = re.sub(r'value="[^"]*"', "", text)  # a field has what was typed, as it was
        assert not {"\x1b", "\x07", "\u202e", "\0"} & set(shown), path
    assert r"\x1b]0;x\x07\u202e" in client.get("/messages").text


def test_a_large_or_binary_body_is_cut(box):
    box.define(sq.Queue("shop", policy=sq.Unordered()), sq.Subscription("all", where="TRUE", to="shop"))
    with box.session() as tx:
        large, binary, wide = tx.publish(
            [
                sq.Message(type="t", body=b"<script>" * (50 * 2**20 // 8)),
                sq.Message(type="t", body=bytes(range(256)) * 100),
                sq.Message(type="t", body=b'{"n": 9007199254740993, "n2": 1.10, "a": [{}, []]}'),
            ]
        )
    client = Client(box)
    page = client.get(f"/messages/{large}")
    assert "52,428,800 bytes" in page.text
    assert "only the beginning" in page.text
    assert len(page.content) < 600_000
    assert "00000000  00 01 02" in client.get(f"/messages/{binary}").text
    shown = client.get(f"/messages/{wide}").text
    assert "9007199254740993" in shown
    assert "1.10" in shown


# ---- who


def test_a_user_needs_the_password_and_has_the_roles_of_the_file(filled, tmp_path):
    file = tmp_path / "users"
    file.write_text(
        "\n".join(line_of(name, roles, "correct horse") for name, roles in (("ann", ["mend"]), ("joe", ["see"])))
    )
    file.chmod(0o600)
    client = Client(filled, identify=by_password(read_users(file)))
    assert client.get("/").status_code == 401
    assert client.get("/").headers["www-authenticate"].startswith("Basic ")
    assert client.get("/", auth=("ann", "wrong horse")).status_code == 401
    assert client.get("/", auth=("eve", "correct horse")).status_code == 401
    assert client.get("/", headers={"authorization": "Basic ###"}).status_code == 401
    assert client.get("/static/console.css").status_code == 200
    joe, ann = {"auth": ("joe", "correct horse")}, {"auth": ("ann", "correct horse")}
    assert client.get("/", **joe).status_code == 200
    page = client.get("/groups/shop/c1", **joe).text
    assert "You may look, but not act here" in page
    form = {"action": "retry", "queue": "shop", "group": "c1", "reason": "r", "seen": "x", "actor": "ann"}
    assert client.post("/act", form, **joe).status_code == 403
    seen = re.search(r'name="seen" value="([^"]+)"', client.get("/groups/shop/c1", **ann).text)[1]
    assert client.post("/act", form | {"seen": seen, "actor": "boss"}, **ann).status_code == 303
    assert operator_log(filled)[0].actor == "ann"
    assert "You don't see the bodies" in client.get(message_of(filled), **ann).text


def message_of(box):
    with box.session() as tx:
        (found,) = tx.connection.execute(f"SELECT message_id FROM {box.schema}.messages LIMIT 1").fetchone()
    return f"/messages/{found}"


def test_a_header_counts_only_from_a_trusted_proxy_and_once(filled):
    identify = by_header("X-Forwarded-User", ["10.0.0.0/24"])
    far = Client(filled, identify=identify, client=("10.0.1.7", 1))
    near = Client(filled, identify=identify, client=("10.0.0.7", 1))
    named = {"x-forwarded-user": "ann"}
    assert far.get("/", headers=named).status_code == 403
    assert near.get("/").status_code == 403
    assert near.get("/", headers=[("x-forwarded-user", "ann"), ("x-forwarded-user", "root")]).status_code == 403
    assert near.get("/", headers={"x-forwarded-user": " "}).status_code == 403
    page = near.get("/groups/shop/c1", headers=named)
    assert page.status_code == 200
    form = {"action": "abort", "queue": "shop", "group": "c1", "reason": "r", "seen": "x"}
    assert near.post("/act", form, headers=named | SAME).status_code == 403


def test_an_application_says_who_asks(filled):
    client = Client(filled, identify=lambda request: Actor(request.headers.get("x-app", "?"), frozenset({"see"})))
    assert ">me<" in client.get("/", headers={"x-app": "me"}).text
    blind = Client(filled, identify=lambda _: Actor("x", frozenset()))
    assert {blind.get(path).status_code for path in ("/", "/messages", "/live", "/groups.json")} == {403}


@pytest.mark.parametrize(
    ("text", "told"),
    [("ann", "no line of a user"), ("ann:fly:scrypt:AA==:AA==", "there is no role"), ("a:see:scrypt:AA==:AA==\na:see:scrypt:AA==:AA==", "twice"),
     ("a:see:scrypt:A:A", "no Base64")],
)  # fmt: skip
def test_a_users_file_is_checked(tmp_path, text, told):
    file = tmp_path / "users"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(UsageError, match=told):
        read_users(file)
    file.chmod(0o644)
    with pytest.raises(UsageError, match="others may read"):
        read_users(file)
