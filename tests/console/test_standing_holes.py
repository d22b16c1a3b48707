"""Doctor, overview, the page of groups, `groups` and the metrics agree from when on a hole stands still."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.cli.main import main
from seriatim.kernel.groups.states import STANDS_AFTER_S
from seriatim.operations import groups, queues
from seriatim.operations.doctor import findings_of
from seriatim.operations.figures import figures
from tests.box.console import define, publish, received, rows
from tests.console.conftest import Client


def agreed(box):
    """How many groups each of them says stand still; they have to say the same."""
    (finding,) = (one for one in findings_of(box) if one.name == "waiting")
    (counts,) = queues.queues(box)
    (figure,) = (one.value for one in figures(box) if one.figure == "standing_holes")
    client = Client(box)
    overview, page = client.get("/").text, client.get("/groups").text
    command = ["groups", "--standing", "--dsn", box.dsn, "--schema", box.schema]
    found = {
        "doctor": finding.state == "wrong",
        "counts": counts.standing_holes == 1,
        "metrics": figure == 1,
        "overview": ">1 group</a>" in overview,
        "needs a look": "<strong>waiting</strong>" in overview,
        "page": 'href="/groups/shop/c1"' in page,
        "list": len(groups.groups(box, standing=True)) == 1,
        "command": "c1" in CliRunner().invoke(main, command).stdout,
    }
    assert len(set(found.values())) == 1, found
    assert counts.waiting_groups == 1
    if not found["page"]:
        assert "just begun to wait</a>" in overview
        assert 'href="/groups?all=yes">show them, too</a>' in page
        assert 'href="/groups/shop/c1"' in client.get("/groups?all=yes").text
    return found["page"]


def opened(box, seconds_ago):
    rows(box, "UPDATE {schema}.known_groups SET since = {schema}.now_us() - %s RETURNING 1", int(seconds_ago * 1e6))


@pytest.mark.parametrize(("hole_timeout", "stands_after_s"), [(None, STANDS_AFTER_S), ("10m", 600), ("5s", 5)])
def test_a_hole_stands_still_from_its_time_out_or_after_a_minute(box, hole_timeout, stands_after_s):
    define(box, sq.Standard(hole_timeout=hole_timeout))
    publish(box, 2)
    assert received(box) == []
    assert not agreed(box)
    opened(box, stands_after_s - 2)
    assert not agreed(box)
    opened(box, stands_after_s + 2)
    assert agreed(box)
