"""The manifest of a checkpoint: which operator its state belongs to.

Spark starts a renamed state variable empty without a word; so what makes a state unreadable by another declaration
is written beside it, and compared before the first batch. Each bucket's state carries the same fingerprint, for
queries that are started without a manifest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from seriatim.errors import CheckpointMismatch
from seriatim.pipeline.declared.queue import Queue

__all__ = ["check_header", "fingerprint", "identity"]


def identity(queues: Sequence[Queue], buckets: int, clock: str) -> dict[str, Any]:
    """What may not change as long as a checkpoint lives: the policies' parameters may, their kinds may not."""
    return {
        "buckets": buckets,
        "clock": clock,
        "queues": {queue.name: {"policy": queue.policy.name, "group": queue.group} for queue in queues},
    }


def fingerprint(queues: Sequence[Queue], buckets: int, clock: str) -> str:
    """The identity as one short text that people can compare."""
    return json.dumps(identity(queues, buckets, clock), sort_keys=True)


def check_header(header: Mapping[str, Any], layout: int, fingerprint: str | None) -> None:
    """Compares the header of a state that is read with who reads it; `fingerprint` None: with the layout only.

    Raises:
        CheckpointMismatch: another layout wrote it, or another operator.
    """
    if header["layout"] != layout:
        raise CheckpointMismatch(
            f"the state has layout {header['layout']}, this version of seriatim reads {layout}",
            remedy="run the version that wrote it, or start with a new checkpoint",
        )
    if fingerprint is not None and header["fingerprint"] != fingerprint:
        raise CheckpointMismatch(
            f"the state was written with {header['fingerprint']}, but the declaration now is {fingerprint}",
            remedy="go back to the former declaration, or start with a new checkpoint",
        )
