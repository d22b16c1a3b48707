"""`DeliveryEnds`: the arguments of the schema's functions that complete the messages of a delivery or put them back."""

from __future__ import annotations

from typing import Any, NamedTuple

from seriatim.box.connection.fast_paths import SINGLE_COMPLETION, EndedMessages
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.turns.delivery import Completion, Delivery
from seriatim.box.turns.turn_result import HandedMessages


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
