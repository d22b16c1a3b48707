"""Whether a process is ready: not only alive, but it has looked for work lately, and its box is enabled and answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seriatim.metrics.box_reading import BoxReading
from seriatim.metrics.run_watch import RunWatch
from seriatim.metrics.watched import Watched


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether a process is ready; `reasons`: why it isn't, in words."""

    is_ready: bool
    reasons: Sequence[str] = ()


def readiness(
    *, box: BoxReading | None = None, watched: Watched | None = None, run: RunWatch | None = None
) -> Readiness:
    """Ask whether a process is ready; it takes a few seconds at most."""
    reasons: list[str] = []
    if box is not None and not (reading := box.now()).is_reachable:
        reasons.append(f"the box: {reading.why}")
    if watched is not None:
        reasons += watched.late()
    if run is not None:
        reasons += run.late()
    return Readiness(not reasons, reasons)
