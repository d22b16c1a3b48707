"""Checks of gates for `define`: whether they fit the queues, and whether they may change."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from seriatim.box.definitions.definition import BoxQueue, Definitions
from seriatim.box.postgres.statements import Statements
from seriatim.errors import ActionRefused, NotFound, Unavailable, UsageError
from seriatim.kernel.groups.policy import Standard
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.text.command import command
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.section import likely

#: By these a gate orders what comes to it.
_GROUP, _SEQUENCE = "origin_group", "origin_ordinal"


def other_way(old: Queue | None, new: Queue | None) -> list[str]:
    """The fields by which the messages of a queue would go another way to a gate; None: there is no such queue."""
    before, after = ((None, set()) if one is None else (one.gate_name, set(one.through)) for one in (old, new))
    return [name for name, was, is_now in zip(("gate", "gate.through"), before, after, strict=True) if was != is_now]


def check_unused_gate(statements: Statements, before: Definitions, name: str, fields: list[str]) -> None:
    """Refuse to change the way from a queue to its gate while messages are on it. The caller holds off publishers."""
    queue = before.queues[name]
    gate = before.queues.get(queue.declared.gate_name or "")
    found = statements.one("gate_contents", queue_id=queue.queue_id, gate_id=None if gate is None else gate.queue_id)
    if found.waiting:
        raise ActionRefused(
            f"{' and '.join(fields)} can't change: the queue has {counted(found.waiting, 'message')}, whose places are at the gate"
            if queue.has_gate
            else f"{' and '.join(fields)} can't change: the queue has {counted(found.waiting, 'message')}, which have no places",
            where=f"queue {name!r}",
            remedy="let a worker finish them, while nobody publishes to it",
        )
    if found.open:
        raise ActionRefused(
            f"{' and '.join(fields)} can't change: {counted(found.open, 'message')} of its places "
            f"{'is' if found.open == 1 else 'are'} on the way to gate {queue.declared.gate_name!r}, or wait there",
            where=f"queue {name!r}",
            remedy="let workers finish them",
        )


def check_gates(after: Definitions, changed: Collection[str]) -> None:
    """Refuse gates that don't fit the other definitions, unless nothing of their way has changed."""
    owner_of: dict[str, str] = {}
    origin_of: dict[str, str] = {}
    for name, queue in after.queues.items():
        if not queue.has_gate:
            continue
        where, gate = f"queue {name!r}", str(queue.declared.gate_name)
        if (other := origin_of.setdefault(gate, name)) != name:
            raise UsageError(
                f"gate {gate!r} is that of queue {other!r}, and takes the places of one queue",
                where=where,
                remedy=f"one order for both comes from one origin: let {other!r} take the messages of both, with a handler for each type; "
                "a gate for each queue has an order of its own",
            )
        for one in queue.declared.through:
            if (other := owner_of.setdefault(one, name)) != name:
                raise UsageError(
                    f"queue {one!r} is on the way of queue {other!r} to another gate",
                    where=where,
                    remedy="give each way its own queues",
                )
        if {name, gate, *queue.declared.through}.isdisjoint(changed):
            continue
        _check_gate(after, gate, where)
        for what, wrong in _unfit_origin(queue):
            raise UsageError(f"a queue with a gate {what}", where=where, remedy=wrong)
        for one in queue.declared.through:
            _check_through(after, one, where)
    _check_circles(after)


def _check_gate(after: Definitions, name: str, where: str) -> None:
    if (gate := after.queues.get(name)) is None:
        raise NotFound(
            f"there is no queue {name!r}, which is to be its gate",
            where=where,
            remedy=likely(name, after.queues) or _wanted(name),
        )
    if (what := next(_unfit_gate(gate), None)) is not None:
        raise UsageError(f"queue {name!r} can't be a gate: {what}", where=where, remedy=_wanted(name))


def _wanted(name: str) -> str:
    return f'Queue({name!r}, policy=Standard(), group="{_GROUP}", sequence="{_SEQUENCE}")'


