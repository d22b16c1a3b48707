"""A connection that breaks within an answer: the same again may work, and nobody is told of a bug."""

from __future__ import annotations

import random

import pytest

import seriatim as sq
from seriatim.operations import invariants
from tests.box.cutting import Cutting
from tests.box.pauses import short_pauses  # noqa: F401 -- a fixture
from tests.soak import seed

#: What may come in place of the rest: nothing, noise, and messages of the protocol that nobody has asked for.
INSTEAD = [b"", b"\xff" * 64, b"\0" * 64, b"Z\0\0\0\5I", b"E\0\0\0\x08SX\0\0", b"D\0\0\0\x0b\0\1\0\0\0\1x"]
CUTS = 40

pytestmark = pytest.mark.usefixtures("short_pauses")


def test_an_answer_that_breaks_off(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string"}),
        sq.Queue("q", group="customer", keep="everything"),
        sq.Subscription("all", where="type = 'order'", to="q"),
    )
    box.publish([sq.Message(type="order", body=b"x" * 100, context={"customer": str(n)}) for n in range(300)])
    chance = random.Random(seed())
    with Cutting(box.dsn) as road, sq.MessageBox.open(road.dsn, schema=box.schema, connections=1) as far:

        def work():
            with far.session() as tx:
                tx.publish(sq.Message(type="order", context={"customer": "0"}))
                list(tx.receive("q"))
            far.publish(sq.Message(type="order", context={"customer": "0"}))
            with far.session() as tx:
                tx.receive("q", limit=2).done()
                tx.commit_and_receive().done()

        work()
        before = road.passed
        work()
        answered, cut = road.passed - before, 0
        for number in range(CUTS):
            road.instead = INSTEAD[number % len(INSTEAD)]
            road.left = chance.randrange(1, answered)
            try:
                work()
            except sq.Unavailable:
                cut += 1
            road.left = None
    assert cut > CUTS // 2
    assert invariants.broken(box) == []
