"""`Turns`: lock the next ready group of a queue until the transaction ends, and find the messages that may leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from seriatim.box.connection.access import Transaction
from seriatim.box.connection.queue_heads import EVERYTHING, Heads
from seriatim.box.connection.round_trip import OwnConnection, begin_with, commit_between, is_unbegun
from seriatim.box.definitions.definition import BoxQueue, Definitions
from seriatim.box.measures import MEASURES, Measure
from seriatim.box.postgres.array_text import numbers, written
from seriatim.box.postgres.statements import statement
from seriatim.box.publishing.sql_arrivals import where_unrouted
from seriatim.box.turns.deliveries import Deliveries
from seriatim.box.turns.delivery import Completion, Delivery, Mark
from seriatim.box.turns.gate_turn import GateTurn
from seriatim.box.turns.locked_groups import LockedGroups, check_isolation
from seriatim.box.turns.next_numbers import judged_at_once
from seriatim.box.turns.turn_reading import FRESH, MOST_PLACES, TurnReading, TurnStart, places_of, portion_of, turn_of
from seriatim.box.turns.turn_result import ActedGroup, ActionResult, HandedMessages, TurnResult
from seriatim.errors import ActionRefused
from seriatim.kernel.groups.policy import Standard
from seriatim.kernel.groups.state import State
from seriatim.kernel.resequence import Outcome
from seriatim.kernel.values.columns import Ints
from seriatim.kernel.values.outcome import REASONS, EventKind, EventRow, Events, Reason

_FRESH_AS_TEXT = numbers(FRESH)


class Turns:
    def __init__(
        self, transaction: Transaction, now_us: int | None = None, heads: Heads | None = None, handed: int = 0
    ) -> None:
        self._now_us = now_us
        #: How many messages of the group that is probably the next one the transaction has handed out before.
        self._handed = handed
        #: The known beginnings of queues; None: search queues from their beginning.
        self._heads = heads
        self._transaction = transaction
        self._reading = TurnReading(transaction)
        self._deliveries = Deliveries(transaction)

    def lock(self, queue: BoxQueue, how_many: int = 1, group: str | None = None, patience_ms: int = 0) -> LockedGroups:
        """Lock the next groups with work, or the named group."""
        if group is not None:
            named = {"queue_id": queue.queue_id, "group_key": group, "now_us": self._now_us, "patience_ms": patience_ms}
            return self._lock("lock_for_operator", named)
        parameters = {
            "of_queue": queue.queue_id, "named": None, "how_many": how_many, "at_us": self._now_us,
            "from_rank": self._from_rank(queue), **where_unrouted(self._transaction),
        }  # fmt: skip
        return self._lock("lock_groups", parameters)

    def lock_in_hand(self, queue: BoxQueue, group: str, token: int | None) -> LockedGroups:
        """Lock a group that this transaction, or its lease, has in hand; no group if it hasn't."""
        named = {"of_queue": queue.queue_id, "of_group": group, "of_token": token}
        is_locked, now, isolation, version = self._transaction.one("lock_in_hand", **named)
        check_isolation(isolation)
        return LockedGroups([group] if is_locked else [], self._now_us or now, version)

    def lock_many(self, queue: BoxQueue, groups: Sequence[str], patience_ms: int) -> LockedGroups:
        """Lock these groups, with or without work, for an operator; groups that others have locked are left out."""
        named = {"queue_id": queue.queue_id, "group_keys": list(groups), "patience_ms": patience_ms}
        return self._lock("lock_many_for_operator", named | {"now_us": self._now_us})

    def lock_copies(self, queue: BoxQueue, groups: Sequence[str]) -> LockedGroups:
        """Lock these groups for a worker of a region; groups that a worker has are left out."""
        return self._lock("lock_copies", {"of_queue": queue.queue_id, "of_groups": list(groups), "at_us": self._now_us})

    def lock_due(
        self, queue: BoxQueue, how_many: int, from_rank: int | None = None, until_rank: int | None = None
    ) -> tuple[LockedGroups, int | None]:
        """Lock groups with a due timer, and groups with messages that aren't judged; groups that others have locked are skipped."""
        parameters = {"of_queue": queue.queue_id, "how_many": how_many, "at_us": self._now_us}
        keys, now, isolation, version, through = self._transaction.one(
            "lock_due", **parameters, from_rank=from_rank, until_rank=until_rank
        )
        check_isolation(isolation)
        return LockedGroups(keys, now, version), through

    def lock_ahead(self, queue: BoxQueue, how_many: int) -> LockedGroups:
        """Lock the next groups with work, unless another process judges ahead in this queue already."""
        parameters = {"of_queue": queue.queue_id, "how_many": how_many, "at_us": self._now_us}
        return self._lock("lock_ahead", parameters | {"from_rank": self._from_rank(queue)})

    def _from_rank(self, queue: BoxQueue, group: str | None = None) -> int:
        """The rank from which to search for the next group, or for the named one."""
        return EVERYTHING if self._heads is None or group is not None else self._heads.of(queue, self._head_of)

    def _head_of(self, queue: BoxQueue) -> tuple[int, int]:
        rank, took_us = self._transaction.one("head_of", of_queue=queue.queue_id)
        return rank, took_us

    def _lock(self, name: str, parameters: dict[str, Any]) -> LockedGroups:
        keys, now, isolation, version, *more = self._transaction.one(name, **parameters)
        check_isolation(isolation)
        return LockedGroups(keys, now, version, *more)

    def judge(
        self, queue: BoxQueue, locked: LockedGroups, limit: int, *, put_back: Mapping[str, Sequence[int]] | None = None
    ) -> TurnResult:
        """Judge locked groups of one policy; hand out at most `limit` of each, or a set. `put_back`: numbers that come back, by group."""
        at_most = queue.at_most(limit)
        turn, _ = self._reading.read(queue, locked, at_most)
        if turn.is_short():
            turn, _ = self._reading.read(queue, locked, at_most, all_held=True)
        if put_back:
            turn.put_back(put_back)
        judged = turn.judge()
        self._decide(queue, locked.keys, judged, [])
        return judged

    def judge_all(self, queue: BoxQueue, locked: LockedGroups) -> bool:
        """Judge locked groups of any policies; nothing is handed out."""
        more = False
        for locked_part in locked.by_policy(queue) if locked.keys else ():
            judged = self.judge(queue, locked_part, 0)
            self._transaction.notice(*judged.notices(queue, locked_part.keys))
            more |= judged.more and judged.arrived > 0
        return more

    def begin(
        self, queue: BoxQueue, limit: int, group: str | None, version: int, after: Completion | None = None
    ) -> tuple[LockedGroups, TurnStart | TurnResult | None]:
        """Lock the next group with work, or the named group, and read the data of its turn; a simple one is judged at once."""
        at_most = queue.at_most(limit)
        parameters = {
            "queue_id": queue.queue_id, "group_key": group, "now_us": self._now_us, "at_most": queue.looked_at(at_most),
            **(portion := portion_of(queue, 1, at_most, handed=self._handed)), "fresh": FRESH,
            "from_rank": self._from_rank(queue, group), **where_unrouted(self._transaction),
        }  # fmt: skip
        name = "begin_turn_dialogs" if queue.serves else "begin_turn"
        if queue.origin_id is not None:
            name, parameters = "begin_turn_gate", parameters | places_of(queue)
        (row,) = self._rows(name, parameters, after)
        check_isolation(row.isolation)
        locked = LockedGroups(
            row.locked_keys, row.now_us, row.version, row.locked_unrouted, row.many, row.has_expired,
            not row.group_keys, True in (row.are_marked or ()), True in (row.are_on_trial or ()),
        )  # fmt: skip
        if not locked.keys or locked.version != version:
            return locked, None
        if (judged := judged_at_once(queue, locked, row, at_most, portion["most_arrived"])) is not None:
            return locked, judged
        begun = turn_of(queue, locked, row, at_most, portion)
        return locked, self._reading.with_gate(queue, locked, begun, at_most)

    def look(
        self,
        queue: BoxQueue,
        locked: LockedGroups,
        limit: int,
        *,
        wary: bool,
        begun: TurnStart | TurnResult | None = None,
    ) -> TurnResult | None:
        """Like `judge` for one group, without writing the result."""
        if isinstance(begun, TurnResult):
            return begun
        turn, unrouted = begun or self._reading.read(queue, locked, queue.at_most(limit))
        if turn.is_short():
            turn, unrouted = self._reading.read(queue, locked, queue.at_most(limit), all_held=True)
        return None if unrouted and wary else turn.judge()

    def deliver(
        self, queue: BoxQueue, locked: LockedGroups, judged: TurnResult, definitions: Definitions
    ) -> Delivery | None:
        """Write the result of `look`, and hand out its messages; None if there are none."""
        if not judged.handed:
            self._decide(queue, locked.keys, judged, [])
            return None
        handed = judged.handed[0]
        first_id = handed.entry_ids[0] if locked.is_new and not queue.counts_rollbacks else None
        rows = self._decide(queue, locked.keys, judged, handed.entry_ids, first_id)
        delivery = self._deliveries.of(queue, handed, rows, definitions)
        delivery.is_marked = locked.is_marked or rows[0].is_left is False
        delivery.on_trial = locked.on_trial
        return delivery

    def _decide(
        self,
        queue: BoxQueue,
        keys: Sequence[str],
        judged: TurnResult,
        handed_ids: list[int],
        first_id: int | None = None,
    ) -> list[Any]:
        """Write the result of a turn and its events; returns the messages that are handed out."""
        rows = self._written(queue, judged, handed_ids, first_id)
        self.record(queue, keys, judged.events)
        return rows

    def _written(
        self, queue: BoxQueue, judged: TurnResult, handed_ids: list[int], first_id: int | None = None
    ) -> list[Any]:
        parameters = {"queue_id": queue.queue_id, "handed_ids": handed_ids, "first_id": first_id, **judged.changes}
        rows = self._transaction.rows("decide", **parameters)
        _measure(queue.declared.name, judged)
        if judged.begun:
            keys, times = list(judged.begun), list(judged.begun.values())
            self._transaction.do("begin_again", of_queue=queue.queue_id, of_groups=keys, its_times=times)
        if judged.full:
            origin = {"of_gate": queue.queue_id, "of_origin": queue.origin_id}
            self._transaction.do("look_at_origin", **origin, of_groups=list(judged.full))
        return rows

    def record(self, queue: BoxQueue, keys: Sequence[str], events: Events, operation_id: int | None = None) -> None:
        """Put events on record, as many as the queue keeps."""
        if len(events):
            self._record(queue, [(keys[event.group], operation_id, event) for event in _kept(queue, events).rows()])

    def record_caused(self, queue: BoxQueue, acted: Mapping[str, ActedGroup], numbers: Sequence[int]) -> None:
        """Record events that operators' actions on several groups caused; `numbers`: of the actions, in the operator log."""
        pairs = zip(acted.items(), numbers, strict=True)
        self._record(
            queue, [(key, number, event) for (key, one), number in pairs for event in _kept(queue, one.caused).rows()]
        )

    def _record(self, queue: BoxQueue, rows: Sequence[tuple[str, int | None, EventRow]]) -> None:
        if rows:
            self._transaction.do(
                "record_events",
                of_queue=queue.queue_id,
                of_groups=[key for key, _, _ in rows],
                its_kinds=[event.kind.word for *_, event in rows],
                its_firsts=[event.first for *_, event in rows],
                its_lasts=[event.last for *_, event in rows],
                its_counts=[event.count for *_, event in rows],
                its_times=[event.at for *_, event in rows],
                of_operations=[number for _, number, _ in rows],
            )

    def act(
        self,
        queue: BoxQueue,
        locked: LockedGroups,
        action: Callable[..., Outcome],
        *,
        empties: bool = False,
        all_arrived: bool = False,
        all_held: bool = False,
        none_arrived: bool = False,
        entry_id: int | None = None,
        in_hand: Sequence[int] = (),
    ) -> ActionResult:
        """Perform an action on a locked group, after judging it; nothing is handed out. The caller `record`s what it causes."""
        reads = partial(
            self._reading.read,
            queue,
            locked,
            0,
            everything=empties,
            all_arrived=all_arrived,
            none_arrived=none_arrived,
            in_hand=in_hand,
        )
        turn, _ = reads(all_held=all_held)
        if turn.is_short(acts=True):
            turn, _ = reads(all_held=True)
        acted = turn.act(action, empties=empties, entry_id=entry_id)
        self._written(queue, acted.judged, [])
        self._look_again(queue, locked)
        self.record(queue, locked.keys, acted.due)
        return acted

    def act_each(
        self,
        queue: BoxQueue,
        locked: LockedGroups,
        action_of: Mapping[str, Callable[[State], Outcome] | None],
        *,
        all_arrived: bool = True,
        all_held: bool = False,
        noticed: Sequence[EventKind] = (EventKind.TIMED_OUT, EventKind.HOLE_SKIPPED),
    ) -> dict[str, ActedGroup | ActionRefused]:
        """As `act`, on some locked groups, in as many statements as for one; the caller `record`s, or `record_caused`."""
        done: dict[str, ActedGroup | ActionRefused] = {}
        for locked_part in locked.by_policy(queue) if locked.keys else ():
            policy = queue.declared.policy_of(locked_part.keys[0])
            reads = partial(self._reading.read, queue, locked_part, 0, all_arrived=all_arrived)
            # A capacity counts the held messages of a group, read or not.
            turn, _ = reads(all_held=all_held or (isinstance(policy, Standard) and policy.capacity is not None))
            if turn.is_short(acts=True):
                turn, _ = reads(all_held=True)
            judged, due, effects = turn.act_each([action_of[key] for key in locked_part.keys])
            self._written(queue, judged, [])
            self.record(queue, locked_part.keys, due)
            self._look_again(queue, locked_part)
            self._transaction.notice(*judged.notices(queue, locked_part.keys, noticed))
            done |= dict(zip(locked_part.keys, effects, strict=True))
        return done

    def force_places(self, queue: BoxQueue, locked: LockedGroups, through: int | None) -> tuple[int, Ints] | None:
        """Close the places of the hole of a gate's one group by force, before an operator skips it."""
        turn, _ = self._reading.read(queue, locked, 0)
        ends = turn.hole_ends(due=False) if isinstance(turn, GateTurn) else None
        if ends is None or ends[0] is None or (through is not None and through > ends[0]):
            return None
        end = ends[0] if through is None else through
        (under_way,) = self._reading.under_way(queue, locked, [end])
        self._transaction.one(
            "close_places",
            of_gate=queue.queue_id,
            of_origin=queue.origin_id,
            of_groups=locked.keys,
            most=MOST_PLACES,
            open_at_most=queue.open_at_most,
            forced=[end],
        )
        return end, under_way

    def _look_again(self, queue: BoxQueue, locked: LockedGroups) -> None:
        """Request a look at groups of a gate after an operator's action: more places may leave now."""
        if queue.origin_id is not None:
            self._transaction.do("look_at_places", of_gate=queue.queue_id, of_groups=locked.keys)

    def hand_out(
        self,
        queue: BoxQueue,
        limit: int,
        group: str | None,
        definitions: Definitions,
        *,
        arrived: bool = False,
        after: Completion | None = None,
    ) -> tuple[Delivery | None, int]:
        """Lock the next group with released messages, or the named group, and hand these messages out."""
        parameters = {
            "of_queue": queue.queue_id, "named": group, "at_most": queue.at_most(limit), "at_us": self._now_us,
            "from_rank": self._from_rank(queue, group),
        }  # fmt: skip
        name = "hand_out"
        if arrived:
            name = "hand_out_fifo"
            marks = queue.counts_rollbacks
            parameters |= {
                "known_version": definitions.version, "fresh": _FRESH_AS_TEXT, "serves": queue.serves, "marks": marks,
                **where_unrouted(self._transaction),
            }  # fmt: skip
        rows = self._rows(name, parameters, after)
        if not rows:
            return None, definitions.version
        first = rows[0]
        check_isolation(first.isolation)
        handed = HandedMessages(
            first.group_key,
            first.incarnation,
            [row.entry_id for row in rows],
            [row.sequence for row in rows],
            [row.ordinal for row in rows],
            [row.late for row in rows],
        )
        delivery = self._deliveries.of(queue, handed, rows, definitions)
        if arrived:
            delivery.mark = Mark(first.rolled_back, first.own)
        return delivery, first.version

    def _rows(self, name: str, parameters: dict[str, Any], after: Completion | None = None) -> list[Any]:
        """Return the rows of a statement; `after`: in one round trip with the end of the transaction before."""
        connection, schema = self._transaction.connection, self._transaction.schema
        if after is not None:
            done = statement(after.name, schema, *after.parameters), written(after.parameters)
            request = statement(name, schema, *parameters, of_rows=True), written(parameters)
            # A session gives `after` only where the connection is the box's own.
            return commit_between(cast("OwnConnection", connection), done, request)
        if is_unbegun(connection):
            return begin_with(connection, (statement(name, schema, *parameters, of_rows=True), written(parameters)))
        return self._transaction.rows(name, **parameters)

    def take_unordered(
        self, queue: BoxQueue, limit: int, definitions: Definitions, *, wary: bool = False, only: int | None = None
    ) -> tuple[Delivery | None, int]:
        """Hand out the next messages without order, each by itself; with a gate of one group. `wary`: pass over rolled back ones."""
        parameters = {
            "of_queue": queue.queue_id, "at_most": limit, "from_rank": self._from_rank(queue), "by_group": queue.numbers,
            "wary": wary, "of_entry": only,
        }  # fmt: skip
        rows = self._rows("take_unordered", parameters)
        if not rows:
            return None, definitions.version
        none: list[int | None] = [None] * len(rows)
        ordinals = [row.ordinal for row in rows]  # with a gate: the numbers of their places
        handed = HandedMessages(None, 0, [row.entry_id for row in rows], none, ordinals, [False] * len(rows))
        return self._deliveries.of(queue, handed, rows, definitions), rows[0].version


def _kept(queue: BoxQueue, events: Events) -> Events:
    return events if queue.declared.keep.events == "all" else events.take(events.kept)


def _measure(queue: str, judged: TurnResult) -> None:
    """Count the decisions of a turn. A transaction that is rolled back afterwards counts, too."""
    MEASURES.set_aside(queue, judged.changes["aside_dispositions"])
    MEASURES.count(Measure.CONFLICTS, queue, by=judged.changes["aside_reasons"].count(REASONS[Reason.CONFLICTS]))
    MEASURES.observe(Measure.HOLD, queue, judged.held_s)
