"""Trace a message, or the messages of a group, step by step with the known times.

The steps are found in data that the box has anyway. Steps that a queue doesn't keep are listed as unknown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.definitions.known import read_definitions
from seriatim.box.views.events import EventView, events_of_group, skips_of
from seriatim.box.views.faults import FaultFilter, FaultView, faults_of
from seriatim.box.views.groups import GroupView, group_of, postponement_of
from seriatim.box.views.message_places import check_one_space
from seriatim.box.views.open_places import first_open_place
from seriatim.box.views.operations_done import LogFilter, Logged, logged
from seriatim.errors import NotFound, UsageError
from seriatim.kernel.values.outcome import EventKind
from seriatim.pipeline.text.counted import counted

__all__ = ["Step", "StepKind", "Trace", "TracedPlace", "steps_elsewhere", "trace_group", "trace_message"]

_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
#: So much of the operator log and of the faults is looked at.
_MOST = 1000
#: So many messages are told of that come before a message, or result from it.
_MOST_RELATED = 100


class StepKind(StrEnum):
    """The kind of a step: what happened to a message or its group."""

    RECEIVED = "received"
    ROUTED = "routed"
    UNROUTED = "unrouted"
    WAITS = "waits"
    HELD = "held"
    RELEASED = "released"
    FAULT = "fault"
    OPERATION = "operation"
    EVENT = "event"
    DONE = "done"
    SET_ASIDE = "set_aside"
    #: What the box can't say, because nobody keeps it.
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a trace.

    Args:
        at: the time; None if the box doesn't keep it.
        kind: what happened.
        text: the step in words, with the known details.
        message_id: the id of the message; None if the step concerns the group.
        queue: the queue's name; None before the message is in a queue.
        group: the group's key.
        link: the link over which the box lies where it happened; None: in this box.
    """

    at: datetime | None
    kind: StepKind
    text: str
    message_id: str | None = None
    queue: str | None = None
    group: str | None = None
    link: str | None = None


class Trace(NamedTuple):
    """The steps of a message here."""

    steps: list[Step]
    may_have_left: bool = False
    #: Whether it isn't here any more, and nothing tells where it went.
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class TracedPlace:
    """A place of a message: a row of ``trace.sql``, or what another box tells of one."""

    message_id: str
    type: str
    location: str
    epoch: int
    number: int
    received_at: datetime
    destinations: int
    queue: str | None
    group: str | None
    entry_id: int | None
    status: str | None
    reason: str | None
    sequence: int | None
    ordinal: int | None
    late: bool | None
    attempt: int | None
    visible_at: datetime | None
    subscriptions: list[str]
    since: datetime | None
    id_space: str
    done_by: str | None
    parent_id: str | None = None
    origin_queue: str | None = None
    origin_group: str | None = None
    origin_ordinal: int | None = None
    postponed: int | None = None
    postponed_until: datetime | None = None

    @property
    def origin(self) -> _Place | None:
        """The place at a gate that the message carries."""
        return _Place.of(self.origin_queue, self.origin_group, self.origin_ordinal)


class _Place(NamedTuple):
    """A place at the gate of a queue."""

    queue: str
    group: str
    number: int

    @classmethod
    def of(cls, queue: str | None, group: str | None, number: int | None) -> _Place | None:
        """The place, if it is one."""
        return None if queue is None or group is None or number is None else cls(queue, group, number)


