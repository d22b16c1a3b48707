"""The checks of `seriatim doctor` for work that stands still: one function for each finding, listed in `CHECKS`.

They look at what a person looks at when something stands still, in one statement each. A finding is wrong if nothing lets
the work go on but somebody's hand.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, TypeVar

from seriatim.box.box import MessageBox
from seriatim.box.connection.access import Transaction
from seriatim.box.views import needs
from seriatim.box.views.at_work import ReadyWork, ready_work
from seriatim.box.views.bulk_operations import BulkFilter, bulk_operations_of
from seriatim.box.views.connections import FORGOTTEN_S
from seriatim.box.views.queue_counts import QueueCounts, counts_of
from seriatim.box.views.workers import JudgeView, WorkerFilter, WorkerView, workers_of
from seriatim.operations.doctor.finding import Finding, State
from seriatim.operations.groups import groups, groups_by_error, standing
from seriatim.operations.period import period_of
from seriatim.operations.ports import ports
from seriatim.pipeline.text.command import command
from seriatim.pipeline.text.counted import counted

__all__ = ["CHECKS", "OF_QUEUE", "Work"]

#: Ready work at which nobody is seen, may be so young without a need for a hand.
PATIENCE_S = 30.0
#: A transaction that is open for longer holds back vacuum for too long.
LONG_TURN_S = 5.0
#: A message that is older than that is worth a look.
OLD_S = 3600.0
#: A queue of two regions that remembers so many sessions is worth a look: they stay for ever.
MANY_SESSIONS = 1_000_000
#: So many of the oldest sides of dialogs are looked at.
MOST_DIALOGS = 100_000
#: A finding names at most that many queues or transactions.
_MOST = 5
#: And at most that many errors.
_MOST_ERRORS = 3
_LONGEST_ERROR = 120
_SET_ASIDE = ("late", "invalid", "rejected")


_Row = TypeVar("_Row")
_Read = TypeVar("_Read")


class Work:
    """The work of a box at one moment; what several checks need is read once.

    Args:
        box: the box.
        queue: only the work in this queue, for the checks in `OF_QUEUE`; None: in all.
    """

    def __init__(self, box: MessageBox, queue: str | None = None) -> None:
        self.box, self.queue = box, queue

    def read(self, look: Callable[[Transaction], _Read]) -> _Read:
        with self.box.access.transaction() as transaction:
            return look(transaction)

    def rows(self, name: str, of: type[_Row], **parameters: Any) -> list[_Row]:
        """The rows of a statement; where they are about queues, those about the queue."""
        found = self.read(lambda transaction: transaction.rows(name, of, **parameters))
        return [one for one in found if self.queue in (None, getattr(one, "queue", self.queue))]

    @cached_property
    def counts(self) -> list[QueueCounts]:
        """The counts of all queues."""
        return self.read(lambda transaction: counts_of(transaction, self.queue))

    @cached_property
    def stopped(self) -> list[needs.StoppedGroups]:
        """The groups that are stopped, by queue and state."""
        return self.rows("stopped_by_state", needs.StoppedGroups)

    @property
    def gates(self) -> set[str]:
        """The names of the gates."""
        return {one.queue for one in self.counts if one.open_places is not None}

    @cached_property
    def ready(self) -> dict[str, ReadyWork]:
        """The queues that have something to hand out."""
        return {name: one for name, one in self.read(ready_work).items() if self.queue in (None, name)}


def _faulted(work: Work) -> Finding:
    found = _faulted_groups(work)
    having = [one for one in work.counts if one.faulted]
    if not having:
        return found
    told = _listed(
        [f"queue {one.queue!r}: {counted(one.faulted, 'message')} (each stops itself alone)" for one in having]
    )
    remedy = f"{command('messages', 'list', queue=having[0].queue, status='faulted')}; then retry or delete them"
    if found.state is not State.OK:
        return replace(found, found=f"{found.found}; {told}", remedy=f"{found.remedy}; of the messages: {remedy}")
    return replace(found, state=State.WRONG, found=told, remedy=remedy, queue=having[0].queue)


def _faulted_groups(work: Work) -> Finding:
    found = _stopped(work, "faulted", "no handler has stopped a group")
    if found.state is State.OK:
        return found
    errors = groups_by_error(work.box, work.queue, state="faulted")
    told = [f"{one.error} in {counted(one.count, 'group')}{_example(one.example)}" for one in errors[:_MOST_ERRORS]]
    more = len(errors) - len(told)
    said = f"{found.found}: {'; '.join(told)}{f'; and {more:,} more errors' if more else ''}"
    if not errors or errors[0].count == 1:
        return replace(found, found=said)
    together = f"mend the cause, then {command('group', 'retry', '--all', error=errors[0].error, queue=work.queue)}; look with --dry-run"
    return replace(found, found=said, remedy=f"{together}; one alone: {found.remedy}")


def _example(text: str | None) -> str:
    """The first line of an error, as far as it fits."""
    line = "" if text is None else text.partition("\n")[0]
    return "" if not line else f" ({line if len(line) <= _LONGEST_ERROR else line[: _LONGEST_ERROR - 1] + '…'})"


def _unended(work: Work) -> Finding:
    found = work.rows("unended_turns", needs.UnendedTurn)
    if not found:
        return Finding("unended", State.OK, "no message is handed out again and again without an end")
    told = [
        f"queue {one.queue!r}{'' if one.group is None else f', group {one.group!r}'}: message {one.message_id!r} was "
        f"handed out {counted(one.times, 'time')}, and its turn never ended"
        for one in found
    ]
    first = found[0]
    remedy = f"look for what kills its worker: memory, or a crash; {command('trace', of=first.message_id)}"
    return Finding("unended", State.WARNING, _listed(told), remedy)


def _suspended(work: Work) -> Finding:
    return _stopped(work, "suspended", "no group is suspended")


def _waiting(work: Work) -> Finding:
    return _stopped(work, "waiting", "no group waits for a missing number")


def _gates(work: Work) -> Finding:
    """What gates have waited for for long: it needs a hand, unless somebody works on it."""
    gates = work.gates
    if not gates:
        return Finding("gates", State.OK, "no queue has a gate")
    late = [
        standing(work.box, view.queue, view.group)
        for gate in sorted(gates)
        for view in groups(work.box, gate, state=("waiting", "timed_out"), standing=True, limit=_MOST)
    ]
    places = [(one.view, one.place) for one in late if one.place is not None]
    if not places:
        return Finding("gates", State.OK, "no gate has waited for long")
    told = _listed([f"gate {view.queue!r}, group {view.group!r}: {place.told}" for view, place in places])
    needing = [(view, place) for view, place in places if place.helps is not None]
    if not needing:
        return Finding("gates", State.OK, f"{told}; somebody works on it")
    view, place = needing[0]
    remedy = f"{place.helps}; {command('group', 'show', of=view.group, queue=view.queue)} says more"
    return Finding("gates", State.WRONG, told, remedy)


def _stopped(work: Work, name: str, none: str) -> Finding:
    """The groups that are stopped in a state; a time-out that has passed ends no waiting."""
    found = [one for one in work.stopped if one.state == name or (name, one.state) == ("waiting", "timed_out")]
    if name == "waiting":
        found = [one for one in found if one.queue not in work.gates]
    if not found:
        return Finding(name, State.OK, none)
    told = _listed([
        f"queue {one.queue!r}: {counted(one.groups, 'group')} ({one.group!r} since {_moment(one.since)})" for one in found
    ])  # fmt: skip
    needing = [one for one in found if one.needing]
    if not needing:
        return Finding(
            name,
            State.OK,
            f"{told}; none stands still: a hole does from its time-out on, or without one after a minute",
        )
    first = needing[0]
    best = next(iter(standing(work.box, first.queue, first.group).commands), None)
    show = command("group", "show", of=first.group, queue=first.queue)
    remedy = f"{show} says what helps; seriatim groups lists them" if best is None else f"{best}; {show} says more"
    return Finding(name, State.WRONG, told, remedy)


def _turns(work: Work) -> Finding:
    """The groups at which turns fail, though the others of their queues go on."""
    found = work.rows("groups_set_apart", needs.GroupSetApart)
    if not found:
        return Finding("turns", State.OK, "no turn of a group has failed within the minute")
    told = _listed([f"queue {one.queue!r}, group {one.group!r}{_example(one.error)}" for one in found])
    remedy = (
        "a bug of seriatim, or somebody wrote into its tables: the log has the traceback; it is tried again each minute"
    )
    return Finding("turns", State.WRONG, told, remedy)


def _restarts(work: Work) -> Finding:
    found = work.rows("suspected_restarts", needs.SuspectedRestarts)
    if not found:
        return Finding("restarts", State.OK, "no producer seems to have begun anew")
    told = [
        f"queue {one.queue!r}: the producer of {counted(one.groups, 'group')} ({one.group!r}) seems to have begun anew"
        for one in found
    ]
    first = found[0]
    restart, show = (command("group", verb, of=first.group, queue=first.queue) for verb in ("restart", "show"))
    remedy = f"{show} says more; {restart} begins it anew"
    return Finding("restarts", State.WRONG, _listed(told), remedy)


def _dead_letters(work: Work) -> Finding:
    having = [one for one in work.counts if one.dead]
    if not having:
        return Finding("dead letters", State.OK, "there are none")
    told = [f"queue {one.queue!r}: {one.dead:,}" for one in having]
    remedy = "seriatim dead-letters list --by error; then requeue or delete them"
    return Finding("dead letters", State.WRONG, _listed(told), remedy)


def _unrouted(work: Work) -> Finding:
    found = work.rows("unrouted_by_problem", needs.Unrouted)
    if not found:
        return Finding("unrouted", State.OK, "every message has found a queue")
    told = []
    for one in found:
        why = "published through SQL and not routed yet" if one.is_waiting else one.problem or "no subscription matches"
        kind = "" if one.type is None else f", such as type {one.type!r}"
        told.append(f"{counted(one.messages, 'message')}{kind}, since {_moment(one.since)}: {why}")
    stays = any(not one.is_waiting for one in found)
    remedy = (
        "define what is missing, then seriatim unrouted --resubmit; or seriatim messages delete --all --status unrouted"
    )
    routes = "start a receiver, seriatim serve, or seriatim box tick: they route"
    is_late = any(one.is_waiting and (one.age_s or 0) > PATIENCE_S for one in found)
    if not stays and not is_late:
        return Finding("unrouted", State.OK, _listed(told))
    return Finding("unrouted", State.WRONG, _listed(told), remedy if stays else routes)


def _dialogs(work: Work) -> Finding:
    found = work.rows("unended_dialogs", needs.UnendedDialogs, most=MOST_DIALOGS)
    if not found:
        return Finding("dialogs", State.OK, "no service has left a dialog open that the other side has ended")
    told = [
        f"service {one.service!r} hasn't ended {counted(one.dialogs, 'dialog')} that the other side has ended or failed "
        f"(the oldest since {_moment(one.since)})"
        for one in found
    ]
    remedy = (
        f"end the dialog when EndDialog or Error comes: tx.end(message.dialog.handle) at the receivers of queue {found[0].queue!r}; "
        f"those that are there: seriatim dialogs cleanup --state DI, then --state ER"
    )
    return Finding("dialogs", State.WARNING, _listed(told), remedy)


def _far_dialogs(work: Work) -> Finding:
    """What sides of dialogs have said to other boxes, and what these don't acknowledge; and what can't be obeyed here."""
    found = work.rows("unanswered_dialogs", needs.UnansweredDialogs, older_than=timedelta(seconds=PATIENCE_S))
    if not found:
        return Finding("far dialogs", State.OK, "other boxes have acknowledged what dialogs have said")
    broken = [one for one in found if one.problem is not None]
    told = [
        f"link {one.link!r}: {counted(one.dialogs, 'side')}, the oldest since {_moment(one.since)} ({one.key}), "
        + ("not acknowledged" if one.problem is None else f"can't take what came: {one.problem}")
        for one in broken or found
    ]
    if broken:
        return Finding(
            "far dialogs",
            State.WRONG,
            _listed(told),
            "it is tried again each minute; seriatim dialogs end HANDLE --cleanup ends one",
        )
    remedy = (
        "seriatim dialogs list --unanswered 1m tells why; if that box never comes back: seriatim dialogs end HANDLE --cleanup, and "
        "seriatim link remove LINK"
    )
    return Finding("far dialogs", State.WARNING, _listed(told), remedy)


def _requests(work: Work) -> Finding:
    found = work.rows("unanswered_requests", needs.UnansweredRequests, seconds=OLD_S)
    if not found:
        return Finding("requests", State.OK, "no request has waited long for its reply")
    told = [
        f"{counted(one.requests, 'request')} for {one.reply!r} without a reply, the oldest since {_moment(one.since)}"
        for one in found
    ]
    return Finding("requests", State.WARNING, _listed(told), command("trace", found[0].message_id))


def _sessions(work: Work) -> Finding:
    found = work.rows("remembered_sessions", needs.RememberedSessions, most=MANY_SESSIONS)
    if not found:
        return Finding("sessions", State.OK, "no queue belongs to two regions")
    many = [one for one in found if one.sessions >= MANY_SESSIONS]
    size = f"the sessions of all queues take {found[0].bytes / 1e6:,.0f} MB here"
    if not many:
        return Finding("sessions", State.OK, f"no queue remembers {MANY_SESSIONS:,} sessions; {size}")
    told = _listed([f"queue {one.queue!r} remembers {one.sessions:,} sessions or more" for one in many])
    remedy = (
        "where keys ascend with time, and sessions are used once: seriatim regions forget FILE QUEUE --before KEY --reason TEXT; "
        "rows of idle groups go by expire_after of the queue and seriatim box purge --forget-expired"
    )
    return Finding("sessions", State.WARNING, f"{told}; {size}", remedy)


def _set_aside(work: Work) -> Finding:
    told, first = [], None
    for one in work.counts:
        counts = [(getattr(one, what), what) for what in _SET_ASIDE if getattr(one, what)]
        if counts:
            first = first or (one.queue, counts[0][1])
            told.append(f"queue {one.queue!r}: {', '.join(f'{count:,} {what}' for count, what in counts)}")
    if first is None:
        return Finding("set aside", State.OK, "nothing is late, invalid or rejected")
    remedy = f"{command('messages', 'list', queue=first[0], status=first[1])}; then requeue, resubmit or delete"
    return Finding("set aside", State.WARNING, _listed(told), remedy)


def _off(work: Work) -> Finding:
    off = [one for one in work.counts if not one.enabled]
    if not off:
        return Finding("queues off", State.OK, "all queues are on")
    told = [f"queue {one.queue!r}, with {counted(_there(one), 'message')}" for one in off]
    having = [one for one in off if _there(one)]
    helped = [one.queue for one in (having or off)[:_MOST]]
    state = State.WRONG if having else State.WARNING
    return Finding("queues off", state, _listed(told), command("queue", "on", *helped), queue=helped[0])


def _full(work: Work) -> Finding:
    full = [one for one in work.counts if one.is_full]
    if not full:
        return Finding("queues full", State.OK, "no queue is full")
    told = [f"queue {one.queue!r}, with {counted(_there(one), 'message')}" for one in full]
    remedy = f"{command('groups', queue=full[0].queue)}; if none of them is stopped, start more workers"
    return Finding("queues full", State.WRONG, _listed(told), remedy, queue=full[0].queue)


def _oldest(work: Work) -> Finding:
    having = [one for one in work.counts if one.age_s is not None]
    if not having:
        return Finding("oldest", State.OK, "all queues are empty")
    first = max(having, key=lambda one: one.age_s or 0)
    found = f"the oldest message is {period_of(first.age_s or 0)} old, in queue {first.queue!r}"
    if (first.age_s or 0) <= OLD_S:
        return Finding("oldest", State.OK, found)
    return Finding("oldest", State.WARNING, found, command("messages", "list", queue=first.queue, limit=1))


def _at_work(work: Work) -> Finding:
    alone = [one for one in work.ready.values() if one.is_left_alone(PATIENCE_S)]
    if not alone:
        return Finding("at work", State.OK, "no queue with work is left alone")
    told = [
        f"queue {one.queue!r} has had work for {period_of(one.ready_s)}, and nobody receives from it"
        + (f"; it has silent processes: {command('workers', queue=one.queue)}" if one.silent else "")
        for one in alone
    ]
    first = alone[0]
    return Finding("at work", State.WRONG, _listed(told), first.helps)


def _workers(work: Work) -> Finding:
    found = work.read(lambda transaction: workers_of(transaction, WorkerFilter(work.queue)))
    silent = [one for one in found if one.is_silent and not _has_ended(one)]
    if not silent:
        return Finding("workers", State.OK, "every process that works on a queue was heard of a moment ago")
    told = [
        f"process {one.pid} on {one.host}, which works on queue {one.queue!r}, has been silent for {period_of(one.silent_s)}"
        for one in silent
    ]
    first = silent[0]
    remedy = f"if it still runs there, kill -9 {first.pid}; {command('workers', queue=first.queue)}"
    return Finding("workers", State.WARNING, _listed(told), remedy)


def _judges(work: Work) -> Finding:
    with work.box.access.transaction() as transaction:
        there = [one for one in transaction.rows("judges_here", JudgeView) if one.is_there]
        asked = transaction.value("asked_in_vain")
    if there or not asked:
        told = (
            f"{counted(len(there), 'process', 'processes')} judge for receivers in SQL"
            if there
            else "nobody receives in SQL"
        )
        return Finding("judges", State.OK, told)
    told = (
        f"programs receive in SQL, and nobody judges what has arrived: {_listed([f'queue {one!r}' for one in asked])}"
    )
    return Finding("judges", State.WRONG, told, "start seriatim serve")


def _has_ended(worker: WorkerView) -> bool:
    """Whether the process was on this machine, and is gone: it was killed, and nothing of it has to be ended."""
    if worker.host != socket.gethostname():
        return False
    try:
        os.kill(worker.pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # another user's
        pass
    return False


def _subscriptions(work: Work) -> Finding:
    found = work.rows("stopped_subscriptions", needs.StoppedSubscription)
    if not found:
        return Finding("subscriptions", State.OK, "all are started")
    told = [
        f"{one.subscription!r} is {one.state}, and {counted(one.messages, 'message')} in queue {one.queue!r} wait for it"
        for one in found
    ]
    behind = [one for one in found if one.messages]
    remedy = command("subscription", "start", *(one.subscription for one in (behind or found)[:_MOST]))
    return Finding("subscriptions", State.WRONG if behind else State.WARNING, _listed(told), remedy)


def _transactions(work: Work) -> Finding:
    found, hidden = work.read(lambda transaction: needs.open_transactions(transaction, LONG_TURN_S))
    unseen = f"; {counted(hidden, 'session')} of other roles can't be seen: GRANT pg_read_all_stats" if hidden else ""
    if not found:
        return Finding("transactions", State.OK, f"none is older than {LONG_TURN_S:g} s{unseen}")
    told = _listed([_transaction(one) for one in found]) + unseen
    held = [one for one in found if one.is_idle and one.idle_s >= FORGOTTEN_S]
    if not held:
        remedy = "it holds back vacuum and keeps its groups locked: do long work outside the transaction"
        return Finding("transactions", State.WARNING, told, remedy)
    first = held[0]
    if first.gid is not None:
        remedy = f"it keeps its locks until somebody ends it: ROLLBACK PREPARED '{first.gid}' or COMMIT PREPARED '{first.gid}'"
    else:
        who = (
            "the process of that name has forgotten it, or is frozen: look at it"
            if first.is_ours
            else "look at its client"
        )
        remedy = f"{who}; to end it and free its locks: {command('connection', 'end', str(first.pid))}"
    return Finding("transactions", State.WRONG, told, remedy)


def _transaction(one: needs.OpenTransaction) -> str:
    if one.gid is not None:
        return f"the prepared transaction {one.gid!r} of {one.role} since {period_of(one.seconds)}"
    client = one.name or "without a name"
    address = "" if one.address is None else f" at {one.address}"
    does = f", doing nothing since {period_of(one.idle_s)}" if one.is_idle else ""
    whose = "" if one.is_ours else "not of seriatim, "
    return f"process {one.pid} ({whose}{client}{address}, role {one.role}) since {period_of(one.seconds)}{does}"


def _pipelines(work: Work) -> Finding:
    found = work.rows("queue_pipelines", needs.PipelineQueue)
    if not found:
        return Finding("pipelines", State.OK, "no queue belongs to a pipeline")
    told = [
        f"queue {one.queue!r} belongs to {one.pipeline!r}, which {'reads it' if one.runs else 'does not run'}, "
        f"with {counted(one.messages, 'message')}"
        for one in found
    ]
    still = [one for one in found if not one.runs and one.messages and (one.age_s or 0) > PATIENCE_S]
    if not still:
        return Finding("pipelines", State.OK, _listed(told))
    remedy = f"start it: seriatim run FILE; if it is gone for good: {command('queue', 'release', still[0].queue)}"
    return Finding("pipelines", State.WRONG, _listed(told), remedy)


def _bulk_operations(work: Work) -> Finding:
    with work.box.access.transaction() as transaction:
        running = [one for one in bulk_operations_of(transaction, BulkFilter(is_open=True)) if one.state == "running"]
        now = transaction.value("moment")
    if not running:
        return Finding("bulk", State.OK, "no bulk operation is running")
    still = [one for one in running if now - (one.moved_at or one.begun_at or now) > timedelta(seconds=PATIENCE_S)]
    told = [
        f"number {one.bulk_id} ({one.action.replace('_', '-')}, {counted(one.groups, 'group')}) has {one.left:,} left"
        + (", and nobody works on it" if one in still else "")
        for one in still + [one for one in running if one not in still]
    ]
    if not still:
        return Finding("bulk", State.OK, _listed(told))
    remedy = f"{command('bulk', 'follow', str(still[0].bulk_id))}, or start seriatim serve or a worker"
    return Finding("bulk", State.WRONG, _listed(told), remedy)


def _there(one: QueueCounts) -> int:
    return one.arrived + one.held + one.queued + one.in_hand + one.faulted


def _listed(told: Sequence[str]) -> str:
    more = "" if len(told) <= _MOST else f"; and {len(told) - _MOST:,} more"
    return "; ".join(told[:_MOST]) + more


def _moment(at: datetime | None) -> str:
    return "an unknown time" if at is None else at.astimezone().isoformat(" ", "seconds")


def _receive_ports(work: Work) -> Finding:
    """The ports through which messages come in that stand still, or that nobody runs."""
    known = ports(work.box)
    if not known:
        return Finding("receive ports", State.OK, "no message has come in through a port")
    stopped = [one for one in known if one.is_held and one.problem is not None]
    if stopped:
        told = _listed([f"port {one.port!r}{_of_partition(one.partition)}: {one.problem}" for one in stopped])
        return Finding("receive ports", State.WRONG, told, "mend what it names; the port goes on by itself")
    left = [one for one in known if not one.is_held]
    if left:
        told = _listed(
            [
                f"port {one.port!r}{_of_partition(one.partition)}: nobody reads it since {_moment(one.seen_at)}"
                for one in left
            ]
        )
        remedy = f"start seriatim receive again; a port that is given up: {command('port', 'forget', of=left[0].port)}"
        return Finding("receive ports", State.WARNING, told, remedy)
    reused = [one for one in known if one.id_reused]
    if reused:
        told = _listed(
            [f"port {one.port!r}: {counted(one.id_reused, 'message')} under an id with another body" for one in reused]
        )
        return Finding("receive ports", State.OK, f"all are read; {told} (property id_reused)")
    return Finding("receive ports", State.OK, f"all {counted(len(known), 'partition is', 'partitions are')} read")


def _of_partition(partition: str) -> str:
    return f", {partition}" if partition else ""


#: The checks by the names of their findings, in the order of the report.
CHECKS: dict[str, Callable[[Work], Finding]] = {
    "faulted": _faulted,
    "unended": _unended,
    "suspended": _suspended,
    "waiting": _waiting,
    "gates": _gates,
    "turns": _turns,
    "restarts": _restarts,
    "dead letters": _dead_letters,
    "unrouted": _unrouted,
    "set aside": _set_aside,
    "dialogs": _dialogs,
    "far dialogs": _far_dialogs,
    "requests": _requests,
    "sessions": _sessions,
    "queues off": _off,
    "queues full": _full,
    "oldest": _oldest,
    "at work": _at_work,
    "workers": _workers,
    "judges": _judges,
    "subscriptions": _subscriptions,
    "transactions": _transactions,
    "pipelines": _pipelines,
    "bulk": _bulk_operations,
    "receive ports": _receive_ports,
}
#: Those of one queue.
OF_QUEUE = (
    *("queues off", "queues full", "at work", "pipelines", "subscriptions", "faulted", "suspended", "waiting", "gates"),
    *("turns", "restarts", "unended", "workers", "dead letters", "set aside"),
)
