"""`seriatim bulk`, and `--all` on more groups than are acted on at once."""

from __future__ import annotations

import json

import pytest

from seriatim.operations import bulk_operations as operations
from seriatim.operations import groups
from seriatim.operations.groups import Action, GroupFilter
from tests.box.console import define, failing, publish
from tests.databases import box_with

WHY = ("--reason", "ticket 4711", "--actor", "ann")


def prepare(box):
    define(box)
    for name in ("a", "b", "c"):
        publish(box, 1, 2, group=name)
        failing(box, group=name)


box = box_with(prepare)


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Two groups are many."""
    monkeypatch.setattr(operations, "AT_ONCE", 2)


def test_all_on_more_than_some_groups_is_a_bulk_operation(box, call):
    told = call("group", "retry", "--all", "--error", "customer", "--yes", *WHY).stdout
    assert told == "bulk operation 1, retry, by ann: ticket 4711\nended: 3 of 3 groups\n"
    assert {one.state for one in groups.groups(box, state=list(groups.GroupState))} == {"ready"}
    (found,) = json.loads(call("bulk", "list", "--json").stdout)
    assert (found["filter"], found["actor"], found["done"]) == ({"error": "customer"}, "ann", 3)
    assert call("bulk", "list", "--open").stdout == "there are none\n"
    assert json.loads(call("bulk", "show", "1", "--json").stdout) == found
    listed = json.loads(call("bulk", "show", "1", "--groups", "--json").stdout)
    assert [(one["group"], one["result"], one["why"]) for one in listed] == [(name, "done", None) for name in "abc"]


def test_few_are_done_as_before(box, call):
    told = call("group", "retry", "--all", "--key", "a", "--yes", *WHY).stdout
    assert told.splitlines() == ["shop, group a: faulted → ready", "1 of 1 group: retry"]
    assert operations.bulk_operations(box) == []


def test_without_waiting_it_is_left_to_others_and_followed_later(box, call):
    told = call("group", "skip-message", "--all", "--yes", "--no-wait", *WHY)
    assert told.stdout == "bulk operation 1: skip-message 3 groups\n"
    assert "see seriatim bulk show 1" in told.stderr
    assert operations.bulk_operation(box, 1).state == "running"
    groups.retry(box, "shop", "b", actor="bob", reason="I was faster")
    told = call("bulk", "follow", 1, code=1).stdout
    assert "b      changed  it is ready now, and not as it was seen" in told
    assert told.endswith("ended: 2 of 3 groups, 1 changed since they were seen\n")
    assert [one["group"] for one in json.loads(call("bulk", "show", 1, "--result", "changed", "--json").stdout)] == [
        "b"
    ]


def test_what_was_gathered_is_begun_or_cancelled(box, call):
    for _ in range(2):
        operations.gather_chosen(
            box, Action.RETRY, GroupFilter("shop"), chosen_by={"queue": "shop"}, actor="ann", reason="r"
        )
    assert "gathered: 0 of 3 groups, 3 left" in call("bulk", "show", 1).stdout
    assert "isn't begun" in call("bulk", "follow", 1, code=2).stderr
    assert json.loads(call("bulk", "begin", 1, "--json").stdout)["done"] == 3
    assert call("bulk", "cancel", 2, *WHY).stdout == "cancelled: 0 of 3 groups, 3 left\n"
    assert "cannot cancel bulk operation 2, which is cancelled" in call("bulk", "cancel", 2, *WHY, code=2).stderr
    assert "cancelled by ann: ticket 4711" in call("bulk", "show", 2).stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["bulk", "show", "9"], "there is no bulk operation 9 (see seriatim bulk list)"),
        (["bulk", "begin", "9"], "there is no bulk operation 9"),
        (["bulk", "cancel", "9", *WHY], "there is no bulk operation 9"),
        (["group", "retry", "a", "--no-wait", *WHY], "--no-wait needs --all, on a message box"),
        (["group", "retry", "--all", "--key", "a"], "this needs confirmation"),
        (["bulk", "show", "x"], "is not a valid integer"),
    ],
)
def test_what_can_not_be_is_told(call, words, told):
    assert told in call(*words, code=2).stderr
