"""Two boxes for tests, in two databases of the one PostgreSQL, and the pair that they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import psycopg
from psycopg import sql

import seriatim as sq
from seriatim.operations import links
from tests.box import roles
from tests.databases import fresh_box

__all__ = ["ORDER", "Pair", "carried", "paired"]

ORDER = sq.MessageType("order", properties={"customer": "string", "nth": "long"})


@dataclass(frozen=True)
class Pair:
    """`near` has the address of `far`, where `role` speaks as it."""

    near: Any
    far: Any
    role: str

    def link(self, **fields: Any) -> sq.Link:
        return sq.Link("far", dsn=roles.dsn_of(self.far, self.role), schema=self.far.schema, **fields)

    def send(self, *numbers: int, customer: str = "c1", box: Any = None, queue: str = "orders") -> list[str]:
        return (box or self.near).publish([order(nth, customer, queue) for nth in numbers])


def order(nth: int, customer: str = "c1", queue: str = "orders") -> sq.Message:
    return sq.Message(type="order", body=b"%d" % nth, context={"to": queue, "customer": customer, "nth": nth})


@contextmanager
def paired(databases: Any, **fields: Any) -> Iterator[Pair]:
    """A pair: orders go from `near` to `far`, answers the other way."""
    role = f"road_{uuid4().hex[:12]}"
    with fresh_box(databases) as near, fresh_box(databases) as far:
        roles.make(far, role)
        pair = Pair(near, far, role)
        far.define(ORDER, sq.Queue("orders", group="customer", keep="everything"))
        links.accept(far, "near", role=role, other=str(near.id), queues=["orders"], actor="test", reason="a test")
        near.define(
            ORDER,
            pair.link(queues=["answers"], **fields),
            sq.Queue("orders", at="far", group="customer"),
            sq.Queue("answers", group="customer", keep="everything"),
        )
        far.define(sq.Queue("answers", at="near", group="customer"))
        try:
            yield pair
        finally:
            with psycopg.connect(far.dsn, autocommit=True) as connection:
                connection.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(role)))


def carried(box: Any, queue: str = "orders") -> list[tuple[str | None, int, bool]]:
    """What a box hands out of a queue now, in order: group, number, whether it is marked as replayed."""
    box.tick()
    found = []
    while True:
        with box.session() as tx:
            delivery = tx.receive(queue, limit=100)
            if delivery is None:
                return found
            found += [(delivery.group, message.context["nth"], message.replayed) for message in delivery]
