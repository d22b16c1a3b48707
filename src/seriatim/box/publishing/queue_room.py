"""Room in queues with `max_messages`: a publisher waits for room or is refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue, Definitions
from seriatim.box.definitions.entries import Entries
from seriatim.box.definitions.route import Routed, router_of
from seriatim.errors import QueueFull
from seriatim.kernel.groups.policy import Standard, UnitOfWork
from seriatim.pipeline.text.counted import counted

#: The reason of an invalid message that a role's subscription leads to a full queue.
NO_ROOM = "the queue is full, and a role's subscription keeps no publisher waiting"


@dataclass(frozen=True, slots=True)
class FullQueue:
    """A queue without room: it would get `messages`, and takes `room`."""

    queue: BoxQueue
    messages: int
    room: int

    @property
    def most(self) -> int:
        return self.queue.most or 0

    @property
    def may_wait(self) -> bool:
        waits = self.queue.publishers_wait and self.queue.link_most is None
        return waits and self.messages <= self.most

    def error(self) -> QueueFull:
        problem = f"{self.messages:,} more don't fit: it may have {counted(self.most, 'message')}, and has room for {self.room:,}"
        remedy = "publish them again later" if self.messages <= self.most else "publish fewer at once"
        return QueueFull(problem, where=f"queue {self.queue.declared.name!r}", remedy=remedy)


def full(
    transaction: Transaction, definitions: Definitions, routed: Routed, in_hand: Sequence[int] = ()
) -> FullQueue | Sequence[int]:
    """Find the first queue without room for all its messages, apart from those that only subscriptions of roles lead there."""
    free, limited, kept_out = transaction.access.free_room, definitions.limited, list[int]()
    entries = routed.entries
    going = Counter(queue_id for _, queue_id in _in_need(entries) if queue_id in limited)
    bounded = [queue_id for queue_id, count in going.items() if not free.take(queue_id, count)]
    if not bounded:
        return ()
    mosts = [limited[queue_id].most for queue_id in bounded]
    rooms = transaction.value("room_in", of_queues=bounded, mosts=mosts)
    for queue_id, room in zip(bounded, rooms, strict=True):
        count = going[queue_id]
        if count > room:
            over = [at for at, let_in in _let_in(transaction, limited[queue_id], routed, in_hand) if not let_in]
            by_roles = [at for at in over if router_of(definitions).is_roles_own(entries.subscriptions[at])]
            excess = len(over) - max(room, 0)
            if excess > len(by_roles):
                return FullQueue(limited[queue_id], len(over), room)
            kept_out += by_roles[len(by_roles) - max(excess, 0) :]
            count = len(over) - max(excess, 0)
        free.note(queue_id, room - count)
    return kept_out


def _in_need(entries: Entries) -> Iterator[tuple[int, int]]:
    """The rows of entries that need room, with their queues. Invalid messages and voids without order are set aside as they come."""
    for row, (queue_id, problem) in enumerate(zip(entries.queue_ids, entries.problems, strict=True)):
        if problem is None and not (entries.meanings and entries.meanings[row] and not entries.groups[row]):
            yield row, queue_id


def full_for_batch(transaction: Transaction, definitions: Definitions, part_ids: Sequence[int]) -> BoxQueue | None:
    """Find the first queue without any room for a batch, which comes whole where there is some, and at once if it fills a hole."""
    limited = definitions.limited
    rows = transaction.rows("staged_in_queues", **_staged(definitions, part_ids))
    going = [queue_id for queue_id, messages, _ in rows if messages]
    if not going:
        return None
    mosts = [limited[queue_id].most for queue_id in going]
    rooms = transaction.value("room_in", of_queues=going, mosts=mosts)
    for queue in (limited[queue_id] for queue_id, room in zip(going, rooms, strict=True) if room <= 0):
        policy = queue.declared.policy
        if not isinstance(policy, Standard | UnitOfWork):
            return queue
        parameters = {"part_ids": list(part_ids), "queue_id": queue.queue_id, "whole": isinstance(policy, UnitOfWork)}
        if not transaction.value("staged_fills", **parameters):
            return queue
    return None


def refuse_for_batch(transaction: Transaction, definitions: Definitions, part_ids: Sequence[int]) -> None:
    """Make messages that only subscriptions of roles have led to full queues invalid there: no pipeline waits for them."""
    limited = definitions.limited
    if not limited or not router_of(definitions).roles_own:
        return
    parameters = _staged(definitions, part_ids)
    rows = transaction.rows("staged_in_queues", **parameters)
    if not (bounded := [queue_id for queue_id, _, by_roles in rows if by_roles]):
        return
    mosts = [limited[queue_id].most for queue_id in bounded]
    rooms = transaction.value("room_in", of_queues=bounded, mosts=mosts)
    full = [queue_id for queue_id, room in zip(bounded, rooms, strict=True) if room <= 0]
    transaction.do("refuse_staged", **(parameters | {"queue_ids": full}), why=NO_ROOM)


def _staged(definitions: Definitions, part_ids: Sequence[int]) -> dict[str, list[int]]:
    roles_own = sorted(router_of(definitions).roles_own)
    return {"part_ids": list(part_ids), "queue_ids": list(definitions.limited), "roles_own": roles_own}


def _let_in(
    transaction: Transaction, queue: BoxQueue, routed: Routed, in_hand: Sequence[int]
) -> Iterator[tuple[int, bool]]:
    """The entries for a full queue, and whether the queue accepts them nevertheless."""
    entries, policy = routed.entries, queue.declared.policy
    own = [row for row, queue_id in _in_need(entries) if queue_id == queue.queue_id]
    ordered = isinstance(policy, Standard | UnitOfWork)
    parameters = {
        "of_queue": queue.queue_id,
        "whole": isinstance(policy, UnitOfWork),
        "ids": [routed.typed.messages[entries.places[row]].message_id for row in own],
        # A queue of another policy knows no holes.
        "group_keys": [entries.groups[row] if ordered else None for row in own],
        "sequences": [entries.sequences[row] for row in own],
        "in_hand": list(in_hand),
    }
    return zip(own, transaction.value("waited_for", **parameters), strict=True)
