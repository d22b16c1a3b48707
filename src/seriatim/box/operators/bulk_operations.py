"""Bulk operations: note what was seen of many groups, act on them portion by portion, and go on where another process ended.

A portion is one transaction: it claims the operation, acts on its next groups, logs that and notes the results. So each group is acted on
once, whichever process is killed. Most actions are done to a portion at once, in a number of statements that doesn't depend on its size.
Groups that somebody has locked, and those of an action that isn't made for that, are acted on one by one, a few in a transaction.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from psycopg import errors

from seriatim.box.connection.access import Access, Transaction
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.definitions.known import read_definitions
from seriatim.box.notice import EntriesSetAside
from seriatim.box.operators.actions import ActionRequest, act, effect_of, noticed_holes, unlocked, why_refused
from seriatim.box.operators.failed_message import Stopping, failed_of, see_now, set_dead_each
from seriatim.box.operators.operator_log import Operator, log, log_each
from seriatim.box.operators.regional import check_not_regional
from seriatim.box.operators.seen import seen_of
from seriatim.box.postgres.translate import translated
from seriatim.box.turns.turn_result import ActedGroup
from seriatim.box.turns.turns import Turns
from seriatim.box.views.bulk_operations import BulkOperation, bulk_operation_of
from seriatim.box.views.groups import GroupFilter, GroupView, groups_of
from seriatim.errors import (
    ActionRefused,
    BoxDisabled,
    EnvironmentProblem,
    GroupChanged,
    NotFound,
    Unavailable,
    UsageError,
)
from seriatim.kernel.groups.state import State
from seriatim.kernel.groups.states import TRIED_AGAIN, GroupState
from seriatim.kernel.groups.verbs import VERBS, Action
from seriatim.kernel.resequence import Outcome
from seriatim.kernel.values.outcome import EventKind
from seriatim.pipeline.text.event_log import LOG

#: The groups of one transaction.
PORTION = 200
#: The same of groups that are acted on one by one.
_ALONE = 20
#: Groups that are added at once.
_ADDED = 5_000
#: A group that stands still is locked only by turns that judge it; so long is waited for each, and forty times that for all.
_BRIEFLY_MS = 50


@dataclass(frozen=True, slots=True)
class Portion:
    """The results of some groups of an operation: the numbers done, refused, and left out because they had changed."""

    bulk_id: int
    done: int = 0
    refused: int = 0
    changed: int = 0


class _Result(NamedTuple):
    """What became of a group; `result` None: it is acted on by itself later."""

    result: str | None
    why: str | None = None
    operation_id: int | None = None


_LATER = _Result(None)


def gather(
    transaction: Transaction,
    action: Action,
    views: Sequence[GroupView],
    by: Operator,
    *,
    chosen_by: Mapping[str, str],
    at_once: bool = False,
) -> int:
    """Note an operation with its groups as they were seen, in the transaction; nothing is done before it is begun."""
    if not views:
        raise NotFound("there is no group to act on", remedy="choose others")
    definitions = read_definitions(transaction)
    queues = {name: definitions.queue(name) for name in sorted({one.queue for one in views})}
    for one in queues.values():
        check_not_regional(transaction, one, action)
    queue_ids = {name: one.queue_id for name, one in queues.items()}
    number = int(
        transaction.value(
            "gather_bulk",
            its_action=action,
            its_at_once=at_once,
            its_filter=json.dumps(dict(chosen_by)),
            its_actor=by.actor,
            its_reason=by.reason,
            of_queues=list(queue_ids.values()),
        )
    )
    for begin_at in range(0, len(views), _ADDED):
        some = views[begin_at : begin_at + _ADDED]
        transaction.do(
            "add_to_bulk",
            of_bulk=number,
            of_queues=[queue_ids[one.queue] for one in some],
            of_groups=[one.group for one in some],
            as_seen=[seen_of(one) for one in some],
        )
    return number


def begin(transaction: Transaction, bulk_id: int) -> BulkOperation:
    if not transaction.value("begin_bulk", of_bulk=bulk_id):
        found = bulk_operation_of(transaction, bulk_id)
        raise ActionRefused(f"cannot begin bulk operation {bulk_id}, which is {found.state}")
    found = bulk_operation_of(transaction, bulk_id)
    _log(transaction, Operator(found.actor, found.reason), "bulk begin", found)
    return found


def cancel(transaction: Transaction, bulk_id: int, by: Operator) -> BulkOperation:
    """Cancel an operation, and log it: what is done stays done. Waits for the portion that is being done."""
    if not transaction.value("cancel_bulk", of_bulk=bulk_id, its_actor=by.actor, its_reason=by.reason):
        found = bulk_operation_of(transaction, bulk_id)
        raise ActionRefused(f"cannot cancel bulk operation {bulk_id}, which is {found.state}")
    found = bulk_operation_of(transaction, bulk_id)
    _log(transaction, by, "bulk cancel", found)
    return found


def work(access: Access, bulk_id: int | None = None) -> Portion | None:
    """Do the next portion of an operation, in a transaction of its own."""
    claimed = None
    try:
        with access.transaction() as transaction:
            claimed = transaction.maybe("claim_bulk", of_bulk=bulk_id, at_most=PORTION, at_most_alone=_ALONE)
            if claimed is None:
                return None
            return _settled(transaction, claimed, _acted(transaction, claimed))
    except Exception as error:
        took_too_long = isinstance(
            error.__cause__, errors.QueryCanceled
        )  # a process that looks has a limit for statements
        is_passing = isinstance(error, Unavailable | BoxDisabled) and not took_too_long
        if claimed is None or claimed.alone or is_passing:
            raise
        # One of them can't be acted on: each is by itself, and says why.
        LOG.warning("bulk_group_by_group", bulk=claimed.number, error=error)
    with access.transaction() as transaction:
        return _settled(transaction, claimed, dict.fromkeys(claimed.group_keys, _LATER))


def work_for(access: Access, seconds: float, ends: Callable[[], bool] = lambda: False) -> bool:
    """Do portions of any operations for so long, or until `ends`; answers whether more may be left to do now."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and not ends():
        if work(access) is None:
            return False
    return True


