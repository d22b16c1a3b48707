"""Groups of a pipeline, for operators: the actions of a message box, as commands to the pipeline.

A command is written into the checkpoint; the pipeline's query obeys it before the data of its next batch, and the answer is in the
pipeline's operator log. The kernel decides, as in a box: an action that the state of the group doesn't allow is refused, and the error
names the state and the allowed actions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fnmatch import translate
from getpass import getuser
from pathlib import Path
from re import compile as compile_pattern
from typing import Any

from seriatim.errors import ActionRefused, NotFound, UsageError, shown
from seriatim.kernel.groups.states import ALLOWED, STOPPED, Action, GroupState, Situation
from seriatim.kernel.sequencer import Event
from seriatim.kernel.values.time import micros
from seriatim.operations.pipelines.commands import WAIT_S, ask, told
from seriatim.operations.pipelines.found import FoundPipeline, find
from seriatim.spark.control.commands import LOOK, OBEYED_HERE, Command, CommandResult

__all__ = [
    "BULK",
    "Group",
    "Operation",
    "Refused",
    "abort",
    "act",
    "chosen",
    "close",
    "each",
    "group_reported",
    "group_view",
    "groups",
    "reset",
    "restart",
    "resume",
    "skip_hole",
    "skip_message",
    "suspend",
]

_LARGEST = 2**62
#: What may be done to many groups at once: what needs no number of the single group.
BULK = (Action.SUSPEND, Action.RESUME, Action.SKIP_MESSAGE, Action.SKIP_HOLE, Action.ABORT, Action.CLOSE)


@dataclass(frozen=True, slots=True)
class Operation:
    """What became of an action on a group of a pipeline.

    Args:
        operation_id: the command's id.
        action: the action.
        pipeline: the pipeline's name.
        queue: the destination.
        group: the group's key.
        obeyed: False if it is queued, and the pipeline has not answered yet; or of a dry run.
        batch: the batch in which it was obeyed; None while it is queued.
        before: the group's state before; None while it is queued.
        after: the group's state then; of a dry run, as it would be.
        released: the number of released messages.
        set_aside: the number of messages set aside (late or dead).
        events: the group's events, in order, including timers that were due before the action.
        queued: whether it is written and not answered yet.
        dry_run: whether nothing was changed.
    """

    operation_id: str
    action: Action
    pipeline: str
    queue: str
    group: str
    obeyed: bool
    batch: int | None
    before: GroupState | None
    after: GroupState | None
    released: int
    set_aside: int
    events: tuple[Event, ...] = ()
    queued: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """A group for which an action was refused: its queue, its key, and the reason."""

    queue: str
    group: str
    why: str


@dataclass(frozen=True, slots=True)
class Group:
    """The state of a pipeline's group after a batch.

    Args:
        queue: the destination.
        group: its key.
        state: its state.
        since: since when it waits; None: it doesn't, or no clock of it runs.
        next: the next number to leave; None: its policy has no numbers.
        held: messages that wait for other messages, or for an operator.
        missing_first: the first of the numbers that it misses first; None: it misses none.
        missing_last: the last of these; None: also if the size of its set is unknown.
        last_released: the sequence of the last released message.
        ordinal: the number of released messages.
        incarnation: its incarnation, from 0.
        due_at: the time of its next timer.
        late: the number of held messages that are late.
        by_operator: whether an operator has suspended it.
        closing: whether it was told to close: it is closed when it holds nothing.
        unopened: whether it waits for a message that opens it.
        restart_suspected: whether its producer seems to have begun anew.
        reason: why it holds messages; "": it holds none.
    """

    queue: str
    group: str
    state: GroupState
    since: datetime | None
    next: int | None
    held: int
    missing_first: int | None
    missing_last: int | None
    last_released: int | None
    ordinal: int
    incarnation: int
    due_at: datetime | None
    late: int
    by_operator: bool
    closing: bool
    unopened: bool
    restart_suspected: bool
    reason: str

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Group:
        """A group as a bucket tells of it."""
        times = {name: _time(found[name]) for name in ("since", "due_at")}
        return cls(**{**found, **times, "state": GroupState(found["state"])})

    def allows(self, action: Action) -> bool:
        """Whether the group allows an action now."""
        by_message = self.state is GroupState.SUSPENDED and self.late > 0 and not self.by_operator
        return Situation(self.state, by_message=by_message, unopened=self.unopened).allows(action)


def groups(
    pipeline: str | Path | FoundPipeline,
    queue: str | None = None,
    *,
    state: Sequence[GroupState | str] | None = None,
    waits: bool = False,
    key: str | None = None,
    older_than: float | str | None = None,
    limit: int = 1000,
    wait: float = WAIT_S,
    starts_spark: bool = True,
) -> list[Group]:
    """List the groups of a pipeline, by queue and key, as its last batch left them.

    Groups that stand still come from the report of the last batch, if that names them all. Else a run of the pipeline is asked, or,
    if there is none, the state is read, for which Spark is started.

    Args:
        pipeline: its name, or its file.
        queue: only groups of this destination.
        state: only groups in one of these states; None: all.
        waits: only groups that stand still or hold messages.
        key: only groups whose key matches this pattern: ``*`` stands for any text, ``?`` for one character.
        older_than: only groups that have waited for more than this many seconds (or ``"5m"``).
        limit: the largest number of rows.
        wait: seconds to wait for the answer of a run.
        starts_spark: whether Spark may be started for it.

    Raises:
        UsageError: there is no such pipeline, destination or state.
        ActionRefused: the run hasn't answered in time; or Spark would have to be started.
        CheckpointMismatch: the checkpoint is another pipeline's, or damaged.
    """
    found = pipeline if isinstance(pipeline, FoundPipeline) else find(pipeline)
    for one in state or ():
        if one not in list(GroupState):
            raise UsageError(f"{shown(one)} is not a state of groups", remedy=f"one of {', '.join(GroupState)}")
    states = None if state is None else frozenset(GroupState(one) for one in state)
    of = None if queue is None else found.queue(queue)
    told_ = _reported(found) if waits or (states is not None and states <= STOPPED) else None
    if told_ is None:
        filter_: dict[str, Any] = {"key": key, "waits": waits}
        filter_["states"] = None if states is None else [str(one) for one in sorted(states)]
        told_ = _asked(found, of, filter_, wait, starts_spark=starts_spark)
    oldest = None if older_than is None else datetime.now(UTC) - timedelta(microseconds=micros(older_than))
    fits = compile_pattern(translate("*" if key is None else key.replace("[", "[[]")))
    chosen_ = [
        one
        for one in map(Group.of, told_)
        if of in (None, one.queue)
        and (states is None or one.state in states)
        and fits.match(one.group)
        and (oldest is None or (one.since is not None and one.since <= oldest))
    ]
    return sorted(chosen_, key=lambda one: (one.queue, one.group))[:limit]


def group_view(
    pipeline: str | Path | FoundPipeline,
    queue: str | None,
    group: str,
    *,
    wait: float = WAIT_S,
    starts_spark: bool = True,
) -> Group:
    """The state of a group, as the last batch left it.

    Args:
        pipeline: its name, or its file.
        queue: the destination; None: the only one with groups.
        group: the group's key.
        wait: seconds to wait for the answer of a run.
        starts_spark: whether Spark may be started for it, if no run has the pipeline.

    Raises:
        UsageError: there is no such pipeline, destination or group.
        ActionRefused: the run hasn't answered in time; or Spark would have to be started.
    """
    found = pipeline if isinstance(pipeline, FoundPipeline) else find(pipeline)
    of = found.queue(queue)
    views = _only(_asked(found, of, {"group": group}, wait, starts_spark=starts_spark), of, group)
    if not views:
        raise _unknown(found, of, group)
    return Group.of(views[0])


def group_reported(pipeline: FoundPipeline, queue: str, group: str) -> Group | None:
    """A group that stands still, from the report of the last batch; None: that doesn't name it. No run is asked for it."""
    views = _only([one for told_ in _reports(pipeline) or () for one in told_["first"]], queue, group)
    return Group.of(views[0]) if views else None


