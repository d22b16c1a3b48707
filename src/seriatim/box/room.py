"""Whether queues that may have so many messages take more: what is published waits for room, or is refused."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import tuple_row

from seriatim.box.definitions import BoxQueue, Definitions
from seriatim.box.route import Routed
from seriatim.box.statements import statement
from seriatim.errors import QueueFull
from seriatim.kernel.policy import Standard, UnitOfWork

__all__ = ["NO_ROOM", "Full", "Room", "full_for_batch", "refuse_for_batch"]

#: Why what a role's subscription leads to a full queue is invalid there.
NO_ROOM = "the queue is full, and a role's subscription keeps no publisher waiting"

#: Of the room that was counted a process fills so much, for so long, before it counts again.
_SHARE, _AGE_S = 10, 1.0


@dataclass(frozen=True, slots=True)
class Full:
    """A queue without room: it would get `messages`, and takes `room`."""

    queue: BoxQueue
    messages: int
    room: int

    @property
    def most(self) -> int:
        """How many messages it may have."""
        return self.queue.declared.max_messages or 0

    @property
    def may_wait(self) -> bool:
        """Whether it can have room later, and says that publishers wait for that."""
        return self.queue.declared.when_full == "wait" and self.messages <= self.most

    def error(self) -> QueueFull:
        """What a publisher is told."""
        what = f"{self.messages:,} more don't fit: it may have {self.most:,} messages, and has room for {self.room:,}"
        remedy = "publish them again later" if self.messages <= self.most else "publish fewer at once"
        return QueueFull(what, where=f"queue {self.queue.declared.name!r}", remedy=remedy)


class Room:
    """What a process knows of the room in the queues of a box. Threads may share it.

    A queue is counted, up to the number that it may have, and not for each message: while it has much room a tenth of
    that is filled without looking again. So several processes may fill it a little beyond the number.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: By queue: how many more need no look, and until when; seconds of the process's clock.
        self._free: dict[int, tuple[int, float]] = {}

    def full(
        self, connection: psycopg.Connection, schema: str, definitions: Definitions, routed: Routed
    ) -> Full | Sequence[int]:
        """The first queue that has no room for all that would go there.

        What a role's subscription alone leads there keeps no publisher waiting, and is not refused.

        Args:
            connection: in whose transaction it is looked.
            schema: the schema of the box.
            definitions: by which the messages were routed.
            routed: the messages with their entries.

        Returns:
            where each has room, the entries that it has none for and that only roles' subscriptions have led there.
        """
        limited, kept_out = definitions.limited, list[int]()
        entries = routed.entries
        going = Counter(
            queue_id
            for queue_id, problem in zip(entries.queue_ids, entries.problems, strict=True)
            if queue_id in limited and problem is None
        )
        asked = [queue_id for queue_id, count in going.items() if not self._has_free(queue_id, count)]
        if not asked:
            return ()
        mosts = [limited[queue_id].declared.max_messages for queue_id in asked]
        rooms = _asked(connection, schema, "room_in", {"queue_ids": asked, "mosts": mosts})
        for queue_id, room in zip(asked, rooms, strict=True):
            count = going[queue_id]
            if count > room:
                over = [at for at, let_in in _let_in(connection, schema, limited[queue_id], routed) if not let_in]
                by_roles = [at for at in over if definitions.router.is_roles_own(entries.subscriptions[at])]
                excess = len(over) - max(room, 0)
                if excess > len(by_roles):
                    return Full(limited[queue_id], len(over), room)
                kept_out += by_roles[len(by_roles) - max(excess, 0) :]
                count = len(over) - max(excess, 0)
            with self._lock:
                self._free[queue_id] = ((room - count) // _SHARE, time.monotonic() + _AGE_S)
        return kept_out

    def _has_free(self, queue_id: int, count: int) -> bool:
        with self._lock:
            free, until = self._free.get(queue_id, (0, 0.0))
            if count > free or time.monotonic() >= until:
                return False
            self._free[queue_id] = (free - count, until)
            return True


def full_for_batch(
    connection: psycopg.Connection, schema: str, definitions: Definitions, part_ids: Sequence[int]
) -> BoxQueue | None:
    """The first queue that has no room at all for a batch of a pipeline; None if there is none.

    A batch comes whole, and nobody can make it smaller: it comes in where there is any room, and so goes beyond the
    number by at most itself. If it fills a hole it comes in at once.

    Args:
        connection: in whose transaction it is looked.
        schema: the schema of the box.
        definitions: by which it was routed.
        part_ids: the staged parts of the batch.
    """
    limited = definitions.limited
    with connection.cursor(row_factory=tuple_row) as cursor:
        found = cursor.execute(statement("staged_in_queues", schema), _staged(definitions, part_ids)).fetchall()
        going = [queue_id for queue_id, messages, _ in found if messages]
        if not going:
            return None
        mosts = [limited[queue_id].declared.max_messages for queue_id in going]
        rooms = _asked(connection, schema, "room_in", {"queue_ids": going, "mosts": mosts})
        for queue in (limited[queue_id] for queue_id, room in zip(going, rooms, strict=True) if room <= 0):
            policy = queue.declared.policy
            if not isinstance(policy, Standard | UnitOfWork):
                return queue
            asked = {"part_ids": list(part_ids), "queue_id": queue.queue_id, "whole": isinstance(policy, UnitOfWork)}
            if not cursor.execute(statement("staged_fills", schema), asked).fetchall()[0][0]:
                return queue
    return None


def refuse_for_batch(
    connection: psycopg.Connection, schema: str, definitions: Definitions, part_ids: Sequence[int]
) -> None:
    """Let what only roles' subscriptions have led to full queues be invalid there: no pipeline waits for them.

    Args:
        connection: in whose transaction the batch is merged.
        schema: the schema of the box.
        definitions: by which it was routed.
        part_ids: the staged parts of the batch.
    """
    limited = definitions.limited
    if not limited or not definitions.router.roles_own:
        return
    parameters = _staged(definitions, part_ids)
    with connection.cursor(row_factory=tuple_row) as cursor:
        rows = cursor.execute(statement("staged_in_queues", schema), parameters).fetchall()
        if not (asked := [queue_id for queue_id, _, by_roles in rows if by_roles]):
            return
        mosts = [limited[queue_id].declared.max_messages for queue_id in asked]
        rooms = _asked(connection, schema, "room_in", {"queue_ids": asked, "mosts": mosts})
        full = [queue_id for queue_id, room in zip(asked, rooms, strict=True) if room <= 0]
        cursor.execute(statement("refuse_staged", schema), parameters | {"queue_ids": full, "why": NO_ROOM})


def _staged(definitions: Definitions, part_ids: Sequence[int]) -> dict[str, list[int]]:
    """The parameters that say which staged entries are asked for."""
    roles_own = sorted(definitions.router.roles_own)
    return {"part_ids": list(part_ids), "queue_ids": list(definitions.limited), "roles_own": roles_own}


def _let_in(connection: psycopg.Connection, schema: str, queue: BoxQueue, routed: Routed) -> Iterator[tuple[int, bool]]:
    """The entries for a full queue, and whether it takes them nevertheless."""
    entries, policy = routed.entries, queue.declared.policy
    mine = [
        row
        for row, (queue_id, problem) in enumerate(zip(entries.queue_ids, entries.problems, strict=True))
        if queue_id == queue.queue_id and problem is None
    ]
    ordered = isinstance(policy, Standard | UnitOfWork)
    parameters = {
        "queue_id": queue.queue_id,
        "whole": isinstance(policy, UnitOfWork),
        "message_ids": [routed.typed.messages[entries.places[row]].message_id for row in mine],
        # A queue of another policy knows no holes.
        "group_keys": [entries.groups[row] if ordered else None for row in mine],
        "sequences": [entries.sequences[row] for row in mine],
    }
    return zip(mine, _asked(connection, schema, "waited_for", parameters), strict=True)


def _asked(connection: psycopg.Connection, schema: str, name: str, parameters: Mapping[str, Any]) -> list[Any]:
    with connection.cursor(row_factory=tuple_row) as cursor:
        (found,) = cursor.execute(statement(name, schema), parameters).fetchall()[0]
    return list(found)
