"""Take messages that are put back through a pipeline's stages up to `resequence`, outside of Spark: from the body to key and number.

The rules are those of the stages themselves: the readers of `spark/receive/`, the user's code as `spark/process/` calls it, the kernel's
filters and its reading of numbers.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any

from seriatim.errors import shown
from seriatim.kernel.filters.filter import Type, ValueKind, type_from
from seriatim.kernel.filters.filter_function import Function, as_function
from seriatim.kernel.groups.arrivals import NOT_SAID
from seriatim.kernel.groups.number_reader import NumberReader, Read
from seriatim.kernel.groups.numbers import by_position
from seriatim.kernel.groups.policy import BestEffort, Fifo, UnitOfWork, Unordered
from seriatim.kernel.groups.sequence import key_problem
from seriatim.kernel.policies.stays import CLOSES, OPENS
from seriatim.kernel.values.outcome import REASONS, Reason
from seriatim.kernel.values.reading import LAST_NUMBER, moment, of_size, sequence_number, ticket_position, whole_number
from seriatim.pipeline.bodies.property_values import Unreadable, as_in_json, converted, converter_of
from seriatim.pipeline.declared.function import search_folders
from seriatim.pipeline.declared.pipeline import REGION, Destination, Pipeline, Receive
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.files.where import OF_PIPELINES
from seriatim.pipeline.filters.syntax import parsed
from seriatim.pipeline.types.properties import PARTS
from seriatim.spark.frames.property_types import arrow_type, declared_type
from seriatim.spark.process.stage import process_here
from seriatim.spark.receive.reread import Reread, reader_of
from seriatim.spark.resequence.resubmitted import as_plain, order_of
from seriatim.spark.state.manifest import identity


class PutBackRefusal(Exception):
    """A message that can't be put back as it is; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Request:
    #: The message, as it was written when it was set aside, with the edits.
    fields: Mapping[str, Any]
    #: Whether the user's code gets it: it was set aside before that.
    anew: bool = False
    edited: tuple[str, ...] = ()
    #: The only destination that it may go to; None: any to which it is routed.
    only: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """A message as it enters a destination's order."""

    destination: str
    #: The key of its place in the state: its group's key, or for a destination without groups its id.
    key: str
    group: str | None
    shown: Any
    sequence: int | None
    #: The size of its set, or the bits for opening or closing its group, or for what its number means.
    size: int | None
    time: int | None
    row: Mapping[str, Any]
    #: What else it says of its number, as arguments of a command: see `seriatim.spark.resequence.resubmitted`.
    numbers: Mapping[str, Any] = field(default_factory=dict)


