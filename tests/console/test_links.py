"""Links to other boxes and the streams over them, as the commands list them."""

from __future__ import annotations

import json

from click.testing import CliRunner

from seriatim.cli.main import main
from seriatim.operations.links import transmit
from tests.box.links.pairs import paired
from tests.console.conftest import Client


def printed(box, *command):
    ran = CliRunner().invoke(main, [*command, "--dsn", box.dsn, "--schema", box.schema, "--json"])
    assert ran.exit_code == 0, ran.output
    return json.loads(ran.stdout)


def test_a_link_leads_to_its_streams_and_says_what_is_on_the_way(databases):
    with paired(databases) as pair:
        pair.send(1, 2)
        transmit(pair.near)
        pair.send(1, customer="c2")
        client = Client(pair.near)
        assert client.get("/links.json").json() == printed(pair.near, "link", "status")
        page = client.get("/links").text
        assert '<a href="/transmission?link=far">far</a>' in page
        assert '<span class="badge ok">' in page
        rows = client.get("/transmission.json?link=far").json()
        assert rows == printed(pair.near, "transmission", "--link", "far")
        assert [one["key"] for one in rows if one["direction"] == "out"] == ["c1"]
        page = client.get("/transmission").text
        assert '<a href="/links">far</a>' in page
        assert "limit=4" in client.get("/transmission?limit=1").text
        assert client.get("/transmission?link=none").status_code == 404
        assert len(client.get("/transmission.json?waiting=yes").json()) == 0
