"""Groups of a bucket as operators see them: the state that each shows, its held messages, and its missing numbers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from fnmatch import translate
from re import compile as pattern
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seriatim.kernel import resequence as kernel
from seriatim.kernel.groups.numbers import by_position
from seriatim.kernel.groups.policy import Policy, Standard, Unordered
from seriatim.kernel.groups.positions import shown_position
from seriatim.kernel.groups.state import NOTHING, Flag, State
from seriatim.kernel.groups.states import GroupState
from seriatim.kernel.operators.held_groups import held_groups
from seriatim.kernel.policies.holes import holes
from seriatim.kernel.policies.restarts import suspects_restart
from seriatim.kernel.values.columns import Bools, Ints
from seriatim.kernel.values.outcome import REASONS, Reason
from seriatim.kernel.values.time import FOREVER, NEVER
from seriatim.spark.state.group_index import QueueState

#: How many of the groups of a queue that aren't ready a bucket's report names.
MOST_STOPPED = 20

_STATES = (GroupState.CLOSED, GroupState.SUSPENDED, GroupState.TIMED_OUT, GroupState.WAITING, GroupState.READY)


def not_ready(policy: Policy, state: State) -> Ints:
    """The rows of the groups that show another state than ready and closed, or hold messages."""
    if isinstance(policy, Unordered):
        return np.zeros(0, np.int64)
    wanted = state.groups.has(Flag.SUSPENDED | Flag.UNOPENED) & ~state.groups.has(Flag.CLOSED)
    wanted[state.held.group[state.held.weight > 0]] = True
    return np.flatnonzero(wanted)


def stopped(name: str, policy: Policy, known: QueueState) -> tuple[int, list[dict[str, Any]]]:
    """Return how many groups of a queue aren't ready, and those that have waited longest, in the form of `views`."""
    rows = not_ready(policy, known.state)
    if not len(rows):
        return 0, []
    few = rows
    if len(rows) > MOST_STOPPED:
        since = known.state.groups.since[rows]
        few = np.sort(rows[np.argpartition(np.where(since == NEVER, FOREVER, since), MOST_STOPPED)[:MOST_STOPPED]])
    return len(rows), views(name, policy, known, few)


def shown_states(policy: Policy, state: State) -> tuple[Ints, Bools, Ints]:
    """The state that each group shows (its place in `_STATES`), whether it has a hole, and the last number of the hole."""
    groups = state.groups
    hole, last = np.zeros(len(state), np.bool_), np.full(len(state), NOTHING, np.int64)
    overdue = hole
    if isinstance(policy, Standard):
        hole, _, last = holes(policy, state)
        hole = hole | _gathers(policy, state)
        if policy.hole_timeout is not None:
            overdue = hole & (kernel.due(policy, state) == FOREVER)
    closed = groups.has(Flag.CLOSED) & ~(groups.has(Flag.COMPLETE) & groups.has(Flag.FAULTED))
    flags = [closed, groups.has(Flag.SUSPENDED), overdue, hole | groups.has(Flag.UNOPENED)]
    shown = np.select(flags, range(len(flags)), len(flags))
    return shown, hole, last


def _gathers(policy: Standard, state: State) -> Bools:
    """The groups that hold messages, and don't know yet where they begin."""
    found = np.zeros(len(state), np.bool_)
    if policy.gathers:
        found[state.held.messages().group] = True
        found &= ~state.groups.has(Flag.BEGUN)
    return found