class Passage:
    """The stages of a pipeline before the order."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._entries = {entry.title: entry for entry in pipeline.receive}
        self._readers: dict[str, Reread | None] = {}
        self._kinds = _kinds(pipeline)
        kinds = {**OF_PIPELINES, **PARTS, **self._kinds}
        self._types = {name: type_from(kind) for name, kind in kinds.items()}
        self._filters: dict[str, Function] = {}

    def ways(self, requests: Sequence[Request]) -> list[list[Entry | PutBackRefusal]]:
        """Return the ways of messages: for each message an entry per destination, or the reason why it can't go there."""
        ways: list[list[Entry | PutBackRefusal]] = [[] for _ in requests]
        messages: dict[int, dict[str, Any]] = {}
        for place, request in enumerate(requests):
            try:
                messages[place] = self._prepared(request)
            except PutBackRefusal as refusal:
                ways[place].append(refusal)
        if self._has_code:
            messages = self._worked_on(messages, requests, None, ways)
        wanted = self._routed(messages, requests, ways)
        for route in self._pipeline.route:
            rows = wanted[route.queue.name]
            if route.process is not None:
                rows = self._worked_on(rows, requests, route, ways)
            for place, message in rows.items():
                try:
                    ways[place].append(self._entry(route.queue, message, requests[place].fields))
                except PutBackRefusal as refusal:
                    ways[place].append(refusal)
        return ways

    def declared(self, entry: Entry) -> dict[str, Any]:
        """What of the declaration a message goes back by, as arguments of its command."""
        queue = next(route.queue for route in self._pipeline.route if route.queue.name == entry.destination)
        types = {name: declared_type(arrow_type(kind)) for name, kind in self._kinds.items() if name in entry.row}
        return {"types": types, "order": order_of(queue, identity([queue], 1, "")["queues"][queue.name])}

    def _routed(
        self, messages: dict[int, dict[str, Any]], requests: Sequence[Request], ways: list[list[Entry | PutBackRefusal]]
    ) -> dict[str, dict[int, dict[str, Any]]]:
        wanted: dict[str, dict[int, dict[str, Any]]] = {route.queue.name: {} for route in self._pipeline.route}
        for place, message in messages.items():
            only = requests[place].only
            names = [route.queue.name for route in self._pipeline.route if self._says(route.where, message) is True]
            for name in names:
                if only in (None, name):
                    wanted[name][place] = message
            if not any(only in (None, name) for name in names):
                why = f"destination {only} doesn't want it any more" if only else "no destination wants it"
                ways[place].append(PutBackRefusal(why))
        return wanted

    @property
    def _has_code(self) -> bool:
        return self._pipeline.process is not None or any(route.process is not None for route in self._pipeline.route)

    def _prepared(self, request: Request) -> dict[str, Any]:
        """The columns of a message, read again from its body where they have to be."""
        fields = request.fields
        entry = self._entries.get(self._source(fields))
        if entry is None:
            raise PutBackRefusal(f"the pipeline has no location {shown(fields.get('location'))} any more")
        message = self._message(fields)
        body_edited = bool({"body", "body_base64"} & set(request.edited))
        invalid = fields.get("disposition") == "invalid"
        unsplit = entry.split is not None and fields.get("part") is None and entry.split.otherwise == "invalid"
        if request.anew and unsplit:
            raise PutBackRefusal(
                "messages of its location are split, and this one wasn't: put it into the source again"
            )
        if (invalid or body_edited) and (request.anew or not self._has_code):
            self._read_again(entry, message, request.edited)
        return message

    def _source(self, fields: Mapping[str, Any]) -> str:
        location = str(fields.get("location"))
        return f"{location}/{fields.get(REGION)}" if self._pipeline.merges else location

    def _message(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        text, encoded = fields.get("body"), fields.get("body_base64")
        body = base64.b64decode(encoded) if encoded is not None else None if text is None else text.encode()
        message: dict[str, Any] = {name: fields.get(name) for name in ("message_id", "location")}
        message |= {name: fields.get(name) for name in ("parent_id", "part", "parts")}
        message |= {"received_at": None, "body": body, "ticket": fields.get("ticket")}
        for name, kind in {"type": "string", **self._kinds}.items():
            value = fields.get(name)
            try:
                message[name] = None if value is None else converted(name, converter_of(name, kind), as_in_json(value))
            except Unreadable as error:
                raise PutBackRefusal(str(error)) from None
        return message

    def _read_again(self, entry: Receive, message: dict[str, Any], edited: tuple[str, ...]) -> None:
        """Replace the properties that weren't edited by those in the body."""
        if entry.title not in self._readers:
            self._readers[entry.title] = reader_of(entry, search_folders(self._pipeline.source_file))
        reader = self._readers[entry.title]
        if reader is None:
            return
        values, problem = reader(message["body"])
        if problem is not None:
            wrong = [part for part in problem.split("; ") if part.partition(":")[0] not in edited]
            if wrong or not values:
                raise PutBackRefusal(f"it is still invalid: {problem}")
        message.update({name: value for name, value in values.items() if name not in edited})

    def _worked_on(
        self,
        messages: dict[int, dict[str, Any]],
        requests: Sequence[Request],
        destination: Destination | None,
        ways: list[list[Entry | PutBackRefusal]],
    ) -> dict[int, dict[str, Any]]:
        """Return the messages after the user's code; messages that had passed it stay, and messages that fail again are refused."""
        places = [place for place in messages if requests[place].anew]
        if not places:
            return messages
        name = None if destination is None else destination.queue.name
        worked = process_here([messages[place] for place in places], self._pipeline, destination=name)
        done = dict(messages)
        for place, message in zip(places, worked, strict=True):
            if message["_invalid"] is None:
                done[place] = {**messages[place], **message}
            else:
                del done[place]
                ways[place].append(PutBackRefusal(f"it is still invalid: {message['_invalid'].splitlines()[0]}"))
        return done

    def _says(self, text: str, message: Mapping[str, Any]) -> Any:
        """The value of a filter, given as its text, for a message: true, false or null."""
        if text not in self._filters:
            self._filters[text] = as_function(parsed(text, self._types))
        ticket = message.get("ticket") or {}
        values = {name: _filtered(message.get(name), kind) for name, kind in self._types.items()}
        values |= {"ticket": ticket.get("number"), "epoch": ticket.get("epoch")}
        return self._filters[text](values, ())

    def _entry(self, queue: Queue, message: Mapping[str, Any], fields: Mapping[str, Any]) -> Entry:
        row = {name: as_plain(value) for name, value in message.items() if value is not None and name != "destination"}
        row.pop("_invalid", None)
        time = self._time(message)
        if isinstance(queue.policy, Unordered):
            key = str(message["message_id"])[:256]
            return Entry(queue.name, key, None, None, None, None, time, row)
        group = self._group(queue, message, fields)
        written = None if queue.numbered_by is None else message.get(queue.numbered_by)
        if queue.says.says() or by_position(queue.policy):
            read = self._read(queue, message)
            size = self._size(queue, message, read.number) if read.size == NOT_SAID else read.size
            numbers = {"through": read.through, "epoch": read.epoch, "void": not read.weight}
            numbers |= {} if read.position is None else {"position": as_plain(read.position)}
            return Entry(queue.name, group, group, as_plain(written), read.number, size, time, row, numbers)
        sequence = self._sequence(queue, written)
        size = self._size(queue, message, sequence)
        return Entry(queue.name, group, group, as_plain(written), sequence, size, time, row)

    def _read(self, queue: Queue, message: Mapping[str, Any]) -> Read:
        filters: dict[str, Any] = {name: partial(self._says, text) for name, text in queue.says.filters.items()}
        read = NumberReader(queue.policy_of(None), replace(queue.says, **filters)).read(None, message, void=False)
        if read.reason is not Reason.NONE:
            raise PutBackRefusal(f"it is still invalid: {REASONS[read.reason]}")
        return read

    def _time(self, message: Mapping[str, Any]) -> int | None:
        if self._pipeline.clock != "event":
            return None
        time = as_plain(message.get(str(self._pipeline.time)))
        if time is None:
            raise PutBackRefusal(f"it is still invalid: {REASONS[Reason.TIME_MISSING]}")
        return int(time)

    def _group(self, queue: Queue, message: Mapping[str, Any], fields: Mapping[str, Any]) -> str:
        name = str(queue.group.by)
        value = message.get(name)
        # The key as it was stored is kept, unless an edit has changed the property.
        known = fields.get("group") if as_plain(value) == as_plain(self._message(fields).get(name)) else None
        key = known if isinstance(known, str) else _as_text(name, value)
        problem = key_problem(key)
        if problem and queue.group.default is not None:
            return queue.group.default
        if problem or key is None:
            raise PutBackRefusal(f"it is still invalid: {REASONS[problem]}")
        return key

    def _sequence(self, queue: Queue, value: Any) -> int | None:
        if queue.numbered_by is None or isinstance(queue.policy, Fifo):
            return None
        if queue.numbered_by == "ticket" and isinstance(value, Mapping):
            stamp = next(
                (entry.stamp for entry in self._entries.values() if entry.location == value.get("location")), None
            )
            last = LAST_NUMBER if stamp is None else stamp.last_number
            return ticket_position(int(value["epoch"]), int(value["number"]), last)
        by_time = isinstance(queue.policy, BestEffort) and queue.policy.by == "time"
        number = moment(value) if by_time else sequence_number(value)
        if isinstance(number, Reason):
            raise PutBackRefusal(f"it is still invalid: {REASONS[number]}")
        return number

    def _size(self, queue: Queue, message: Mapping[str, Any], sequence: int | None) -> int | None:
        policy = queue.policy
        if queue.has_stays:
            bits = 0
            for bit, text in ((OPENS, queue.group.opens), (CLOSES, queue.group.closes)):
                bits |= int(bit) if text is not None and self._says(text, message) is True else 0
            return bits
        if not isinstance(policy, UnitOfWork):
            return None
        if isinstance(policy.last, str):
            return sequence if self._says(policy.last, message) is True else None
        if not isinstance(policy.size, str) or message.get(policy.size) is None:
            return None
        size = whole_number(message[policy.size])
        if isinstance(size, Reason):
            raise PutBackRefusal(f"it is still invalid: {REASONS[of_size(size)]}")
        return max(size, 0)


def _kinds(pipeline: Pipeline) -> dict[str, str]:
    """Return every property and its type, like `properties` of ``spark/process``, in the words of a declaration."""
    kinds = {item.name: item.type for entry in pipeline.receive for item in entry.promote}
    if pipeline.merges:
        kinds[REGION] = "string"
    for step in (pipeline.process, *(route.process for route in pipeline.route)):
        kinds |= dict(step.returns) if step is not None else {}
    return {name: kind for name, kind in kinds.items() if name not in ("body", "type")}


def _filtered(value: Any, kind: Type) -> Any:
    """Return a value in the form of filters: a decimal as its whole number, a timestamp as its microseconds."""
    match value:
        case None:
            return None
        case datetime():
            return as_plain(value)
        case _ if kind.kind is ValueKind.DECIMAL:
            return int(Decimal(value).scaleb(kind.scale))
    return value


def _as_text(name: str, value: Any) -> str | None:
    match value:
        case None:
            return None
        case str():
            return value
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case Decimal():
            return format(value, "f")
    raise PutBackRefusal(
        f"the group is a {type(value).__name__}, which can't be edited here: put it into the source again"
    )
