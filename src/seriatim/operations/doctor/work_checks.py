"""The checks of `seriatim doctor` for work that stands still: one function for each finding, in `CHECKS`.

They look at what a person looks at when something stands still, in one statement each. A finding is wrong if nothing lets
the work go on but somebody's hand.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, TypeVar

from seriatim.box.box import MessageBox
from seriatim.box.views import needs
from seriatim.box.views.at_work import ReadyWork, ready_work
from seriatim.box.views.bulk_operations import BulkFilter, bulk_operations_of
from seriatim.box.views.connections import FORGOTTEN_S
from seriatim.box.views.queue_counts import QueueCounts, counts_of
from seriatim.box.views.workers import JudgeView, WorkerFilter, WorkerView, workers_of
from seriatim.operations.doctor.finding import Checks, Finding, State, ok, warning, wrong
from seriatim.operations.groups import groups, groups_by_error, standing
from seriatim.operations.ports import ports
from seriatim.pipeline.text.command import command
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.moment import local, period_of

#: Seconds that work may be ready, with no receiver seen, before it needs a hand.
PATIENCE_S = 30.0
#: Seconds after which an open transaction holds back vacuum for too long.
LONG_TURN_S = 5.0
#: Seconds after which a message that isn't done is worth a look.
OLD_S = 3600.0
#: From this number of remembered sessions on, which stay for ever, a queue of two regions is worth a look.
MANY_SESSIONS = 1_000_000
#: The most sides of dialogs that are looked at, the oldest ones.
MOST_DIALOGS = 100_000
#: The most queues or transactions that a finding names.
_MOST = 5
#: The most errors that it names, and the most characters of each.
_MOST_ERRORS = 3
_LONGEST_ERROR = 120
_SET_ASIDE = ("late", "invalid", "rejected")


_Row = TypeVar("_Row")


class Work:
    """The work of a box at one moment; what several checks need is read once.

    Args:
        box: the box.
        queue: only the work in this queue, for the checks in `OF_QUEUE`; None: in all.
    """

    def __init__(self, box: MessageBox, queue: str | None = None) -> None:
        self.box, self.queue = box, queue

    def rows(self, name: str, of: type[_Row], **parameters: Any) -> list[_Row]:
        """The rows of a statement; where they are about queues, those about the queue."""
        found = self.box.access.within(lambda transaction: transaction.rows(name, of, **parameters))
        return [one for one in found if self.queue in (None, getattr(one, "queue", self.queue))]

    @cached_property
    def counts(self) -> list[QueueCounts]:
        """The counts of all queues."""
        return self.box.access.within(counts_of, self.queue)

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
        return {name: one for name, one in self.box.access.within(ready_work).items() if self.queue in (None, name)}


#: The checks, in the order of the report.
CHECKS: Checks[Work] = Checks()


@CHECKS.named("faulted", "no handler has stopped a group")
def _faulted(work: Work) -> Finding | None:
    found = _faulted_groups(work)
    having = [one for one in work.counts if one.faulted]
    if not having:
        return found
    told = _listed(
        [f"queue {one.queue!r}: {counted(one.faulted, 'message')} (each stops itself alone)" for one in having]
    )
    remedy = f"{command('messages', 'list', queue=having[0].queue, status='faulted')}; then retry or delete them"
    if found is None or found.state is State.OK:
        return wrong(told, remedy, having[0].queue)
    return replace(found, found=f"{found.found}; {told}", remedy=f"{found.remedy}; of the messages: {remedy}")


def _faulted_groups(work: Work) -> Finding | None:
    found = _stopped(work, "faulted")
    if found is None or found.state is State.OK:
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


@CHECKS.named("unended", "no message is handed out again and again without an end")
def _unended(work: Work) -> Finding | None:
    if not (found := work.rows("unended_turns", needs.UnendedTurn)):
        return None
    told = [
        f"queue {one.queue!r}{'' if one.group is None else f', group {one.group!r}'}: message {one.message_id!r} was "
        f"handed out {counted(one.times, 'time')}, and its turn never ended"
        for one in found
    ]
    first = found[0]
    remedy = f"look for what kills its worker: memory, or a crash; {command('trace', of=first.message_id)}"
    return warning(_listed(told), remedy)


@CHECKS.named("suspended", "no group is suspended")
def _suspended(work: Work) -> Finding | None:
    return _stopped(work, "suspended")


@CHECKS.named("waiting", "no group waits for a missing number")
def _waiting(work: Work) -> Finding | None:
    return _stopped(work, "waiting")


@CHECKS.named("gates", "no queue has a gate")
def _gates(work: Work) -> Finding | None:
    """What gates have waited for for long: it needs a hand, unless somebody works on it."""
    if not (gates := work.gates):
        return None
    late = [
        standing(work.box, view.queue, view.group)
        for gate in sorted(gates)
        for view in groups(work.box, gate, state=("waiting", "timed_out"), standing=True, limit=_MOST)
    ]
    places = [(one.view, one.place) for one in late if one.place is not None]
    if not places:
        return ok("no gate has waited for long")
    told = _listed([f"gate {view.queue!r}, group {view.group!r}: {place.told}" for view, place in places])
    needing = [(view, place) for view, place in places if place.helps is not None]
    if not needing:
        return ok(f"{told}; somebody works on it")
    view, place = needing[0]
    remedy = f"{place.helps}; {command('group', 'show', of=view.group, queue=view.queue)} says more"
    return wrong(told, remedy)


def _stopped(work: Work, name: str) -> Finding | None:
    """The groups that are stopped in a state; a time-out that has passed ends no waiting."""
    found = [one for one in work.stopped if one.state == name or (name, one.state) == ("waiting", "timed_out")]
    if name == "waiting":
        found = [one for one in found if one.queue not in work.gates]
    if not found:
        return None
    told = _listed([
        f"queue {one.queue!r}: {counted(one.groups, 'group')} ({one.group!r} since {_moment(one.since)})" for one in found
    ])  # fmt: skip
    needing = [one for one in found if one.needing]
    if not needing:
        return ok(f"{told}; none stands still: a hole does from its time-out on, or without one after a minute")
    first = needing[0]
    best = next(iter(standing(work.box, first.queue, first.group).commands), None)
    show = command("group", "show", of=first.group, queue=first.queue)
    remedy = f"{show} says what helps; seriatim groups lists them" if best is None else f"{best}; {show} says more"
    return wrong(told, remedy)


@CHECKS.named("turns", "no turn of a group has failed within the minute")
def _turns(work: Work) -> Finding | None:
    """The groups at which turns fail, though the others of their queues go on."""
    if not (found := work.rows("groups_set_apart", needs.GroupSetApart)):
        return None
    told = _listed([f"queue {one.queue!r}, group {one.group!r}{_example(one.error)}" for one in found])
    remedy = (
        "a bug of seriatim, or somebody wrote into its tables: the log has the traceback; it is tried again each minute"
    )
    return wrong(told, remedy)


@CHECKS.named("restarts", "no producer seems to have begun anew")
def _restarts(work: Work) -> Finding | None:
    if not (found := work.rows("suspected_restarts", needs.SuspectedRestarts)):
        return None
    told = [
        f"queue {one.queue!r}: the producer of {counted(one.groups, 'group')} ({one.group!r}) seems to have begun anew"
        for one in found
    ]
    first = found[0]
    restart, show = (command("group", verb, of=first.group, queue=first.queue) for verb in ("restart", "show"))
    remedy = f"{show} says more; {restart} begins it anew"
    return wrong(_listed(told), remedy)


@CHECKS.named("dead letters", "there are none")
def _dead_letters(work: Work) -> Finding | None:
    if not (having := [one for one in work.counts if one.dead]):
        return None
    told = [f"queue {one.queue!r}: {one.dead:,}" for one in having]
    remedy = "seriatim dead-letters list --by error; then requeue or delete them"
    return wrong(_listed(told), remedy)


@CHECKS.named("unrouted", "every message has found a queue")
def _unrouted(work: Work) -> Finding | None:
    if not (found := work.rows("unrouted_by_problem", needs.Unrouted)):
        return None
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
        return ok(_listed(told))
    return wrong(_listed(told), remedy if stays else routes)


@CHECKS.named("set aside", "nothing is late, invalid or rejected")
def _set_aside(work: Work) -> Finding | None:
    told, first = [], None
    for one in work.counts:
        counts = [(getattr(one, what), what) for what in _SET_ASIDE if getattr(one, what)]
        if counts:
            first = first or (one.queue, counts[0][1])
            told.append(f"queue {one.queue!r}: {', '.join(f'{count:,} {what}' for count, what in counts)}")
    if first is None:
        return None
    remedy = f"{command('messages', 'list', queue=first[0], status=first[1])}; then requeue, resubmit or delete"
    return warning(_listed(told), remedy)


@CHECKS.named("dialogs", "no service has left a dialog open that the other side has ended")
def _dialogs(work: Work) -> Finding | None:
    if not (found := work.rows("unended_dialogs", needs.UnendedDialogs, most=MOST_DIALOGS)):
        return None
    told = [
        f"service {one.service!r} hasn't ended {counted(one.dialogs, 'dialog')} that the other side has ended or failed "
        f"(the oldest since {_moment(one.since)})"
        for one in found
    ]
    remedy = (
        f"end the dialog when EndDialog or Error comes: tx.end(message.dialog.handle) at the receivers of queue {found[0].queue!r}; "
        f"those that are there: seriatim dialogs cleanup --state DI, then --state ER"
    )
    return warning(_listed(told), remedy)


@CHECKS.named("far dialogs", "other boxes have acknowledged what dialogs have said")
def _far_dialogs(work: Work) -> Finding | None:
    """What sides of dialogs have said to other boxes, and what these don't acknowledge; and what can't be obeyed here."""
    if not (
        found := work.rows("unanswered_dialogs", needs.UnansweredDialogs, older_than=timedelta(seconds=PATIENCE_S))
    ):
        return None
    broken = [one for one in found if one.problem is not None]
    told = [
        f"link {one.link!r}: {counted(one.dialogs, 'side')}, the oldest since {_moment(one.since)} ({one.key}), "
        + ("not acknowledged" if one.problem is None else f"can't take what came: {one.problem}")
        for one in broken or found
    ]
    if broken:
        return wrong(_listed(told), "it is tried again each minute; seriatim dialogs end HANDLE --cleanup ends one")
    remedy = (
        "seriatim dialogs list --unanswered 1m tells why; if that box never comes back: seriatim link remove LINK --force, "
        "which fails them"
    )
    return warning(_listed(told), remedy)


@CHECKS.named("requests", "no request has waited long for its reply")
def _requests(work: Work) -> Finding | None:
    if not (found := work.rows("unanswered_requests", needs.UnansweredRequests, seconds=OLD_S)):
        return None
    told = [
        f"{counted(one.requests, 'request')} for {one.reply!r} without a reply, the oldest since {_moment(one.since)}"
        for one in found
    ]
    return warning(_listed(told), command("trace", found[0].message_id))


@CHECKS.named("sessions", "no queue belongs to two regions")
def _sessions(work: Work) -> Finding | None:
    if not (found := work.rows("remembered_sessions", needs.RememberedSessions, most=MANY_SESSIONS)):
        return None
    many = [one for one in found if one.sessions >= MANY_SESSIONS]
    size = f"the sessions of all queues take {found[0].bytes / 1e6:,.0f} MB here"
    if not many:
        return ok(f"no queue remembers {MANY_SESSIONS:,} sessions; {size}")
    told = _listed([f"queue {one.queue!r} remembers {one.sessions:,} sessions or more" for one in many])
    remedy = (
        "where keys ascend with time, and sessions are used once: seriatim regions forget FILE QUEUE --before KEY --reason TEXT; "
        "rows of idle groups go by expire_after of the queue and seriatim box purge --forget-expired"
    )
    return warning(f"{told}; {size}", remedy)


@CHECKS.named("queues off", "all queues are on")
def _off(work: Work) -> Finding | None:
    if not (off := [one for one in work.counts if not one.enabled]):
        return None
    told = [f"queue {one.queue!r}, with {counted(_there(one), 'message')}" for one in off]
    having = [one for one in off if _there(one)]
    helped = [one.queue for one in (having or off)[:_MOST]]
    return (wrong if having else warning)(_listed(told), command("queue", "on", *helped), helped[0])


@CHECKS.named("queues full", "no queue is full")
def _full(work: Work) -> Finding | None:
    if not (full := [one for one in work.counts if one.is_full]):
        return None
    told = [f"queue {one.queue!r}, with {counted(_there(one), 'message')}" for one in full]
    remedy = f"{command('groups', queue=full[0].queue)}; if none of them is stopped, start more workers"
    return wrong(_listed(told), remedy, full[0].queue)


@CHECKS.named("oldest", "all queues are empty")
def _oldest(work: Work) -> Finding | None:
    if not (having := [one for one in work.counts if one.age_s is not None]):
        return None
    first = max(having, key=lambda one: one.age_s or 0)
    found = f"the oldest message is {period_of(first.age_s or 0)} old, in queue {first.queue!r}"
    if (first.age_s or 0) <= OLD_S:
        return ok(found)
    return warning(found, command("messages", "list", queue=first.queue, limit=1))


@CHECKS.named("at work", "no queue with work is left alone")
def _at_work(work: Work) -> Finding | None:
    if not (alone := [one for one in work.ready.values() if one.is_left_alone(PATIENCE_S)]):
        return None
    told = [
        f"queue {one.queue!r} has had work for {period_of(one.ready_s)}, and nobody receives from it"
        + (f"; it has silent processes: {command('workers', queue=one.queue)}" if one.silent else "")
        for one in alone
    ]
    first = alone[0]
    return wrong(_listed(told), first.helps)


@CHECKS.named("workers", "every process that works on a queue was heard of a moment ago")
def _workers(work: Work) -> Finding | None:
    found = work.box.access.within(workers_of, WorkerFilter(work.queue))
    if not (silent := [one for one in found if one.is_silent and not _has_ended(one)]):
        return None
    told = [
        f"process {one.pid} on {one.host}, which works on queue {one.queue!r}, has been silent for {period_of(one.silent_s)}"
        for one in silent
    ]
    first = silent[0]
    remedy = f"if it still runs there, kill -9 {first.pid}; {command('workers', queue=first.queue)}"
    return warning(_listed(told), remedy)


@CHECKS.named("judges")
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
        return ok(told)
    told = (
        f"programs receive in SQL, and nobody judges what has arrived: {_listed([f'queue {one!r}' for one in asked])}"
    )
    return wrong(told, "start seriatim serve")


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


@CHECKS.named("subscriptions", "all are started")
def _subscriptions(work: Work) -> Finding | None:
    if not (found := work.rows("stopped_subscriptions", needs.StoppedSubscription)):
        return None
    told = [
        f"{one.subscription!r} is {one.state}, and {counted(one.messages, 'message')} in queue {one.queue!r} wait for it"
        for one in found
    ]
    behind = [one for one in found if one.messages]
    remedy = command("subscription", "start", *(one.subscription for one in (behind or found)[:_MOST]))
    return (wrong if behind else warning)(_listed(told), remedy)


@CHECKS.named("transactions")
def _transactions(work: Work) -> Finding:
    found, hidden = work.box.access.within(needs.open_transactions, LONG_TURN_S)
    unseen = f"; {counted(hidden, 'session')} of other roles can't be seen: GRANT pg_read_all_stats" if hidden else ""
    if not found:
        return ok(f"none is older than {LONG_TURN_S:g} s{unseen}")
    told = _listed([_transaction(one) for one in found]) + unseen
    held = [one for one in found if one.is_idle and one.idle_s >= FORGOTTEN_S]
    if not held:
        remedy = "it holds back vacuum and keeps its groups locked: do long work outside the transaction"
        return warning(told, remedy)
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
    return wrong(told, remedy)


def _transaction(one: needs.OpenTransaction) -> str:
    if one.gid is not None:
        return f"the prepared transaction {one.gid!r} of {one.role} since {period_of(one.seconds)}"
    client = one.name or "without a name"
    address = "" if one.address is None else f" at {one.address}"
    does = f", doing nothing since {period_of(one.idle_s)}" if one.is_idle else ""
    whose = "" if one.is_ours else "not of seriatim, "
    return f"process {one.pid} ({whose}{client}{address}, role {one.role}) since {period_of(one.seconds)}{does}"


@CHECKS.named("pipelines", "no queue belongs to a pipeline")
def _pipelines(work: Work) -> Finding | None:
    if not (found := work.rows("queue_pipelines", needs.PipelineQueue)):
        return None
    told = [
        f"queue {one.queue!r} belongs to {one.pipeline!r}, which {'reads it' if one.runs else 'does not run'}, "
        f"with {counted(one.messages, 'message')}"
        for one in found
    ]
    still = [one for one in found if not one.runs and one.messages and (one.age_s or 0) > PATIENCE_S]
    if not still:
        return ok(_listed(told))
    remedy = f"start it: seriatim run FILE; if it is gone for good: {command('queue', 'release', still[0].queue)}"
    return wrong(_listed(told), remedy)


@CHECKS.named("bulk", "no bulk operation is running")
def _bulk_operations(work: Work) -> Finding | None:
    with work.box.access.transaction() as transaction:
        running = [one for one in bulk_operations_of(transaction, BulkFilter(is_open=True)) if one.state == "running"]
        now = transaction.value("moment")
    if not running:
        return None
    still = [one for one in running if now - (one.moved_at or one.begun_at or now) > timedelta(seconds=PATIENCE_S)]
    told = [
        f"number {one.bulk_id} ({one.action.replace('_', '-')}, {counted(one.groups, 'group')}) has {one.left:,} left"
        + (", and nobody works on it" if one in still else "")
        for one in still + [one for one in running if one not in still]
    ]
    if not still:
        return ok(_listed(told))
    remedy = f"{command('bulk', 'follow', str(still[0].bulk_id))}, or start seriatim serve or a worker"
    return wrong(_listed(told), remedy)


def _there(one: QueueCounts) -> int:
    return one.arrived + one.held + one.queued + one.in_hand + one.faulted


def _listed(told: Sequence[str]) -> str:
    more = "" if len(told) <= _MOST else f"; and {len(told) - _MOST:,} more"
    return "; ".join(told[:_MOST]) + more


def _moment(at: datetime | None) -> str:
    return "an unknown time" if at is None else local(at)


@CHECKS.named("receive ports", "no message has come in through a port")
def _receive_ports(work: Work) -> Finding | None:
    if not (known := ports(work.box)):
        return None
    stopped = [one for one in known if one.is_held and one.problem is not None]
    if stopped:
        told = _listed([f"port {one.port!r}{_of_partition(one.partition)}: {one.problem}" for one in stopped])
        return wrong(told, "mend what it names; the port goes on by itself")
    left = [one for one in known if not one.is_held]
    if left:
        told = _listed(
            [
                f"port {one.port!r}{_of_partition(one.partition)}: nobody reads it since {_moment(one.seen_at)}"
                for one in left
            ]
        )
        remedy = f"start seriatim receive again; a port that is given up: {command('port', 'forget', of=left[0].port)}"
        return warning(told, remedy)
    reused = [one for one in known if one.id_reused]
    if reused:
        told = _listed(
            [f"port {one.port!r}: {counted(one.id_reused, 'message')} under an id with another body" for one in reused]
        )
        return ok(f"all are read; {told} (property id_reused)")
    return ok(f"all {counted(len(known), 'partition is', 'partitions are')} read")


def _of_partition(partition: str) -> str:
    return f", {partition}" if partition else ""


#: Those of one queue.
OF_QUEUE = (
    *("queues off", "queues full", "at work", "pipelines", "subscriptions", "faulted", "suspended", "waiting", "gates"),
    *("turns", "restarts", "unended", "workers", "dead letters", "set aside"),
)