def _acted(transaction: Transaction, claimed: Any) -> dict[str, _Result]:
    definitions = transaction.definitions()
    queue = next((one for one in definitions.queues.values() if one.queue_id == claimed.of_queue), None)
    if queue is None:
        return dict.fromkeys(claimed.group_keys, _Result("changed", "its queue was dropped"))
    if claimed.alone:
        return {
            key: _alone(transaction, queue, claimed, key, seen)
            for key, seen in zip(claimed.group_keys, claimed.as_seen, strict=True)
        }
    action = Action(claimed.action)
    # An aborted group is emptied of what it has queued, and a gate's hole of its places.
    is_alone = action is Action.ABORT or (action is Action.SKIP_HOLE and queue.origin_id is not None)
    if is_alone or queue.numbers:
        return dict.fromkeys(claimed.group_keys, _LATER)
    return _together(transaction, queue, action, claimed)


def _settled(transaction: Transaction, claimed: Any, found: Mapping[str, _Result]) -> Portion:
    results = list(found.values())
    transaction.do(
        "settle_bulk",
        of_bulk=claimed.number,
        of_queue=claimed.of_queue,
        of_groups=list(found),
        its_results=[one.result for one in results],
        its_whys=[one.why for one in results],
        of_operations=[one.operation_id for one in results],
    )
    counts = [sum(one.result == what for one in results) for what in ("done", "refused", "changed")]
    return Portion(claimed.number, *counts)


def _request(claimed: Any, queue: BoxQueue, key: str, seen: str | None = None) -> ActionRequest:
    given = {"at_once": claimed.at_once}
    return ActionRequest(Action(claimed.action), queue.declared.name, key, claimed.actor, claimed.reason, given, seen)


# ---- one group after another


def _alone(transaction: Transaction, queue: BoxQueue, claimed: Any, key: str, seen: str) -> _Result:
    asked = _request(claimed, queue, key, seen)
    try:
        # What a refused action has written isn't kept.
        with translated(transaction.access.place), transaction.connection.transaction():
            done = act(transaction, asked)
    except GroupChanged as error:
        return _Result("changed", error.what)
    except (UsageError, Unavailable, EnvironmentProblem) as error:
        return _Result("refused", why_refused(error))
    except Exception as error:  # noqa: BLE001 -- a group at which it fails doesn't keep the others from their turn
        LOG.exception("bulk_group_failed", bulk=claimed.number, queue=queue.declared.name, group=key)
        return _Result("refused", f"it failed: {type(error).__name__}: {error}"[:1000])
    return _Result("done", operation_id=done.operation_id)


# ---- many groups in one transaction


