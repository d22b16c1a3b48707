"""A number that comes again with another content is told apart from a repetition."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.box.definitions.known import read_definitions
from seriatim.operations import groups
from seriatim.operations import messages as operations
from seriatim.operations.events import events_after
from tests.box.console import rows
from tests.databases import box_with

PROPERTIES = {"customer": "string", "version": "long", "kind": "string", "amount": "decimal(12,2)"}


def with_queues(box):
    def queue(name, **parameters):
        compare = parameters.pop("compare", None)
        policy = sq.Standard(**parameters)
        return sq.Queue(name, policy, group="customer", sequence="version", compare=compare)

    box.define(
        sq.MessageType("order", properties=PROPERTIES),
        queue("shop"),
        queue("short", remember=2),
        queue("held", remember=0),
        queue("by_amount", compare="amount"),
        *(sq.Subscription(name, where=f"kind = '{name}'", to=name) for name in ("shop", "short", "held", "by_amount")),
    )


box = box_with(with_queues)


def publish(box, queue, *messages):
    with box.session() as tx:
        tx.publish([message(queue, *one) for one in messages])


def message(queue, number, body, parts=(), **context):
    context = {"customer": "c1", "version": number, "kind": queue} | context
    return sq.Message(type="order", body=body.encode(), context=context, parts=parts)


def received(box, queue):
    with box.session() as tx:
        found = []
        while (delivery := tx.receive(queue, limit=100)) is not None:
            found += [one.body.decode() for one in delivery]
        return found


def set_aside(box):
    return rows(box, "SELECT sequence, disposition, split_part(reason, ':', 1) FROM {schema}.aside ORDER BY entry_id")


def test_another_content_conflicts_and_the_same_is_a_repetition(box):
    publish(box, "shop", (1, "register"), (2, "rename"), (2, "deactivate"), (2, "rename"), (4, "close"), (4, "open"))
    assert received(box, "shop") == ["register", "rename"]
    publish(box, "shop", (1, "register"), (1, "other"))
    assert received(box, "shop") == []
    assert set_aside(box) == [
        (2, "duplicate", "conflicts"),
        (2, "duplicate", "its number was taken in before"),
        (4, "duplicate", "conflicts"),
        (1, "duplicate", "its number was taken in before"),
        (1, "duplicate", "conflicts"),
    ]
    told = [(one.kind, one.first, one.count) for one in events_after(box, kinds="conflict")]
    assert told == [("conflict", 2, 2), ("conflict", 1, 1)]
    (first, *_) = operations.messages(box, queue="shop", status="duplicate")
    assert "conflicts" in first.reason


def test_parts_are_compared_too(box):
    part = sq.Part("a.txt", "text/plain", b"one")
    publish(
        box, "shop", (1, "x", [part]), (1, "x", [sq.Part("a.txt", "text/plain", b"two")]), (1, "x", [part]), (1, "x")
    )
    assert received(box, "shop") == ["x"]
    assert [reason for _, _, reason in set_aside(box)] == ["conflicts", "its number was taken in before", "conflicts"]


def test_only_the_last_ones_are_remembered(box):
    publish(box, "short", *((n, f"old {n}") for n in range(1, 5)))
    received(box, "short")
    publish(box, "short", *((n, f"new {n}") for n in range(2, 5)))
    received(box, "short")
    assert set_aside(box) == [
        (2, "duplicate", "its number was taken in before"),
        (3, "duplicate", "conflicts"),
        (4, "duplicate", "conflicts"),
    ]


def test_what_is_held_is_compared_without_a_memory(box):
    publish(box, "held", (1, "old 1"), (3, "old 3"))
    received(box, "held")
    publish(box, "held", (1, "new 1"), (3, "new 3"))
    received(box, "held")
    assert set_aside(box) == [(1, "duplicate", "its number was taken in before"), (3, "duplicate", "conflicts")]


def test_the_properties_that_are_compared(box):
    with box.session() as tx:
        tx.publish(
            [
                message("by_amount", 1, "a", amount=5),
                message("by_amount", 1, "b", amount=5),
                message("by_amount", 1, "a", amount=6),
            ]
        )
    assert received(box, "by_amount") == ["a"]
    assert [reason for _, _, reason in set_aside(box)] == ["its number was taken in before", "conflicts"]


def test_what_was_published_through_sql_is_compared_by_properties_only(box):
    for queue in ("shop", "by_amount"):
        for amount in (1, 2):
            rows(
                box,
                "SELECT {schema}.publish('order', convert_to(%s, 'UTF8'), jsonb_build_object("
                "'customer', 'c1', 'version', 1, 'kind', %s::text, 'amount', %s::int))",
                f"b{amount}", queue, amount,
            )  # fmt: skip
    box.tick()
    assert sorted(reason for _, _, reason in set_aside(box)) == ["conflicts", "its number was taken in before"]


def test_a_conflict_is_a_failure(box):
    box.define(
        sq.Queue("failures", sq.Unordered()),
        sq.Subscription("failures", where="type = 'seriatim.failure'", to="failures"),
    )
    publish(box, "shop", (1, "one"), (1, "two"), (1, "three"))
    received(box, "shop")
    with box.session() as tx:
        (failure,) = tx.receive("failures", limit=10)
    its = failure.context
    assert (its["fault_kind"], its["failed_queue"], its["failed_group"]) == ("conflict", "shop", "c1")


def test_conflicts_count_for_a_restart_and_repetitions_do_not(box):
    publish(box, "shop", *((n, f"old {n}") for n in range(1, 21)))
    received(box, "shop")
    publish(box, "shop", *((n, f"old {n}") for n in range(1, 21)))
    received(box, "shop")
    assert groups.group_view(box, "shop", "c1").suspects == 0
    publish(box, "shop", *((n, f"new {n}") for n in range(5, 13)))
    received(box, "shop")
    assert groups.group_view(box, "shop", "c1").restart_suspected
    groups.restart(box, "shop", "c1", actor="ann", reason="replaced")
    publish(box, "shop", *((n, f"new {n}") for n in range(1, 5)))
    assert received(box, "shop") == [f"new {n}" for n in range(1, 13)]


def test_the_number_that_is_remembered_is_shown(box):
    with box.session() as tx:
        known = read_definitions(tx.transaction)
    assert known.queue("shop").declared.policy.remember == 64
    assert known.queue("short").declared.policy.remember == 2
    assert known.queue("by_amount").declared.compare == ("amount",)


@pytest.mark.parametrize("compare", ["", 3, [], ["a", 3]])
def test_what_cannot_be_compared_is_refused(compare):
    with pytest.raises(sq.UsageError, match="compare can't be"):
        sq.Queue("q", sq.Standard(), group="g", sequence="s", compare=compare)
    with pytest.raises(sq.UsageError, match="compare is for the policy standard"):
        sq.Queue("q", sq.Fifo(), group="g", compare="a")
