"""How the state of a query is cut into buckets."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from seriatim.spark.state.buckets import DEFAULT_BUCKETS
from seriatim.spark.state.destination_history import DestinationHistory

__all__ = ["StateLayout"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLayout:
    """How the state of a query is cut."""

    buckets: int = DEFAULT_BUCKETS
    #: Whether groups of several queues with one key are in one bucket; otherwise a bucket goes by queue and key.
    by_key: bool = False
    #: How the queues of a pipeline's checkpoint were added and removed; None: they are always the same.
    history: DestinationHistory | None = None
    #: The folder with the state from before the number of buckets was changed.
    moved: Path | None = None