def trace_message(
    transaction: Transaction, message_id: str, id_space: str | None = None, within: int | None = None
) -> Trace:
    """The steps of one message, in order; and those of the messages from which it results, and that result from it.

    `within`: its results are looked for among so many messages that came after it; None: among all.
    """
    named: dict[str, object] = {
        "message_ids": [message_id], "id_space": id_space, "queue_id": None, "group_key": None,
    }  # fmt: skip
    places = _places(transaction, named)
    check_one_space(message_id, {one.id_space for one in places})
    faults = faults_of(transaction, FaultFilter(message_id=message_id, limit=_MOST))
    sent = _sent(transaction, message_id)
    if not places:
        gone = [*_gone(transaction, message_id, id_space, faults, sent), *map(_fault, reversed(faults))]
        steps = gone + _in_time(_related(transaction, message_id, places, within))
        return Trace(steps, may_have_left=True, is_gone=not sent)
    first = places[0]
    lines = [_received(first)]
    for one in places:
        if one.queue is None or one.group is None:
            lines.append(_unplaced(one))
            continue
        view = _view(transaction, one.queue, one.group)
        skips = _skips(transaction, read_definitions(transaction).queues.get(one.queue), one.group, [one])
        said = [
            entry
            for entry in logged(transaction, LogFilter(one.queue, group=one.group, limit=_MOST))
            if entry.at >= one.received_at and entry.details.get("message_id") in (None, message_id)
        ]
        mine = [fault for fault in faults if fault.queue == one.queue]
        lines.append([*_way(one, view, skips), *_before(said), *map(_fault, mine), *map(_operation, said)])
    lines.append(sent)
    missing = first.destinations - sum(one.queue is not None for one in places) - len(sent)
    if missing > 0:
        text = f"{counted(missing, 'more queue')} had it, and kept nothing of what was done there"
        lines.append([Step(None, StepKind.UNKNOWN, text, message_id)])
    steps = _in_time(lines + _related(transaction, message_id, places, within))
    return Trace(steps, may_have_left=missing > 0 or bool(sent))


def steps_elsewhere(link: str, places: Sequence[TracedPlace], faults: Sequence[FaultView]) -> list[Step]:
    """The steps of a message in the box behind a link, from what that one tells: its places, of which there is one at least, and faults."""
    lines = [_received(places[0])]
    for one in places:
        if one.queue is None or one.group is None:
            lines.append(_unplaced(one))
            continue
        lines.append([*_way(one, None, {}), *(_fault(fault) for fault in faults if fault.queue == one.queue)])
    return [replace(step, link=link) for step in _in_time(lines)]


def _related(
    transaction: Transaction, message_id: str, places: Sequence[TracedPlace], within: int | None
) -> list[list[Step]]:
    """The steps of the messages from which a message results, and that result from it."""
    queues = read_definitions(transaction).queues
    place, parent_id = (places[0].origin, places[0].parent_id) if places else (None, None)
    for one in places:
        queue = queues.get(one.queue or "")
        if place is None and queue is not None and queue.has_gate:
            place = _Place.of(one.queue, one.group, one.ordinal)
    found = _results(transaction, message_id, parent_id, place, within)
    if place is None:  # the message is done, and its place is known from what results from it
        carried = (_Place.of(row.origin_queue, row.origin_group, row.origin_ordinal) for row in found)
        place = next((one for one in carried if one is not None), None)
        found = found if place is None else _results(transaction, message_id, parent_id, place, within)
    ids = [row.message_id for row in found if row.message_id != message_id]
    if not ids:
        return []
    wanted: dict[str, object] = {"message_ids": ids, "id_space": None, "queue_id": None, "group_key": None}
    return [
        [*_received(one), *(_unplaced(one) if one.queue is None or one.group is None else _way(one, None, {}))]
        for one in _places(transaction, wanted)
    ]


def _results(
    transaction: Transaction, message_id: str, parent_id: str | None, place: _Place | None, within: int | None
) -> Sequence[Any]:
    queue, group, number = (None, None, None) if place is None else place
    return transaction.rows(
        "trace_results", message_id=message_id, parent_id=parent_id, origin_queue=queue, origin_group=group,
        origin_ordinal=number, limit=_MOST_RELATED, within=within,
    )  # fmt: skip


