"""Open places at a gate again, because messages on the way to it are put back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue, Definitions
from seriatim.box.operators.gate_groups import locked_at_gate
from seriatim.box.turns.locked_groups import LockedGroups
from seriatim.box.turns.turns import Turns

__all__ = ["Reopening"]


class _Place(NamedTuple):
    """A row of the function ``aside_places``."""

    entry_id: int
    origin_group: str
    origin_number: int


@dataclass(frozen=True, slots=True)
class Reopening:
    """Places that are to be opened again. The gate's groups are locked until the transaction ends.

    `passed`: the entries whose places the gate has passed.
    `places`: for each group of the gate its lock, and the numbers of its places.
    `late`: places that the gate has passed, by group and number, whose messages come from a queue between the origin queue
    and the gate: they keep their numbers, and their results leave late.
    """

    gate: BoxQueue | None = None
    passed: frozenset[int] = frozenset()
    places: list[tuple[LockedGroups, list[int]]] = field(default_factory=list)
    late: list[tuple[str, int]] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        transaction: Transaction,
        turns: Turns,
        definitions: Definitions,
        queue: BoxQueue,
        entry_ids: Sequence[int],
    ) -> Reopening:
        """Lock the gate's groups of entries that are set aside in a queue on the way.

        Raises:
            Unavailable: a receiver keeps a group of the gate locked.
        """
        origin = definitions.ways.get(queue.declared.name)
        gate = None if origin is None else definitions.queues.get(str(origin.declared.gate))
        if gate is None:
            return cls()
        rows = transaction.rows("aside_places", _Place, of_queue=queue.queue_id, of_entries=list(entry_ids))
        passed: set[int] = set()
        places, late = [], list[tuple[str, int]]()
        for group in sorted({one.origin_group for one in rows}):
            locked = locked_at_gate(turns, gate, group)
            following = transaction.value("next_at_gate", of_gate=gate.queue_id, of_group=group)
            mine = [one for one in rows if one.origin_group == group]
            gone = [one for one in mine if one.origin_number < following]
            passed.update(one.entry_id for one in gone)
            if queue.gate_id is None:
                late += [(group, one.origin_number) for one in gone]
            places.append((locked, [one.origin_number for one in mine if one.origin_number >= following]))
        return cls(gate, frozenset(passed), places, late)

    def apply(self, transaction: Transaction, turns: Turns) -> None:
        """Open the places, after the messages were put back: what the gate knew as void is taken back."""
        if self.gate is not None and self.late:
            groups, numbers = [group for group, _ in self.late], [number for _, number in self.late]
            transaction.do("expect_late", of_gate=self.gate.queue_id, of_groups=groups, numbers=numbers)
        for locked, again in self.places:
            if self.gate is not None and again:
                named = {"of_gate": self.gate.queue_id, "of_group": locked.keys[0], "numbers": again}
                transaction.do("reopen_places", **named)
                judged = turns.judge(self.gate, locked, 0, put_back=again)
                transaction.notice(*judged.notices(self.gate, locked.keys))
