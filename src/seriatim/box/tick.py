"""`tick`: do due work without receiving: route messages published through SQL, fire timers, retry groups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from seriatim.box.connection.access import Access
from seriatim.box.connection.chore import ChoreTaken
from seriatim.box.connection.queue_heads import EVERYTHING
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.dialogs.clock import fire, forget_closed, transmit
from seriatim.box.faults.lost_turns import count_rollbacks, reap
from seriatim.box.operators.recover import recover
from seriatim.box.postgres.translate import translated
from seriatim.box.publishing.schedules import publish_due, schedules_put_right
from seriatim.box.publishing.sql_arrivals import route_pending
from seriatim.box.turns.failed_turns import tell
from seriatim.box.turns.separate_transaction import SeparateTransaction
from seriatim.box.turns.turns import Turns
from seriatim.errors import DeploymentError, EnvironmentProblem, Unavailable

#: The groups of one transaction.
_GROUPS = 256
#: How much higher the rank of a message of the lowest priority is than a usual one, microseconds.
_LOWEST_PRIORITY_US = 40_000_000


@dataclass(frozen=True, slots=True)
class Tick:
    """The counts of a tick.

    Args:
        routed: messages that were published through SQL, and are routed now.
        groups: groups that were judged, for a due timer or for messages that had arrived.
        recovered: faulted groups that were retried.
        dialogs: dialogs with a due timer or an ended lifetime.
        scheduled: messages that were published for schedules.
        put_right: groups, leases, dialogs, streams of links and schedules that waited by a clock that was ahead, and count from now.
        failed: the groups, or the queues, at which it failed, each with the error; everything else was done.
    """

    routed: int
    groups: int
    recovered: int = 0
    dialogs: int = 0
    scheduled: int = 0
    put_right: int = 0
    failed: tuple[str, ...] = ()


def tick(access: Access, *, at_once: bool = False) -> Tick:
    """Route waiting messages, judge what has arrived, fire due timers, and retry faulted groups with `recoveries`; hand out nothing.
    Schedules whose time has come publish their messages, if the role is the owner of the box. First it numbers messages that got no number
    because a trigger was switched off. For dialogs it fires timers, ends lifetimes, delivers messages of the transmission queue if that is
    possible now, and deletes dialogs that were closed long ago. A locked group is left to its turn, which fires its timers. Leases that ran
    out are removed. A group or a queue at which it fails keeps no other from being looked at.
    """
    with access.transaction() as transaction:
        transaction.check_enabled()
        transaction.do("number_left")
        transaction.do("drop_deliveries")
    put_right = _by_owner(lambda: _others_put_right(access)) if at_once else 0
    scheduled = _by_owner(lambda: publish_due(access).published)
    routed, groups, dialogs = route_pending(access), 0, fire(access)
    with access.transaction() as transaction:
        definitions = transaction.definitions()
        forget_closed(transaction)
        transmit(transaction)
    failures = _Failures(access.place)
    for queue in definitions.queues.values():
        with failures.noted(queue):
            with access.transaction() as transaction:
                reap(transaction, queue, SeparateTransaction(transaction, is_free=True))
                transaction.do("drop_trials", of_queue=queue.queue_id)
            if at_once:
                put_right += _put_right(access, queue)
            groups += _judged(access, queue, failures) if queue.is_open and queue.has_groups else 0
    recovered = _by_owner(lambda: recover(access, ahead=at_once))
    return Tick(routed, groups, recovered, dialogs, scheduled, put_right, tuple(failures.told))


def judge(access: Access, queue_id: int) -> None:
    """Do for one queue what its receivers in SQL can't: route, fire timers, count lost leases and rollbacks, judge; then wake them."""
    route_pending(access)
    with access.transaction() as transaction:
        named = {one.queue_id: one for one in transaction.definitions().queues.values()}
    if (queue := named.get(queue_id)) is None or not queue.is_open or queue.regions is not None:
        return
    failures = _Failures(access.place)
    with failures.noted(queue):
        if queue.serves:
            fire(access)
            with access.transaction() as transaction:
                transmit(transaction)
        with access.transaction() as transaction:
            apart = SeparateTransaction(transaction, is_free=True)
            worked = reap(transaction, queue, apart) + count_rollbacks(transaction, queue, apart)
        if queue.has_groups:
            worked += _judged(access, queue, failures, everything=True)
        if worked:
            with access.transaction() as transaction:
                transaction.do("call_all_waiters", of_queues=[queue_id])


class _Failures:
    """The groups and queues at which a tick fails."""

    def __init__(self, place: str) -> None:
        self._place = place
        #: In words, each once.
        self.told: dict[str, None] = {}

    @contextmanager
    def noted(self, queue: BoxQueue, group: str | None = None) -> Iterator[None]:
        """Note and log the failure of the block, unless the whole box is away or another one."""
        name = queue.declared.name
        try:
            with translated(self._place):
                yield
        except (Unavailable, DeploymentError, ChoreTaken):
            raise
        except Exception as error:  # noqa: BLE001 -- whatever it is, the others are looked at
            where = f"queue {name!r}" if group is None else f"queue {name!r}, group {group!r}"
            if (warning := f"{where}: {error}") not in self.told:
                self.told[warning] = None
                tell(name, group)


def _judged(access: Access, queue: BoxQueue, failures: _Failures, *, everything: bool = False) -> int:
    """Judge the groups with due timers, or with messages to judge; return their number. Groups that fail together go one by one."""
    keys: set[str] = set()
    from_rank, until_rank, more = EVERYTHING if queue.holds or everything else None, None, True
    while more:
        with access.transaction() as transaction:
            turns = Turns(transaction)
            locked, through = turns.lock_due(queue, _GROUPS, from_rank, until_rank)
            try:
                more = turns.judge_all(queue, locked)
            except Exception:  # noqa: BLE001 -- whose fault it is shows when each is judged alone
                transaction.connection.rollback()
                more, alone = False, list(locked.keys)
            else:
                alone = []
        for key in alone:
            with failures.noted(queue, key), access.transaction() as transaction:
                turns = Turns(transaction)
                turns.judge_all(queue, turns.lock(queue, group=key))
        # A group with more messages may have them at a lower rank than the judged ones: arrival and rank differ by priority.
        all_judged = not more
        # If it finds only groups that it has seen, no process can judge them: an earlier message waits to be routed.
        known = len(keys)
        keys.update(locked.keys)
        more |= len(keys) > known and (len(locked.keys) == _GROUPS or through is not None)
        if from_rank is not None and through is not None and all_judged:
            more |= through > from_rank
            from_rank = through
        until_rank = until_rank or locked.now_us + _LOWEST_PRIORITY_US
    return len(keys)


def _put_right(access: Access, queue: BoxQueue) -> int:
    """Begin anew the periods in a queue that count from a future time; some groups in a transaction."""
    put_right, after = 0, None
    while True:
        with access.transaction() as transaction:
            row = transaction.one("put_right", of_queue=queue.queue_id, named=None, after=after)
        put_right, after = put_right + row.moved, row.through
        if after is None:
            return put_right


def _others_put_right(access: Access) -> int:
    """The same beside queues: for dialogs, links, schedules and processes."""
    with access.transaction() as transaction:
        return transaction.value("put_right_others") + schedules_put_right(transaction)


def _by_owner(work: Callable[[], int]) -> int:
    """What work has done; 0 by a role that isn't the owner."""
    try:
        return work()
    except EnvironmentProblem:
        return 0
