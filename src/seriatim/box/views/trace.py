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
from seriatim.box.views.events import EventView, events_of_group, open_hole_of, skips_of
from seriatim.box.views.faults import FaultFilter, FaultView, faults_of
from seriatim.box.views.groups import GroupView, group_of, postponement_of
from seriatim.box.views.message_places import check_one_space
from seriatim.box.views.open_places import first_open_place
from seriatim.box.views.operations_done import LogFilter, Logged, logged
from seriatim.errors import NotFound, UsageError
from seriatim.kernel.values.outcome import EventKind
from seriatim.pipeline.text.counted import counted, numbers_text

_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
#: How many entries of the operator log and of the faults are read.
_MOST = 1000
#: How many messages are listed that come before a message, or result from it.
_MOST_RELATED = 100


class StepKind(StrEnum):
    """The kind of a step: the event of a message or its group."""

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
    #: A step that the box can't know, because it isn't kept.
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
    steps: list[Step]
    may_have_left: bool = False
    #: Whether it isn't here any more, and its fate isn't known.
    is_gone: bool = False


@dataclass(frozen=True, slots=True)
class TracedPlace:
    """A place of a message: a row of ``trace.sql``, or of another box's report."""

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
    #: From which side of a dialog it came, in words.
    dialog: str | None = None

    @property
    def origin(self) -> _Place | None:
        """The place at a gate that the message carries."""
        return _Place.of(self.origin_queue, self.origin_group, self.origin_ordinal)


class _Place(NamedTuple):
    queue: str
    group: str
    number: int

    @classmethod
    def of(cls, queue: str | None, group: str | None, number: int | None) -> _Place | None:
        return None if queue is None or group is None or number is None else cls(queue, group, number)


def trace_message(
    transaction: Transaction, message_id: str, id_space: str | None = None, within: int | None = None
) -> Trace:
    """The steps of a message, and of its causes and results. `within`: the most later messages that are searched for results; None: all."""
    named: dict[str, object] = {"message_ids": [message_id], "id_space": id_space, "queue_id": None, "group_key": None}
    places = _places(transaction, named)
    check_one_space(message_id, {place.id_space for place in places})
    faults = faults_of(transaction, FaultFilter(message_id=message_id, limit=_MOST))
    sent = _sent(transaction, message_id)
    if not places:
        no_longer_kept = [*_gone(transaction, message_id, id_space, faults, sent), *map(_fault, reversed(faults))]
        steps = no_longer_kept + _in_time(_related(transaction, message_id, places, within))
        return Trace(steps, may_have_left=True, is_gone=not sent)
    first = places[0]
    lines = [_received(first)]
    for place in places:
        if place.queue is None or place.group is None:
            lines.append(_unplaced(place))
            continue
        view = _view(transaction, place.queue, place.group)
        skips = _skips(transaction, read_definitions(transaction).queues.get(place.queue), place.group, [place])
        steps_logged = [
            entry
            for entry in logged(transaction, LogFilter(place.queue, group=place.group, limit=_MOST))
            if entry.at >= place.received_at and entry.details.get("message_id") in (None, message_id)
        ]
        of_queue = [fault for fault in faults if fault.queue == place.queue]
        lines.append(
            [*_way(place, view, skips), *_before(steps_logged), *map(_fault, of_queue), *map(_operation, steps_logged)]
        )
    lines.append(sent)
    missing = first.destinations - sum(place.queue is not None for place in places) - len(sent)
    if missing > 0:
        text = f"{counted(missing, 'more queue')} had it, and kept nothing of what was done there"
        lines.append([Step(None, StepKind.UNKNOWN, text, message_id)])
    steps = _in_time(lines + _related(transaction, message_id, places, within))
    return Trace(steps, may_have_left=missing > 0 or bool(sent))


def steps_elsewhere(link: str, places: Sequence[TracedPlace], faults: Sequence[FaultView]) -> list[Step]:
    """Return the steps of a message in the box behind a link, from its report: at least one place, and faults."""
    lines = [_received(places[0])]
    for place in places:
        if place.queue is None or place.group is None:
            lines.append(_unplaced(place))
            continue
        lines.append([*_way(place, None, {}), *(_fault(fault) for fault in faults if fault.queue == place.queue)])
    return [replace(step, link=link) for step in _in_time(lines)]