def _only(told_: Sequence[dict[str, Any]], queue: str, group: str) -> list[dict[str, Any]]:
    return [one for one in told_ if (one["queue"], one["group"]) == (queue, group)]


def _reported(found: FoundPipeline) -> list[dict[str, Any]] | None:
    """The groups that aren't ready, from the report of the last batch; None: it doesn't name them all."""
    told_ = _reports(found)
    if told_ is None or any(one["groups"] > len(one["first"]) for one in told_):
        return None
    return [view for one in told_ for view in one["first"]]


def _reports(found: FoundPipeline) -> list[dict[str, Any]] | None:
    try:
        reports = json.loads((found.place.root / "tally.json").read_bytes())["standing"]["reports"].values()
        return [one["stopped"] for one in reports]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _asked(
    found: FoundPipeline, queue: str | None, filter_: Mapping[str, Any], wait: float, *, starts_spark: bool
) -> list[dict[str, Any]]:
    """The groups that fit a filter: from a run of the pipeline, or else from its state."""
    if found.place.is_running():
        look = Command(LOOK, queue, None, getuser(), "to list groups", filter_)
        return [group for answer in ask(found, look, wait=wait) for group in answer.groups]
    if not starts_spark:
        raise ActionRefused(
            f"pipeline {found.name!r} isn't running, and its report doesn't tell of that",
            remedy=f"start it; or seriatim groups --pipeline {found.name} starts Spark to read its state",
        )
    from seriatim.spark.resequence.groups_in_state import groups_in_state  # noqa: PLC0415 -- Spark is slow to import
    from seriatim.spark.session.builder import is_running, open_session  # noqa: PLC0415

    shared = is_running()
    session = open_session({"spark.app.name": found.name})
    try:
        queues = [one.queue for one in found.declared.route]
        return groups_in_state(
            session, found.place.root, queues, key=filter_.get("group"), ready=not filter_.get("waits")
        )
    finally:
        if not shared:
            session.stop()