def views(name: str, policy: Policy, known: QueueState, rows: Ints) -> list[dict[str, Any]]:
    """Some groups of a queue, as JSON has them; times are microseconds."""
    state = known.state.select(rows) if len(rows) < len(known.state) else known.state
    groups = state.groups
    shown, hole, _ = shown_states(policy, state)
    due = kernel.due(policy, state)
    held = np.zeros(len(state), np.int64)
    reason, since = np.zeros(len(state), np.int64), np.where(hole, groups.since, NEVER)
    of = held_groups(policy, state)
    held[of.group], reason[of.group], since[of.group] = of.held, of.reason, of.since
    # Without a clock, a group has waited since its first held message arrived.
    first = state.held.first_arrival(len(state)) if len(state.held) else np.full(len(state), NEVER)
    since = np.where((since == NEVER) & (held > 0), first, since)
    missing = {int(row): (a, b) for row, a, b in zip(of.group, of.first.tolist(), of.last.tolist(), strict=True)}
    late = np.bincount(state.held.group[state.held.late], minlength=len(state))
    suspected = suspects_restart(policy, groups) if isinstance(policy, Standard) else np.zeros(len(state), np.bool_)
    begun = isinstance(policy, Standard) and (not policy.finds_start or groups.has(Flag.BEGUN))
    begun = np.broadcast_to(begun, len(state))
    incarnations = known.incarnations()[rows]
    keys = known.keys.take(pa.array(rows)).to_pylist()
    by_operator = groups.has(Flag.SUSPENDED) & groups.has(Flag.BY_OPERATOR)
    closing, unopened = groups.has(Flag.CLOSING), groups.has(Flag.UNOPENED)
    group_rows = []
    for row in range(len(state)):
        first_missing, last_missing = missing.get(row, (NOTHING, NOTHING))
        group_rows.append(
            {
                "queue": name,
                "group": keys[row].decode(),
                "state": str(_STATES[int(shown[row])]),
                "since": _moment(since[row]),
                "next": int(groups.next[row]) if begun[row] else None,
                "held": int(held[row]),
                "missing_first": None if first_missing == NOTHING else first_missing,
                "missing_last": None if last_missing == NOTHING else last_missing,
                "last_released": _last(policy, known, int(groups.last[row])),
                "ordinal": int(groups.ordinal[row]),
                "incarnation": int(incarnations[row]),
                "due_at": _moment(due[row]),
                "late": int(late[row]),
                "by_operator": bool(by_operator[row]),
                "closing": bool(closing[row]),
                "unopened": bool(unopened[row]),
                "restart_suspected": bool(suspected[row]),
                "reason": _why(Reason(int(reason[row])), due[row]) if held[row] else "",
            }
        )
    return group_rows


def _why(reason: Reason, due: int) -> str:
    if reason is Reason.SETTLING and due < FOREVER:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(due))
        return f"settles until {moment:%Y-%m-%d %H:%M:%S.%f}Z, and then begins at the lowest number that it has"
    return REASONS[reason]


def _moment(value: Any) -> int | None:
    return None if value in (NEVER, FOREVER) else int(value)


def fitting(filter_: Mapping[str, Any], policy: Policy, known: QueueState, now: int) -> Ints:
    """The rows of the groups that a filter names: ``states``, ``key`` (a pattern), ``group`` (a key), ``waits`` (as `not_ready`),
    ``older_than`` (microseconds).
    """
    state = known.state
    wanted = np.ones(len(state), np.bool_)
    if filter_.get("waits"):
        wanted &= np.isin(np.arange(len(state)), not_ready(policy, state))
    if filter_.get("states") is not None:
        shown = shown_states(policy, state)[0]
        wanted &= np.isin(shown, [place for place, state in enumerate(_STATES) if state in filter_["states"]])
    if filter_.get("group") is not None:
        place = pc.index(known.keys, pa.scalar(filter_["group"].encode(), pa.binary())).as_py()
        wanted &= np.arange(len(state)) == place
    if filter_.get("key") is not None:
        fits = pattern(translate(filter_["key"].replace("[", "[[]")))
        rows = np.flatnonzero(wanted)
        wanted[rows] = [fits.match(known.keys[row].as_py().decode()) is not None for row in rows.tolist()]
    if filter_.get("older_than") is not None:
        rows = np.flatnonzero(wanted)
        beginnings = [view["since"] for view in views("", policy, known, rows)]
        wanted[rows] = [since is not None and since <= now - filter_["older_than"] for since in beginnings]
    return np.flatnonzero(wanted)


def _last(policy: Policy, known: QueueState, last: int) -> int | str | None:
    if last == NOTHING:
        return None
    return shown_position(known.positions[last]) if by_position(policy) else last
