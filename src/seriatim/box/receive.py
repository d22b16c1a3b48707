"""Receive: lock and return the next messages of a queue; wait outside a transaction if necessary."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto

from seriatim.box.connection.access import Transaction
from seriatim.box.connection.fast_paths import FIFO_IN_SQL
from seriatim.box.connection.round_trip import NotCommitted
from seriatim.box.definitions.definition import BoxQueue, Definitions
from seriatim.box.dialogs.clock import fire_due, transmit_to
from seriatim.box.faults.lost_turns import next_trial, reap
from seriatim.box.publishing.sql_arrivals import is_unrouted, route_pending
from seriatim.box.turns.delivery import Completion, Delivery
from seriatim.box.turns.failed_turns import is_of_turn, set_failing_apart
from seriatim.box.turns.locked_groups import LockedGroups
from seriatim.box.turns.separate_transaction import SeparateTransaction
from seriatim.box.turns.turn_reading import TurnStart
from seriatim.box.turns.turn_result import TurnResult
from seriatim.box.turns.turns import Turns
from seriatim.box.turns.waiting import Waiter
from seriatim.errors import ActionRefused, InvariantBroken, UsageError
from seriatim.pipeline.text.command import command

#: The number of groups that are judged at once: if they have nothing to hand out, and if they stay locked afterwards.
_GROUPS_AHEAD, _GROUPS_LOCKED = 256, 16
#: A transaction that has received so many messages of a group in a row passes over what it has completed each time it looks for arrivals.
_LONG = 100
#: A turn that judges fewer messages than this costs more than the messages themselves.
_FEW = 10
#: A receiver with at least this limit usually gets all messages of a group; with a lower limit most are only judged.
_RUN = 20
#: In both cases the next groups are judged together, if enough messages wait: the most groups, and about how many messages.
_NEXT_GROUPS, _NEXT_MESSAGES = 64, 1280


class _Then(Enum):
    """What follows a step of a look: the next step; the first one; or other messages than those of groups that are ready."""

    ON = auto()
    AGAIN = auto()
    ELSE = auto()


@dataclass(slots=True)
class _Look:
    """What a look for messages of groups knows so far."""

    queue: BoxQueue
    #: Whether the next groups may be judged together with the locked one.
    judges_next: bool
    #: Whether messages that were published through SQL are routed before what came after them.
    is_wary: bool = True
    #: Whether the wait is over, and only what was set free is handed out yet.
    is_last: bool = False
    locked: LockedGroups = field(init=False)
    begun: TurnStart | TurnResult | None = None
    judged: TurnResult | None = None


class Receiver:
    def __init__(
        self,
        transaction: Transaction,
        queue: str,
        limit: int,
        *,
        group: str | None,
        apart: SeparateTransaction,
        after: Completion | None = None,
        ends_wait: Callable[[], bool] | None = None,
        tries: bool = False,
        by_regions: bool = False,
        handed: int = 0,
    ) -> None:
        self._transaction = transaction
        #: How many messages of the last group this transaction has received in a row.
        self._handed = handed
        self._turns = self._turns_on(transaction)
        self._name = queue
        self._limit = limit
        self._group = group
        #: Returns transactions for work that must be committed even if the session rolls back.
        self._apart = apart
        #: Execute this statement and commit first, in one round trip with the first attempt to receive.
        self._after = after
        self._ends_wait = ends_wait or (lambda: False)
        #: Whether groups whose last turn was rolled back are put on trial, see `lost_turns.py`; for workers, which record what they begin.
        self._tries = tries
        #: Whether the worker of a region receives, which asks the journal before it handles anything.
        self._by_regions = by_regions
        self._definitions = transaction.access.known.definitions
        #: When the wait is over; without a wait never, so that None means that there is nothing to hand out.
        self._deadline = math.inf
        self._is_waiting = False

    def receive(self, wait_s: float) -> Delivery | None:
        """Return the next messages; if there are none, wait some seconds for messages. To wait, the transaction must have done nothing yet.
        However much has to be judged before a message can be handed out, the wait ends with the first turn after its time; the judged
        messages stay judged, and the next call goes on there.
        """
        if wait_s:
            self._deadline = time.monotonic() + wait_s
            self._is_waiting = True
        found = self._next()
        if found is not None or not wait_s or self._is_over():
            return found
        waiter = Waiter(self._transaction, self._queue().queue_id, self._ends)
        with waiter.waiting():
            while True:
                waiter.ask()  # at most judged messages are committed
                found = self._next()
                left = self._deadline - time.monotonic()
                if found is not None or self._is_over():
                    return found
                # As a rule a notified receiver finds something, and needn't register again before.
                if waiter.wait(max(left, 0.0)):
                    if (found := self._next()) is not None:
                        return found
                    if self._group is not None:  # the new message may be for a receiver of another group
                        waiter.pass_on()

    def _next(self) -> Delivery | None:
        """Return the next messages. A group at which the turn fails is set apart, unless the transaction is the caller's."""
        while True:
            try:
                return self._next_turn()
            except NotCommitted:
                raise
            except Exception as error:
                if not is_of_turn(error, self._transaction.access.place):
                    raise
                if not self._set_failing_apart():
                    where = f"{self._transaction.access.place}, queue {self._name!r}"
                    raise InvariantBroken(f"a turn failed: {type(error).__name__}: {error}", where=where) from error

    def _set_failing_apart(self) -> bool:
        """Return whether a turn failed at groups that are set apart now, because the transaction is this call's and any group will do."""
        queue = self._definitions.queues.get(self._name)
        if not self._apart.is_free or queue is None or not queue.has_groups or self._group is not None:
            return False
        self._transaction.connection.rollback()
        return set_failing_apart(self._apart, queue, lambda one, most: self._turns_on(one).lock(queue, most)) > 0

    def _next_turn(self) -> Delivery | None:
        queue, trials = self._queue(), self._transaction.access.trials
        # Groups on trial come after the others; one is tried once a second even while others are ready.
        if self._group is None and self._after is None and trials.is_due(queue.queue_id):
            delivery = self._next_on_trial(queue)
            return self._next_ready(queue) if delivery is None else delivery
        return self._next_ready(queue)

    def _next_ready(self, queue: BoxQueue) -> Delivery | None:
        at = _Look(queue, judges_next=self._apart.is_free)
        while at.queue.has_groups:
            for step in self._STEPS:
                then = step(self, at)
                if isinstance(then, Delivery):
                    return then
                if then is _Then.AGAIN:
                    break
                if then is _Then.ELSE:
                    return self._next_on_trial(at.queue)
        return self._next_unordered(at.queue)

    def _hand_out(self, at: _Look) -> Delivery | _Then:
        delivery, at.queue = self._released(at.queue)
        return _Then.ON if delivery is None else delivery

    def _begin(self, at: _Look) -> Delivery | _Then:
        self._serve(at.queue)
        after, self._after = self._after, None
        at.locked, at.begun = self._turns.begin(at.queue, self._limit, self._group, self._definitions.version, after)
        at.queue, at.judged = self._see(at.locked.version), None
        return _Then.ON if at.queue.has_groups else _Then.AGAIN  # it had none when it was asked

    def _judge(self, at: _Look) -> Delivery | _Then:
        """Judge the group; what was published before its messages, through SQL, is routed before."""
        if at.locked.keys:
            at.judged = self._turns.look(at.queue, at.locked, self._limit, wary=at.is_wary, begun=at.begun)
            if at.judged is None:
                self._route()
                at.is_wary = False  # messages from now on only hold up later ones
                return _Then.AGAIN
        return _Then.ON

    def _judge_more(self, at: _Look) -> Delivery | _Then:
        """Judge it with the next groups, if a turn of it alone isn't worth it."""
        if (
            at.judged is not None
            and at.judges_next
            and at.locked.many
            and self._judge_next(at.queue, at.locked, at.judged)
        ):
            at.judges_next = False  # otherwise the same messages would be judged for ever
            return _Then.AGAIN
        return _Then.ON

    def _give(self, at: _Look) -> Delivery | _Then:
        """Hand out what the turn has released, unless the group is put on trial."""
        delivery = None if at.judged is None else self._deliver(at.queue, at.locked, at.judged)
        if delivery is None:
            return _Then.ON
        return _Then.AGAIN if self._begins_trial(at.queue, delivery) else delivery

    def _find_work(self, at: _Look) -> Delivery | _Then:
        """Do work that may free messages; what was freed after the wait is over is handed out yet."""
        goes_on = self._go_on(at.queue, at.locked, at.judged)
        if not goes_on and at.locked.has_expired is not False:
            goes_on = reap(self._transaction, at.queue, self._apart) > 0
        if at.is_last or not goes_on:
            return _Then.ELSE
        at.is_last = self._is_over()
        return _Then.AGAIN

    #: A look for messages of groups, in this order.
    _STEPS = (_hand_out, _begin, _judge, _judge_more, _give, _find_work)

    def _released(self, queue: BoxQueue) -> tuple[Delivery | None, BoxQueue]:
        """Hand out messages that were released before; return also the present queue."""
        # A turn knows how far the gate lets it hand out, and where the next set of a group begins.
        if queue.gate_id is not None or queue.begins_again:
            return None, queue
        # At a gate a turn mostly hands out all that it releases. A turn also hands out what another process's turn has left there.
        released = self._transaction.access.released
        if queue.origin_id is not None and queue.queue_id not in released:
            return None, queue
        after, self._after = self._after, None
        # Of a group of which the transaction has received much, a turn judges the rest in a few steps.
        arrived = self._handed < _LONG and FIFO_IN_SQL.applies((queue, self._definitions))
        delivery, version = self._turns.hand_out(
            queue, self._limit, self._group, self._definitions, arrived=arrived, after=after
        )
        if delivery is None and self._group is None:
            released.discard(queue.queue_id)
        return delivery, self._see(version)

    def _deliver(self, queue: BoxQueue, locked: LockedGroups, judged: TurnResult) -> Delivery | None:
        delivery = self._turns.deliver(queue, locked, judged, self._definitions)
        # A smaller rest leaves with later messages, by a turn.
        if queue.origin_id is not None and judged.left >= (self._limit if judged.arrived else 1):
            self._transaction.access.released.add(queue.queue_id)
        self._transaction.notice(*judged.notices(queue, locked.keys))
        return delivery

    def _go_on(self, queue: BoxQueue, locked: LockedGroups, judged: TurnResult | None) -> bool:
        """If nothing could be handed out, do work that may change that; return False if there is no such work."""
        if judged is not None and judged.more:
            if self._apart.is_free:  # judged messages stay judged, and the next turn doesn't repeat it
                self._transaction.commit()
            return True
        if locked.unrouted:
            return self._route()
        if not locked.keys or self._group is not None:
            return False
        self._judge_ahead(queue)
        return True

    def _next_unordered(self, queue: BoxQueue) -> Delivery | None:
        is_last = False
        while True:
            delivery, version = self._turns.take_unordered(queue, self._limit, self._definitions, wary=self._tries)
            if delivery is None:
                version = self._transaction.definitions().version
            now = self._see(version)
            if (now.queue_id, now.declared.policy) != (queue.queue_id, queue.declared.policy):
                return self._next()  # another queue, or another order
            if delivery is not None:
                return delivery
            if is_last or not (self._route() or reap(self._transaction, queue, self._apart)):
                return self._next_on_trial(queue)
            is_last = self._is_over()

    def _serve(self, queue: BoxQueue) -> None:
        """Do due work of dialogs, in the queue of a service."""
        if queue.serves:
            fire_due(self._transaction, self._apart, self._is_over)
            transmit_to(self._transaction, queue, self._apart)

    def _begins_trial(self, queue: BoxQueue, delivery: Delivery) -> bool:
        """Put a group on trial whose last turn was rolled back; then its messages are put back."""
        is_suspected = delivery.is_marked and not (delivery.on_trial or queue.counts_rollbacks)
        if not (is_suspected and self._tries and self._group is None and self._apart.is_free):
            return False
        delivery.put_back()
        # In one transaction: its commit unlocks the group, and takes the mark away.
        self._transaction.do("begin_trial", of_queue=queue.queue_id, of_group=delivery.group, how_many=self._limit)
        self._transaction.commit()
        return True

    def _next_on_trial(self, queue: BoxQueue) -> Delivery | None:
        """Hand out the next message that is on trial; without groups only workers try any."""
        if self._group is not None or not (queue.has_groups or self._tries):
            return None
        found = next_trial(self._transaction, queue, self._apart)
        if found is None:
            return None
        group, entry_id = found
        if group is not None:
            named = Receiver(
                self._transaction, self._name, 1, group=group, apart=self._apart, tries=self._tries,
                by_regions=self._by_regions,
            )  # fmt: skip
            delivery = named._next()
        else:
            delivery, _ = self._turns.take_unordered(queue, 1, self._definitions, only=entry_id)
        if delivery is not None:
            delivery.on_trial = True
        return delivery

    def _route(self) -> bool:
        """Route what came by SQL; return whether anybody routed any. Where the role may not, nothing later is judged until others do."""
        if not is_unrouted(self._transaction):
            return False
        # Nothing is left where the transaction sees messages that others don't: its own, which it has numbered already.
        done = route_pending(self._transaction.access, self._apart, self._is_over)
        return done > 0 or not is_unrouted(self._transaction)

    def _judge_ahead(self, queue: BoxQueue) -> None:
        """Judge other groups, in a separate transaction if possible: a turn that hands nothing out needs no lock afterwards."""
        with self._apart() as transaction:
            how_many = (
                _GROUPS_LOCKED
                if transaction.connection is self._transaction.connection and not self._apart.is_free
                else _GROUPS_AHEAD
            )
            locked = self._turns_on(transaction).lock(queue, how_many)
            self._turns_on(transaction).judge_all(queue, locked)

    def _judge_next(self, queue: BoxQueue, own: LockedGroups, judged: TurnResult) -> bool:
        """If a turn of the locked group alone isn't worth it, judge it with the next groups, and unlock them."""
        if not judged.handed or (judged.arrived >= _FEW and self._limit >= _RUN):
            return False
        groups = min(_NEXT_GROUPS, _NEXT_MESSAGES // max(judged.arrived, 1))
        # It finds the own group as well, for the transaction has its lock.
        locked = self._turns.lock_ahead(queue, groups + 1) if groups else own._replace(keys=[])
        if not locked.keys:
            return False
        others = [key for key in locked.keys if key not in own.keys]
        self._turns.judge_all(queue, locked._replace(keys=own.keys + others))
        self._transaction.commit()
        return True

    def _is_over(self) -> bool:
        return time.monotonic() >= self._deadline or (self._is_waiting and self._ends())

    def _ends(self) -> bool:
        """Return whether the wait is to end: by the caller, or by the box for waits without end."""
        return self._ends_wait() or (self._deadline == math.inf and self._transaction.access.ending.is_set())

    def _turns_on(self, transaction: Transaction) -> Turns:
        return Turns(transaction, heads=transaction.access.heads, handed=self._handed)

    def _queue(self) -> BoxQueue:
        """Return the queue as the process knows it; if unknown, read it from the box."""
        queue = self._definitions.queues.get(self._name)
        if queue is None or not queue.is_open or self._has_no(queue):
            queue = self._read().queue(self._name)
        _check_open(queue, by_regions=self._by_regions)
        if self._has_no(queue):
            raise UsageError(f"queue {self._name!r} has no groups", remedy="it is Unordered; receive without a group")
        return queue

    def _has_no(self, queue: BoxQueue) -> bool:
        """Whether a group is named, but the queue has none."""
        return self._group is not None and not queue.has_groups

    def _see(self, version: int) -> BoxQueue:
        if version != self._definitions.version:
            self._read()
        return self._queue()

    def _read(self) -> Definitions:
        self._definitions = self._transaction.access.known.read(self._transaction)
        return self._definitions


def _check_open(queue: BoxQueue, *, by_regions: bool) -> None:
    queue.check_received_here(by_regions=by_regions)
    where = f"queue {queue.declared.name!r}"
    if not queue.enabled:
        raise ActionRefused("the queue is off", where=where, remedy=command("queue", "on", queue.declared.name))
    if queue.owner is not None:
        raise ActionRefused(
            f"the queue belongs to the pipeline {queue.owner!r}",
            where=where,
            remedy=f"let that pipeline read it, or release it: {command('queue', 'release', queue.declared.name)}",
        )