def act(
    pipeline: str | Path | FoundPipeline,
    action: Action | str,
    queue: str | None,
    group: str,
    *,
    actor: str,
    reason: str,
    through: int | None = None,
    next: int | None = None,  # noqa: A002 -- the word of the design
    message: str | None = None,
    at_once: bool = False,
    dry_run: bool = False,
    id: str | None = None,  # noqa: A002 -- the word of the design
    wait: float = WAIT_S,
) -> Operation:
    """Perform an action, by its name.

    Args:
        pipeline: the pipeline's name, or its file.
        action: the action.
        queue: the destination; None: the only one with groups.
        group: the group's key.
        actor: the operator's name, at most 256 characters.
        reason: the reason, at most 4,096 characters.
        through: for ``skip_hole``: the last number to skip; None: the whole hole.
        next: for ``reset``: the next number.
        message: for ``skip_message``: the id of a held message; None: the late one that stopped the group.
        at_once: for ``close``: whether nothing leaves any more.
        dry_run: whether it is answered and not obeyed.
        id: an id of the command: the same id is obeyed once. None: a new one.
        wait: seconds to wait for the answer.

    Raises:
        UsageError: there is no such pipeline, destination or group; an argument is wrong; or it is a dry run, and the pipeline isn't
            running.
        ActionRefused: the state of the group doesn't allow it; the remedy lists the allowed actions.
        CheckpointMismatch: the checkpoint is another pipeline's, or its control log was cut or changed.
        EnvironmentProblem: the checkpoint can't be written.
    """
    found = pipeline if isinstance(pipeline, FoundPipeline) else find(pipeline)
    verb = _checked(action)
    arguments: dict[str, Any] = {"through": through, "next": next, "message": message, "at_once": at_once or None}
    arguments = {name: value for name, value in arguments.items() if value is not None}
    _check_arguments(verb, arguments)
    command = Command(str(verb), found.queue(queue), group, actor, reason, arguments, dry_run)
    if id is not None:
        command = replace(command, id=id)
    (answer,) = told(found, [command], wait=wait)
    done = _operation(found, command, answer)
    if isinstance(done, Refused):
        raise _error(found, command, answer)
    return done


