"""Groups of a pipeline, for operators: the actions of a message box, as commands to the pipeline.

A command is written into the checkpoint; the pipeline's query obeys it before the data of its next batch, and the answer is in the
pipeline's operator log. The kernel decides, as in a box: an action that the state of the group doesn't allow is refused, and the error
names the state and the allowed actions.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from getpass import getuser
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from seriatim.box.operators.seen import digest_of
from seriatim.box.views.filtered import filtered
from seriatim.errors import ActionRefused, GroupChanged, NotFound, UsageError, shown
from seriatim.kernel.groups.states import STOPPED, GroupState
from seriatim.kernel.groups.verbs import BULK, IN_PIPELINES, VERBS, Action, Situation, checked, helping
from seriatim.kernel.sequencer import Event
from seriatim.kernel.values.time import maybe_moment_of, micros
from seriatim.operations.bulk import Refused
from seriatim.operations.pipelines.commands import WAIT_S, ask, told
from seriatim.operations.pipelines.found import OF_PIPELINE, FoundPipeline, found_of
from seriatim.operations.places import InGroup
from seriatim.operations.tables import pipelines as tables
from seriatim.operations.tables.pipelines import PipelineGroupFilter
from seriatim.operations.tables.table import Table
from seriatim.spark.control.commands import LOOK, Command, CommandResult

__all__ = [
    "Group",
    "NamedGroup",
    "Operation",
    "PipelineGroups",
    "Refused",
    "act",
    "chosen",
    "each",
    "group_reported",
    "group_view",
    "groups",
    "helps",
    "seen_of",
]


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
        last_released: the sequence of the last released message, or its position as in a box.
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
    last_released: int | str | None
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
        times = {name: maybe_moment_of(found[name]) for name in ("since", "due_at")}
        return cls(**{**found, **times, "state": GroupState(found["state"])})

    def allows(self, action: Action) -> bool:
        """Whether the group allows an action now."""
        by_message = self.state is GroupState.SUSPENDED and self.late > 0 and not self.by_operator
        # A group that has no next number doesn't know yet where it begins, and so has no hole.
        postponed = self.state is GroupState.WAITING and self.next is None and not self.unopened
        return Situation(self.state, by_message=by_message, unopened=self.unopened, postponed=postponed).allows(action)


@filtered(PipelineGroupFilter, OF_PIPELINE)
def groups(pipeline: str | Path | FoundPipeline, chosen: PipelineGroupFilter) -> list[Group]:
    """List the groups of a pipeline, by queue and key, as its last batch left them.

    Groups that stand still come from the report of the last batch, if that names them all. Else a run of the pipeline is asked, or,
    if there is none, the state is read, for which Spark is started.

    Raises:
        ActionRefused: the run hasn't answered in time; or Spark would have to be started.
        CheckpointMismatch: the checkpoint is another pipeline's, or damaged.
    """
    found = found_of(pipeline)
    states: list[str] | None = chosen.parameters()["state"]
    chosen = replace(chosen, queue=None if chosen.queue is None else found.queue(chosen.queue))
    told_ = _reported(found) if chosen.waits or (states is not None and STOPPED.issuperset(states)) else None
    if told_ is None:
        filter_: dict[str, Any] = {"key": chosen.key, "waits": chosen.waits, "states": states}
        told_ = _asked(found, chosen.queue, filter_, chosen.wait, starts_spark=chosen.starts_spark)
    return sorted(filter(chosen.fits, map(Group.of, told_)), key=lambda one: (one.queue, one.group))[: chosen.limit]


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
    found = found_of(pipeline)
    of = found.queue(queue)
    views = _only(_asked(found, of, {"group": group}, wait, starts_spark=starts_spark), of, group)
    if not views:
        raise _unknown(found, of, group)
    return Group.of(views[0])


def group_reported(pipeline: FoundPipeline, queue: str, group: str) -> Group | None:
    """A group that stands still, from the report of the last batch; None: that doesn't name it. No run is asked for it."""
    views = _only([one for told_ in _reports(pipeline) or () for one in told_["first"]], queue, group)
    return Group.of(views[0]) if views else None


def seen_of(view: Group) -> str:
    """What was seen of a group: a text that stays the same until it stands still for another reason."""
    facts = [view.queue, view.group, view.incarnation, view.state, view.by_operator, view.closing]
    return digest_of([*facts, *((view.next, view.missing_last) if view.missing_first is not None else ())])


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
    from seriatim.spark.session.builder import session_for_a_look  # noqa: PLC0415

    queues = [one.queue for one in found.declared.route]
    with session_for_a_look(found.name) as session:
        return groups_in_state(
            session, found.place.root, queues, key=filter_.get("group"), ready=not filter_.get("waits")
        )


