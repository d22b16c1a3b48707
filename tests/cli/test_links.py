"""``seriatim link`` and ``seriatim transmission``."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.cli.main import main
from tests.box import roles
from tests.box.links.pairs import ORDER, order
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


def test_a_link_that_leads_nowhere_is_told(two):
    near, _ = two
    told = _run(near, "link", "add", "nowhere", "--to", "host=/nowhere dbname=x user=y", code=3)
    assert "can't be reached" in told
    assert "password" not in told
    assert "would be kept in the box" in _run(near, "link", "add", "x", "--to", "host=/x password=secret", code=2)
