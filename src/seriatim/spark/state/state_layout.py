"""How the state of a query is cut into buckets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from seriatim.spark.state.buckets import DEFAULT_BUCKETS
from seriatim.spark.state.destination_history import DestinationHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLayout:
    buckets: int = DEFAULT_BUCKETS
    #: Whether groups of several queues with one key are in one bucket; otherwise a bucket goes by queue and key.
    by_key: bool = False
    #: How the queues of a pipeline's checkpoint were added and removed; None: they are always the same.
    history: DestinationHistory | None = None
    #: Whether tickets are given by counts in the operator itself (`stamp/counts.py`); otherwise by an operator of their own.
    by_counts: bool = False
    #: By location the position of its next ticket when tickets began to be given in this way.
    following: Mapping[str, int] = field(default_factory=dict)
    #: The folder with the state from before the number of buckets was changed.
    moved: Path | None = None
