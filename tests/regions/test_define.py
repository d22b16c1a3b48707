"""Queues of two regions: the same in both boxes, their rules in the journal, and nothing that one box decides."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.errors import ActionRefused, DeclarationError, UsageError
from seriatim.operations import dead_letters, groups
from seriatim.regions.journal.values import QueueRules
from tests.regions.two import NAME, Two, message
from tests.regions.working import as_worker

QUEUE = {"group": "session", "sequence": "number"}


def test_the_rules_lie_in_the_journal(two: Two) -> None:
    rules = {"attempts": 3, "errors": "continue", "retry_delay": "7s", "hole_timeout": "5m"}
    changed = two.regions.define(sq.RegionalQueue("status", **QUEUE, **rules))
    assert changed == {"a": [], "b": []}  # the boxes know nothing of it
    expected = QueueRules(attempts=3, errors="continue", retry_delay=7.0, hole_timeout=300.0)
    assert two.regions.rules("status") == two.journal.rules(NAME, "status") == expected
    assert two.regions.define(sq.Queue("status", sq.Standard(restart_after=0), **QUEUE)) == {"a": [], "b": []}
    assert two.regions.rules("status") == QueueRules()


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (sq.Queue("q", sq.Standard(hole_timeout="5m"), **QUEUE), r"RegionalQueue\('q', …, hole_timeout=…\)"),
        (sq.Queue("q", sq.Standard(), **QUEUE, retry=sq.Retry(3)), r"attempts would be decided by each box"),
        (sq.Queue("q", sq.Standard(), **QUEUE, errors="continue"), r"errors=…\) keeps it in the journal"),
        (sq.Queue("q", sq.Standard(on_restart="suspend"), **QUEUE), "on_restart would be decided"),
        (sq.Queue("q", sq.Standard(), sq.Group("session", opens="type = 'x'"), "number"), "opens would be decided"),
        (sq.Queue("q", sq.Standard(), sq.Group("session", closes="type = 'x'"), "number"), "closes would be decided"),
        (sq.Queue("q", sq.Standard(), **QUEUE, gate="g"), "gate would be decided"),
        (sq.Queue("q", sq.Standard(), **QUEUE, max_messages=5), "max_messages would be decided"),
        (sq.Queue("q", sq.Standard(start="first"), **QUEUE), "begin at the same number"),
        (sq.Queue("q", sq.Fifo(), "session"), "its policy is fifo"),
        (sq.Link("l", dsn="postgresql://l"), "Link can't be defined in two regions"),
        (sq.Subscription("s", where="TRUE", to="q", starts="m:f", correlate=["session"]), "starts can't be used"),
        (sq.RegionalQueue("status", **QUEUE, start=5), "begins at 1 in steps of 1 in the journal"),
    ],
)  # fmt: skip
def test_what_a_box_would_decide_is_refused(two_to_refuse: Two, given: object, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        two_to_refuse.regions.define(given)


def test_values_of_a_queue_are_checked() -> None:
    with pytest.raises(UsageError, match="a queue that stops would stop in one region only"):
        sq.RegionalQueue("q", **QUEUE, errors="stop")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="queue 'q': attempts"):
        sq.RegionalQueue("q", **QUEUE, attempts=0)


def test_a_box_alone_changes_nothing_of_it(two: Two) -> None:
    with pytest.raises(UsageError, match="keeps it in the journal"):
        two.first.define(sq.Queue("status", sq.Standard(hole_timeout="5m"), **QUEUE))


def test_verbs_of_a_box_that_would_decide_name_the_journals(two: Two) -> None:
    two.regions.publish([message("s", 1), message("s", 3)])
    by = {"actor": "ann", "reason": "test"}
    box = two.first
    box.tick()
    for act in (
        lambda: groups.skip_message(box, "status", "s", **by),
        lambda: groups.skip_hole(box, "status", "s", **by),
        lambda: groups.reset(box, "status", "s", next=7, **by),
        lambda: groups.restart(box, "status", "s", **by),
        lambda: groups.abort(box, "status", "s", **by),
        lambda: groups.close(box, "status", "s", **by),
    ):
        with pytest.raises(
            ActionRefused, match=r"in two regions: the journal of 'shop' decides.*seriatim journal \w+ s"
        ):
            act()


def test_what_was_given_up_comes_back_as_another_message_only(two: Two) -> None:
    two.regions.publish(message("s", 1))
    with as_worker(two.first) as tx:
        delivery = tx.receive("status")
        assert delivery is not None
        delivery.dead_letter("nobody wants it")
    (letter,) = dead_letters.dead_letters(two.first)
    with pytest.raises(
        ActionRefused,
        match=r"the journal of 'shop' decides.*seriatim journal resubmit FILE ID publishes its content again, under a new id",
    ):
        dead_letters.requeue(two.first, letter.entry_id, actor="ann", reason="test")


def test_a_queue_that_had_messages_is_refused(two: Two) -> None:
    queue = sq.Queue("used", sq.Standard(restart_after=0), **QUEUE)
    two.second.define(queue)
    two.second.publish(sq.Message(type="note", context={"to": "used", "session": "s", "number": 1}))
    with pytest.raises(UsageError, match="has had messages"):
        two.regions.define(queue)


def test_what_is_known_of_a_queue_goes_with_it(two: Two) -> None:
    two.regions.define(sq.RegionalQueue("short", **QUEUE), sq.Subscription("s", where="type = 'x'", to="short"))
    before = two.rows(two.first, "SELECT count(*) FROM {}.region_queues")
    two.first.drop(subscription="s", queue="short")
    assert two.rows(two.first, "SELECT count(*) FROM {}.region_queues") == [(before[0][0] - 1,)]


def test_both_regions_are_different_boxes(two: Two) -> None:
    one_box = sq.Regions(two.first, two.first, two.journal, name="one", patience="30s")
    with one_box, pytest.raises(UsageError, match="both regions are one box"):
        one_box.define()
    turned = sq.Regions(two.second, two.first, two.journal, name=NAME, patience="30s")
    with turned, pytest.raises(UsageError, match="is region b of 'shop', and was given as region a"):
        turned.define()
    others = sq.Regions(two.first, two.second, two.journal, name="others", patience="30s")
    with others, pytest.raises(UsageError, match="belongs to other regions"):
        others.define(sq.RegionalQueue("status", **QUEUE))


@pytest.mark.parametrize(
    ("given", "why"),
    [({"patience": 0}, "patience"), ({"numbers": "x"}, "numbers"), ({"confirm": "three"}, "confirm"), ({"prefer": -1}, "prefer")],
)  # fmt: skip
def test_arguments_are_checked(given: dict[str, object], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        sq.Regions("postgresql://a", "postgresql://b", "postgresql://j", **given)  # type: ignore[arg-type]


def test_a_file_says_the_same(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "regions.yaml"
    file.write_text("""
name: shop
primary: ${A}
secondary: postgresql://b
journal: postgresql://j
prefer: none
types:
  status: {properties: {session: string, number: long}}
queues:
  status: {group: session, sequence: number, hole_timeout: 5m, attempts: 3}
subscriptions:
  to-status: {where: "type = 'status'", to: status}
""")
    from seriatim.regions.regions_file import load

    found = load(file, {"A": "postgresql://a"})
    assert found.arguments == {
        "name": "shop", "primary": "postgresql://a", "secondary": "postgresql://b", "journal": "postgresql://j",
        "prefer": None,
    }  # fmt: skip
    assert [type(one).__name__ for one in found.definitions] == ["MessageType", "RegionalQueue", "Subscription"]
    monkeypatch.setenv("A", "postgresql://a")
    assert sq.Regions.from_file(file).name == "shop"
    file.write_text("primary: x\nqueues:\n  q: {group: g, sequence: n, attempts: 0}\n")
    with pytest.raises(DeclarationError, match="3 faults"):
        load(file)