def suspend(pipeline: str | Path, queue: str | None, group: str, *, actor: str, reason: str) -> Operation:
    """Suspend a group: it accepts messages, but releases none. See `act` for arguments and errors of each action."""
    return act(pipeline, Action.SUSPEND, queue, group, actor=actor, reason=reason)


def resume(pipeline: str | Path, queue: str | None, group: str, *, actor: str, reason: str) -> Operation:
    """Resume a suspended group. Its held late messages leave first, flagged as late."""
    return act(pipeline, Action.RESUME, queue, group, actor=actor, reason=reason)


def skip_message(
    pipeline: str | Path, queue: str | None, group: str, *, message: str | None = None, actor: str, reason: str
) -> Operation:
    """Set a message aside as dead: the late one that stopped the group, or a held one, by its id."""
    return act(pipeline, Action.SKIP_MESSAGE, queue, group, message=message, actor=actor, reason=reason)


def skip_hole(
    pipeline: str | Path, queue: str | None, group: str, *, through: int | None = None, actor: str, reason: str
) -> Operation:
    """Skip the missing numbers up to `through`; None: the whole hole."""
    return act(pipeline, Action.SKIP_HOLE, queue, group, through=through, actor=actor, reason=reason)


def reset(pipeline: str | Path, queue: str | None, group: str, *, next: int, actor: str, reason: str) -> Operation:  # noqa: A002 -- the word of the design
    """Set the next number of the group. Held messages below it become late; numbers that are passed over count as skipped."""
    return act(pipeline, Action.RESET, queue, group, next=next, actor=actor, reason=reason)


def restart(pipeline: str | Path, queue: str | None, group: str, *, actor: str, reason: str) -> Operation:
    """Begin a group anew, from the policy's `start`: what it holds comes back, in order of arrival. Ordinals go on.

    Messages that were set aside don't come back by themselves.
    """
    return act(pipeline, Action.RESTART, queue, group, actor=actor, reason=reason)


def abort(pipeline: str | Path, queue: str | None, group: str, *, actor: str, reason: str) -> Operation:
    """Set all held messages of the group aside as dead."""
    return act(pipeline, Action.ABORT, queue, group, actor=actor, reason=reason)


def close(
    pipeline: str | Path, queue: str | None, group: str, *, at_once: bool = False, actor: str, reason: str
) -> Operation:
    """Close a group: new messages are late, except missing numbers below the highest one held.

    It is closed when it holds nothing; with `at_once` now, and its present messages can only be aborted.
    """
    return act(pipeline, Action.CLOSE, queue, group, at_once=at_once, actor=actor, reason=reason)


def chosen(
    pipeline: FoundPipeline,
    action: Action,
    *,
    queue: str | None = None,
    state: Sequence[GroupState | str] | None = None,
    key: str | None = None,
    older_than: float | str | None = None,
    actor: str,
    wait: float = WAIT_S,
) -> list[Group]:
    """List the groups that match a filter and whose state allows the action, as a run of the pipeline has them.

    Args:
        pipeline: the pipeline.
        action: the action.
        queue: only groups of this destination.
        state: only groups in one of these states.
        key: only groups whose key matches this pattern: ``*`` stands for any text, ``?`` for one character.
        older_than: only groups that have waited for more than this many seconds (or ``"5m"``).
        actor: the operator's name.
        wait: seconds to wait for the answer.

    Raises:
        UsageError: the action isn't possible for many groups at once, or the pipeline isn't running.
        ActionRefused: too many groups match, or the pipeline hasn't answered in time.
    """
    if action not in BULK:
        raise UsageError(f"cannot {action} many groups at once", remedy=f"one of {', '.join(BULK)}")
    states = sorted(ALLOWED[action] if not state else ALLOWED[action] & {GroupState(one) for one in state})
    if not states:
        return []
    filter_: dict[str, Any] = {"states": [str(one) for one in states], "key": key}
    filter_["older_than"] = None if older_than is None else micros(older_than)
    look = Command(LOOK, None if queue is None else pipeline.queue(queue), None, actor, f"to {action} many", filter_)
    answers = ask(pipeline, look, wait=wait)
    if any(one.more for one in answers):
        there = sum(len(one.groups) + one.more for one in answers)
        raise ActionRefused(
            f"at least {there:,} groups match", remedy="narrow them: --queue, --state, --key, --older-than"
        )
    found = [Group.of(group) for one in answers for group in one.groups]
    return sorted((one for one in found if one.allows(action)), key=lambda one: (one.queue, one.group))