def trace_group(transaction: Transaction, queue: str, group: str, limit: int = 100) -> list[Step]:
    """The steps of the newest `limit` known messages of a group, and the actions on the group."""
    found = read_definitions(transaction).queue(queue)
    view = group_of(transaction, queue, group)
    places = _places(
        transaction,
        {"message_ids": [], "id_space": None, "queue_id": found.queue_id, "group_key": group},
        limit=limit,
    )
    faults = faults_of(transaction, FaultFilter(queue, group=group, limit=_MOST))
    skips = _skips(transaction, found, group, places)
    lines = [[*_received(one), *_way(one, view, skips)] for one in places]
    happened = events_of_group(transaction, found.queue_id, group, _MOST)
    lines += [[_event(one)] for one in reversed(happened)] + _open_hole(view, happened)
    lines.append([_fault(one) for one in reversed(faults)])
    said = logged(transaction, LogFilter(queue, group=group, limit=_MOST))
    lines.append([*_before(said), *map(_operation, reversed(said))])
    if (place := first_open_place(transaction, found.queue_id, view, lambda *_: None)) is not None:
        lines.append([Step(place.since, StepKind.WAITS, place.told, None, queue, group)])
    gone = view.ordinal - sum(one.ordinal is not None for one in places)
    if gone > 0:
        keep = {"nothing": "doesn't keep done messages", "faults": "keeps done messages only if they had failed before"}
        why = (
            f"queue {queue} {keep[found.declared.keeps]}"
            if found.declared.keeps in keep
            else "older than the messages that are listed, or purged"
        )
        text = f"{gone:,} of {counted(view.ordinal, 'released message')} can't be shown: {why}"
        lines.insert(0, [Step(None, StepKind.UNKNOWN, text, None, queue, group)])
    return _in_time(lines)


def _places(transaction: Transaction, parameters: dict[str, object], *, limit: int = _MOST) -> list[TracedPlace]:
    return transaction.rows("trace", TracedPlace, **parameters, limit=limit)


def _view(transaction: Transaction, queue: str, group: str) -> GroupView | None:
    """The group, if its queue has groups."""
    try:
        return group_of(transaction, queue, group)
    except UsageError:
        return None


def _gone(
    transaction: Transaction, message_id: str, id_space: str | None, faults: Sequence[FaultView], sent: Sequence[Step]
) -> Iterator[Step]:
    named = {"message_id": message_id, "id_space": id_space}
    rows = transaction.rows("published_at", **named)
    check_one_space(message_id, {space for _, space in rows})
    if not rows and not faults and not sent:
        raise NotFound(
            f"there is no message {message_id!r}",
            remedy="it was never published, or it and its id were deleted",
        )
    if rows:
        yield Step(rows[0].published_at, StepKind.RECEIVED, "published", message_id)
    if sent:
        yield from sent
        return
    text = (
        "it is gone: done in each queue that had it, which keep nothing of it, acknowledged by another box, or deleted"
    )
    yield Step(None, StepKind.UNKNOWN, text, message_id)


def _sent(transaction: Transaction, message_id: str) -> list[Step]:
    """What the owner of the box may know of a message that is on its way to another box, or was sent there and is kept."""
    if transaction.check_sight("see"):
        return []
    steps = []
    for one in transaction.rows("sent_messages", message_id=message_id):
        where = f"to queue {one.destination} of box {one.peer} over link {one.link}: message {one.number} of stream {one.incarnation}/{one.stream}"
        mark = ", marked as replayed" if one.replayed else ""
        if one.is_acknowledged:
            steps.append(
                Step(one.acked_at, StepKind.DONE, f"sent {where}{mark}, acknowledged", message_id, one.queue, one.key)
            )
            continue
        why = f" ({one.last_error})" if one.last_error else ""
        text = f"on its way {where}{mark}, sent {counted(one.attempts, 'time')}, not acknowledged{why}"
        steps.append(Step(None, StepKind.WAITS, text, message_id, one.queue, one.key))
    return steps