def act(
    pipeline: str | Path | FoundPipeline,
    action: Action | str,
    queue: str | None,
    group: str,
    *,
    actor: str,
    reason: str,
    seen: str | None = None,
    dry_run: bool = False,
    id: str | None = None,  # noqa: A002 -- the word of the design
    wait: float = WAIT_S,
    **given: Any,
) -> Operation:
    """Perform an action, by its name.

    Args:
        pipeline: the pipeline's name, or its file.
        action: the action.
        queue: the destination; None: the only one with groups.
        group: the group's key.
        actor: the operator's name, at most 256 characters.
        reason: the reason, at most 4,096 characters.
        seen: what the operator has seen of the group, as `seen_of` gives it of a `Group`; None: they take it as it is.
        dry_run: whether it is answered and not obeyed.
        id: an id of the command: the same id is obeyed once. None: a new one.
        wait: seconds to wait for the answer.
        **given: for ``skip_hole`` `through`, the last number to skip (None: the whole hole); for ``reset`` `next`, the next number; for
            ``skip_message`` `message`, the id of a held message (None: the late one that stopped the group); for ``close`` `at_once`,
            whether nothing leaves any more.

    Raises:
        UsageError: there is no such pipeline, destination or group; an argument is wrong; or it is a dry run, and the pipeline isn't
            running.
        ActionRefused: the state of the group doesn't allow it; the remedy lists the allowed actions.
        GroupChanged: the group isn't as it was seen; nothing was done.
        CheckpointMismatch: the checkpoint is another pipeline's, or its control log was cut or changed.
        EnvironmentProblem: the checkpoint can't be written.
    """
    found = found_of(pipeline)
    verb, of = _checked(action), found.queue(queue)
    command = Command(str(verb), of, group, actor, reason, checked(verb, given), dry_run)
    if seen is not None:
        view = group_reported(found, of, group) or group_view(found, of, group, wait=wait, starts_spark=False)
        if seen != seen_of(view):
            raise GroupChanged(
                f"group {group!r} has changed since you looked: it is {view.state.replace('_', ' ')} now. Nothing was done",
                where=f"destination {of!r}",
                remedy="look at it again",
            )
    if id is not None:
        command = replace(command, id=id)
    (answer,) = told(found, [command], wait=wait)
    done = _operation(found, command, answer)
    if isinstance(done, Refused):
        raise _error(found, command, answer)
    return done


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
    states = sorted(VERBS[action].states if not state else VERBS[action].states & {GroupState(one) for one in state})
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
    groups: Sequence[InGroup],
    *,
    at_once: bool = False,
    actor: str,
    reason: str,
    wait: float = WAIT_S,
) -> Iterator[Operation | Refused]:
    """Perform an action on each of several groups; yields a result or a refusal for each.

    All commands are one entry of the control log, so they are obeyed in one batch.

    Raises:
        UsageError: the actor or the reason is missing; nothing is done then.
    """
    arguments = {"at_once": True} if at_once else {}
    commands = [Command(str(action), one.queue, one.group, actor, reason, arguments) for one in groups]
    for command, answer in zip(commands, told(pipeline, commands, wait=wait) if commands else [], strict=True):
        yield _operation(pipeline, command, answer)


class NamedGroup(NamedTuple):
    """A group by its names."""

    queue: str
    group: str


def helps(view: Group) -> list[Action]:
    """The actions that let a group go on, best first."""
    found = helping(view.state, holds=view.held > 0)
    return [one for one in found if one in IN_PIPELINES and view.allows(one)]


@dataclass(frozen=True, slots=True)
class PipelineGroups:
    """The groups of a pipeline, as a place of actions (see `seriatim.operations.places`)."""

    found: FoundPipeline
    wait: float = WAIT_S
    operation: ClassVar[Table[Any]] = tables.OPERATION
    acted: ClassVar[Table[Any]] = tables.ACTED
    view: ClassVar[Table[Any]] = tables.GROUP
    tries: ClassVar[bool] = True

    def act(self, action: Action, queue: str | None, group: str, **given: Any) -> Operation:
        """As `act`."""
        return act(self.found, action, queue, group, wait=self.wait, **given)

    def chosen(self, action: Action, *, actor: str, **filters: Any) -> Sequence[Group]:
        """As `chosen`."""
        return chosen(self.found, action, actor=actor, wait=self.wait, **filters)

    def named(self, action: Action, keys: Sequence[str], queue: str | None) -> Sequence[NamedGroup]:
        """The groups with these keys; whether they exist, the pipeline tells."""
        of = self.found.queue(queue)
        return [NamedGroup(of, key) for key in dict.fromkeys(keys)]

    def each(self, action: Action, found: Sequence[InGroup], **given: Any) -> Iterator[Operation | Refused]:
        """As `each`."""
        return each(self.found, action, found, wait=self.wait, **given)


def _operation(pipeline: FoundPipeline, command: Command, answer: CommandResult | None) -> Operation | Refused:
    queue, group = str(command.queue), str(command.key)
    asked = command.id, Action(command.verb), pipeline.name, queue, group
    if answer is None:
        return Operation(*asked, False, None, None, None, 0, 0, queued=True)
    if answer.result != "done":
        return Refused(queue, group, f"{answer.why}{f' ({answer.remedy})' if answer.remedy else ''}")
    return Operation(
        *asked,
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
    if action not in IN_PIPELINES:
        what = f"cannot {shown(str(action))} a group of a pipeline"
        why = "it has no handler, so no message fails there: " if action == Action.RETRY else ""
        raise UsageError(what, remedy=f"{why}one of {', '.join(IN_PIPELINES)}")
    return Action(action)
