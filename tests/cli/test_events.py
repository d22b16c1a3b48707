"""`seriatim events`: the list, the counts, and the cursor by hand."""

from __future__ import annotations

import json

import pytest

from seriatim.operations import groups
from tests.box.console import BY, define, publish, received
from tests.databases import box_with


def prepare(box):
    define(box)
    for group in ("c1", "c2"):
        publish(box, 1, 4, group=group)
        received(box, group)
        groups.skip_hole(box, "shop", group, **BY)
    groups.suspend(box, "shop", "c2", **BY)


box = box_with(prepare, "module")


def told(result):
    return [(one["group"], one["kind"], one["first"], one["last"]) for one in json.loads(result.stdout)]


def test_for_people(call):
    lines = call("events", "--queue", "shop").stdout.splitlines()
    assert lines[0].split() == ["at", "queue", "group", "event", "numbers", "by"]
    assert [line.split()[2:] for line in lines[1:]] == [
        ["shop", "c2", "suspended", "ann:", "ticket", "4711"],
        ["shop", "c2", "hole", "skipped", "2..3", "ann:", "ticket", "4711"],
        ["shop", "c1", "hole", "skipped", "2..3", "ann:", "ticket", "4711"],
    ]
    assert call("event", "list", "--queue", "shop").stdout == "\n".join(lines) + "\n"
    assert "there are none" in call("events", "--kind", "void").stdout


def test_as_json_narrowed_and_paged(call):
    everything = json.loads(call("events", "--json").stdout)
    assert everything[0] | {"action": "suspend", "actor": "ann", "reason": "ticket 4711", "count": 1} == everything[0]
    assert told(call("events", "--group", "c1", "--json")) == [("c1", "hole_skipped", 2, 3)]
    assert told(call("events", "--key", "*2", "--kind", "suspended", "--json")) == [("c2", "suspended", None, None)]
    assert told(call("events", "--before", everything[0]["event_id"], "--limit", 1, "--json")) == [
        ("c2", "hole_skipped", 2, 3)
    ]
    assert told(call("events", "--until", "1h", "--json")) == []
    assert len(told(call("events", "--since", "1h", "--json"))) == 3
    counts = json.loads(call("events", "--by", "kind", "--json").stdout)
    assert [(one["kind"], one["events"], one["groups"]) for one in counts] == [
        ("hole_skipped", 2, 2),
        ("suspended", 1, 1),
    ]


def test_as_an_exporter_reads(call):
    first = json.loads(call("events", "--after", 0, "--limit", 2, "--json").stdout)
    assert [one["group"] for one in first] == ["c1", "c2"]
    rest = call("events", "--after", first[-1]["position"], "--json")
    assert told(rest) == [("c2", "suspended", None, None)]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--queue", "nowhere"), "there is no queue 'nowhere'"),
        (("--kind", "skipped"), "'skipped' is not one of"),
        (("--after", "1", "--group", "c1"), "--after can only be combined"),
        (("--by", "kind", "--before", "3"), "--before goes on with a list"),
        (("--since", "soon"), "since can't be 'soon'"),
    ],
)
def test_what_is_refused(call, words, what):
    assert what in call("events", *words, code=2).output


def test_group_show_has_the_last_ones(call):
    shown = call("group", "show", "c2").stdout
    assert "hole skipped" in shown
    assert [one["kind"] for one in json.loads(call("group", "show", "c2", "--json").stdout)["events"]] == [
        "suspended",
        "hole_skipped",
    ]


def test_trace_shows_them(call):
    assert "hole skipped: 2..3, skip hole by ann: ticket 4711" in call("trace", "--group", "c1").stdout
