"""The operator log: what one did to many is one line, and it can be filtered by who, what and when."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest

from seriatim.operations import groups, queues
from seriatim.operations.operator_log import operator_log, operator_log_runs
from tests.box.console import define, publish
from tests.console.conftest import Client


@pytest.fixture
def logged(box):
    """Entries 1 to 6: five suspensions by ann for one reason, and a switch by bob after the third."""
    define(box)
    names = [f"c{number}" for number in range(1, 6)]
    for name in names:
        publish(box, 1, group=name)
    for name in names[:3]:
        groups.suspend(box, "shop", name, actor="ann", reason="the vendor looks at it")
    queues.turn_off(box, "shop", actor="bob", reason="night")
    for name in names[3:]:
        groups.suspend(box, "shop", name, actor="ann", reason="the vendor looks at it")
    return box


def spans(found):
    return [(one.first_id, one.operation_id, one.actor, one.count) for one in found]


def test_what_one_actor_did_to_several_groups_is_one_line_that_unfolds(logged):
    runs = operator_log_runs(logged)
    assert spans(runs) == [(5, 6, "ann", 2), (4, 4, "bob", 1), (1, 3, "ann", 3)]
    assert runs[0].listed == [("shop", "c5"), ("shop", "c4")]
    assert (runs[1].queues, runs[1].listed) == (["shop"], [])
    page = Client(logged).get("/log").text
    assert page.count("<details><summary>") == 2
    assert "<summary>3 groups in shop</summary>" in page
    assert 'href="/groups/shop/c2"' in page
    twin = Client(logged).get("/log.json?limit=4").json()
    assert [one["operation_id"] for one in twin] == [6, 5, 4, 3]
    assert set(twin[0]) == {
        "operation_id", "at", "actor", "action", "queue", "group", "reason", "details", "role",
    }  # fmt: skip


def test_a_page_of_lines_goes_on_below_its_last_line(logged, monkeypatch):
    client = Client(logged)
    seen, address = [], "/log?limit=1"
    while address is not None:
        page = client.get(address).text
        seen += re.findall(r"the vendor|night", page)
        more = re.search(r'rel="next" href="([^"]+)"', page)
        address = more and more[1].replace("&amp;", "&")
    assert seen == ["the vendor", "night", "the vendor"]
    monkeypatch.setattr("seriatim.operations.operator_log._AMONG", 4)
    first = operator_log_runs(logged)
    assert spans(first) == [(5, 6, "ann", 2), (4, 4, "bob", 1), (3, 3, "ann", 1)]
    assert [one.is_cut for one in first] == [False, False, True]
    assert spans(operator_log_runs(logged, before=first[-1].first_id)) == [(1, 2, "ann", 2)]
    assert 'before=3">More</a>' in client.get("/log").text
    monkeypatch.setattr("seriatim.operations.operator_log._LISTED", 1)
    assert "and 1 more" in client.get("/log").text


def test_the_log_is_filtered_by_actor_action_and_time(logged):
    third = operator_log(logged)[3].at
    for given, numbers in (
        ({"actor": "bob"}, [4]),
        ({"actor": "bo"}, []),
        ({"action": "suspend", "since": third}, [6, 5, 3]),
        ({"until": third}, [2, 1]),
        ({"group": "c3"}, [3]),
    ):
        assert [one.operation_id for one in operator_log(logged, **given)] == numbers, given
    client = Client(logged)
    page = client.get("/log?actor=bob").text
    assert "night" in page
    assert "the vendor looks" not in page
    assert client.get("/log.json?actor=bob").json()[0]["reason"] == "night"
    assert len(client.get(f"/log.json?until={quote(third.isoformat())}").json()) == 2
    assert "No operator has done such a thing." in client.get("/log?action=none").text
