"""Bodies that are larger than what travels in a round come in fragments, and each fragment once."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

import seriatim as sq
from seriatim.operations import links
from seriatim.operations.links import transmit
from tests.box import roles
from tests.box.links.pairs import Pair, carried, order, paired

_MIB = 1024 * 1024


@pytest.fixture
def pair(databases):
    with paired(databases) as both:
        yield both


def _large(size: int, queue: str = "orders", nth: int = 1) -> sq.Message:
    body = random.Random(size).randbytes(1000) * (size // 1000 + 1)
    part = sq.Part("end", None, body[:_MIB])
    return sq.Message(
        type="order", body=body[: size - _MIB], context={"to": queue, "customer": "c1", "nth": nth}, parts=[part]
    )


def _rounds(pair: Pair) -> int:
    rounds, more = 0, True
    while more:
        (done,) = transmit(pair.near)
        assert done.error is None
        rounds, more = rounds + 1, done.more
    return rounds


def _bodies(box, queue: str = "orders") -> list:
    box.tick()
    with box.session() as tx:
        return [(message.body, *(one.body for one in message.parts)) for message in tx.receive(queue, limit=10) or ()]


@pytest.mark.dear
def test_a_large_message_comes_whole_and_in_its_order(pair: Pair):
    large = _large(21 * _MIB + 5)
    pair.near.publish([order(0), large, order(2)])
    assert _rounds(pair) >= 11
    assert _bodies(pair.far) == [(b"0",), (large.body, large.parts[0].body), (b"2",)]
    assert roles.rows(pair.far, "SELECT count(*) FROM box.link_fragments") == [(0,)]
    assert links.status(pair.near)[0].unacknowledged == 0
    # What it was put together in is gone, at both ends.
    for box in (pair.near, pair.far):
        assert roles.rows(box, "SELECT count(*) FROM pg_largeobject_metadata") == [(0,)]


@pytest.mark.parametrize(
    ("largest", "groups", "size", "messages"),
    [(2_400_000, 5, 500_000, 3), (801_000, 5, 500_000, 1), (0, 1, 700_000, 2)],
    ids=["several streams", "less than a message", "one stream"],
)
def test_a_batch_has_as_much_as_is_asked_for_and_at_least_one_message(pair: Pair, largest, groups, size, messages):
    _rounds(pair)  # they meet
    pair.near.publish([replace(order(nth, f"c{nth % groups}"), body=bytes(size)) for nth in range(5)])
    with pair.near.access.transaction() as transaction:
        link_id = transaction.one("link_addresses", name="far").link_id
        batch = transaction.one("link_next", of_link=link_id, largest=largest, at_once=True)
        transaction.connection.rollback()
    assert (batch.messages, batch.more) == (messages, True)
    _rounds(pair)
    assert sorted(carried(pair.far)) == sorted((f"c{nth % groups}", nth, False) for nth in range(5))


def test_it_is_fetched_likewise_and_after_a_break_only_what_is_missing_comes(pair: Pair):
    transmit(pair.near)
    large = _large(9 * _MIB, "answers")
    pair.far.publish(large)
    transmit(pair.near)
    assert roles.rows(pair.near, "SELECT count(*) FROM box.link_fragments") == [(2,)]
    assert roles.rows(pair.far, "SELECT fragment FROM box.link_streams_out") == [(2,)]
    # The sender forgets how far it was, as after a restore: the receiver tells it.
    roles.rows(pair.far, "UPDATE box.link_streams_out SET fragment = 0")
    _rounds(pair)
    assert _bodies(pair.near, "answers") == [(large.body, large.parts[0].body)]


def test_fragments_of_another_message_break_the_stream_and_it_goes_on_as_a_new_one(pair: Pair):
    large = _large(9 * _MIB)
    pair.near.publish(large)
    transmit(pair.near)
    roles.rows(pair.far, "UPDATE box.link_streams_in SET part_size = part_size + 1")
    _rounds(pair)
    transmit(pair.near, at_once=True)
    _rounds(pair)
    assert _bodies(pair.far) == [(large.body, large.parts[0].body)]
    assert links.status(pair.near)[0].restored == 1
