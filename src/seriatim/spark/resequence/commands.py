"""Obey operators' commands in one bucket: in the order of the control log, before the batch's data, at the batch's time.

The kernel decides what a command does, and whether the group's state allows it, as in a message box. The index of a bucket has
the commands that it has obeyed, so that one that comes twice is obeyed once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from seriatim.errors import ActionRefused, UsageError
from seriatim.kernel import resequence as kernel
from seriatim.kernel.groups.policy import Policy, Unordered
from seriatim.kernel.groups.sequence import key_problem
from seriatim.kernel.groups.state import State
from seriatim.kernel.groups.states import GroupState
from seriatim.kernel.groups.verbs import IN_PIPELINES, VERBS, Action
from seriatim.kernel.operators import actions
from seriatim.kernel.resequence import Outcome
from seriatim.kernel.values.columns import Ints
from seriatim.kernel.values.outcome import Decided, Disposition, Events, Reason
from seriatim.pipeline.declared.queue import Queue
from seriatim.spark.control.commands import LOOK, RESUBMIT, Command, CommandResult
from seriatim.spark.resequence.group_views import fitting, views
from seriatim.spark.state.buckets import bucket_ids
from seriatim.spark.state.cold_groups import ColdGroups
from seriatim.spark.state.group_index import Index, QueueState
from seriatim.spark.state.held_bodies import Bodies, chunk_of, row_of

#: How many commands a bucket remembers as obeyed.
REMEMBERED = 256
#: How many groups a bucket's answer to a look names.
MOST_SEEN = 10_000
#: The errors of values in a command that aren't what they should be. They must not fail the batch: each start would run it again.
UNFIT = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, pa.ArrowException)
_ID = "message_id"


def in_buckets(rows: DataFrame, buckets: int, *, by_key: bool) -> DataFrame:
    """Return rows of the control source, each with the bucket of its group, which the source doesn't know."""
    return rows.withColumn("bucket", F.coalesce(F.col("bucket"), _bucket(F.col("content"), buckets, by_key=by_key)))


def _bucket(content: Column, buckets: int, *, by_key: bool) -> Column:
    """The id of the bucket that has the group of a command. The same hash as for messages; see `prepared`."""
    told = F.from_json(content, "queue string, key string")
    place = F.pmod(F.xxhash64(F.lit("") if by_key else told["queue"], told["key"].cast("binary")), F.lit(buckets)).cast(
        "int"
    )
    return F.get(F.lit(bucket_ids(buckets)), place).cast("int")


def commands_in(contents: Iterable[str]) -> list[Command]:
    """The commands of a batch's rows, in the order of the log."""
    found = sorted((json.loads(content) for content in contents), key=lambda one: one["order"])
    return [Command.of(one) for one in found]


def in_calls(commands: Iterable[Command]) -> tuple[list[tuple[list[Command], list[Command]]], list[Command]]:
    """Cut a batch's commands into calls of the operator, in the order of the log. A call obeys commands before it takes messages in. So
    those that follow messages which were put back need another call.
    """
    calls: list[tuple[list[Command], list[Command]]] = []
    others: list[Command] = []
    for is_back, run in groupby(commands, lambda command: command.verb == RESUBMIT):
        if is_back:
            calls.append((others, list(run)))
            others = []
        else:
            others = list(run)
    return calls, others


def _begins(queue: Queue, command: Command) -> bool:
    """Whether a group begins with the command, if no message of it has come yet."""
    has_groups = not isinstance(queue.policy, Unordered)
    return has_groups and VERBS[Action(command.verb)].begins and key_problem(command.key) is Reason.NONE


def unfit(command: Command, error: Exception) -> CommandResult:
    """The answer to a command whose values aren't what they should be."""
    remedy = "see what its options take, and give it again"
    return CommandResult.to(command, "refused", why=f"a value of the command is wrong: {error}", remedy=remedy)


