"""Many dialogs between two boxes, with what the applications at both ends have got of each, also where a box goes back in time."""

from __future__ import annotations

import json
from collections import defaultdict

from seriatim.box.dialogs.clock import forget_closed
from tests.dialogs.far_boxes import exchange
from tests.dialogs.talking import states

__all__ = ["Orders"]


class Orders:
    """Dialogs between the north and the south, and what each side has got: of a restored side, what it had at its backup, and since."""

    def __init__(self, north, south):
        self.north, self.south = north, south
        self.handles, self.conversations = [], {}
        #: By box and conversation what has come: type, number, whether it is marked as replayed.
        self.got = {"north": defaultdict(list), "south": defaultdict(list)}
        self._kept, self._bodies = {}, 0

    def begin(self, count):
        with self.north.session() as tx:
            for _ in range(count):
                handle = tx.begin_dialog("Buyer", "Seller", contract="PurchaseOrder")
                tx.send(handle, "Header", b"0")
                self.handles.append(handle)
            rows = tx.connection.execute(f"SELECT handle, conversation_id FROM {self.north.schema}.endpoints")
            self.conversations = dict(rows.fetchall())
        self.carry()

    def carry(self, times=3):
        """Carry all, and receive all at both ends."""
        for _ in range(times):
            exchange(self.north)
            for name, box, queue in (("north", self.north, "bought"), ("south", self.south, "sales")):
                box.tick()
                with box.session() as tx:
                    while (delivery := tx.receive(queue, limit=100)) is not None:
                        for one in delivery:
                            self.got[name][one.dialog.conversation_id].append(
                                (one.type, one.dialog.sequence, one.replayed, one.body)
                            )

    def say(self, handles, kind="Line"):
        with self.north.session() as tx:
            tx.send_many([(handle, kind, self.body()) for handle in handles])

    def answer(self, handles):
        far = self.far_handles()
        with self.south.session() as tx:
            tx.send_many([(far[self.conversations[handle]], "Answer", self.body()) for handle in handles])

    def body(self):
        """Another one each time: what a restored application says isn't what it had said."""
        self._bodies += 1
        return b"%d" % self._bodies

    def far_handles(self):
        with self.south.session() as tx:
            rows = tx.connection.execute(f"SELECT conversation_id, handle FROM {self.south.schema}.endpoints")
            return dict(rows.fetchall())

    def keep(self, name):
        """Note what the application of a box has got by now."""
        self._kept = {one: list(messages) for one, messages in self.got[name].items()}

    def go_back(self, name):
        """Let the application have got what it had then: its notes stand in its box."""
        self.got[name] = defaultdict(list, {one: list(messages) for one, messages in self._kept.items()})

    def end(self):
        """End all that haven't failed, and see that both boxes forget all. Return by handle whether the dialog is whole."""
        whole = {handle: states(self.north)[handle] != "ER" for handle in self.handles}
        with self.north.session() as tx:
            for handle in self.handles:
                tx.end(handle)
        self.carry()
        with self.south.session() as tx:
            for handle, state in states(self.south).items():
                if state in ("DI", "ER"):
                    tx.end(handle)
        self.carry()
        for box in (self.north, self.south):
            assert set(states(box).values()) <= {"CD"}
            with box.access.transaction() as transaction:
                forget_closed(transaction, 0)
            assert states(box) == {}
        return whole

    def check(self, handle, said, answered, *, whole):
        """A dialog has come whole on both sides, in order and once; or both sides got the error of two histories, once."""
        for name, expected in (("south", [*range(said), said]), ("north", list(range(answered)))):
            messages = self.got[name][self.conversations[handle]]
            errors = [json.loads(body)["code"] for kind, _, _, body in messages if kind == "Error"]
            numbers = [number for kind, number, _, _ in messages if kind != "Error"]
            if whole:
                assert (numbers, errors) == (expected, []), (name, messages)
            else:
                assert errors == [-4], (name, messages)
                assert numbers == list(range(len(numbers))), (name, messages)