def each(
    pipeline: FoundPipeline,
    action: Action,
    groups: Sequence[tuple[str, str]],
    *,
    at_once: bool = False,
    actor: str,
    reason: str,
    wait: float = WAIT_S,
) -> Iterator[Operation | Refused]:
    """Perform an action on each of several groups, by queue and key; yields a result or a refusal for each.

    All commands are one entry of the control log, so they are obeyed in one batch.

    Raises:
        UsageError: the actor or the reason is missing; nothing is done then.
    """
    arguments = {"at_once": True} if at_once else {}
    commands = [Command(str(action), queue, group, actor, reason, arguments) for queue, group in groups]
    for command, answer in zip(commands, told(pipeline, commands, wait=wait) if commands else [], strict=True):
        yield _operation(pipeline, command, answer)


def _operation(pipeline: FoundPipeline, command: Command, answer: CommandResult | None) -> Operation | Refused:
    queue, group = str(command.queue), str(command.key)
    if answer is None:
        return Operation(
            command.id, Action(command.verb), pipeline.name, queue, group, False, None, None, None, 0, 0, queued=True
        )
    if answer.result != "done":
        return Refused(queue, group, f"{answer.why}{f' ({answer.remedy})' if answer.remedy else ''}")
    return Operation(
        command.id,
        Action(command.verb),
        pipeline.name,
        queue,
        group,
        obeyed=not answer.dry_run,
        batch=answer.batch,
        before=GroupState(answer.before),
        after=GroupState(answer.after),
        released=answer.released,
        set_aside=answer.set_aside,
        events=tuple(Event(kind, group, first, last, count) for kind, first, last, count in answer.events),
        dry_run=answer.dry_run,
    )


def _error(pipeline: FoundPipeline, command: Command, answer: CommandResult | None) -> UsageError:
    if answer is None or answer.result == "unknown":
        return _unknown(pipeline, str(command.queue), str(command.key))
    return ActionRefused(answer.why, where=f"group {command.key!r}", remedy=answer.remedy)


def _unknown(pipeline: FoundPipeline, queue: str, group: str) -> UsageError:
    return NotFound(
        f"destination {queue!r} of {pipeline.name!r} does not have a group {group!r}",
        remedy="no message of this group has arrived; see seriatim groups --pipeline … --all",
    )


def _checked(action: Action | str) -> Action:
    if action not in OBEYED_HERE:
        what = f"cannot {shown(str(action))} a group of a pipeline"
        why = "it has no handler, so no message fails there: " if action == Action.RETRY else ""
        raise UsageError(what, remedy=f"{why}one of {', '.join(OBEYED_HERE)}")
    return Action(action)


def _check_arguments(action: Action, arguments: Mapping[str, Any]) -> None:
    if action is Action.RESET and "next" not in arguments:
        raise UsageError("the number with which the group goes on is missing", remedy="give next")
    for name in ("next", "through"):
        number = arguments.get(name, 0)
        if isinstance(number, bool) or not isinstance(number, int):
            raise UsageError(f"{name} can't be {shown(number)}", remedy="give a whole number")
        if not -_LARGEST <= number <= _LARGEST:
            raise UsageError(f"{shown(number)} is out of range", remedy=f"at most {_LARGEST:,}, and its negative")


def _time(moment: int | None) -> datetime | None:
    return None if moment is None else datetime.fromtimestamp(moment / 1_000_000, UTC)