class Obeying:
    def __init__(
        self,
        queues: Iterable[Queue],
        index: Index,
        bodies: Bodies,
        cold: ColdGroups | None,
        *,
        now: int,
        decide: Callable[[Queue, Command, Decided, Events], None],
        without_groups: Callable[[Queue], QueueState],
    ) -> None:
        self._queues = {queue.name: queue for queue in queues}
        self._index = index
        self._bodies = bodies
        self._cold = cold
        self._now = now
        #: Called with the decisions of a command in a queue: its messages and events, by the rows of the groups.
        self._decide = decide
        self._without_groups = without_groups
        # Of the groups that commands name: their rows, and the state of each alone.
        self._states: dict[str, dict[int, State]] = {}
        # The rows of the groups that have begun with one, by queue and key.
        self._begun: dict[tuple[str, str], int] = {}
        self.changed = False

    def obey(self, commands: list[Command]) -> list[dict[str, Any]]:
        rows = self._find(commands)
        answers = []
        for command, row in zip(commands, rows, strict=True):
            answers.append(self._one(command, row))
            if answers[-1].result == "done" and command.verb != LOOK and not command.dry_run:
                self.changed = True
                self._index.obeyed = (*self._index.obeyed, command.id)[-REMEMBERED:]
        for name in self._states:
            known = self._index.queues[name]
            known.state = self._state_now(name, known)
        return [answer.to_json() for answer in answers]

    def _find(self, commands: list[Command]) -> list[int | None]:
        """The row of each command's group in its queue; one look in each queue's keys."""
        rows: list[int | None] = [None] * len(commands)
        for name, known in self._index.queues.items():
            mine = [place for place, one in enumerate(commands) if one.queue == name and one.key is not None]
            if not mine:
                continue
            wanted = pa.array([str(commands[place].key).encode() for place in mine], pa.binary())
            found = pc.index_in(wanted, value_set=known.keys).to_pylist()
            rows = [dict(zip(mine, found, strict=True)).get(place, row) for place, row in enumerate(rows)]
            some = np.array(sorted({row for row in found if row is not None}), np.int64)
            if len(some):
                self._states[name] = dict(zip(some.tolist(), known.state.select(some).split(), strict=True))
        return rows

    def _one(self, command: Command, row: int | None) -> CommandResult:
        if command.verb == LOOK:
            try:
                return self._look(command)
            except UNFIT as error:
                return unfit(command, error)
        if command.id in self._index.obeyed:
            return CommandResult.to(command, "repeated", why="a command with this id was obeyed before")
        if command.queue not in self._queues or command.verb not in IN_PIPELINES:
            what = f"the pipeline has no destination {command.queue!r}"
            if command.queue in self._queues:
                what = f"a pipeline doesn't know the command {command.verb!r}"
            return CommandResult.to(command, "refused", why=what)
        queue = self._queues[command.queue]
        if row is None:
            row = self._begun.get((queue.name, str(command.key)))
        if row is None and not _begins(queue, command):
            why = f"destination {command.queue!r} has no group {command.key!r}"
            return CommandResult.to(command, "unknown", why=why)
        return self._act(command, queue, row)

    def _act(self, command: Command, queue: Queue, row: int | None) -> CommandResult:
        policy = queue.policy
        before = kernel.new_state(policy, 1) if row is None else self._states[queue.name][row]
        # First let the timers fire that are due now.
        timed = kernel.advance(policy, before, self._now)
        try:
            outcome = self._action(command, policy, timed.state)
        except ActionRefused as refused:
            state = str(actions.state_of(policy, timed.state))
            return CommandResult.to(
                command, "refused", why=refused.what, remedy=refused.remedy or "", before=state, after=state
            )
        except UsageError as wrong:
            return CommandResult.to(command, "refused", why=wrong.what, remedy=wrong.remedy or "")
        except UNFIT as error:
            return unfit(command, error)
        both = timed.then(outcome)
        decided, events = both.decided, both.events
        if not command.dry_run:
            row = self._begin(queue, str(command.key)) if row is None else row
            self._states[queue.name][row] = outcome.state
            at = np.array([row], np.int64)
            of_group = decided.with_columns(group=at[decided.group]), events.with_columns(group=at[events.group])
            self._decide(queue, command, *of_group)
        released = int((decided.disposition == Disposition.RELEASED).sum())
        return CommandResult.to(
            command,
            "done",
            before=str(actions.state_of(policy, timed.state)),
            after=str(actions.state_of(policy, outcome.state)),
            released=released,
            set_aside=len(decided) - released - int((decided.disposition == Disposition.VOID).sum()),
            events=[[one.kind.word, one.first, one.last, one.count] for one in events.rows()],
        )

    def _begin(self, queue: Queue, key: str) -> int:
        known = self._index.queues.get(queue.name) or self._without_groups(queue)
        new = pa.array([key.encode()], pa.binary())
        self._index.queues[queue.name] = known.enrolled(new, kernel.new_state(queue.policy, 1))
        self._states.setdefault(queue.name, {})
        return self._begun.setdefault((queue.name, key), len(known.keys))

    def _action(self, command: Command, policy: Policy, state: State) -> Outcome:
        action, key = Action(command.verb), str(command.key)
        if command.arguments.get("message") is not None:
            return actions.skip_message(policy, state, self._now, key, self._ref(command, state))
        return actions.apply(policy, state, self._now, key, action, command.arguments)

    def _ref(self, command: Command, state: State) -> int:
        wanted, refs = command.arguments["message"], state.held.messages().ref
        for chunk in np.unique(chunk_of(refs)).tolist():
            table = self._bodies.table(chunk)
            mine = refs[chunk_of(refs) == chunk]
            if _ID in table.column_names:
                ids = table.column(_ID).take(pa.array(self._bodies.places(chunk, row_of(mine))))
                if (place := pc.index(ids, wanted).as_py()) >= 0:
                    return int(mine[place])
        raise ActionRefused(
            f"the group holds no message {wanted!r}", where=f"group {command.key!r}", remedy="name one that it holds"
        )

    def _look(self, command: Command) -> CommandResult:
        found: list[dict[str, Any]] = []
        more = 0
        for queue in self._queues.values():
            known = self._index.queues.get(queue.name)
            if known is None or command.queue not in (None, queue.name):
                continue
            for some in (
                known.with_state(self._state_now(queue.name, known)),
                *self._resting(command.arguments, queue.name, known),
            ):
                rows = fitting(command.arguments, queue.policy, some, self._now)
                few: Ints = rows[: MOST_SEEN - len(found)]
                more += len(rows) - len(few)
                found += views(queue.name, queue.policy, some, few)
        return CommandResult.to(command, "done", groups=found, more=more)

    def _resting(self, filter_: Mapping[str, Any], name: str, known: QueueState) -> Iterator[QueueState]:
        """The expired groups of a queue that a filter may name: they are ready or closed, and wait for nothing."""
        states = filter_.get("states")
        rests = states is None or not {GroupState.READY, GroupState.CLOSED}.isdisjoint(states)
        if self._cold is None or filter_.get("waits") or filter_.get("older_than") is not None or not rests:
            return
        if filter_.get("group") is None:
            yield from self._cold.walk(name)
            return
        key = pa.array([filter_["group"].encode()], pa.binary())
        strange = key.filter(pc.invert(pc.is_in(key, value_set=known.keys)))
        found = self._cold.look_at(name, known.incarnation, strange)
        if found is not None:
            yield found

    def _state_now(self, name: str, known: QueueState) -> State:
        """The state of a queue's groups after the preceding commands."""
        states = self._states.get(name)
        if not states:
            return known.state
        rows = sorted(states)
        return known.state.replace(np.array(rows, np.int64), State.join([states[row] for row in rows]))