def _together(transaction: Transaction, queue: BoxQueue, action: Action, claimed: Any) -> dict[str, _Result]:
    name, turns = queue.declared.name, Turns(transaction)
    locked = turns.lock_many(queue, claimed.group_keys, _BRIEFLY_MS)
    mine = set(locked.keys)
    # Under their locks, so that what is compared is what is acted on.
    views = {
        one.group: one
        for one in groups_of(transaction, GroupFilter(name, limit=len(claimed.group_keys) or 1), claimed.group_keys)
    }
    found: dict[str, _Result] = {}
    for key, seen in zip(claimed.group_keys, claimed.as_seen, strict=True):
        if key not in views:
            found[key] = _Result("changed", "it was forgotten")
        elif seen_of(views[key]) != seen:
            found[key] = _Result("changed", _change(views[key]))
        elif key not in mine or _is_by_itself(action, views[key]):
            found[key] = _LATER
    goes = [key for key in claimed.group_keys if key not in found]
    if not goes:
        return found
    stopping = failed_of(transaction, queue, goes) if action in (Action.RETRY, Action.SKIP_MESSAGE) else {}
    early = _mended(transaction, queue, action, stopping, views)
    effects: dict[str, Callable[[State], Outcome] | None] = {
        key: None
        if key in early
        else effect_of(_request(claimed, queue, key), queue.declared.policy_of(key), locked.now_us)
        for key in goes
    }
    acted = turns.act_each(
        queue,
        locked._replace(keys=[key for key in locked.keys if key in effects]),
        effects,
        all_arrived=not VERBS[action].waits,
        all_held=VERBS[action].of_all_held,
        noticed=noticed_holes(action),
    )
    for key, one in acted.items():
        if isinstance(one, ActionRefused):
            if action is Action.SKIP_MESSAGE:
                raise one  # its message is dead already: nothing is kept, and each is by itself
            found[key] = _Result("refused", why_refused(one))
    fine = {key: one for key, one in acted.items() if not isinstance(one, ActionRefused)}
    if VERBS[action].frees:
        transaction.do("call_all_waiters", of_queues=[queue.queue_id])
    details = [_details(claimed, action, one, stopping.get(key)) for key, one in fine.items()]
    by = Operator(claimed.actor, claimed.reason)
    numbers = log_each(transaction, by, action, queue=name, groups=list(fine), details=details)
    turns.record_caused(queue, fine, numbers)
    return found | {key: _Result("done", operation_id=number) for key, number in zip(fine, numbers, strict=True)}


def _is_by_itself(action: Action, view: GroupView) -> bool:
    """Whether a group can't be acted on together with others: its clock is put right, or what stops it isn't released."""
    if action is Action.RETRY:
        return view.due_in_s is not None
    return action is Action.SKIP_MESSAGE and view.state is not GroupState.FAULTED


def _mended(
    transaction: Transaction,
    queue: BoxQueue,
    action: Action,
    stopping: Mapping[str, Stopping],
    views: Mapping[str, GroupView],
) -> set[str]:
    """Let the messages that stop groups be handed out again, or make them dead letters."""
    if action is Action.SKIP_MESSAGE and stopping:
        set_dead_each(transaction, queue, stopping)
        transaction.notice(EntriesSetAside([entry_id for one in stopping.values() for entry_id in one.entry_ids]))
    if action is not Action.RETRY:
        return set()
    early = {key for key, one in stopping.items() if one.waits and unlocked(views[key]) in TRIED_AGAIN}
    retried = [one for key, one in stopping.items() if key in early or views[key].state is GroupState.FAULTED]
    if retried:
        see_now(transaction, queue, [entry_id for one in retried for entry_id in one.entry_ids])
    return early


def _details(claimed: Any, action: Action, acted: ActedGroup, stopping: Stopping | None) -> dict[str, object]:
    """What the operator log says of a group."""
    details: dict[str, object] = {
        "obeyed": True, "before": acted.before, "after": acted.after, "released": acted.released,
        "set_aside": acted.set_aside + (len(stopping.entry_ids) if stopping and action is Action.SKIP_MESSAGE else 0),
        "bulk": claimed.number,
    }  # fmt: skip
    if claimed.at_once:
        details["at_once"] = True
    if stopping is not None:
        details["message_id"] = stopping.message_id
    if action is Action.SKIP_HOLE:
        skipped = [one for one in acted.caused.rows() if one.kind is EventKind.HOLE_SKIPPED]
        if skipped:
            details["skipped"] = [skipped[-1].first, skipped[-1].last]
    return details


def _change(view: GroupView) -> str:
    told = unlocked(view).replace("_", " ")
    return f"it is {told} now, and not as it was seen{f': {view.error}' if view.error else ''}"


def _log(transaction: Transaction, by: Operator, action: str, found: BulkOperation) -> None:
    details = {"bulk": found.bulk_id, "action": found.action, "groups": found.groups, "filter": dict(found.filter)}
    if action == "bulk cancel":
        details |= {"done": found.done, "refused": found.refused, "changed": found.changed, "left": found.left}
    for queue in found.queues:
        log(transaction, by, action, queue=queue, group=None, details=details)
