"""Read from a box for a pipeline: batches of the pipeline's own queue, or the present content of a queue or the spool.

Released messages of a queue are put into batches. A complete batch doesn't change, and can be read again until the next
batch is processed. A *reader* is one checkpoint of a pipeline; the checkpoint stores the reader's name, and only the
reader with that name may request batches.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import psycopg
import pyarrow as pa
from psycopg.adapt import Transformer
from psycopg.pq import Format

from seriatim.box import notices
from seriatim.box.connection.access import Transaction
from seriatim.box.connection.connections import DEFAULT_SCHEMA, Closing, Connections, through_pooler
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.definitions.gate_checks import way_refused
from seriatim.box.dialogs.clock import fire_due, transmit_to
from seriatim.box.faults.lost_turns import reap
from seriatim.box.pipelines.arrow_rows import batches_of, own_names
from seriatim.box.pipelines.batch_check import fail_invalid
from seriatim.box.pipelines.copied import rows_of
from seriatim.box.postgres.statements import Statements
from seriatim.box.postgres.translate import translated
from seriatim.box.publishing.sql_arrivals import is_unrouted, route_pending
from seriatim.box.turns.failed_turns import is_of_turn, set_failing_apart
from seriatim.box.turns.locked_groups import LockedGroups
from seriatim.box.turns.separate_transaction import SeparateTransaction
from seriatim.box.turns.turn_result import HandedMessages
from seriatim.box.turns.turns import Turns
from seriatim.errors import ActionRefused, NotFound, UsageError
from seriatim.kernel.groups.policy import Policy, UnitOfWork
from seriatim.pipeline.text.section import likely
from seriatim.pipeline.types.box_properties import DIALOG, declared
from seriatim.pipeline.types.origin import ORIGIN

#: The most groups that a turn locks; each lock is a place in a table of the server's with a fixed size.
_GROUPS = 1000
_MOST = 2**31 - 2
#: PostgreSQL's type of an array of rows.
_RECORDS = 2287
#: The approximate number of messages in a part, and the largest number of parts.
_PART_MESSAGES, _MOST_PARTS = 25_000, 64
#: The connection of a killed run is closed within this time; and the pause between two checks. Seconds.
_PATIENCE_S, _PAUSE_S = 15.0, 0.2

#: A range of groups, entries or arrivals: from, to (exclusive; None: all that is left).
Part = tuple[Any, Any]


class PipelineFeed(Closing):
    """A queue of a box, or its spool, for one pipeline."""

    def __init__(
        self,
        dsn: str | None = None,
        schema: str = DEFAULT_SCHEMA,
        *,
        queue: str | None = None,
        service: str | None = None,
        pipeline: str = "spark",
        takes_over: bool = False,
        prefix: str = "",
    ) -> None:
        self._connections = Connections.open(
            notices.publish, dsn, schema, 2, create=schema == DEFAULT_SCHEMA, owner=True
        )
        self._access = self._connections.access
        self._schema = schema
        self._name = queue
        #: The pipeline's name, which becomes the owner of the queue.
        self._pipeline = pipeline
        #: Take the queue from a checkpoint that no longer exists.
        self._takes_over = takes_over
        self._prefix = prefix
        self._held: Statements | None = None
        self._reader = ""
        self._service = service
        if service is not None:
            self._name = self._queue_of(service)
        if self._name is not None:
            self._queue()

    # ---- columns

    def properties(self) -> dict[str, str]:
        """The properties that the message types declare, by name, with their types; of messages for a service those of the dialog."""
        if self._service is not None:
            return dict(DIALOG)
        with self._access.transaction() as transaction:
            types = transaction.definitions().types
        properties = dict(sorted(item for kind in types.values() for item in declared(kind).items()))
        reserved = {name.casefold() for name in own_names()}
        for name in properties:
            if (self._prefix + name).casefold() in reserved:
                raise UsageError(
                    f"the property {name!r} would have the name of another column",
                    where=self._access.place,
                    remedy='give the columns of properties a prefix: .option("prefix", "p_")',
                )
        return properties

    # ---- batches

    def next(self, reader: str, batch: int, at_most: int | None) -> tuple[str, int, int]:
        """Return the batch after `batch`, complete, if there are messages for it."""
        self._hold()
        with self._access.transaction() as transaction:
            transaction.definitions()
        reader, newest, done = self._claimed(reader)
        if batch > done:
            self.done(reader, batch)
        batch = max(batch, done)
        queue = self._queue()
        # A batch that was complete before the run that requested it ended.
        if newest > batch:
            with self._access.transaction() as transaction:
                return reader, newest, self._count(transaction, batch, newest)
        newest = batch + 1
        if queue.enabled:
            if queue.serves:
                self._look(queue)
            with self._access.transaction() as transaction:
                reap(transaction, queue, SeparateTransaction(transaction, is_free=True))
            self._route()
            self._fill(reader, newest, _MOST if at_most is None else at_most)
        with self._access.transaction() as transaction:
            self._batches(transaction, reader)
            if not (messages := self._count(transaction, batch, newest)):
                return reader, batch, 0
            transaction.do("close_batch", queue_id=queue.queue_id, reader=reader, batch=newest)
        return reader, newest, messages

    def waiting(self) -> int:
        """Return the number of messages in the queue that aren't done, including held messages; routes all waiting messages first."""
        queue = self._queue()
        if queue.serves:
            self._look(queue)
        self._route()
        with self._access.transaction() as transaction:
            return int(self._run(transaction, "waiting_in_queue")[0].messages)

    def parts(self, reader: str, after: int, through: int) -> list[Part]:
        """Cut the messages of some batches into parts of whole groups."""
        self._claimed(reader)
        name = "batch_bounds" if self._queue().has_groups else "batch_bounds_unordered"
        with self._access.transaction() as transaction:
            messages = self._count(transaction, after, through)
            return self._cut(transaction, name, messages, after=after, through=through)

    def read(self, after: int, through: int, part: Part, properties: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        """The messages of a part; of each batch the groups one after another, and each in order."""
        name = "read_batch" if self._queue().has_groups else "read_batch_unordered"
        while after < through and (batch := self._after(after, through)) is not None:
            # An origin ends where a pipeline begins.
            with_gates, origin = bool(self._access.known.definitions.ways), list(ORIGIN)
            yield from self._rows(name, part, properties, batch=batch, with_gates=with_gates, origin=origin)
            after = batch

    def done(self, reader: str, through: int) -> None:
        """Note that the batches up to this one are processed. Earlier batches are deleted; this one stays until the next is done."""
        queue = self._queue()
        named = {"of_queue": queue.queue_id, "by_reader": reader, "through": through, "keep": queue.declared.keeps}
        with self._access.transaction() as transaction:
            if not transaction.value("complete_batches", **named):
                raise self._refused("another checkpoint")

    # ---- the present content

    def parts_now(self) -> list[Part]:
        """Cut the present content of the queue or the spool into parts."""
        with self._access.transaction() as transaction:
            name = "spool_bounds" if self._name is None else "entry_bounds"
            return self._cut(transaction, name, _PART_MESSAGES * 8)

    def read_now(self, part: Part, properties: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        if self._name is None:
            return self._rows("read_spool", part, properties, ordered=False)
        return self._rows("read_queue", part, properties)

    # ---- the end

    def close(self) -> None:
        """Close the box, and release the queue for other runs."""
        if self._held is not None:
            self._held.connection.close()
            self._held = None
        self._connections.close()

    # ---- inside

    def _look(self, queue: BoxQueue) -> None:
        """Fire due timers and lifetimes of dialogs, and deliver dialog messages that waited for room."""
        with self._access.transaction() as transaction:
            apart = SeparateTransaction(transaction, is_free=True)
            fire_due(transaction, apart)
            transmit_to(transaction, queue, apart)

    def _route(self) -> bool:
        """Route messages that were published through SQL; later messages aren't judged before. Return False if the role may not route."""
        with self._access.transaction() as transaction:
            waits = is_unrouted(transaction)
        if waits:
            route_pending(self._access)
        return waits is not None

    def _fill(self, reader: str, batch: int, left: int) -> None:
        """Put released messages into an incomplete batch, at most `left` more; a set comes whole."""
        pace = _Pace(self._queue().declared.policy)
        while left > 0:
            try:
                with self._access.transaction() as transaction:
                    self._batches(transaction, reader)
                    count = self._take(transaction, batch, left, pace)
            except Exception as error:
                queue = self._queue()
                if not queue.has_groups or not is_of_turn(error, self._access.place):
                    raise
                if not set_failing_apart(self._access.transaction, queue, self._locked):
                    raise
                continue
            if not count:
                return
            left -= max(count, 0)
            if count < 0 and not self._route():
                return

    def _take(self, transaction: Transaction, batch: int, left: int, pace: _Pace) -> int:
        """Do one turn; return the number of messages that it put into the batch, -1 if it has only judged, 0 if there was nothing to do."""
        queue = self._queue()
        if not queue.has_groups:
            return int(
                transaction.value("put_in_batch_unordered", of_queue=queue.queue_id, in_batch=batch, at_most=left)
            )
        turns = Turns(transaction)
        locked = self._locked(transaction, pace.groups(left))
        if not locked.keys:
            return 0
        transaction.definitions()
        judged = turns.judge(self._queue(), locked, max(left // len(locked.keys), 1))
        transaction.notice(*judged.notices(self._queue(), locked.keys))
        handed = judged.handed
        pace.see(handed)
        entry_ids = [entry_id for each in handed for entry_id in each.entry_ids]
        transaction.do(
            "put_in_batch",
            of_queue=self._queue().queue_id,
            in_batch=batch,
            entry_ids=entry_ids,
            ordinals=[ordinal for each in handed for ordinal in each.ordinals],
            lates=[late for each in handed for late in each.late],
        )
        if entry_ids and self._queue().serves:
            invalid = fail_invalid(transaction, self._queue(), batch, entry_ids)
            entry_ids = [entry_id for entry_id in entry_ids if entry_id not in invalid]
            transaction.do("talk_in_batch", of_queue=self._queue().queue_id, of_entries=entry_ids)
        return len(entry_ids) or -1

    def _locked(self, transaction: Transaction, most: int) -> LockedGroups:
        return LockedGroups(*self._run(transaction, "lock_many", how_many=most)[0])

    def _claimed(self, reader: str) -> tuple[str, int, int]:
        """Make the queue the reader's own; return the reader, its newest complete batch, and through which its batches are done."""
        mine = reader or self._reader or str(uuid.uuid4())
        if (queue := self._queue().declared).group.by_type is not None:
            raise UsageError(
                f"queue {queue.name!r} puts each type in order by itself, which a pipeline doesn't",
                remedy="give the pipeline a queue without by_type",
            )
        with self._access.transaction() as transaction:
            if mine != self._reader:
                owner = transaction.value(
                    "claim_queue",
                    of_queue=self._queue().queue_id,
                    by_reader=mine,
                    by_pipeline=self._pipeline,
                    is_new=not reader,
                    takes_over=self._takes_over,
                )
                if owner:
                    raise self._refused(f"the pipeline {owner!r}")
                if owner is not None:
                    raise ActionRefused(
                        "the checkpoint is none of this queue",
                        where=f"queue {self._name!r}",
                        remedy="begin with a new one: it is another queue's, or the queue was given back to workers since",
                    )
            newest, done = self._batches(transaction, mine)
        self._reader = mine
        return mine, newest, done

    def _refused(self, whose: str) -> ActionRefused:
        return ActionRefused(
            f"the queue belongs to {whose}",
            where=f"queue {self._name!r}",
            remedy="go on with its checkpoint; if that is no more: a new one, and takeOver=true",
        )

    def _hold(self) -> None:
        """Lock the queue for this run, as long as this feed is open."""
        if self._held is not None and _lives(self._held):
            return
        if self._connections.is_pooled:
            raise through_pooler(self._access.place)
        with translated(self._access.place):
            connection = psycopg.connect(self._connections.dsn, autocommit=True, application_name="seriatim reader")
            deadline = time.monotonic() + _PATIENCE_S
            held = Statements(connection, self._schema)
            while not self._run(held, "hold_reader")[0].held:
                if time.monotonic() > deadline:
                    connection.close()
                    raise ActionRefused(
                        "another run of a pipeline reads the queue",
                        where=f"queue {self._name!r}",
                        remedy="stop that one first",
                    )
                time.sleep(_PAUSE_S)
        self._held = held

    def _batches(self, transaction: Transaction, reader: str) -> tuple[int, int]:
        rows = self._run(transaction, "reader_batches", reader=reader)
        if not rows:
            raise self._refused("another checkpoint")
        return rows[0].batch, rows[0].done

    def _count(self, transaction: Transaction, after: int, through: int) -> int:
        return int(self._run(transaction, "count_batch", after=after, through=through)[0].messages)

    def _cut(self, transaction: Transaction, name: str, messages: int, **named: Any) -> list[Part]:
        if not messages:
            return []
        parts = min(-(-messages // _PART_MESSAGES), _MOST_PARTS)
        fractions = [part / parts for part in range(parts)]
        (bounds,) = self._run(transaction, name, fractions=fractions, **named)[0]
        if bounds is None or bounds[0] is None:
            return []
        begins = list(dict.fromkeys(bounds))
        return list(zip(begins, [*begins[1:], None], strict=True))

    def _rows(
        self, name: str, part: Part, properties: Mapping[str, str], *, ordered: bool = True, **named: Any
    ) -> Iterator[pa.RecordBatch]:
        parameters = {"first": part[0], "next": part[1], **self._named(named)}
        # COPY ends before its transaction does, also after an error.
        with self._access.transaction() as transaction, closing(transaction.copied(name, **parameters)) as portions:
            if "batch" in named:
                # The index has the order, and a part costs what it has, whatever the batch has.
                transaction.do("plan_by_index")
            yield from batches_of(
                rows_of(portions),
                properties,
                Transformer(transaction.connection).get_loader(_RECORDS, Format.BINARY).load,
                prefix=self._prefix,
                ordered=ordered,
                dialogs=self._service is not None,
            )

    def _after(self, after: int, through: int) -> int | None:
        with self._access.transaction() as transaction:
            found: int | None = self._run(transaction, "next_batch", after=after, through=through)[0].batch
            return found

    def _run(self, statements: Statements, name: str, **named: Any) -> list[Any]:
        return statements.rows(name, **self._named(named))

    def _named(self, named: Mapping[str, Any]) -> dict[str, Any]:
        if self._name is None:
            return dict(named)
        queue = self._queue()
        return {"queue_id": queue.queue_id, "ordered": queue.has_groups, **named}

    def _queue_of(self, service: str) -> str:
        with self._access.transaction() as transaction:
            services = transaction.definitions().services
        if service not in services:
            remedy = likely(service, services) or "box.define(Service(…))"
            raise NotFound(f"there is no service {service!r}", remedy=remedy)
        if (queue := services[service].queue) is None:
            raise UsageError(f"the service {service!r} is another box's", remedy="its messages are received there")
        return queue

    def _queue(self) -> BoxQueue:
        if self._name is None:
            raise UsageError("a stream reads a queue", remedy='.option("queue", "…")')
        known = self._access.known
        if self._name not in known.definitions.queues:
            with self._access.transaction() as transaction:
                known.read(transaction).queue(self._name)
        if (way := known.definitions.ways.get(self._name)) is not None:
            raise way_refused(self._name, way)
        bound = known.definitions.queues[self._name]
        bound.check_received_here()
        return bound


class _Pace:
    """Chooses the number of groups for a turn by the sets of earlier turns, so that a batch has at most one set too many."""

    def __init__(self, policy: Policy) -> None:
        self._has_sets = isinstance(policy, UnitOfWork)
        self._largest = 0

    def groups(self, left: int) -> int:
        """The number of groups for a turn, if a batch has room for that many messages."""
        if not self._has_sets:
            return min(left, _GROUPS)
        return min(left // self._largest, _GROUPS) or 1 if self._largest else 1

    def see(self, handed: Sequence[HandedMessages]) -> None:
        self._largest = max([self._largest, *(len(hand_out.entry_ids) for hand_out in handed)])


def _lives(statements: Statements) -> bool:
    """Return whether a connection still works: after a restart of the server it is broken, which shows only at its use."""
    try:
        statements.connection.execute("SELECT 1")
    except psycopg.OperationalError:
        statements.connection.close()
        return False
    return True
