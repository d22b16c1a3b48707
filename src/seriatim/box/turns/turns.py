"""`Turns`: lock the next ready group of a queue until the transaction ends, and find the messages that may leave."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from seriatim.box.connection.access import Transaction
from seriatim.box.connection.queue_heads import EVERYTHING, Heads
from seriatim.box.connection.round_trip import OwnConnection, commit_between, is_idle
from seriatim.box.definitions.definition import ALL, BoxQueue, Definitions
from seriatim.box.measures import MEASURES, Measure
from seriatim.box.messages.edited import with_edits
from seriatim.box.messages.received import parts_of, received_of
from seriatim.box.postgres.array_text import numbers, written
from seriatim.box.postgres.statements import statement
from seriatim.box.publishing.unrouted_range import where_unrouted
from seriatim.box.turns.delivery import Completion, Delivery, DeliveryStatus, Mark
from seriatim.box.turns.delivery_ends import DeliveryEnds
from seriatim.box.turns.gate_turn import ClosedPlaces, GateTurn
from seriatim.box.turns.group_row import fresh_row
from seriatim.box.turns.resequence import (
    ARRIVED,
    ActedGroup,
    ActionResult,
    Entries,
    GroupRow,
    HandedMessages,
    Request,
    Turn,
    TurnResult,
)
from seriatim.errors import ActionRefused, UsageError
from seriatim.kernel.outcome import REASONS, Events, Reason
from seriatim.kernel.policy import BestEffort, Fifo, Standard
from seriatim.kernel.resequence import Outcome
from seriatim.kernel.state import State
from seriatim.pipeline.declared.queue_level import type_of

__all__ = ["PORTION", "LockedGroups", "Portion", "TurnStart", "Turns"]

#: How many closed places of a group a turn of a gate lets pass.
_MOST_PLACES = 1_000
#: The state of a group of a service's queue that is new.
_FRESH = fresh_row(Fifo())
_FRESH_TEXT = numbers(_FRESH)


class Portion(NamedTuple):
    """The most messages that a turn reads: held messages of each group; arrived messages of each group, and of all groups
    together, but at least a number of each.
    """

    held: int = 1_000
    arrived: int = 1_000
    together: int = 20_000
    each: int = 100

    def arrived_of(self, groups: int, at_most: int) -> int:
        """The number of arrivals of each group that a turn judges, by the numbers of groups and of messages to hand out."""
        return min(max(self.arrived, min(at_most, self.together // 2)), max(self.together // max(groups, 1), self.each))


#: What every turn reads.
PORTION = Portion()


class LockedGroups(NamedTuple):
    """Locked groups: their keys; the time in microseconds; the version of the definitions.

    `unrouted`: whether messages that were published through SQL wait to be routed. `many`: whether more messages
    wait to be judged than a turn of one group is worth.
    """

    keys: list[str]
    now_us: int
    version: int
    unrouted: bool = False
    many: bool = False

    def by_policy(self, queue: BoxQueue) -> list[LockedGroups]:
        """The same groups, grouped by policy."""
        if not queue.declared.policies:
            return [self]
        kept: dict[str | None, list[str]] = {}
        for key in self.keys:
            kind = type_of(key)
            kept.setdefault(kind if kind in queue.declared.policies else None, []).append(key)
        return [self._replace(keys=keys) for keys in kept.values()]


class TurnStart(NamedTuple):
    """A turn of a locked group; whether messages that were published through SQL wait to be routed."""

    turn: Turn
    unrouted: bool


class Turns:
    """The turns of one transaction.

    Args:
        transaction: the transaction.
        now_us: microseconds, in place of the database's clock.
        heads: the known beginnings of queues; None: search queues from their beginning.
    """

    def __init__(self, transaction: Transaction, now_us: int | None = None, heads: Heads | None = None) -> None:
        self._now_us = now_us
        self._heads = heads
        self._transaction = transaction

    def lock(self, queue: BoxQueue, how_many: int = 1, group: str | None = None, patience_ms: int = 0) -> LockedGroups:
        """Lock the next groups with work, or the named group.

        Args:
            queue: the queue.
            how_many: the most groups.
            group: this group, with or without work.
            patience_ms: how long to wait for the named group, milliseconds.

        Raises:
            UsageError: the transaction reads by a snapshot older than the lock would be.
        """
        if group is not None:
            named = {"queue_id": queue.queue_id, "group_key": group, "now_us": self._now_us, "patience_ms": patience_ms}
            return self._lock("lock_for_operator", named)
        parameters = {
            "of_queue": queue.queue_id, "named": None, "how_many": how_many, "at_us": self._now_us,
            "from_rank": self._from_rank(queue), **self._where_unrouted(),
        }  # fmt: skip
        return self._lock("lock_groups", parameters)

    def lock_in_hand(self, queue: BoxQueue, group: str, token: int | None) -> LockedGroups:
        """Lock a group that this transaction, or its lease, has in hand; no group: it hasn't.

        Raises:
            UsageError: the transaction reads by a snapshot older than the lock would be.
        """
        named = {"of_queue": queue.queue_id, "of_group": group, "of_token": token}
        is_locked, now, isolation, version = self._transaction.one("lock_in_hand", **named)
        _check_isolation(isolation)
        return LockedGroups([group] if is_locked else [], self._now_us or now, version)

    def lock_many(self, queue: BoxQueue, groups: Sequence[str], patience_ms: int) -> LockedGroups:
        """Lock these groups, with or without work, for an operator; groups that others keep are left out.

        Args:
            queue: the queue.
            groups: the keys, sorted, so that two operators who want the same groups don't wait for each other.
            patience_ms: how long to wait for each of them, milliseconds.

        Raises:
            UsageError: the transaction reads by a snapshot older than the lock would be.
        """
        named = {"queue_id": queue.queue_id, "group_keys": list(groups), "patience_ms": patience_ms}
        return self._lock("lock_many_for_operator", named | {"now_us": self._now_us})

    def lock_due(
        self, queue: BoxQueue, how_many: int, from_rank: int | None = None, until_rank: int | None = None
    ) -> tuple[LockedGroups, int | None]:
        """Lock groups with a due timer, and groups with messages that aren't judged; groups that others have locked are skipped.

        Args:
            queue: the queue.
            how_many: the most groups.
            from_rank: look for messages that aren't judged from this rank on; None: don't look.
            until_rank: and to this one; None: all that have arrived.

        Returns:
            The rank from which to go on looking, too; None: there are no more.

        Raises:
            UsageError: the transaction reads by a snapshot older than the lock would be.
        """
        parameters = {"of_queue": queue.queue_id, "how_many": how_many, "at_us": self._now_us}
        keys, now, isolation, version, through = self._transaction.one(
            "lock_due", **parameters, from_rank=from_rank, until_rank=until_rank
        )
        _check_isolation(isolation)
        return LockedGroups(keys, now, version), through

    def lock_ahead(self, queue: BoxQueue, how_many: int) -> LockedGroups:
        """Lock the next groups with work, unless another process judges ahead in this queue already.

        Raises:
            UsageError: the transaction reads by a snapshot older than the lock would be.
        """
        parameters = {"of_queue": queue.queue_id, "how_many": how_many, "at_us": self._now_us}
        return self._lock("lock_ahead", parameters | {"from_rank": self._from_rank(queue)})

    def _from_rank(self, queue: BoxQueue, group: str | None = None) -> int:
        """The rank from which to search for the next group, or for the named one."""
        return EVERYTHING if self._heads is None or group is not None else self._heads.of(queue, self._head_of)

    def _where_unrouted(self) -> dict[str, str]:
        return where_unrouted(self._transaction)

    def _head_of(self, queue: BoxQueue) -> tuple[int, int]:
        rank, took_us = self._transaction.one("head_of", of_queue=queue.queue_id)
        return rank, took_us

    def _lock(self, name: str, parameters: dict[str, Any]) -> LockedGroups:
        keys, now, isolation, version, *more = self._transaction.one(name, **parameters)
        _check_isolation(isolation)
        return LockedGroups(keys, now, version, *more)

    def judge(self, queue: BoxQueue, locked: LockedGroups, limit: int, *, put_back: Sequence[int] = ()) -> TurnResult:
        """Judge locked groups of one policy; at most `limit` messages of each are handed out, or a whole set.

        `put_back`: numbers of messages of the only group that were taken out and have come back.
        """
        at_most = queue.at_most(limit)
        turn, _ = self._turn(queue, locked, at_most)
        if turn.is_short():
            turn, _ = self._turn(queue, locked, at_most, all_held=True)
        if put_back:
            turn.put_back(np.array(put_back, np.int64))
        judged = turn.judge()
        self._decide(queue, locked.keys, judged, [])
        return judged

    def judge_all(self, queue: BoxQueue, locked: LockedGroups) -> bool:
        """Judge locked groups of any policies; nothing is handed out.

        Returns:
            whether messages were judged, and some of these groups have more for another turn at once.
        """
        more = False
        for one in locked.by_policy(queue) if locked.keys else ():
            judged = self.judge(queue, one, 0)
            self._transaction.notice(*judged.notices(queue, one.keys))
            more |= judged.more and judged.arrived > 0
        return more

    def begin(
        self, queue: BoxQueue, limit: int, group: str | None, version: int
    ) -> tuple[LockedGroups, TurnStart | None]:
        """Lock the next group with work, or the named group, and read the data of its turn.

        Args:
            queue: the queue.
            limit: the most messages to hand out, or a whole set.
            group: this group, if it has work and isn't locked.
            version: the version of the definitions that `queue` is from.

        Returns:
            None if there is no such group, or the definitions have changed: then they have to be read first.

        Raises:
            UsageError: the transaction reads by a snapshot older than the lock would be.
        """
        at_most = queue.at_most(limit)
        parameters = {
            "queue_id": queue.queue_id, "group_key": group, "now_us": self._now_us, "at_most": queue.looked_at(at_most),
            **(portion := _portion(queue, 1, at_most)), "fresh": _FRESH, "from_rank": self._from_rank(queue, group), **self._where_unrouted(),
        }  # fmt: skip
        name = "begin_turn_dialogs" if queue.serves else "begin_turn"
        if queue.origin_id is not None:
            name, parameters = "begin_turn_gate", parameters | _places_of(queue)
        (row,) = self._transaction.rows(name, **parameters)
        _check_isolation(row.isolation)
        locked = LockedGroups(row.locked_keys, row.now_us, row.version, row.locked_unrouted, row.many)
        if not locked.keys or locked.version != version:
            return locked, None
        begun = _turn_of(queue, locked, row, at_most, portion)
        return locked, self._with_gate(queue, locked, begun, at_most)

    def look(
        self, queue: BoxQueue, locked: LockedGroups, limit: int, *, wary: bool, begun: TurnStart | None = None
    ) -> TurnResult | None:
        """Like `judge` for one group, without writing the result.

        Args:
            queue: the queue of the group.
            locked: the group.
            limit: the most messages, or a whole set.
            wary: judge nothing, and return None, if messages that were published through SQL wait to be routed.
            begun: the result of `begin` for it, with the same queue and limit; None: read the data here.
        """
        turn, unrouted = begun or self._turn(queue, locked, queue.at_most(limit))
        if turn.is_short():
            turn, unrouted = self._turn(queue, locked, queue.at_most(limit), all_held=True)
        return None if unrouted and wary else turn.judge()

    def deliver(
        self, queue: BoxQueue, locked: LockedGroups, judged: TurnResult, definitions: Definitions
    ) -> Delivery | None:
        """Write the result of `look`, and hand out its messages; None if there are none."""
        if not judged.handed:
            self._decide(queue, locked.keys, judged, [])
            return None
        handed = judged.handed[0]
        rows = self._decide(queue, locked.keys, judged, handed.entry_ids)
        return self._delivery(queue, handed, rows, definitions)

    def _decide(self, queue: BoxQueue, keys: Sequence[str], judged: TurnResult, handed_ids: list[int]) -> list[Any]:
        """Write the result of a turn and its events; returns the messages that are handed out."""
        rows = self._written(queue, judged, handed_ids)
        self.record(queue, keys, judged.events)
        return rows

    def _written(self, queue: BoxQueue, judged: TurnResult, handed_ids: list[int]) -> list[Any]:
        parameters = {"queue_id": queue.queue_id, "handed_ids": handed_ids, **judged.changes}
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
        """Put events on record, as many as the queue keeps. If there are none, nothing is executed.

        Args:
            queue: the queue of the groups.
            keys: the groups of the turn.
            events: their events.
            operation_id: the number of the operator's action that caused them.
        """
        if not len(events):
            return
        if queue.declared.events != "all":
            events = events.take(events.kept)
        if rows := list(events.rows()):
            self._transaction.do(
                "record_events",
                of_queue=queue.queue_id,
                of_groups=[keys[one.group] for one in rows],
                its_kinds=[one.kind.word for one in rows],
                its_firsts=[one.first for one in rows],
                its_lasts=[one.last for one in rows],
                its_counts=[one.count for one in rows],
                its_times=[one.at for one in rows],
                of_operation=operation_id,
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
        """Perform an operator's action on one locked group, after judging it; nothing is handed out.

        The events that it causes are left to the caller to `record`.

        Args:
            queue: the queue of the group.
            locked: the group.
            action: the function that changes the state of the group; with `entry_id` it is given the ref of that entry, too.
            empties: whether queued messages become dead.
            all_arrived: judge all arrivals before, not only as many as a usual turn.
            all_held: the action needs all held messages. Otherwise it may release the beginning of a long run, and
                leave the rest to the next turns.
            none_arrived: judge no arrival before, and fire no timer.
            entry_id: a held entry that the action is about.
            in_hand: entries that this transaction has handed out: they are judged already.

        Raises:
            ActionRefused: the error of the action; then nothing is written.
        """
        reads = partial(
            self._turn,
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
        self, queue: BoxQueue, locked: LockedGroups, action_of: Mapping[str, Callable[[State], Outcome] | None]
    ) -> dict[str, ActedGroup | ActionRefused]:
        """Perform an operator's action on each of some locked groups, after judging them; nothing is handed out.

        The number of statements doesn't depend on the number of groups.

        Args:
            queue: the queue of the groups.
            locked: the groups.
            action_of: for each group the function that changes its state; None: the group is only judged.

        Returns:
            for each group the effect, or the refusal of the kernel.
        """
        done: dict[str, ActedGroup | ActionRefused] = {}
        for one in locked.by_policy(queue) if locked.keys else ():
            policy = queue.declared.policy_of(one.keys[0])
            reads = partial(self._turn, queue, one, 0, all_arrived=True)
            # A capacity counts what a group holds, read or not.
            turn, _ = reads(all_held=isinstance(policy, Standard) and policy.capacity is not None)
            if turn.is_short(acts=True):
                turn, _ = reads(all_held=True)
            judged, effects = turn.act_each([action_of[key] for key in one.keys])
            self._decide(queue, one.keys, judged, [])
            self._look_again(queue, one)
            self._transaction.notice(*judged.notices(queue, one.keys))
            done |= dict(zip(one.keys, effects, strict=True))
        return done

    def force_places(self, queue: BoxQueue, locked: LockedGroups, through: int | None) -> int | None:
        """Close the places of the hole of a gate's one group by force, before an operator skips it.

        Returns:
            the number up to which the hole is to be skipped; None: the group has no such hole.
        """
        turn, _ = self._turn(queue, locked, 0)
        ends = turn.hole_ends(due=False) if isinstance(turn, GateTurn) else None
        if ends is None or ends[0] is None or (through is not None and through > ends[0]):
            return None
        end = ends[0] if through is None else through
        self._transaction.one(
            "close_places",
            of_gate=queue.queue_id,
            of_origin=queue.origin_id,
            of_groups=locked.keys,
            most=_MOST_PLACES,
            open_at_most=queue.open_at_most,
            forced=[end],
        )
        return end

    def _look_again(self, queue: BoxQueue, locked: LockedGroups) -> None:
        """Let groups of a gate be looked at after an operator's action: more places may leave now."""
        if queue.origin_id is not None:
            self._transaction.do("look_at_places", of_gate=queue.queue_id, of_groups=locked.keys)

    def _turn(
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
        """A turn of locked groups, with all queued messages or as many as it needs, and with the first arrived and held messages
        or all. `forced`: for each group of a gate the number up to which places are closed by force.

        Messages that were committed after a message that waits to be routed are left out; True if a message waits.
        """
        queued = ALL if everything else queue.looked_at(at_most)
        portion = _portion(queue, len(locked.keys), at_most, all_arrived=all_arrived, all_held=all_held)
        if none_arrived:
            portion["most_arrived"] = 0
        parameters = {
            "queue_id": queue.queue_id, "group_keys": locked.keys, "at_most": queued, **portion,
            "fresh": _FRESH,
            **self._where_unrouted(),
        }  # fmt: skip
        name = "turn_dialogs" if queue.serves else "turn"
        if queue.origin_id is not None:
            name, parameters = "turn_gate", parameters | _places_of(queue) | {"forced": forced}
        (row,) = self._transaction.rows(name, **parameters)
        begun = _turn_of(queue, locked, row, at_most, portion, in_hand)
        return begun if forced is not None else self._with_gate(queue, locked, begun, at_most)

    def _with_gate(self, queue: BoxQueue, locked: LockedGroups, begun: TurnStart, at_most: int) -> TurnStart:
        """The turn of an origin queue, which hands out as far as its gate allows; that of a gate where the time of a hole is over, so that
        what is there of the places of the hole leaves in its place; any other turn as it is.
        """
        if queue.gate_id is not None:
            named = {"of_origin": queue.queue_id, "of_gate": queue.gate_id, "of_groups": locked.keys}
            bounds = self._transaction.value("gate_bounds", **named, open_at_most=queue.open_at_most)
            begun.turn.bounds = np.array(bounds, np.int64)
        if not isinstance(begun.turn, GateTurn) or (ends := begun.turn.hole_ends(due=True)) is None:
            return begun
        return self._forced(queue, locked, at_most, ends)

    def _forced(self, queue: BoxQueue, locked: LockedGroups, at_most: int, ends: Sequence[int | None]) -> TurnStart:
        """A turn of a gate for which the places up to these numbers are closed by force."""
        begun = self._turn(queue, locked, at_most, forced=ends)
        if isinstance(begun.turn, GateTurn):
            begun.turn.skip_holes(ends)
        return begun

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
        """Lock the next group with released messages, or the named group, and hand these messages out.

        Args:
            queue: the queue.
            limit: the most messages, or a whole set.
            group: this group.
            definitions: the definitions.
            arrived: hand out arrived messages behind them, too, in a queue that `is_fifo` and not
                `Definitions.collecting`: no rule has to be asked.
            after: execute this statement and commit first, and hand out in another transaction.

        Returns:
            None if a group has to be judged first; and the version of the definitions, if there is any work.
        """
        parameters = {
            "of_queue": queue.queue_id, "named": group, "at_most": queue.at_most(limit), "at_us": self._now_us,
            "from_rank": self._from_rank(queue, group),
        }  # fmt: skip
        name = "hand_out"
        if arrived:
            name = "hand_out_fifo"
            marks = queue.serves and queue.declared.rollbacks is not None
            parameters |= {
                "known_version": definitions.version, "fresh": _FRESH_TEXT, "serves": queue.serves, "marks": marks,
                **self._where_unrouted(),
            }  # fmt: skip
        if after is None:
            rows = self._transaction.rows(name, **parameters)
        else:
            schema = self._transaction.schema
            done = statement(after.name, schema, *after.parameters), written(after.parameters)
            own = cast("OwnConnection", self._transaction.connection)  # whoever gives `after` has seen that it is
            rows = commit_between(own, done, (statement(name, schema, *parameters, of_rows=True), parameters))
        if not rows:
            return None, definitions.version
        first = rows[0]
        _check_isolation(first.isolation)
        handed = HandedMessages(
            first.group_key,
            first.incarnation,
            [row.entry_id for row in rows],
            [row.sequence for row in rows],
            [row.ordinal for row in rows],
            [row.late for row in rows],
        )
        delivery = self._delivery(queue, handed, rows, definitions)
        if arrived:
            delivery.mark = Mark(first.rolled_back, first.own)
        return delivery, first.version

    def take_unordered(self, queue: BoxQueue, limit: int, definitions: Definitions) -> tuple[Delivery | None, int]:
        """Hand out the next messages of a queue without order, each locked by itself; otherwise like `hand_out`."""
        parameters = {"of_queue": queue.queue_id, "at_most": limit, "from_rank": self._from_rank(queue)}
        rows = self._transaction.rows("take_unordered", **parameters)
        if not rows:
            return None, definitions.version
        none: list[int | None] = [None] * len(rows)
        ordinals = [row.ordinal for row in rows]  # with a gate: the numbers of their places
        handed = HandedMessages(None, 0, [row.entry_id for row in rows], none, ordinals, [False] * len(rows))
        return self._delivery(queue, handed, rows, definitions), rows[0].version

    def _delivery(
        self, queue: BoxQueue, handed: HandedMessages, rows: Sequence[Any], definitions: Definitions
    ) -> Delivery:
        rows = with_edits(self._transaction, queue, handed.entry_ids, rows)
        having = [entry_id for entry_id, row in zip(handed.entry_ids, rows, strict=True) if row.parts]
        parts = parts_of(self._transaction, queue, having)
        sequences = handed.sequences
        if isinstance(queue.declared.policy_of(handed.group), Fifo):  # which goes by arrival, whatever else is there
            sequences = [None] * len(sequences)
        groups = [row.group_key for row in rows] if queue.numbers else [handed.group] * len(rows)
        messages = [
            received_of(row, queue, definitions, group, sequence, ordinal, late, parts.get(entry_id, ()))
            for row, entry_id, group, sequence, ordinal, late in zip(
                rows, handed.entry_ids, groups, sequences, handed.ordinals, handed.late, strict=True
            )
        ]
        ends = DeliveryEnds.of(queue, handed, have_failed=any(row.attempt for row in rows))
        joined = None if isinstance(self._transaction.connection, OwnConnection) else self._joined(ends)
        return Delivery(
            queue.declared.name,
            handed.group,
            messages,
            lambda: self._execute(ends.completion()),
            lambda: self._put_back(ends, joined),
            lambda count: self._end_after(ends, joined, count),
            handed.entry_ids,
            handed.incarnation,
            ends.completion(),
            place="" if self._transaction.access is None else self._transaction.access.place,
            look=None if joined is None else lambda: self._standing(joined),
            put_back_apart=None if joined is None else lambda: self._put_back_apart(ends),
        )

    def _joined(self, ends: DeliveryEnds) -> dict[str, Any]:
        """The parameters that ask PostgreSQL for the fate of a delivery in an application's transaction."""
        named = {"of_queue": ends.queue_id, "of_group": ends.group, "entry_ids": ends.entry_ids}
        return named | {"handed": self._transaction.value("handed_by", **named), "put": None}

    def _standing(self, joined: dict[str, Any]) -> DeliveryStatus:
        """The fate of a delivery. If the application has ended its transaction, no new transaction is left open."""
        if self._transaction.access is None or not is_idle(self._transaction.connection):
            return DeliveryStatus(*self._transaction.one("standing", **joined))
        with self._transaction.access.transaction() as transaction:
            return DeliveryStatus(*transaction.one("standing", **joined))

    def _end_after(self, ends: DeliveryEnds, joined: dict[str, Any] | None, count: int) -> None:
        """Complete the first `count` messages of a delivery, and put the others back."""
        if count:
            self._execute(ends.between(0, count).completion())
        self._put_back(ends.between(count, None), joined)

    def _put_back(self, ends: DeliveryEnds, joined: dict[str, Any] | None) -> None:
        if ends.group is None:  # a message without one was locked, and nothing else has happened to it
            if joined is not None:
                joined["put"] = joined["handed"]
        elif joined is None:
            self._transaction.do("put_back", **ends.back())
        else:
            joined["put"] = self._transaction.value("put_back_by", **ends.back())

    def _put_back_apart(self, ends: DeliveryEnds) -> None:
        """Put back a delivery that an application has committed without completing it, independently of its next transaction."""
        if ends.group is not None and self._transaction.access is not None:
            with self._transaction.access.transaction() as transaction:
                transaction.do("put_back_committed", **ends.back())

    def _execute(self, completion: Completion) -> None:
        self._transaction.do(completion.name, **completion.parameters)


def _portion(
    queue: BoxQueue, groups: int, at_most: int, *, all_arrived: bool = False, all_held: bool = False
) -> dict[str, int]:
    """The number of messages that a turn reads, by its number of groups. If a round is a call, all arrivals are read."""
    calls = any(isinstance(one, BestEffort) and one.window is None for one in queue.declared.all_policies())
    return {
        "most_arrived": ALL if calls or all_arrived else PORTION.arrived_of(groups, at_most),
        "most_held": ALL if all_held else PORTION.held,
        "most_whole": PORTION.together,
    }


def _places_of(queue: BoxQueue) -> dict[str, int | None]:
    """The parameters that close places at a gate."""
    return {"origin_id": queue.origin_id, "most_places": _MOST_PLACES, "open_at_most": queue.open_at_most}


def _turn_of(
    queue: BoxQueue,
    locked: LockedGroups,
    row: Any,
    at_most: int,
    portion: dict[str, int],
    in_hand: Sequence[int] = (),
) -> TurnStart:
    """The turn of locked groups, from the row with all their data, without entries that are in hand."""
    known = (row.group_keys, row.incarnations, row.states, row.skipped, row.group_arrivals, row.decided, row.remembered)
    groups = [GroupRow(*one) for one in zip(*(each or () for each in known), strict=True)]
    asked = (row.request_places, row.request_ids, row.actions)
    requests = [Request(*one) for one in zip(*(each or () for each in asked), strict=True)]
    entries = Entries.of(row)
    if in_hand:
        entries = entries.take(~np.isin(entries.entry_id, in_hand))
    policy = queue.declared.policy_of(locked.keys[0])
    if queue.origin_id is not None and isinstance(policy, Standard):
        if not portion["most_arrived"]:
            entries = entries.take(entries.status != ARRIVED)
        closed, its = ClosedPlaces.of(row), (requests, queue.incarnation)
        return TurnStart(GateTurn(policy, locked.keys, groups, entries, closed, locked.now_us, at_most, *its), False)
    turn = Turn(
        policy,
        locked.keys,
        groups,
        entries,
        locked.now_us,
        at_most,
        requests,
        queue.incarnation,
        **portion,
        is_all=not row.unrouted,
    )
    return TurnStart(turn, row.unrouted)


def _check_isolation(isolation: str) -> None:
    """Refuse a transaction that reads by a snapshot older than the lock would be.

    Raises:
        UsageError: it does.
    """
    if isolation != "read committed":
        raise UsageError(
            f"messages can't be received in a transaction that is {isolation}",
            remedy="use READ COMMITTED: what it reads has to be younger than the lock of the group",
        )


def _measure(queue: str, judged: TurnResult) -> None:
    """Count what a turn has decided. A transaction that is rolled back afterwards counts, too."""
    MEASURES.set_aside(queue, judged.changes["aside_dispositions"])
    MEASURES.count(Measure.CONFLICTS, queue, by=judged.changes["aside_reasons"].count(REASONS[Reason.CONFLICTS]))
    MEASURES.observe(Measure.HOLD, queue, judged.held_s)
