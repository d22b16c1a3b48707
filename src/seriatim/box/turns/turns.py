"""`Turns`: lock the next ready group of a queue until the transaction ends, and find the messages that may leave."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

from seriatim.box.connection.access import Transaction
from seriatim.box.connection.queue_heads import EVERYTHING, Heads
from seriatim.box.connection.round_trip import OwnConnection, commit_between, is_idle
from seriatim.box.definitions.definition import ALL, BoxQueue, Definitions
from seriatim.box.messages.edited import with_edits
from seriatim.box.messages.received import parts_of, received_of
from seriatim.box.postgres.array_text import numbers, written
from seriatim.box.postgres.statements import statement
from seriatim.box.publishing.unrouted_range import where_unrouted
from seriatim.box.turns.delivery import Completion, Delivery, DeliveryStatus, Mark
from seriatim.box.turns.delivery_ends import DeliveryEnds
from seriatim.box.turns.group_row import fresh_row
from seriatim.box.turns.resequence import ActionResult, Entries, GroupRow, HandedMessages, Request, Turn, TurnResult
from seriatim.errors import UsageError
from seriatim.kernel.policy import BestEffort, Fifo
from seriatim.kernel.resequence import Outcome
from seriatim.kernel.state import State
from seriatim.pipeline.declared.queue_level import type_of

__all__ = ["PORTION", "LockedGroups", "Portion", "TurnStart", "Turns"]

#: The state of a group of a service's queue that is new.
_FRESH = fresh_row(Fifo())
_FRESH_TEXT = numbers(_FRESH)


class Portion(NamedTuple):
    """How much a turn reads at most: of what each group holds; of what arrived for each group, and for all together, but
    at least so much of each.
    """

    held: int = 1_000
    arrived: int = 1_000
    together: int = 20_000
    each: int = 100

    def arrived_of(self, groups: int, at_most: int) -> int:
        """How many messages a turn of so many groups takes in of each, where so many are to be handed out."""
        return min(max(self.arrived, min(at_most, self.together // 2)), max(self.together // max(groups, 1), self.each))


#: What every turn reads.
PORTION = Portion()


class LockedGroups(NamedTuple):
    """Groups that were locked: their keys; microseconds; the version of the definitions.

    `unrouted`: something that was published through SQL waits to be routed. `many`: more messages wait to be judged
    than a turn of one group is worth.
    """

    keys: list[str]
    now_us: int
    version: int
    unrouted: bool = False
    many: bool = False

    def by_policy(self, queue: BoxQueue) -> list[LockedGroups]:
        """The same groups, those of one policy together."""
        if not queue.declared.policies:
            return [self]
        kept: dict[str | None, list[str]] = {}
        for key in self.keys:
            kind = type_of(key)
            kept.setdefault(kind if kind in queue.declared.policies else None, []).append(key)
        return [self._replace(keys=keys) for keys in kept.values()]


class TurnStart(NamedTuple):
    """A turn of a locked group; whether something that was published through SQL waits to be routed."""

    turn: Turn
    unrouted: bool


class Turns:
    """What turns do in one transaction.

    Args:
        transaction: in which.
        now_us: microseconds, in place of the database's clock.
        heads: where queues begin, as far as that is known; None: they are looked at from their beginning.
    """

    def __init__(self, transaction: Transaction, now_us: int | None = None, heads: Heads | None = None) -> None:
        self._now_us = now_us
        self._heads = heads
        self._transaction = transaction

    def lock(self, queue: BoxQueue, how_many: int = 1, group: str | None = None, patience_ms: int = 0) -> LockedGroups:
        """Lock the next groups that have something to do, or the named one.

        Args:
            queue: whose groups.
            how_many: at most so many.
            group: this one, whether it has something to do or not.
            patience_ms: how long to wait for that, milliseconds.

        Raises:
            UsageError: the transaction reads by a snapshot older than the lock would be.
        """
        if group is not None:
            named = {"queue_id": queue.queue_id, "group_key": group, "now_us": self._now_us, "patience_ms": patience_ms}
            return self._lock("lock_patiently", named)
        parameters = {
            "of_queue": queue.queue_id, "named": None, "how_many": how_many, "at_us": self._now_us,
            "from_rank": self._from_rank(queue), **self._where_unrouted(),
        }  # fmt: skip
        return self._lock("lock_groups", parameters)

    def lock_due(self, queue: BoxQueue, how_many: int) -> LockedGroups:
        """Lock groups that have a timer which is due; those that others have are passed over.

        Raises:
            UsageError: the transaction reads by a snapshot older than the lock would be.
        """
        return self._lock("lock_due", {"of_queue": queue.queue_id, "how_many": how_many, "at_us": self._now_us})

    def lock_ahead(self, queue: BoxQueue, how_many: int) -> LockedGroups:
        """Lock the next groups that have something to do, unless somebody judges ahead in this queue already.

        Raises:
            UsageError: the transaction reads by a snapshot older than the lock would be.
        """
        parameters = {"of_queue": queue.queue_id, "how_many": how_many, "at_us": self._now_us}
        return self._lock("lock_ahead", parameters | {"from_rank": self._from_rank(queue)})

    def _from_rank(self, queue: BoxQueue, group: str | None = None) -> int:
        """From which rank on to look for the next group, or the named one."""
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

    def judge(self, queue: BoxQueue, locked: LockedGroups, limit: int) -> TurnResult:
        """Judge what locked groups of one policy have; at most `limit` messages of each are handed out, or a whole set."""
        at_most = queue.at_most(limit)
        turn, _ = self._turn(queue, locked, at_most)
        if turn.is_short():
            turn, _ = self._turn(queue, locked, at_most, all_held=True)
        judged = turn.judge()
        self._decide(queue, judged, [])
        return judged

    def judge_all(self, queue: BoxQueue, locked: LockedGroups) -> None:
        """Judge what locked groups have, whatever their policies; nothing is handed out."""
        for one in locked.by_policy(queue) if locked.keys else ():
            self._transaction.notice(*self.judge(queue, one, 0).notices(queue, one.keys))

    def begin(
        self, queue: BoxQueue, limit: int, group: str | None, version: int
    ) -> tuple[LockedGroups, TurnStart | None]:
        """Lock the next group that has something to do, or the named one, and read what its turn has to know.

        Args:
            queue: whose group.
            limit: at most so many messages are to be handed out, or a whole set.
            group: this one, if it has something to do and nobody has it.
            version: that of the definitions which the queue is from.

        Returns:
            None where there is no such group, or the definitions are others now: then the queue's have to be read first.

        Raises:
            UsageError: the transaction reads by a snapshot older than the lock would be.
        """
        at_most = queue.at_most(limit)
        parameters = {
            "queue_id": queue.queue_id, "group_key": group, "now_us": self._now_us, "at_most": queue.looked_at(at_most),
            **(portion := _portion(queue, 1, at_most)), "fresh": _FRESH, "from_rank": self._from_rank(queue, group), **self._where_unrouted(),
        }  # fmt: skip
        name = "begin_turn_dialogs" if queue.serves else "begin_turn"
        (row,) = self._transaction.rows(name, **parameters)
        _check_isolation(row.isolation)
        locked = LockedGroups(row.locked_keys, row.now_us, row.version, row.locked_unrouted, row.many)
        if not locked.keys or locked.version != version:
            return locked, None
        return locked, _turn_of(queue, locked, row, at_most, portion)

    def look(
        self, queue: BoxQueue, locked: LockedGroups, limit: int, *, wary: bool, begun: TurnStart | None = None
    ) -> TurnResult | None:
        """As `judge` for one group; nothing is written down.

        Args:
            queue: whose group it is.
            locked: the group.
            limit: at most so many messages, or a whole set.
            wary: judge nothing, and answer None, where something that was published through SQL waits to be routed.
            begun: what `begin` has read for it, of the same queue and limit; None: it is read here.
        """
        turn, unrouted = begun or self._turn(queue, locked, queue.at_most(limit))
        if turn.is_short():
            turn, unrouted = self._turn(queue, locked, queue.at_most(limit), all_held=True)
        return None if unrouted and wary else turn.judge()

    def deliver(self, queue: BoxQueue, judged: TurnResult, definitions: Definitions) -> Delivery | None:
        """Write down what `look` has judged, and hand out what it says; None where that is nothing."""
        if not judged.handed:
            self._decide(queue, judged, [])
            return None
        handed = judged.handed[0]
        rows = self._decide(queue, judged, handed.entry_ids)
        return self._delivery(queue, handed, rows, definitions)

    def _decide(self, queue: BoxQueue, judged: TurnResult, handed_ids: list[int]) -> list[Any]:
        parameters = {"queue_id": queue.queue_id, "handed_ids": handed_ids, **judged.changes}
        return self._transaction.rows("decide", **parameters)

    def act(
        self,
        queue: BoxQueue,
        locked: LockedGroups,
        action: Callable[[State], Outcome],
        *,
        empties: bool = False,
        all_arrived: bool = False,
        all_held: bool = False,
    ) -> ActionResult:
        """Do what an operator asks of one locked group, after it has been judged; nothing is handed out.

        Args:
            queue: whose group it is.
            locked: the group.
            action: what it does to the state of the group.
            empties: whether what is queued becomes dead.
            all_arrived: all that arrived is judged before, not only as much as a turn takes in.
            all_held: it is about all that is held. Else it may let the beginning of a long run go, and leave the rest to
                the next turns.

        Raises:
            ActionRefused: what the action raises; then nothing is written.
        """
        reads = partial(self._turn, queue, locked, 0, everything=empties, all_arrived=all_arrived)
        turn, _ = reads(all_held=all_held)
        if turn.is_short(acts=True):
            turn, _ = reads(all_held=True)
        acted = turn.act(action, empties=empties)
        self._decide(queue, acted.judged, [])
        return acted

    def _turn(
        self,
        queue: BoxQueue,
        locked: LockedGroups,
        at_most: int,
        *,
        everything: bool = False,
        all_arrived: bool = False,
        all_held: bool = False,
    ) -> TurnStart:
        """A turn of locked groups, with as much of what is queued in each as it has to know, or everything; and with the
        beginning of what arrived and of what is held, or all of it.

        What was committed after something that waits to be routed is left out; True where something waits.
        """
        queued = ALL if everything else queue.looked_at(at_most)
        portion = _portion(queue, len(locked.keys), at_most, all_arrived=all_arrived, all_held=all_held)
        parameters = {
            "queue_id": queue.queue_id, "group_keys": locked.keys, "at_most": queued, **portion,
            "fresh": _FRESH,
            **self._where_unrouted(),
        }  # fmt: skip
        name = "turn_dialogs" if queue.serves else "turn"
        (row,) = self._transaction.rows(name, **parameters)
        return _turn_of(queue, locked, row, at_most, portion)

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
        """What was released before, of the next group that has some or the named one, and lock that group.

        Args:
            queue: whose group.
            limit: at most so many messages, or a whole set.
            group: this one.
            definitions: what is defined.
            arrived: and what has arrived behind it, in a queue that `is_fifo` and not `Definitions.collecting`: no rule
                has to be asked.
            after: do this and commit, before, and hand out in another transaction.

        Returns:
            None where a group has to be judged first; the version of the definitions, if there is anything.
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
        """The next messages of a queue without order, each locked for itself; else as `hand_out`."""
        parameters = {"of_queue": queue.queue_id, "at_most": limit, "from_rank": self._from_rank(queue)}
        rows = self._transaction.rows("take_unordered", **parameters)
        if not rows:
            return None, definitions.version
        none: list[int | None] = [None] * len(rows)
        handed = HandedMessages(None, 0, [row.entry_id for row in rows], none, none, [False] * len(rows))
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
        messages = [
            received_of(row, queue, definitions, sequence, ordinal, late, parts.get(entry_id, ()))
            for row, entry_id, sequence, ordinal, late in zip(
                rows, handed.entry_ids, sequences, handed.ordinals, handed.late, strict=True
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
        """What PostgreSQL is asked by, what has become of a delivery in a transaction of an application's."""
        named = {"of_queue": ends.queue_id, "of_group": ends.group, "entry_ids": ends.entry_ids}
        return named | {"handed": self._transaction.value("handed_by", **named), "put": None}

    def _standing(self, joined: dict[str, Any]) -> DeliveryStatus:
        """What has become of a delivery. An application that has ended the transaction isn't left with another one."""
        if self._transaction.access is None or not is_idle(self._transaction.connection):
            return DeliveryStatus(*self._transaction.one("standing", **joined))
        with self._transaction.access.transaction() as transaction:
            return DeliveryStatus(*transaction.one("standing", **joined))

    def _end_after(self, ends: DeliveryEnds, joined: dict[str, Any] | None, count: int) -> None:
        """Complete the first `count` of what was handed out, and put the others back."""
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
        """Put back what an application has committed without ending it, whatever becomes of its next transaction."""
        if ends.group is not None and self._transaction.access is not None:
            with self._transaction.access.transaction() as transaction:
                transaction.do("put_back_committed", **ends.back())

    def _execute(self, completion: Completion) -> None:
        self._transaction.do(completion.name, **completion.parameters)


def _portion(
    queue: BoxQueue, groups: int, at_most: int, *, all_arrived: bool = False, all_held: bool = False
) -> dict[str, int]:
    """How much a turn of so many groups reads. A round that is a call takes in all that arrived."""
    calls = any(isinstance(one, BestEffort) and one.window is None for one in queue.declared.all_policies())
    return {
        "most_arrived": ALL if calls or all_arrived else PORTION.arrived_of(groups, at_most),
        "most_held": ALL if all_held else PORTION.held,
    }


def _turn_of(queue: BoxQueue, locked: LockedGroups, row: Any, at_most: int, portion: dict[str, int]) -> TurnStart:
    """The turn of locked groups, by the row that says all about them."""
    known = (row.group_keys, row.incarnations, row.states, row.skipped, row.group_arrivals, row.decided)
    groups = [GroupRow(*one) for one in zip(*(each or () for each in known), strict=True)]
    asked = (row.request_places, row.request_ids, row.actions)
    requests = [Request(*one) for one in zip(*(each or () for each in asked), strict=True)]
    entries = Entries.of(row)
    turn = Turn(
        queue.declared.policy_of(locked.keys[0]),
        locked.keys,
        groups,
        entries,
        locked.now_us,
        at_most,
        requests,
        queue.incarnation,
        **portion,
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