def _received(one: TracedPlace) -> list[Step]:
    ticket = f"{one.location}/{one.epoch}/{one.number}"
    parent = "" if one.parent_id is None else f", result of {one.parent_id}"
    place = (
        ""
        if one.origin is None
        else f", place {one.origin.number} of queue {one.origin.queue}, group {one.origin.group}"
    )
    text = f"at location {one.location} as {one.type}, ticket {ticket}{parent}{place}"
    return [Step(one.received_at, StepKind.RECEIVED, text, one.message_id)]


def _unplaced(one: TracedPlace) -> list[Step]:
    match one.status:
        case "unrouted":
            why = one.reason or "no subscription wanted it"
            return [Step(one.since, StepKind.UNROUTED, why, one.message_id)]
        case "to_route":
            return [Step(None, StepKind.WAITS, "published through SQL, and nobody has routed it yet", one.message_id)]
    return []


def _skips(
    transaction: Transaction, queue: BoxQueue | None, group: str, places: Sequence[TracedPlace]
) -> Mapping[int, EventView]:
    """The skips that made messages of a group late, by their numbers."""
    late = {one.sequence for one in places if one.sequence is not None and (one.late or one.status == "late")}
    return {} if queue is None else skips_of(transaction, queue, group, late)


def _open_hole(view: GroupView, happened: Sequence[EventView]) -> list[list[Step]]:
    """The hole that is open now, unless it is among the events."""
    if view.hole_through is None or view.hole_since is None:
        return []
    if any(one.kind == EventKind.HOLE_OPENED.word and one.at == view.hole_since for one in happened):
        return []
    text = f"hole opened: {_numbers(view.next, view.hole_through)}"
    return [[Step(view.hole_since, StepKind.EVENT, text, None, view.queue, view.group)]]


def _event(one: EventView) -> Step:
    return Step(one.at, StepKind.EVENT, _happened(one), None, one.queue, one.group)


def _happened(one: EventView) -> str:
    """An event in words."""
    numbers = "" if one.numbers is None else f": {one.numbers}"
    count = f", {one.count:,} of them" if one.count > 1 else ""
    return f"{one.kind.replace('_', ' ')}{numbers}{count}{_because(one)}"


def _because(one: EventView) -> str:
    """What caused an event, as far as that isn't clear from its kind."""
    if one.by is not None:
        return f", {str(one.action).replace('_', ' ')} by {one.by}"
    match one.kind:
        case EventKind.HOLE_SKIPPED.word:
            return ", its time was over"
        case EventKind.SUSPENDED.word if one.first is not None:
            return ", a late message"
    return ""


def _way(one: TracedPlace, view: GroupView | None, skips: Mapping[int, EventView]) -> list[Step]:
    """The steps of a message in one queue: from the matching subscriptions to its present place."""
    step = Step(None, StepKind.ROUTED, _routed(one), one.message_id, one.queue, one.group)
    return [
        replace(step, at=one.received_at),
        *(replace(step, at=at, kind=k, text=t) for at, k, t in _further(one, view, skips)),
    ]


def _routed(one: TracedPlace) -> str:
    number = "" if one.sequence is None else f", sequence {one.sequence}"
    by = f"by {', '.join(one.subscriptions)}" if one.subscriptions else "by its address, or a subscription that is gone"
    return f"into queue {one.queue}, group {one.group}, {by}{number}"


