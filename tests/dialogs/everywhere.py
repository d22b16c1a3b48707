"""Two services that talk, wherever they are: in one box, in two databases of a server, or in two boxes over HTTPS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import seriatim as sq
from seriatim.box.dialogs.clock import forget_closed
from seriatim.operations import invariants
from tests.databases import fresh_box
from tests.dialogs import talking
from tests.dialogs.far_boxes import exchange, road

__all__ = ["ROADS", "Talk", "talking_over"]

ROADS = ("one box", "two databases", "two boxes over HTTPS")
_CONTRACT = sq.Contract("AddItem", {"AddItem": "initiator", "ItemAdded": "target", "Note": "any"})


class Talk:
    """The services Orders and Inventory, each with its box. Before a test looks at one, all that was said has arrived there."""

    def __init__(self, orders: sq.MessageBox, inventory: sq.MessageBox) -> None:
        self.orders, self.inventory = orders, inventory
        self.boxes = [orders] if orders is inventory else [orders, inventory]

    def carry(self) -> None:
        """Carry all that waits between the boxes, and let each side obey it."""
        if len(self.boxes) == 2:
            for _ in range(2):
                exchange(self.orders)
                for box in self.boxes:
                    box.tick()

    def at(self, service: str) -> sq.MessageBox:
        """The box of a service, by the name of its queue."""
        self.carry()
        return getattr(self, service)

    def session(self, service: str) -> AbstractContextManager[sq.Session]:
        """A session in the box of a service."""
        return self.at(service).session()

    def begun(self, *bodies: bytes, **options: Any) -> UUID:
        """The initiator's handle of a dialog with some messages."""
        return talking.begun(self.at("orders"), *bodies, **options)

    def taken(self, queue: str, limit: int = 100) -> list[tuple[str, bytes]]:
        """What the queue of a service gives next, as (type, body); the delivery is done."""
        return talking.taken(self.at(queue), queue, limit)

    def states(self) -> dict[UUID, str]:
        """By handle the state of each side."""
        self.carry()
        return {handle: state for box in self.boxes for handle, state in talking.states(box).items()}

    def far_of(self, handle: UUID) -> UUID:
        """The handle of the other side of a dialog."""
        self.carry()
        sides = {}
        for box in self.boxes:
            with box.session() as tx:
                rows = tx.connection.execute(f"SELECT handle, conversation_id FROM {box.schema}.endpoints")
                sides |= dict(rows.fetchall())
        (found,) = [other for other, conversation in sides.items() if other != handle and conversation == sides[handle]]
        return found

    def let_expire(self, handle: UUID) -> None:
        """The lifetime of a dialog is over, on both sides."""
        for side in (handle, self.far_of(handle)):
            for box in self.boxes:
                talking.let_expire(box, side)

    def broken(self) -> list[str]:
        """The laws that a box breaks."""
        self.carry()
        return [law for box in self.boxes for law in invariants.broken(box)]

    def forgotten(self) -> int:
        """Forget the closed sides, the half hour being over; how many there were."""
        self.carry()
        forgotten = 0
        for box in self.boxes:
            with box.access.transaction() as transaction:
                forgotten += forget_closed(transaction, 0)
        return forgotten

    def count(self, table: str) -> int:
        """The rows of a table, in both boxes."""
        rows = 0
        for box in self.boxes:
            with box.session() as tx:
                rows += tx.connection.execute(f"SELECT count(*) FROM {box.schema}.{table}").fetchone()[0]
        return rows


@contextmanager
def talking_over(way: str, databases: Any, folder: Path) -> Iterator[Talk]:
    """The two services, over one of the `ROADS`."""
    with fresh_box(databases) as orders:
        orders.define(_CONTRACT, sq.Service("Orders", queue="orders"))
        here = sq.Service("Inventory", queue="inventory", contracts=["AddItem"])
        if way == "one box":
            orders.define(here)
            yield Talk(orders, orders)
            return
        with fresh_box(databases) as inventory:
            inventory.define(_CONTRACT, here)
            with road(orders, inventory, folder if "HTTPS" in way else None, ["Orders"]) as address:
                orders.define(sq.Link("south", **address), sq.Service("Inventory", at="south"))
                yield Talk(orders, inventory)
