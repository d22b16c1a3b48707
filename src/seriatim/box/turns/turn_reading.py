"""`TurnReading`: read the data of a turn of locked groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import ALL, BoxQueue
from seriatim.box.publishing.sql_arrivals import where_unrouted
from seriatim.box.turns.gate_turn import ClosedPlaces, GateTurn
from seriatim.box.turns.locked_groups import LockedGroups
from seriatim.box.turns.resequence import Turn
from seriatim.box.turns.turn_rows import ARRIVED, Entries, Request, TurnRows, fresh_row, known_groups
from seriatim.kernel.groups.policy import BestEffort, Fifo, Standard
from seriatim.kernel.values.columns import Ints

#: The most closed places of a group that a turn of a gate lets pass.
MOST_PLACES = 1_000
#: The state of a group of a service's queue that is new.
FRESH = fresh_row(Fifo())


class Portion(NamedTuple):
    """The most messages that a turn reads: held and arrived ones of each group, and arrived ones together, at least a number of each."""

    held: int = 1_000
    arrived: int = 1_000
    together: int = 20_000
    each: int = 100

    def arrived_of(self, groups: int, at_most: int, handed: int = 0) -> int:
        """The number of arrivals of each group that a turn judges. `handed`: how many the transaction has handed out of the group."""
        most = self.together if handed >= self.arrived else max(self.arrived, min(at_most, self.together // 2))
        return min(most, max(self.together // max(groups, 1), self.each))


#: The usual portion.
PORTION = Portion()


class TurnStart(NamedTuple):
    """A turn of a locked group; whether messages that were published through SQL wait to be routed."""

    turn: Turn
    unrouted: bool


class TurnReading:
    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def read(
        self,
        queue: BoxQueue,
        locked: LockedGroups,
        at_most: int,
        *,
        everything: bool = False,
        all_arrived: bool = False,
        all_held: bool = False,
        none_arrived: bool = False,
        in_hand: Sequence[int] = (),
        forced: Sequence[int | None] | None = None,
    ) -> TurnStart:
        """Read a turn of locked groups; True: a message waits to be routed. `forced`: by group, up to where places are closed by force."""
        queued = ALL if everything else queue.looked_at(at_most)
        portion = portion_of(queue, len(locked.keys), at_most, all_arrived=all_arrived, all_held=all_held)
        if none_arrived:
            portion["most_arrived"] = 0
        parameters = {
            "queue_id": queue.queue_id, "group_keys": locked.keys, "at_most": queued, **portion,
            "fresh": FRESH,
            **where_unrouted(self._transaction),
        }  # fmt: skip
        name = "turn_dialogs" if queue.serves else "turn"
        if queue.origin_id is not None:
            name, parameters = "turn_gate", parameters | places_of(queue) | {"forced": forced}
        (row,) = self._transaction.rows(name, **parameters)
        begun = turn_of(queue, locked, row, at_most, portion, in_hand)
        return begun if forced is not None else self.with_gate(queue, locked, begun, at_most)

    def with_gate(self, queue: BoxQueue, locked: LockedGroups, begun: TurnStart, at_most: int) -> TurnStart:
        """Return the turn of an origin queue as far as its gate allows, or of a gate with a due hole; others unchanged."""
        if queue.gate_id is not None:
            named = {"of_origin": queue.queue_id, "of_gate": queue.gate_id, "of_groups": locked.keys}
            bounds = self._transaction.value("gate_bounds", **named, open_at_most=queue.open_at_most)
            begun.turn.bounds = np.array(bounds, np.int64)
        if not isinstance(begun.turn, GateTurn) or (ends := begun.turn.hole_ends(due=True)) is None:
            return begun
        return self._forced(queue, locked, at_most, ends)

    def _forced(self, queue: BoxQueue, locked: LockedGroups, at_most: int, ends: Sequence[int | None]) -> TurnStart:
        """A turn of a gate for which the places up to these numbers are closed by force."""
        under_way = self.under_way(queue, locked, ends)
        begun = self.read(queue, locked, at_most, forced=ends)
        if isinstance(begun.turn, GateTurn):
            begun.turn.skip_holes(ends, under_way)
            # A turn reads closed places up to the first one behind a hole; the others have to be checked after this turn.
            moved = [key for key, end in zip(locked.keys, ends, strict=True) if end is not None]
            self._transaction.do("look_at_places", of_gate=queue.queue_id, of_groups=moved)
        return begun

    def under_way(self, queue: BoxQueue, locked: LockedGroups, through: Sequence[int | None]) -> list[Ints]:
        """Return for each group of a gate the numbers up to the given one of which a message is on the way."""
        named = {"of_gate": queue.queue_id, "of_groups": locked.keys, "through": through}
        by_group: list[list[int]] = [[] for _ in locked.keys]
        for place, number in self._transaction.rows("places_under_way", **named):
            by_group[place].append(number)
        return [np.array(numbers, np.int64) for numbers in by_group]


def portion_of(
    queue: BoxQueue, groups: int, at_most: int, *, handed: int = 0, all_arrived: bool = False, all_held: bool = False
) -> dict[str, int]:
    """The number of messages that a turn reads, by its groups; all arrivals where a round is a call. `handed`: see `Portion`."""
    calls = any(isinstance(policy, BestEffort) and policy.window is None for policy in queue.declared.all_policies())
    return {
        "most_arrived": ALL if calls or all_arrived else PORTION.arrived_of(groups, at_most, handed),
        "most_held": ALL if all_held or queue.means else PORTION.held,
        "most_whole": PORTION.together,
    }


def places_of(queue: BoxQueue) -> dict[str, int | None]:
    """The parameters that close places at a gate."""
    return {"origin_id": queue.origin_id, "most_places": MOST_PLACES, "open_at_most": queue.open_at_most}


def turn_of(
    queue: BoxQueue, locked: LockedGroups, row: Any, at_most: int, portion: dict[str, int], in_hand: Sequence[int] = ()
) -> TurnStart:
    """Return the turn of locked groups, from the row with all their data, without entries that are in hand."""
    columns = (row.request_places, row.request_ids, row.actions)
    requests = [Request(*values) for values in zip(*(each or () for each in columns), strict=True)]
    entries = Entries.of(row)
    if in_hand:
        entries = entries.take(~np.isin(entries.entry_id, in_hand))
    policy = queue.declared.policy_of(locked.keys[0])
    rows = TurnRows(locked.keys, known_groups(row), entries, requests, queue.incarnation, row.look_ids or ())
    if queue.origin_id is not None and isinstance(policy, Standard):
        if not portion["most_arrived"]:
            rows = rows._replace(entries=entries.take(entries.status != ARRIVED))
        return TurnStart(GateTurn(policy, rows, ClosedPlaces.of(row), locked.now_us, at_most), False)
    turn = Turn(policy, rows, locked.now_us, at_most, **portion, is_all=not row.unrouted, means=queue.means)
    return TurnStart(turn, row.unrouted)
