"""What is published while messages of a queue with a gate are worked on: whose place it takes, and where it goes."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.testing.work import work_off
from tests.box.shop import rows

TYPES = (
    sq.MessageType("order", {"location_key": "string", "kind": "string"}),
    sq.MessageType("priced", {"kind": "string"}),
    sq.MessageType("out", {"kind": "string"}),
)
WORK = sq.Queue("work", sq.Fifo(), group="location_key", gate="out", through=["price"])
PRICE = sq.Queue("price", sq.Unordered())
OUT = sq.Queue("out", sq.Standard(), group="origin_group", sequence="origin_ordinal")
AUDIT = sq.Queue("audit", sq.Unordered())
LEADING = (
    sq.Subscription("work", where="type = 'order'", to="work"),
    sq.Subscription("price", where="type = 'priced'", to="price"),
    sq.Subscription("out", where="type = 'out'", to="out"),
    sq.Subscription("audit", where="origin_queue = 'work' AND origin_ordinal >= 2", to="audit"),
)


def order(kind="plain", group="a", **given):
    return sq.Message(type="order", context={"location_key": group, "kind": kind}, **given)


def out(kind="plain", **given):
    return sq.Message(type="out", context={"kind": kind}, **given)


def entries(box, queue):
    """The entries of a queue: status, group, sequence, and whose place each takes at which gate."""
    return [
        tuple(one)
        for one in rows(
            box,
            "SELECT entry.status::text, entry.group_key, entry.sequence, gate.queue AS gate, entry.origin_group,"
            " entry.origin_number FROM {schema}.entries AS entry JOIN {schema}.queues AS place USING (queue_id)"
            f" LEFT JOIN {{schema}}.queues AS gate ON gate.queue_id = entry.gate_id WHERE place.queue = '{queue}'"
            " ORDER BY entry.entry_id",
        )
    ]


@pytest.fixture
def gated(box):
    box.define(*TYPES, WORK, PRICE, OUT, AUDIT, *LEADING)
    return box


def test_results_take_the_place_of_their_causes(gated):
    gated.publish([order("one"), order("two"), order("three", "b")])
    assert entries(gated, "work") == [("arrived", key, None, "out", None, None) for key in ("a", "a", "b")]
    with gated.session() as tx:
        for message in tx.receive("work", limit=10):
            tx.publish(out(message.context["kind"]))
    assert entries(gated, "out") == [("placed", "a", 1, "out", None, 1), ("placed", "a", 2, "out", None, 2)]
    assert entries(gated, "audit") == [("arrived", "", None, None, None, None)]


def told(message):
    """What a message says of its origin, its parent and what it belongs to."""
    names = ("origin_queue", "origin_group", "origin_incarnation", "origin_ordinal", "parent_id", "correlation_id")
    return tuple(message.context.get(name) for name in names)


def test_two_hops_keep_the_first_origin(gated):
    gated.publish([order(message_id="first"), order("two", message_id="second")])
    work_off(gated, "work", lambda message, tx: sq.Message(type="priced", context={"kind": message.context["kind"]}))
    assert entries(gated, "price") == [("arrived", "", None, "out", "a", 1), ("arrived", "", None, "out", "a", 2)]
    seen = []

    def check(message, tx):
        seen.append(message)
        given = {"kind": "whole"} if message.context["kind"] == "plain" else {"kind": "own", "correlation_id": "mine"}
        tx.publish(sq.Message(type="out", context=given))
        return sq.Message(type="out", context=message.context)  # with an origin that is its own

    work_off(gated, "price", check)
    assert [told(one) for one in seen] == [
        ("work", "a", 0, 1, "first", "first"),
        ("work", "a", 0, 2, "second", "second"),
    ]
    placed = rows(gated, "SELECT context, origin_number FROM {schema}.entries JOIN {schema}.spool USING (arrival_id, position)"
                  " WHERE status = 'placed' ORDER BY entry_id")  # fmt: skip
    assert [
        (one.context["origin_ordinal"], one.context["parent_id"], one.context["correlation_id"]) for one in placed
    ] == [
        (1, seen[0].message_id, "first"),
        (1, "first", "first"),
        (2, seen[1].message_id, "mine"),
        (2, "second", "second"),
    ]
    assert [one.origin_number for one in placed] == [1, 1, 2, 2]
