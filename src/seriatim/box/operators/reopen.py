"""Open places at gates again, because messages on the way to them are put back, or routed again.

The number of statements doesn't depend on the number of messages, or of groups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue, Definitions
from seriatim.box.definitions.route import Routed
from seriatim.box.operators.gate_groups import locked_at_gate
from seriatim.box.turns.locked_groups import LockedGroups
from seriatim.box.turns.turns import Turns


class _Place(NamedTuple):
    """The place of an entry, a row of ``aside_places``. `carried`: the message came with the number; else its queue gave it."""

    entry_id: int | None
    origin_group: str
    origin_number: int
    carried: bool


class _AtGate:
    """Places at a gate, whose groups are locked. `passed`: those that it has passed; `ahead`: by group the numbers of the others."""

    def __init__(self, transaction: Transaction, turns: Turns, gate: BoxQueue, places: Sequence[_Place]) -> None:
        self._transaction, self._turns, self._gate = transaction, turns, gate
        self._locked = locked_at_gate(turns, gate, *{one.origin_group for one in places})
        keys = self._locked.keys
        numbers = transaction.value("next_at_gate", of_gate=gate.queue_id, of_groups=keys)
        following = dict(zip(keys, numbers, strict=True))
        self.passed = [one for one in places if one.origin_number < following[one.origin_group]]
        self._ahead: dict[str, list[int]] = {}
        for one in places:  # several messages of a place, perhaps
            if one.origin_number >= following[one.origin_group]:
                self._ahead.setdefault(one.origin_group, []).append(one.origin_number)

    def open(self) -> None:
        """Open the places: what the gate knew as void is taken back. Results of what carries a passed number will leave late."""
        if late := sorted({(one.origin_group, one.origin_number) for one in self.passed if one.carried}):
            self._do("expect_late", late)
        if self._ahead:
            self._do("reopen_places", [(group, number) for group, its in self._ahead.items() for number in its])
            for locked in self._some(self._ahead).by_policy(self._gate):
                again = {key: self._ahead[key] for key in locked.keys}
                judged = self._turns.judge(self._gate, locked, 0, put_back=again)
                self._transaction.notice(*judged.notices(self._gate, locked.keys))
        # It takes up what came to places that it has passed: nobody else asks for that.
        self._turns.judge_all(self._gate, self._some({one.origin_group for one in self.passed}.difference(self._ahead)))

    def _some(self, groups: Collection[str]) -> LockedGroups:
        return self._locked._replace(keys=[key for key in self._locked.keys if key in groups])

    def _do(self, name: str, places: Sequence[tuple[str, int]]) -> None:
        named = {"of_groups": [group for group, _ in places], "numbers": [number for _, number in places]}
        self._transaction.do(name, of_gate=self._gate.queue_id, **named)


@dataclass(frozen=True, slots=True)
class Reopening:
    """Places to open again, under the locks of their gates' groups. `passed`: entries whose place is passed; carried ones leave late."""

    gates: Sequence[_AtGate] = ()
    passed: frozenset[int] = frozenset()

    @classmethod
    def of(
        cls, transaction: Transaction, turns: Turns, definitions: Definitions, queue: BoxQueue, entry_ids: Sequence[int]
    ) -> Reopening:
        """Lock the gate's groups of entries that are set aside in a queue on the way."""
        origin = definitions.ways.get(queue.declared.name)
        gate = None if origin is None else definitions.queues.get(str(origin.declared.gate_name))
        if gate is None:
            return cls()
        rows = transaction.rows("aside_places", _Place, of_queue=queue.queue_id, of_entries=list(entry_ids))
        if not rows:
            return cls()
        found = _AtGate(transaction, turns, gate, rows)
        return cls(
            [found], frozenset(one.entry_id for one in found.passed if one.entry_id is not None and not one.carried)
        )

    @classmethod
    def routed(cls, transaction: Transaction, turns: Turns, definitions: Definitions, routed: Routed) -> Reopening:
        """Lock the gates' groups of messages that are routed again to a gate, or to a queue on the way there."""
        places: dict[int, list[_Place]] = {}
        for gate_id, place in _carried(routed):
            places.setdefault(gate_id, []).append(place)
        gates = {one.queue_id: one for one in definitions.queues.values()}
        return cls([_AtGate(transaction, turns, gates[gate_id], places[gate_id]) for gate_id in sorted(places)])

    def apply(self) -> None:
        """Open the places, after the messages were put back."""
        for one in self.gates:
            one.open()


def _carried(routed: Routed) -> Iterator[tuple[int, _Place]]:
    """The gate and the place of each entry whose message carries one."""
    entries, gates = routed.entries, routed.gates
    if gates is None:
        return
    for at, queue_id, problem in zip(entries.places, entries.queue_ids, entries.problems, strict=True):
        context = routed.typed.contexts[at]
        gate_id, _, number = gates.place(queue_id, context)
        group = context.get("origin_group")
        if problem is None and gate_id is not None and isinstance(group, str) and isinstance(number, int):
            yield gate_id, _Place(None, group, number, carried=True)
