"""``seriatim link`` and ``seriatim transmission``."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.cli.main import main
from seriatim.runtime.processes.link_server import LinkServer
from seriatim.runtime.processes.serve import Serve
from tests.box import roles
from tests.box.links.pairs import ORDER, order
from tests.certificates import Authority
from tests.databases import fresh_box

_WHY = ("--reason", "a test", "--actor", "ann")


def _run(box, *words, code=0):
    found = CliRunner().invoke(main, [*words, "--dsn", box.dsn, "--schema", box.schema])
    assert found.exit_code == code, found.output
    return found.stdout if code == 0 else found.stderr + found.stdout


@pytest.fixture
def two(databases):
    with fresh_box(databases) as near, fresh_box(databases) as far:
        roles.make(far, "road_of_commands")
        yield near, far
        roles.rows(far, "DROP OWNED BY road_of_commands")
        roles.rows(far, "DROP ROLE road_of_commands")


def test_two_boxes_are_paired_used_and_parted_by_commands(two):
    near, far = two
    far.define(ORDER, sq.Queue("orders", group="customer"))
    accept = ("link", "accept", "near", "--role", "road_of_commands", "--box", str(near.id), *_WHY)
    assert "near" in _run(far, *accept, "--queue", "orders")
    assert "there is no queue 'order'" in _run(far, *accept, "--queue", "order", code=2)
    to = ("--to", roles.dsn_of(far, "road_of_commands"), "--schema-there", far.schema)
    added = json.loads(_run(near, "link", "add", "far", *to, "--json"))
    assert (added["state"], added["box"]) == ("ok", str(far.id))
    near.define(ORDER, sq.Queue("orders", at="far", group="customer"), sq.Queue("others", at="far", group="customer"))
    near.publish([order(1), order(2, queue="others")])
    (done,) = json.loads(_run(near, "link", "transmit", "--json"))
    assert (done["sent"], done["acknowledged"]) == (2, 1)
    (waiting,) = json.loads(_run(near, "transmission", "--waiting", "--json"))
    assert (waiting["queue"], waiting["state"], waiting["acknowledged"]) == ("others", "open", 0)
    assert "refuses it" in _run(near, "transmission")
    assert "on the way" in _run(near, "link", "status")
    assert "queues lead over" in _run(near, "link", "remove", "far", "--yes", *_WHY, code=2)
    near.drop(queue=["orders", "others"])
    assert "messages wait" in _run(near, "link", "remove", "far", "--yes", *_WHY, code=2)
    removed = json.loads(_run(near, "link", "remove", "far", "--yes", "--force", *_WHY, "--json"))
    assert removed == {"link": "far", "messages": 1}
    assert "there are no links" in _run(near, "link", "status")
    assert "there is no link 'far'" in _run(near, "link", "status", "far", code=2)


def test_serving_tells_over_which_links_it_transmits(two, monkeypatch):
    near, far = two
    near.define(sq.Link("far", dsn=roles.dsn_of(far, "road_of_commands")))
    monkeypatch.setattr(Serve, "run", lambda serving: None)  # what it does is tested elsewhere
    told = [CliRunner().invoke(main, ["serve", "--dsn", box.dsn, "--schema", box.schema]).stderr for box in two]
    assert "transmitting over far\n" in told[0]
    assert "Ctrl-C stops it" in told[1]
    assert "transmitting" not in told[1]


def test_a_link_that_leads_nowhere_is_told(two):
    near, _ = two
    told = _run(near, "link", "add", "nowhere", "--to", "host=/nowhere dbname=x user=y", code=3)
    assert "can't be reached" in told
    assert "password" not in told
    assert "would be kept in the box" in _run(near, "link", "add", "x", "--to", "host=/x password=secret", code=2)


def test_two_boxes_are_paired_over_https_by_commands(two, tmp_path, monkeypatch):
    near, far = two
    authority = Authority(tmp_path)
    authority.issued("near")
    files = authority.issued("far")
    far.define(ORDER, sq.Queue("orders", group="customer"))
    server = LinkServer(far, "127.0.0.1:0", certificate=files.certificate, key=files.key, authority=files.authority)
    server.start()
    try:
        accept = ("link", "accept", "near", "--box", str(near.id), "--queue", "orders", *_WHY)
        assert "by a role or by a certificate" in _run(far, *accept, code=2)
        _run(far, *accept, "--certificate", f"{tmp_path}/near.pem")
        monkeypatch.chdir(tmp_path)
        mine = ("--certificate", "near.pem", "--key", "near.key", "--authority", "authority.pem")
        assert "needs one address" in _run(near, "link", "add", "far", *mine, code=2)
        added = json.loads(_run(near, "link", "add", "far", "--url", server.address, *mine, "--json"))
        assert (added["state"], added["box"]) == ("ok", str(far.id))
        (shown,) = json.loads(_run(far, "link", "status", "--json"))
        assert (shown["role"], len(shown["public_key"])) == (None, 64)
    finally:
        server.close()
    assert "--listen needs --key, --authority" in _run(
        far, "serve", "--listen", "127.0.0.1:0", "--certificate", "x", code=2
    )
    assert "certificates are for --listen" in _run(far, "serve", "--key", "x", code=2)
    mine = (*mine[:2], "--key", "nothing.key", *mine[4:])
    assert "nothing.key can't be read" in _run(far, "serve", "--listen", "127.0.0.1:0", *mine, code=3)
    assert "cannot listen at 'nowhere'" in _run(
        far, "serve", "--listen", "nowhere", *mine[:3], "near.key", *mine[4:], code=2
    )