def _related(
    transaction: Transaction, message_id: str, places: Sequence[TracedPlace], within: int | None
) -> list[list[Step]]:
    """The steps of the messages from which a message results, and that result from it."""
    queues = read_definitions(transaction).queues
    place, parent_id = (places[0].origin, places[0].parent_id) if places else (None, None)
    for place_ in places:
        queue = queues.get(place_.queue or "")
        if place is None and queue is not None and queue.has_gate:
            place = _Place.of(place_.queue, place_.group, place_.ordinal)
    results = _results(transaction, message_id, parent_id, place, within)
    if place is None:  # the message is done, and its place is known from its results
        carried = (_Place.of(row.origin_queue, row.origin_group, row.origin_ordinal) for row in results)
        place = next((place_ for place_ in carried if place_ is not None), None)
        results = results if place is None else _results(transaction, message_id, parent_id, place, within)
    ids = [row.message_id for row in results if row.message_id != message_id]
    if not ids:
        return []
    wanted: dict[str, object] = {"message_ids": ids, "id_space": None, "queue_id": None, "group_key": None}
    return [
        [
            *_received(place_),
            *(_unplaced(place_) if place_.queue is None or place_.group is None else _way(place_, None, {})),
        ]
        for place_ in _places(transaction, wanted)
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
    bound = read_definitions(transaction).queue(queue)
    view = group_of(transaction, queue, group)
    places = _places(
        transaction, {"message_ids": [], "id_space": None, "queue_id": bound.queue_id, "group_key": group}, limit=limit
    )
    faults = faults_of(transaction, FaultFilter(queue, group=group, limit=_MOST))
    skips = _skips(transaction, bound, group, places)
    lines = [[*_received(traced), *_way(traced, view, skips)] for traced in places]
    happened = events_of_group(transaction, bound.queue_id, group, _MOST)
    lines += [[_event(traced)] for traced in reversed(happened)] + _open_hole(view, happened)
    lines.append([_fault(traced) for traced in reversed(faults)])
    logged_steps = logged(transaction, LogFilter(queue, group=group, limit=_MOST))
    lines.append([*_before(logged_steps), *map(_operation, reversed(logged_steps))])
    if (place := first_open_place(transaction, bound.queue_id, view, lambda *_: None)) is not None:
        lines.append([Step(place.since, StepKind.WAITS, place.told, None, queue, group)])
    missing = view.ordinal - sum(traced.ordinal is not None for traced in places)
    if missing > 0:
        keep = {"nothing": "doesn't keep done messages", "faults": "keeps done messages only if they had failed before"}
        why = (
            f"queue {queue} {keep[bound.declared.keeps]}"
            if bound.declared.keeps in keep
            else "older than the messages that are listed, or purged"
        )
        text = f"{missing:,} of {counted(view.ordinal, 'released message')} can't be shown: {why}"
        lines.insert(0, [Step(None, StepKind.UNKNOWN, text, None, queue, group)])
    return _in_time(lines)


def _places(transaction: Transaction, parameters: dict[str, object], *, limit: int = _MOST) -> list[TracedPlace]:
    return transaction.rows("trace", TracedPlace, **parameters, limit=limit)


def _view(transaction: Transaction, queue: str, group: str) -> GroupView | None:
    try:
        return group_of(transaction, queue, group)
    except UsageError:
        return None


def _gone(
    transaction: Transaction, message_id: str, id_space: str | None, faults: Sequence[FaultView], sent: Sequence[Step]
) -> Iterator[Step]:
    rows = transaction.rows("published_at", message_id=message_id, id_space=id_space)
    check_one_space(message_id, {space for _, space in rows})
    if not rows and not faults and not sent:
        raise NotFound(
            f"there is no message {message_id!r}", remedy="it was never published, or it and its id were deleted"
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
    """Return what the owner of the box may know of a message on its way to another box, or one that was sent there and is kept."""
    if transaction.check_sight("see"):
        return []
    steps = []
    for row in transaction.rows("sent_messages", message_id=message_id):
        stream = f"message {row.number} of stream {row.incarnation}/{row.stream}"
        stream = f"to queue {row.destination} of box {row.peer} over link {row.link}: {stream}"
        mark = ", marked as replayed" if row.replayed else ""
        if row.is_acknowledged:
            steps.append(
                Step(row.acked_at, StepKind.DONE, f"sent {stream}{mark}, acknowledged", message_id, row.queue, row.key)
            )
            continue
        why = f" ({row.last_error})" if row.last_error else ""
        text = f"on its way {stream}{mark}, sent {counted(row.attempts, 'time')}, not acknowledged{why}"
        steps.append(Step(None, StepKind.WAITS, text, message_id, row.queue, row.key))
    return steps


def _received(traced: TracedPlace) -> list[Step]:
    ticket = f"{traced.location}/{traced.epoch}/{traced.number}"
    parent = "" if traced.parent_id is None else f", result of {traced.parent_id}"
    place = (
        ""
        if traced.origin is None
        else f", place {traced.origin.number} of queue {traced.origin.queue}, group {traced.origin.group}"
    )
    dialog = "" if traced.dialog is None else f", from {traced.dialog}"
    text = f"at location {traced.location} as {traced.type}, ticket {ticket}{parent}{place}{dialog}"
    return [Step(traced.received_at, StepKind.RECEIVED, text, traced.message_id)]


def _unplaced(traced: TracedPlace) -> list[Step]:
    match traced.status:
        case "unrouted":
            why = traced.reason or "no subscription wanted it"
            return [Step(traced.since, StepKind.UNROUTED, why, traced.message_id)]
        case "to_route":
            return [
                Step(None, StepKind.WAITS, "published through SQL, and nobody has routed it yet", traced.message_id)
            ]
    return []


def _skips(
    transaction: Transaction, queue: BoxQueue | None, group: str, places: Sequence[TracedPlace]
) -> Mapping[int, EventView]:
    """The skips that made messages of a group late, by their numbers."""
    late = {place.sequence for place in places if place.sequence is not None and (place.late or place.status == "late")}
    return {} if queue is None else skips_of(transaction, queue, group, late)


def _open_hole(view: GroupView, happened: Sequence[EventView]) -> list[list[Step]]:
    """The hole that is open now, unless it is among the events."""
    hole = open_hole_of(view)
    if hole is None or any(event.kind == hole.kind and event.at == hole.at for event in happened):
        return []
    return [[_event(hole)]]


def _event(event: EventView) -> Step:
    return Step(event.at, StepKind.EVENT, _happened(event), None, event.queue, event.group)


def _happened(event: EventView) -> str:
    numbers = "" if event.numbers is None else f": {event.numbers}"
    count = f", {event.count:,} of them" if event.count > 1 else ""
    return f"{event.kind.replace('_', ' ')}{numbers}{count}{_because(event)}"


def _because(event: EventView) -> str:
    """The cause of an event, where its kind doesn't make it clear."""
    if event.by is not None:
        return f", {str(event.action).replace('_', ' ')} by {event.by}"
    match event.kind:
        case EventKind.HOLE_SKIPPED.word:
            return ", its time was over"
        case EventKind.SUSPENDED.word if event.first is not None:
            return ", a late message"
    return ""


def _way(traced: TracedPlace, view: GroupView | None, skips: Mapping[int, EventView]) -> list[Step]:
    """Return the steps of a message in one queue: from the matching subscriptions to its present place."""
    step = Step(None, StepKind.ROUTED, _routed(traced), traced.message_id, traced.queue, traced.group)
    return [
        replace(step, at=traced.received_at),
        *(replace(step, at=at, kind=k, text=t) for at, k, t in _further(traced, view, skips)),
    ]


def _routed(traced: TracedPlace) -> str:
    number = "" if traced.sequence is None else f", sequence {traced.sequence}"
    by = (
        f"by {', '.join(traced.subscriptions)}"
        if traced.subscriptions
        else "by its address, or a subscription that is gone"
    )
    return f"into queue {traced.queue}, group {traced.group}, {by}{number}"


def _further(
    traced: TracedPlace, view: GroupView | None, skips: Mapping[int, EventView]
) -> Iterator[tuple[datetime | None, StepKind, str]]:
    skip = None if traced.sequence is None else skips.get(traced.sequence)
    why = "" if skip is None else f" ({skip.numbers} skipped {skip.at.isoformat(' ', 'seconds')}{_because(skip)})"
    if traced.ordinal is not None:
        late = f", late{why}" if traced.late else ""
        yield None, StepKind.RELEASED, f"with ordinal {traced.ordinal}{late}; the time isn't kept"
    tried = f", handed out {counted(traced.attempt, 'time')} before" if traced.attempt else ""
    later = postponement_of(traced.postponed_until, traced.postponed)
    match traced.status:
        case "arrived" if later is not None:
            yield None, StepKind.WAITS, f"{later}{tried}"
        case "arrived":
            yield None, StepKind.WAITS, "nobody has judged it yet"
        case "held":
            yield None, StepKind.HELD, f"{_held(traced, view)}{why}"
        case "queued" | "in_hand":
            seen = f", not before {traced.visible_at.isoformat(' ', 'seconds')}" if traced.visible_at else ""
            seen = seen if later is None else f", {later}"
            state = f"; its group is {view.state}" if view else ""
            yield None, StepKind.WAITS, f"to be handed out{seen}{tried}{state}"
        case "done":
            by = f", by {traced.done_by}" if traced.done_by else ""
            yield traced.since, StepKind.DONE, f"done{by}{tried}"
        case "faulted":
            yield None, StepKind.WAITS, f"for an operator: its handler failed for good{tried}"
        case _:
            yield traced.since, StepKind.SET_ASIDE, f"{traced.status}: {traced.reason}{why}{tried}"


def _held(traced: TracedPlace, view: GroupView | None) -> str:
    if traced.reason == "place_open":
        return f"place {traced.sequence} at the gate is open, or one before it"
    if traced.late:
        return "late, and waits for an operator"
    if view is not None and view.hole_through is not None:
        missing = numbers_text(view.next, view.hole_through)
        since = f", which is there since {view.hole_since.isoformat(' ', 'seconds')}" if view.hole_since else ""
        return f"behind the hole {missing}{since}"
    return f"its group is {view.state}" if view else "held"


def _fault(fault: FaultView) -> Step:
    again = f"; again {fault.retry_at.isoformat(' ', 'seconds')}" if fault.retry_at else ""
    text = f"attempt {fault.attempt} of {fault.worker}, {fault.kind}: {fault.error_class}: {fault.error}{again}"
    return Step(fault.at, StepKind.FAULT, text, fault.message_id, fault.queue, fault.group)


def _before(entries: Sequence[Logged]) -> Iterator[Step]:
    """Yield the former places of messages that were put back: their setting aside, from the operator log, oldest first."""
    for entry in reversed(entries):
        since, about = entry.details.get("since"), entry.details.get("message_id")
        if entry.action == "requeue" and since is not None:
            text = f"{entry.details['status']}: {entry.details.get('why')}, put back since"
            about = None if about is None else str(about)
            yield Step(datetime.fromisoformat(since), StepKind.SET_ASIDE, text, about, entry.queue, entry.group)


def _operation(entry: Logged) -> Step:
    about = entry.details.get("message_id")
    place = f" to {'the end' if entry.details['place'] == 'end' else 'its place'}" if "place" in entry.details else ""
    edits = (
        [f"another body of {counted(entry.details['edited_bytes'], 'byte')}"] if "edited_bytes" in entry.details else []
    )
    names = entry.details.get("edited_properties")
    edits += [f"other properties ({', '.join(names)})"] if names else []
    edited = f", with {' and '.join(edits)}" if edits else ""
    passed = f", past {numbers_text(*entry.details['skipped'])}" if "skipped" in entry.details else ""
    text = f"{entry.action} by {entry.actor}{place}{edited}{passed}: {entry.reason}"
    return Step(entry.at, StepKind.OPERATION, text, str(about) if about else None, entry.queue, entry.group)


def _in_time(lines: Sequence[Sequence[Step]]) -> list[Step]:
    """Sort steps by time: unknown steps first, the present place last; a step of unknown time stays after its predecessor."""
    keyed: list[tuple[datetime, int, Step]] = []
    for line in lines:
        moment = _FIRST
        for step in line:
            moment = step.at or moment
            key = _LAST if step.kind in (StepKind.WAITS, StepKind.HELD) else moment
            keyed.append((key, len(keyed), step))
    return [step for *_, step in sorted(keyed, key=lambda item: item[:2])]
