"""`tick`: do due work without receiving: route messages published through SQL, fire timers, retry groups."""

from __future__ import annotations

from dataclasses import dataclass

from seriatim.box.connection.access import Access
from seriatim.box.dialogs.clock import fire, forget_closed
from seriatim.box.dialogs.transmission import transmit
from seriatim.box.faults.expired_leases import reap
from seriatim.box.operators.recover import recover
from seriatim.box.publishing.sql_arrivals import route_pending
from seriatim.box.turns.separate_transaction import SeparateTransaction
from seriatim.box.turns.turns import Turns

__all__ = ["Tick", "tick"]

#: Groups of one transaction.
_GROUPS = 256


@dataclass(frozen=True, slots=True)
class Tick:
    """The counts of a tick: `routed` messages, `groups` with due timers, `recovered` groups, and `dialogs` with a due
    timer or an ended lifetime.
    """

    routed: int
    groups: int
    recovered: int = 0
    dialogs: int = 0


def tick(access: Access) -> Tick:
    """Route waiting messages, fire due timers, and retry faulted groups with `recoveries`; hand out nothing.

    First it numbers messages that got no number because a trigger was switched off.

    For dialogs it fires timers, ends lifetimes, delivers messages of the transmission queue if that is possible now, and
    deletes dialogs that were closed long ago.

    A locked group is left to its turn, which fires its timers. Leases that ran out are removed.

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
        more = queue.is_open and queue.has_groups
        while more:
            with access.transaction() as transaction:
                turns = Turns(transaction)
                locked = turns.lock_due(queue, _GROUPS)
                turns.judge_all(queue, locked)
            groups += len(locked.keys)
            more = len(locked.keys) == _GROUPS
    return Tick(routed, groups, recover(access), dialogs)
