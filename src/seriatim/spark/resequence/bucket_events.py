"""Events of a bucket's groups, as the operator log of a pipeline keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from seriatim.kernel.groups.numbers import by_position
from seriatim.kernel.values.outcome import Events
from seriatim.pipeline.declared.queue import Queue
from seriatim.spark.state.group_index import QueueState


def told_events(
    queue: Queue, known: QueueState, events: Events, because: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    kept = events if events.kept.all() else events.take(np.flatnonzero(events.kept))
    if not len(kept):
        return []
    groups = np.unique(kept.group)
    names = [key.decode() for key in known.keys.take(pa.array(groups)).to_pylist()]
    incarnations = dict(zip(groups.tolist(), known.incarnations()[groups].tolist(), strict=True))
    at = dict(zip(groups.tolist(), names, strict=True))
    return [
        {
            "queue": queue.name,
            "group": at[row.group],
            "incarnation": incarnations[row.group],
            "event": row.kind.word,
            "first": None if by_position(queue.policy) else row.first,
            "last": None if by_position(queue.policy) else row.last,
            "at": row.at,
            "count": row.count,
            **(because or {}),
        }
        for row in kept.rows()
    ]
