"""`tick`: do due work without receiving: route messages published through SQL, fire timers, retry groups."""

from __future__ import annotations

from dataclasses import dataclass

from seriatim.box.connection.access import Access
from seriatim.box.dialogs.clock import fire, forget_closed
from seriatim.box.dialogs.transmission import transmit
from seriatim.box.faults.expired_leases import reap
from seriatim.box.operators.recover import recover
from seriatim.box.publishing.sql_arrivals import route_pending
from seriatim.box.turns.apart import SeparateTransaction
from seriatim.box.turns.turns import Turns
from seriatim.kernel.policy import Unordered

__all__ = ["Tick", "tick"]

#: Groups of one transaction.
_GROUPS = 256


@dataclass(frozen=True, slots=True)
class Tick:
    """What a tick did: `routed` messages, `groups` whose timers were due, faulted groups that were `recovered`, and `dialogs`
    whose timer or lifetime was over.
    """

    routed: int
    groups: int
    recovered: int = 0
    dialogs: int = 0


def tick(access: Access) -> Tick:
    """Route what waits, judge each group that has a timer which is due, and retry what recovers; nothing is handed out.

    What was never numbered, because somebody had switched off a trigger, is numbered first.

    Of dialogs: timers and lifetimes; what waits in the transmission queue is delivered, if it can be now; and those that
    have been closed for long are forgotten.

    A group that somebody works on is passed over: that turn fires its timers. A lease that has run out is taken away.

    Raises:
        EnvironmentProblem: the role may not route, or not receive from each of the queues.
        Unavailable: the transaction has to be repeated.
    """
    with access.transaction() as transaction:
        transaction.do("number_left")
    routed, groups, dialogs = route_pending(access), 0, fire(access)
    with access.transaction() as transaction:
        definitions = access.known.current(transaction)
        forget_closed(transaction)
        transmit(transaction)
    for queue in definitions.queues.values():
        with access.transaction() as transaction:
            reap(transaction, queue, SeparateTransaction(transaction, is_free=True))
        more = queue.enabled and queue.owner is None and not isinstance(queue.declared.policy, Unordered)
        while more:
            with access.transaction() as transaction:
                turns = Turns(transaction)
                locked = turns.lock_due(queue, _GROUPS)
                turns.judge_all(queue, locked)
            groups += len(locked.keys)
            more = len(locked.keys) == _GROUPS
    return Tick(routed, groups, recover(access), dialogs)
