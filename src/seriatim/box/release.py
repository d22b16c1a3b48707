"""Giving a queue back that a pipeline had, which is gone: workers may receive from it again."""

from __future__ import annotations

import time
from dataclasses import dataclass

import psycopg
from psycopg.rows import tuple_row

from seriatim.box.definitions import BoxQueue
from seriatim.box.operator_log import Operator, log
from seriatim.box.statements import statement
from seriatim.errors import ActionRefused

__all__ = ["Released", "release"]

_PATIENCE_S, _PAUSE_S = 2.0, 0.02


@dataclass(frozen=True, slots=True)
class Released:
    """A `queue` that was given back: the `pipeline` that had it, and how many `messages` it had in hand."""

    queue: str
    pipeline: str
    messages: int


def release(connection: psycopg.Connection, schema: str, queue: BoxQueue, by: Operator) -> Released:
    """Give a queue back, in the transaction of the connection; it is written down.

    What the pipeline had in hand and hasn't finished is queued again, in its place. Its checkpoint is known no more.

    Raises:
        ActionRefused: no pipeline has the queue, or it is reading it now.
    """
    name = queue.declared.name
    where, named = f"queue {name!r}", {"queue_id": queue.queue_id}
    with connection.cursor(row_factory=tuple_row) as cursor:
        # The same lock that a run of the pipeline has as long as it lives: none begins until this is done. The server may
        # notice a moment later that a run has ended.
        deadline = time.monotonic() + _PATIENCE_S
        while not cursor.execute(statement("hold_reader_briefly", schema), named).fetchall()[0][0]:
            if time.monotonic() > deadline:
                raise ActionRefused(
                    "its pipeline runs and reads the queue now", where=where, remedy="stop the pipeline first"
                )
            time.sleep(_PAUSE_S)
        found = cursor.execute(statement("reader_of", schema), named).fetchone()
        if found is None:
            raise ActionRefused("the queue belongs to no pipeline", where=where, remedy="workers may receive from it")
        pipeline, messages = found
        cursor.execute(statement("release_queue", schema), named)
        cursor.execute(statement("call_waiters", schema), {"queue_ids": [queue.queue_id]})
    details = {"pipeline": pipeline, "messages": messages}
    log(connection, schema, by, "release", queue=name, group=None, details=details)
    return Released(name, pipeline, messages)
