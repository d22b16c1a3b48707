"""Tend two regions, again and again.

`seriatim regions run` does nothing else; `seriatim serve --regions` does it beside the readers of a box.
Any number of processes may do it, in either region: each works off the outboxes of both boxes, so what one region has comes to the other
while a process runs in only one of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from seriatim.errors import SeriatimError
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.event_log import LOG
from seriatim.regions.outbox import Copied
from seriatim.regions.regions import Regions

#: Between two rounds.
_EVERY_S = 1.0
#: After a round that is refused, such as where the definitions are missing.
_REFUSED_S = 5.0
#: A round that neither copies nor ends for this long stands still, seconds.
_LATE_S = 60.0
_END_S = 10.0


def tend_until(
    regions: Regions, ends: Callable[[], bool], wait: Callable[[float], object], tell: Callable[[Copied], object], *,
    once: bool = False, progress: Callable[[], object] | None = None,
) -> None:  # fmt: skip
    while not ends():
        for copied in regions.tend(progress=progress):
            tell(copied)
        if progress is not None:
            progress()
        if once:
            return
        wait(_EVERY_S)


class TendingThread:
    """Rounds beside a process that does something else."""

    def __init__(self, regions: Regions) -> None:
        #: The regions; they stay open until it has ended.
        self._regions = regions
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._moved = time.monotonic()
        self._why: dict[str, str] = {}

    def look(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="seriatim-regions", daemon=True)
            self._thread.start()

    def end(self) -> None:
        """Wait until the present round is done, for some seconds."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(_END_S)

    def late(self) -> list[str]:
        """Return why it isn't well, in words; empty if all is well. A region that is away is no fault of this process."""
        stands_s = time.monotonic() - self._moved
        if stands_s <= _LATE_S:
            return []
        return [f"the regions {self._regions.name!r} weren't tended for {stands_s:.0f} s"]

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                tend_until(self._regions, self._ended.is_set, self._ended.wait, self._tell, progress=self._moves)
            except SeriatimError as error:
                self._warn("", f"the regions {self._regions.name!r} can't be tended: {error}", error)
                self._moves()
                self._ended.wait(_REFUSED_S)

    def _moves(self) -> None:
        self._moved = time.monotonic()

    def _tell(self, copied: Copied) -> None:
        self._why.pop("", None)
        if copied.sent or copied.copied or copied.over:
            messages = counted(copied.copied, "message")
            LOG.info("region_copied", region=copied.region, copied=copied.copied, over=copied.over, _counted=messages)
        if copied.why is None:
            self._why.pop(copied.region, None)
        else:
            self._warn(copied.region, f"region {copied.region} can't be tended: {copied.why}", copied.why)

    def _warn(self, region: str, text: str, why: object) -> None:
        """Log why something waits, once."""
        if self._why.get(region) != str(why):
            LOG.warning("region_not_tended", region=region or None, error=why, _text=text)
        self._why[region] = str(why)
