"""How the state of a query is cut into buckets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from seriatim.spark.state.buckets import DEFAULT_BUCKETS
from seriatim.spark.state.destination_history import DestinationHistory

__all__ = ["StateLayout"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLayout:
    """How the state of a query is cut.

    Args:
        buckets: the number of parts.
        by_key: whether groups of several queues with one key are in one bucket; otherwise a bucket goes by queue and key.
        history: how the queues of a pipeline's checkpoint have come and gone; None: they are always the same.
        moved: the folder with the state from before the number of buckets was changed.
    """

    buckets: int = DEFAULT_BUCKETS
    by_key: bool = False
    history: DestinationHistory | None = None
    moved: Path | None = None
