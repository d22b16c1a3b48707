"""`Deliveries`: make deliveries of the messages that a turn hands out, and end them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from seriatim.box.connection.access import Transaction
from seriatim.box.connection.fast_paths import SINGLE_COMPLETION, EndedMessages
from seriatim.box.connection.round_trip import OwnConnection, is_idle
from seriatim.box.definitions.definition import BoxQueue, Definitions
from seriatim.box.messages.received import parts_of, received_of, with_edits
from seriatim.box.turns.delivery import Completion, Delivery, DeliveryStatus
from seriatim.box.turns.turn_result import HandedMessages
from seriatim.kernel.groups.policy import Fifo


class DeliveryEnds(NamedTuple):
    """The entries of a delivery, in order, with all values that are stored when they end."""

    queue_id: int
    group: str | None
    incarnation: int
    #: The history that is kept of finished messages: ``faults`` keeps nothing of messages that never failed.
    keep: str
    entry_ids: list[int]
    ordinals: list[int | None]
    lates: list[bool]

    @classmethod
    def of(cls, queue: BoxQueue, handed: HandedMessages, *, have_failed: bool) -> DeliveryEnds:
        keep = queue.declared.keeps
        return cls(
            queue.queue_id, handed.group, handed.incarnation, "nothing" if keep == "faults" and not have_failed else keep,
            handed.entry_ids, handed.ordinals, handed.late,
        )  # fmt: skip

    @classmethod
    def of_delivery(cls, queue: BoxQueue, delivery: Delivery, incarnation: int = 0) -> DeliveryEnds:
        ordinals, lates = (
            [message.ordinal for message in delivery.messages],
            [message.late for message in delivery.messages],
        )
        return cls(
            queue.queue_id, delivery.group, incarnation, queue.declared.keeps, list(delivery.entry_ids), ordinals, lates
        )

    def between(self, begin: int, end: int | None) -> DeliveryEnds:
        """A part of them; `end` None: up to the last."""
        part = slice(begin, end)
        return self._replace(entry_ids=self.entry_ids[part], ordinals=self.ordinals[part], lates=self.lates[part])

    def back(self) -> dict[str, Any]:
        return {
            "of_queue": self.queue_id, "of_group": self.group, "entry_ids": self.entry_ids, "ordinals": self.ordinals,
            "lates": self.lates,
        }  # fmt: skip

    def done(self) -> dict[str, Any]:
        """The parameters of ``complete_entries``."""
        return {
            "of_queue": self.queue_id, "entry_ids": self.entry_ids, "ordinals": self.ordinals, "lates": self.lates,
            "of_incarnation": self.incarnation, "keep": self.keep,
        }  # fmt: skip

    def completion(self) -> Completion:
        """The statement that completes them in the transaction that handed them out."""
        if SINGLE_COMPLETION.applies(EndedMessages(len(self.entry_ids), self.keep, self.lates)):
            return Completion("complete_one", {"of_queue": self.queue_id, "of_entry": self.entry_ids[0]})
        # At a gate the results of late messages are flagged.
        if self.keep != "nothing" or any(self.lates):
            return Completion("complete_entries", self.done())
        # The history, which records the others, gets none of them.
        return Completion("complete_entries", self.done() | {"ordinals": None, "lates": None, "of_incarnation": 0})


class Deliveries:
    def __init__(self, transaction: Transaction) -> None:
        self._transaction = transaction

    def of(self, queue: BoxQueue, handed: HandedMessages, rows: Sequence[Any], definitions: Definitions) -> Delivery:
        """Return the delivery of these messages; `rows`: the rows of their entries, in the same order."""
        rows = with_edits(self._transaction, queue, handed.entry_ids, rows)
        having = []
        if not self._transaction.leaves_bodies:
            having = [entry_id for entry_id, row in zip(handed.entry_ids, rows, strict=True) if row.parts]
        parts = parts_of(self._transaction, queue, having)
        declared, sequences = queue.declared, handed.sequences
        if declared.sequence is None or isinstance(declared.policy_of(handed.group), Fifo):  # the group goes by arrival
            sequences = [None] * len(sequences)
        groups = [row.group_key for row in rows] if queue.numbers else [handed.group] * len(rows)
        messages = [
            received_of(
                row,
                queue,
                definitions,
                group=group,
                sequence=sequence,
                ordinal=ordinal,
                late=late,
                parts=parts.get(entry_id, ()),
            )
            for row, entry_id, group, sequence, ordinal, late in zip(
                rows, handed.entry_ids, groups, sequences, handed.ordinals, handed.late, strict=True
            )
        ]
        if messages and messages[0].missing:  # of a partial set the first message has what it lacks
            messages = [replace(one, missing=messages[0].missing) for one in messages]
        ends = DeliveryEnds.of(queue, handed, have_failed=any(row.attempt for row in rows))
        joined = None if isinstance(self._transaction.connection, OwnConnection) else self._joined(ends)
        return Delivery(
            queue.declared.name,
            handed.group,
            messages,
            complete=lambda: self._execute(ends.completion()),
            put_back=lambda: self._put_back(ends, joined),
            end_after=lambda count: self._end_after(ends, joined, count),
            entry_ids=handed.entry_ids,
            incarnation=handed.incarnation,
            completion=ends.completion(),
            place=self._transaction.access.place,
            look=None if joined is None else lambda: self._standing(joined),
            put_back_apart=None if joined is None else lambda: self._put_back_apart(ends),
        )

    def _joined(self, ends: DeliveryEnds) -> dict[str, Any]:
        """Return the parameters that ask PostgreSQL for the fate of a delivery in an application's transaction."""
        named = {"of_queue": ends.queue_id, "of_group": ends.group, "entry_ids": ends.entry_ids}
        return named | {"handed": self._transaction.value("handed_by", **named), "put": None}

    def _standing(self, joined: dict[str, Any]) -> DeliveryStatus:
        """Return the fate of a delivery. If the application has ended its transaction, no new transaction is left open."""
        if not is_idle(self._transaction.connection):
            return DeliveryStatus(*self._transaction.one("standing", **joined))
        with self._transaction.access.transaction() as transaction:
            return DeliveryStatus(*transaction.one("standing", **joined))

    def _end_after(self, ends: DeliveryEnds, joined: dict[str, Any] | None, count: int) -> None:
        if count:
            self._execute(ends.between(0, count).completion())
        self._put_back(ends.between(count, None), joined)

    def _put_back(self, ends: DeliveryEnds, joined: dict[str, Any] | None) -> None:
        if ends.group is None:  # a message without a group was locked, and nothing else has happened to it
            if joined is not None:
                joined["put"] = joined["handed"]
        elif joined is None:
            self._transaction.do("put_back", **ends.back())
        else:
            joined["put"] = self._transaction.value("put_back_by", **ends.back())

    def _put_back_apart(self, ends: DeliveryEnds) -> None:
        """Put back a delivery that an application has committed without completing it, independently of its next transaction."""
        if ends.group is not None:
            with self._transaction.access.transaction() as transaction:
                transaction.do("put_back_committed", **ends.back())

    def _execute(self, completion: Completion) -> None:
        self._transaction.do(completion.name, **completion.parameters)