def _unfit_gate(gate: BoxQueue) -> Iterator[str]:
    one, policy = gate.declared, gate.declared.policy
    if gate.problem is not None:
        yield f"its definition can't be used: {gate.problem}"
    if gate.serves:
        yield "it is the queue of a service"
    if not isinstance(policy, Standard):
        yield f"it is {policy.name}, and a gate is standard"
    elif (policy.start, policy.increment) != (1, 1):
        yield f"start is {policy.start} and increment {policy.increment}, and places are 1, 2, 3 …"
    elif policy.capacity is not None:
        yield "it has a capacity, which would reject what has a place"
    if one.group.by_type is not None:
        yield "it puts each type in order by itself"
    if (one.group.by, one.sequence) != (_GROUP, _SEQUENCE):
        yield f"its group is {one.group.by} and its sequence {one.sequence}, and not {_GROUP} and {_SEQUENCE}"
    refused = (
        (one.group.default, "it has a default group, and what comes to a gate has a group"),
        (
            one.group.expire_after,
            "it has an expire_after, and its groups are forgotten with those of its origin queue, which may have one",
        ),
    )
    yield from (what for value, what in refused if value is not None)
    if gate.means:
        yield "it finds out its first number, and places begin at 1"
    if one.has_stays:
        yield "messages open or close its groups, and it takes what has a place"


def _unfit_origin(queue: BoxQueue) -> Iterator[tuple[str, str]]:
    if queue.serves:
        yield "can't be that of a service: a dialog has its own order", "let the service have another queue"
    if queue.owner is not None:
        yield (
            f"is worked on by workers, and this one belongs to the pipeline {queue.owner!r}",
            f"{command('queue', 'release', queue.declared.name)}, when that has stopped",
        )


def _check_through(after: Definitions, name: str, where: str) -> None:
    if (queue := after.queues.get(name)) is None:
        raise NotFound(
            f"there is no queue {name!r}, which is to be on the way to its gate",
            where=where,
            remedy=likely(name, after.queues) or "define it, or leave it out",
        )
    what = None
    if queue.has_gate:
        what = f"it has a gate of its own, {queue.declared.gate_name!r}"
    elif name in after.gates:
        what = f"it is the gate of queue {after.gates[name].declared.name!r}"
    elif queue.serves:
        what = "it is the queue of a service"
    elif queue.means:
        what = "it says what its numbers mean"
    elif queue.owner is not None:
        what = f"it belongs to the pipeline {queue.owner!r}"
    if what is not None:
        raise UsageError(
            f"queue {name!r} can't be on the way to a gate: {what}",
            where=where,
            remedy="through names the queues between it and its gate, on which workers work",
        )


def way_refused(name: str, origin: BoxQueue) -> UsageError:
    """The error for a pipeline that is to read a queue whose messages are on the way to a gate."""
    return UsageError(
        f"a pipeline can't read queue {name!r}: its messages are on the way to gate {origin.declared.gate_name!r}, and workers "
        "work on them",
        where=f"queue {name!r}",
        remedy="let the pipeline read the gate: its ordinals are the sequence",
    )


def _check_circles(after: Definitions) -> None:
    for name, queue in after.queues.items():
        seen, one = [name], queue
        while one.has_gate and (gate := str(one.declared.gate_name)) in after.queues:
            if gate in seen:
                raise UsageError(
                    f"its gate leads to itself: {' → '.join([*seen, gate])}",
                    where=f"queue {name!r}",
                    remedy="let the last gate have none",
                )
            seen.append(gate)
            one = after.queues[gate]


#: A definition locks at most this many groups: PostgreSQL has room for few locks.
_MOST_GROUPS = 1000


def begin_at_gates(statements: Statements) -> None:
    """Let groups of gates begin anew where their queues have other numbers. Publishers are held off, nothing is on the way."""
    for name, queue_id, gate, gate_id in statements.rows("new_gates"):
        where = f"queue {name!r}"
        found = statements.one("lock_misplaced", queue_id=queue_id, gate_id=gate_id)
        if found.waiting or found.groups > _MOST_GROUPS:
            many, what = (found.waiting, "wait") if found.waiting else (found.groups, "are to be handed out")
            counts = f"more than {_MOST_GROUPS:,} groups" if many > _MOST_GROUPS else counted(many, "group")
            raise ActionRefused(
                f"messages of earlier places {what} at gate {gate!r}, in {counts}",
                where=where,
                remedy="let workers receive from the gate",
            )
        if found.locked < found.groups:
            raise Unavailable(
                f"somebody works on a group of gate {gate!r}, which is to begin anew",
                where=where,
                remedy="define it again when that has ended",
            )
        statements.do("begin_at_gate", queue_id=queue_id, gate_id=gate_id)
