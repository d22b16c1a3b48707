"""The place of a process of a region, as text for another process; and opening it while a part is away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seriatim.box.box import MessageBox
from seriatim.errors import EnvironmentProblem, Unavailable
from seriatim.pipeline.declared.work_limits import Limits
from seriatim.pipeline.text.event_log import LOG
from seriatim.regions.regions import Regions
from seriatim.runtime.regional.worker import RegionalWorker
from seriatim.runtime.stop_signal import Stop

_PAUSE_S = 1.0


@dataclass(frozen=True, slots=True)
class RegionalPlace:
    file: str
    region: str
    claims: str = "session"
    recheck: float | str = 1.0


def box_patiently(regions: Regions, region: str, stop: Stop, *, waits: bool = True) -> MessageBox | None:
    """Return the box of a region; wait while it is away. None: it was stopped before."""
    problem = ""
    while not stop.requested:
        try:
            return regions.box(region)
        except (Unavailable, EnvironmentProblem) as error:
            if not waits:
                raise
            problem = _told(f"region {region}", error, problem)
            stop.wait(_PAUSE_S)
    return None


def workers_patiently(
    regions: Regions, place: RegionalPlace, queues: Sequence[str], handler: Any, stop: Stop, *, limits: Limits, **options: Any,
) -> list[RegionalWorker]:  # fmt: skip
    """Return a worker for each queue; wait while the journal is away. None: it was stopped before."""
    problem = ""
    while not stop.requested:
        try:
            return [
                RegionalWorker(
                    regions, queue, handler, region=place.region, claims=place.claims, recheck=place.recheck,
                    workers=limits.workers, batch=limits.batch, pace=limits.pace, lease=limits.lease, **options,
                )
                for queue in queues
            ]  # fmt: skip
        except Unavailable as error:
            problem = _told("the journal", error, problem)
            stop.wait(_PAUSE_S)
    return []


def _told(doing: str, error: Exception, before: str) -> str:
    if str(error) != before:
        LOG.warning("region_awaited", error=error, _doing=doing)
    return str(error)