def _further(
    one: TracedPlace, view: GroupView | None, skips: Mapping[int, EventView]
) -> Iterator[tuple[datetime | None, StepKind, str]]:
    skip = None if one.sequence is None else skips.get(one.sequence)
    why = "" if skip is None else f" ({skip.numbers} skipped {skip.at.isoformat(' ', 'seconds')}{_because(skip)})"
    if one.ordinal is not None:
        late = f", late{why}" if one.late else ""
        yield None, StepKind.RELEASED, f"with ordinal {one.ordinal}{late}; the time isn't kept"
    tried = f", handed out {counted(one.attempt, 'time')} before" if one.attempt else ""
    later = postponement_of(one.postponed_until, one.postponed)
    match one.status:
        case "arrived" if later is not None:
            yield None, StepKind.WAITS, f"{later}{tried}"
        case "arrived":
            yield None, StepKind.WAITS, "nobody has judged it yet"
        case "held":
            yield None, StepKind.HELD, f"{_held(one, view)}{why}"
        case "queued" | "in_hand":
            seen = f", not before {one.visible_at.isoformat(' ', 'seconds')}" if one.visible_at else ""
            seen = seen if later is None else f", {later}"
            state = f"; its group is {view.state}" if view else ""
            yield None, StepKind.WAITS, f"to be handed out{seen}{tried}{state}"
        case "done":
            by = f", by {one.done_by}" if one.done_by else ""
            yield one.since, StepKind.DONE, f"done{by}{tried}"
        case _:
            yield one.since, StepKind.SET_ASIDE, f"{one.status}: {one.reason}{why}{tried}"


def _held(one: TracedPlace, view: GroupView | None) -> str:
    if one.reason == "place_open":
        return f"place {one.sequence} at the gate is open, or one before it"
    if one.late:
        return "late, and waits for an operator"
    if view is not None and view.hole_through is not None:
        missing = _numbers(view.next, view.hole_through)
        since = f", which is there since {view.hole_since.isoformat(' ', 'seconds')}" if view.hole_since else ""
        return f"behind the hole {missing}{since}"
    return f"its group is {view.state}" if view else "held"


def _numbers(first: int | None, last: int) -> str:
    return str(first) if first == last else f"{first}..{last}"


def _fault(one: FaultView) -> Step:
    again = f"; again {one.retry_at.isoformat(' ', 'seconds')}" if one.retry_at else ""
    text = f"attempt {one.attempt} of {one.worker}, {one.kind}: {one.error_class}: {one.error}{again}"
    return Step(one.at, StepKind.FAULT, text, one.message_id, one.queue, one.group)


def _before(said: Sequence[Logged]) -> Iterator[Step]:
    """Where messages were that have been put back since: that they were set aside, as the operator log has it, oldest first."""
    for one in reversed(said):
        since, about = one.details.get("since"), one.details.get("message_id")
        if one.action == "requeue" and since is not None:
            text = f"{one.details['status']}: {one.details.get('why')}, put back since"
            about = None if about is None else str(about)
            yield Step(datetime.fromisoformat(since), StepKind.SET_ASIDE, text, about, one.queue, one.group)


def _operation(one: Logged) -> Step:
    about = one.details.get("message_id")
    place = f" to {'the end' if one.details['place'] == 'end' else 'its place'}" if "place" in one.details else ""
    edits = [f"another body of {counted(one.details['edited_bytes'], 'byte')}"] if "edited_bytes" in one.details else []
    names = one.details.get("edited_properties")
    edits += [f"other properties ({', '.join(names)})"] if names else []
    edited = f", with {' and '.join(edits)}" if edits else ""
    passed = f", past {_numbers(*one.details['skipped'])}" if "skipped" in one.details else ""
    text = f"{one.action} by {one.actor}{place}{edited}{passed}: {one.reason}"
    return Step(one.at, StepKind.OPERATION, text, str(about) if about else None, one.queue, one.group)


def _in_time(lines: Sequence[Sequence[Step]]) -> list[Step]:
    """Sort steps by time: unknown steps first, the present place last; a step of unknown time stays behind its predecessor."""
    keyed: list[tuple[datetime, int, Step]] = []
    for line in lines:
        moment = _FIRST
        for step in line:
            moment = step.at or moment
            key = _LAST if step.kind in (StepKind.WAITS, StepKind.HELD) else moment
            keyed.append((key, len(keyed), step))
    return [step for *_, step in sorted(keyed, key=lambda one: one[:2])]
