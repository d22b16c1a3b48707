"""Write a pipeline's batches into a box, each batch once.

Tasks stage parts, which receivers can't see. A merge publishes the parts that it names and records the batch, in one
transaction. A batch that is in the box already is ignored, and parts of failed tasks are never merged. Messages are
routed when they are staged; the merge routes them again if the definitions have changed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID, uuid5

import pyarrow as pa

from seriatim.box import notices
from seriatim.box.connection.access import Transaction
from seriatim.box.connection.connections import DEFAULT_SCHEMA, Closing, Connections
from seriatim.box.definitions.correlation import looking
from seriatim.box.definitions.definition import Definitions
from seriatim.box.definitions.entries import Entries
from seriatim.box.definitions.route import Routed, Router, router_of
from seriatim.box.messages.received import context_of
from seriatim.box.notice import KeptOut
from seriatim.box.pipelines.incoming import Incoming, PartRows, fitting, messages_of, storable
from seriatim.box.pipelines.open_part import OpenPart, entry_columns, message_columns
from seriatim.box.pipelines.plain_rows import plain_columns
from seriatim.box.publishing.batch import parameters_of
from seriatim.box.publishing.queue_room import full_for_batch, refuse_for_batch
from seriatim.errors import CheckpointMismatch, QueueFull, Unavailable, UsageError
from seriatim.kernel.groups.policy import Fifo, Unordered
from seriatim.kernel.groups.sequence import key_problem
from seriatim.kernel.values.outcome import REASONS, Reason
from seriatim.kernel.values.time import micros, seconds
from seriatim.pipeline.bodies.property_values import problem_text
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.event_log import LOG
from seriatim.pipeline.types.box_properties import by_ticket
from seriatim.pipeline.types.message import Message, Part
from seriatim.pipeline.types.typed_message import Typed

_PORTION = 5_000
#: The namespace of the ids that are made from names.
_MADE_UP = UUID("5e21a711-0000-5000-8000-000000000001")
#: How long a batch waits for room, and the shortest and longest pause between two looks: a look may read all of it.
_PATIENCE_S, _SHORT_NAP_S, _LONG_NAP_S = 30.0, 0.05, 1.0

#: A part that is staged: its id, and how many messages it has.
StagedPart = tuple[int, int]


class Staging(Closing):
    """Write one sink of a pipeline into a box."""

    def __init__(
        self,
        dsn: str | None = None,
        schema: str = DEFAULT_SCHEMA,
        *,
        queue: str | None = None,
        incoming: Incoming | None = None,
        wait: float | str = _PATIENCE_S,
        fence: int = 0,
    ) -> None:
        #: The number of the run that writes; 0: runs have none.
        self._fence = fence
        self._wait_s = seconds(micros(wait))
        self._connections = Connections.open(
            notices.publish, dsn, schema, 2, create=schema == DEFAULT_SCHEMA, owner=True
        )
        self._access = self._connections.access
        self._schema = schema
        #: The queue that gets the messages; None: the queues whose subscriptions match.
        self._queue = queue
        self._incoming = incoming or Incoming()
        self._routers: dict[int, Router] = {}
        if queue is not None:
            with self._access.transaction() as transaction:
                transaction.definitions().queue(queue)

    def stage(self, writer: str, batch: int, rows: Iterable[pa.RecordBatch], number: int = 0) -> StagedPart:
        """Stage a part. An invalid row is staged as an unrouted message, with the reason."""
        of_part = f"{writer}\0{batch}\0{number}"
        with self._access.transaction() as transaction:
            definitions = transaction.definitions()
            named = {"writer": writer, "batch": batch, "number": number, "version": definitions.version}
            (part_id,) = transaction.rows("begin_part", **named)[0]
            part = OpenPart(transaction, part_id, number)
            for table in rows:
                for begin in range(0, len(table), _PORTION):
                    self._stage(
                        part, table.slice(begin, _PORTION), partial(_made_up, of_part, part.messages), definitions
                    )
            part.end(definitions.version)
        return part_id, part.messages

    def merge(self, writer: str, batch: int, parts: Sequence[StagedPart]) -> int:
        """Publish the parts of a batch, in their order; does nothing if the batch is in the box already."""
        part_ids = [part_id for part_id, _ in parts]
        self._wait_for_room(writer, batch, part_ids)
        with self._access.transaction() as transaction:
            last = self._lock_writer(transaction, writer)
            if batch <= last:
                transaction.do("drop_parts", part_ids=part_ids)
                return 0
            transaction.do("hold_definitions")
            definitions = transaction.definitions()
            for row in self._whole(transaction, parts):
                if row.version != definitions.version:  # it was routed by others
                    self._stage_again(OpenPart(transaction, row.part_id, row.number), definitions)
            refuse_for_batch(transaction, definitions, part_ids)
            messages = transaction.value("merge_parts", of_parts=part_ids, repeat=self._incoming.ordered)
            transaction.notice(KeptOut())
            version = definitions.version
            transaction.do("record_batch", writer=writer, batch=batch, version=version, messages=messages)
            stray = transaction.rows("stray_parts", writer=writer, batch=batch)
            if stray:
                transaction.do("drop_parts", part_ids=[part_id for (part_id,) in stray])
        return int(messages)

    def _lock_writer(self, transaction: Transaction, writer: str) -> int:
        """Lock a writer; return its last batch in the box."""
        transaction.do("add_writer", writer=writer, fence=self._fence)
        last, fence = transaction.rows("lock_writer", writer=writer)[0]
        if fence > self._fence:
            raise CheckpointMismatch(
                "a later run of this pipeline has taken over",
                where=f"writer {writer!r}",
                remedy="let that run go on; stop it first, if this one is to",
            )
        return int(last)

    def _wait_for_room(self, writer: str, batch: int, part_ids: Sequence[int]) -> None:
        """Wait, outside a transaction, until no queue of the batch is full; the batch may be in the box already."""
        until, nap_s = time.monotonic() + self._wait_s, _SHORT_NAP_S
        while True:
            with self._access.transaction() as transaction:
                definitions = transaction.definitions()
                if not definitions.limited or self._is_done(transaction, writer, batch):
                    return
                full = full_for_batch(transaction, definitions, part_ids)
            if full is None:
                return
            left_s = until - time.monotonic()
            if left_s <= 0 or not full.publishers_wait:
                raise QueueFull(
                    f"batch {batch} waits outside: it may have {counted(full.most or 0, 'message')}, and has them",
                    where=f"queue {full.declared.name!r}",
                    remedy="let something receive from it, or raise max_messages; the next run goes on where this one stopped",
                )
            if nap_s == _SHORT_NAP_S:
                LOG.warning("batch_awaits_room", queue=full.declared.name, batch=batch)
            time.sleep(min(nap_s, left_s))
            nap_s = min(2 * nap_s, _LONG_NAP_S)

    def _is_done(self, transaction: Transaction, writer: str, batch: int) -> bool:
        last = last_batch(transaction, writer)
        return last is not None and batch <= last

    def discard(self, parts: Iterable[StagedPart]) -> None:
        """Delete parts that no batch contains. Merged parts don't exist any more."""
        with self._access.transaction() as transaction:
            transaction.do("drop_parts", part_ids=[part_id for part_id, _ in parts])

    def close(self) -> None:
        self._connections.close()

    def _whole(self, transaction: Transaction, parts: Sequence[StagedPart]) -> list[Any]:
        """Check that all parts exist and are whole; return them."""
        part_ids = [part_id for part_id, _ in parts]
        found = {row.part_id: row for row in transaction.rows("staged_parts", part_ids=part_ids)}
        for part_id, messages in parts:
            part = found.get(part_id)
            if part is None or not (messages == part.messages and part.is_whole):
                raise Unavailable(
                    "a staged part of the batch is gone, as after a restart of the server",
                    where=self._access.place,
                    remedy="start the pipeline again: the batch is staged anew",
                )
        return list(found.values())

    def _stage_again(self, part: OpenPart, definitions: Definitions) -> None:
        """Route a part again, because the definitions have changed since it was staged."""
        transaction, staged = part.transaction, list[Any]()
        transaction.do("unstore_parts", of_parts=[part.part_id])
        while rows := transaction.rows(
            "staged_messages", part_id=part.part_id, after=staged[-1].place if staged else -1, at_most=_PORTION
        ):
            staged += rows
        transaction.do("empty_part", part_id=part.part_id)
        for begin in range(0, len(staged), _PORTION):
            rows = staged[begin : begin + _PORTION]
            messages = [
                Message(
                    message_id=row.message_id,
                    type=row.type,
                    content_type=row.content_type,
                    context={
                        **context_of(row.context, json.loads(row.property_types) if row.property_types else None),
                        "location": row.location,
                    },
                    body=row.body,
                    parts=[Part(*part) for part in row.parts] if row.parts else (),
                )
                for row in rows
            ]
            # An invalid message stays invalid: its original isn't kept in full.
            placed = PartRows(
                messages, [row.group_key for row in rows], [row.sequence for row in rows], [row.problem for row in rows]
            )
            self._add(part, placed, definitions)
        part.end(definitions.version)

    def _stage(
        self, part: OpenPart, rows: pa.RecordBatch, made_up: Callable[[int], str], definitions: Definitions
    ) -> None:
        queue = None if self._queue is None else definitions.queue(self._queue)
        if (columns := plain_columns(rows, self._incoming, self._router(definitions), queue)) is not None:
            part.add(*columns)
            return
        self._add(part, messages_of(rows, self._incoming, made_up), definitions)

    def _add(self, part: OpenPart, placed: PartRows, definitions: Definitions) -> None:
        routed = self._routed(part.transaction, placed, definitions)
        messages = message_columns(parameters_of(routed, 0, len(placed.messages)))
        part.add(messages, entry_columns(routed.entries))

    def _routed(self, transaction: Transaction, placed: PartRows, definitions: Definitions) -> Routed:
        router = self._router(definitions)
        moment: datetime | None = None
        if router.needs_time:
            moment = transaction.value("moment")
        routed = router.route_typed(self._typed(router, placed), moment, looking(transaction))
        if self._queue is not None and self._incoming.ordered:
            routed = replace(routed, entries=self._ordered(routed.entries, placed, definitions))
        return routed

    def _typed(self, router: Router, placed: PartRows) -> Typed:
        """The messages with converted properties; invalid messages with the fields that can be stored."""
        messages, problems = list(placed.messages), list(placed.problems)
        if self._queue is not None:
            messages = [
                message if why else replace(message, context={**message.context, "to": self._queue})
                for message, why in zip(messages, problems, strict=True)
            ]
        typed = router.typed(messages)
        for row, (message, context) in enumerate(zip(typed.messages, typed.contexts, strict=True)):
            if problems[row] is not None:
                continue
            problem = typed.problems[row]
            known = context if problem is None else storable(message.context)
            if problem is None and (wrong := router.misaddressed(message.message_id, context.get("to"))) is not None:
                # Its properties are valid: it can be resubmitted when the queue exists.
                problem = problem_text(wrong.what)
            properties, left_out = fitting(known)
            if problem is not None or left_out is not None:
                problems[row] = "; ".join(filter(None, (problem, left_out)))
                messages[row] = replace(message, context=properties)
        contexts = [{} if why else context for context, why in zip(typed.contexts, problems, strict=True)]
        undeclared = [row for row in typed.undeclared if problems[row] is None]
        return Typed(messages, contexts, problems, undeclared)

    def _router(self, definitions: Definitions) -> Router:
        if self._queue is None:
            return router_of(definitions)
        if definitions.version not in self._routers:
            only = {self._queue: definitions.queue(self._queue)}
            alone = Definitions(definitions.version, definitions.types, only, unreadable=definitions.unreadable)
            self._routers = {definitions.version: Router(alone, definitions)}
        return self._routers[definitions.version]

    def _ordered(self, entries: Entries, placed: PartRows, definitions: Definitions) -> Entries:
        """The entries, with the groups and sequences of the rows, unchanged."""
        queue = definitions.queue(str(self._queue)).declared
        if queue.group.by_type is not None:
            raise UsageError(
                f"queue {queue.name!r} puts each type in order by itself, and a pipeline has ordered already",
                remedy="let it deliver to a queue without by_type, or route: box",
            )
        if queue.means:
            raise UsageError(
                f"queue {queue.name!r} says what its producer's numbers mean, and a pipeline has ordered already",
                remedy="let it deliver to a queue with a plain sequence, or route: box",
            )
        policy = queue.policy
        # A gate takes none of them.
        if (isinstance(policy, Unordered) and queue.gate is None) or queue.name in definitions.gates:
            return entries
        keys = [placed.groups[place] for place in entries.places]
        reasons = [key_problem(key) for key in keys]
        sequences = entries.sequences
        if not isinstance(policy, Fifo | Unordered) and not by_ticket(queue):
            sequences = [placed.sequences[place] for place in entries.places]
            reasons = [
                why or (Reason.SEQUENCE_MISSING if number is None else Reason.NONE)
                for why, number in zip(reasons, sequences, strict=True)
            ]
        groups = [None if why else key for key, why in zip(keys, reasons, strict=True)]
        problems = [REASONS[why] if why else None for why in reasons]
        return replace(entries, groups=groups, sequences=sequences, problems=problems)


def last_batch(transaction: Transaction, writer: str) -> int | None:
    """The last batch of a writer that is in the box."""
    found = transaction.maybe("last_batch", writer=writer)
    return None if found is None else int(found.batch)


def _made_up(of_part: str, before: int, place: int) -> str:
    """Generate an id for the message at a place behind the earlier ones; for the same part it is always the same."""
    return str(uuid5(_MADE_UP, f"{of_part}\0{before + place}"))
