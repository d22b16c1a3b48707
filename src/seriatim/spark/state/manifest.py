"""The manifest of a checkpoint: which operator its state belongs to.

Spark silently starts a renamed state variable empty. So the properties that make a state unreadable for another
declaration are written beside it, and compared before the first batch. Each bucket's state has the same fingerprint,
for queries that are started without a manifest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from seriatim.errors import CheckpointMismatch
from seriatim.pipeline.declared.queue import Queue

__all__ = ["check_header", "fingerprint", "identity"]


def identity(queues: Sequence[Queue], buckets: int, clock: str) -> dict[str, Any]:
    """The properties that must not change during the life of a checkpoint: the kinds of policies, but not their parameters."""
    return {
        "buckets": buckets,
        "clock": clock,
        "queues": {queue.name: _identity_of(queue) for queue in queues},
    }


def _identity_of(queue: Queue) -> dict[str, Any]:
    # A group that isn't opened holds messages that only a message can free.
    stays = [what for what in ("opens", "closes") if getattr(queue, what) is not None]
    return {"policy": queue.policy.name, "group": queue.group, **({"by messages": stays} if stays else {})}


def fingerprint(queues: Sequence[Queue], buckets: int, clock: str) -> str:
    """The identity as one short text that people can compare."""
    return json.dumps(identity(queues, buckets, clock), sort_keys=True)


def check_header(header: Mapping[str, Any], layouts: Sequence[int], fingerprint: str | None) -> None:
    """Compares the header of a state that is read with who reads it; `fingerprint` None: with the layouts only.

    Raises:
        CheckpointMismatch: it has another layout, or another operator wrote it.
    """
    if header["layout"] not in layouts:
        raise CheckpointMismatch(
            f"the state has layout {header['layout']}, this version of seriatim reads {' and '.join(map(str, layouts))}",
            remedy="run the version that wrote it, or start with a new checkpoint",
        )
    if fingerprint is not None and header["fingerprint"] != fingerprint:
        raise CheckpointMismatch(
            f"the state was written with {header['fingerprint']}, but the declaration now is {fingerprint}",
            remedy="go back to the former declaration, or start with a new checkpoint",
        )
