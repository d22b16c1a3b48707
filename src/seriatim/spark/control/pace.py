"""The pace of a run: the messages received and released in the last minute, in a file for others to read.

The file is only for people to look at. It isn't synced, and one that is missing or damaged says nothing.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from seriatim.spark.state.checkpoint_files import write_unsynced

#: The time over which rates are taken.
WINDOW_S = 60.0
_FILE = "pace.json"
#: A batch that ends this soon after another one is added to it, seconds.
_APART_S = 0.5


@dataclass(frozen=True, slots=True)
class Pace:
    #: When each ended (seconds since 1970), how many messages it has received, and how many it has released; batches that follow each
    #: other within half a second are one.
    batches: tuple[tuple[float, int, int], ...] = ()
    #: How many records the run is behind its source; None: the source can't tell.
    behind: int | None = None
    since: float = 0.0

    def after(self, ended: float, received: int, released: int, behind: int | None) -> Pace:
        kept = [batch for batch in self.batches if batch[0] > ended - WINDOW_S]
        if kept and ended - kept[-1][0] < _APART_S:
            at, before, left = kept.pop()
            kept.append((at, before + received, left + released))
        elif received or released:
            kept.append((ended, received, released))
        return Pace(tuple(kept), behind, self.since)

    def received_per_s(self, now: float) -> float:
        """The messages a second that were received in the last minute, or since the run began, if that is shorter ago."""
        return self._per_s(1, now)

    def released_per_s(self, now: float) -> float:
        """The messages a second that were released, likewise."""
        return self._per_s(2, now)

    def _per_s(self, place: int, now: float) -> float:
        messages = sum(int(batch[place]) for batch in self.batches if batch[0] > now - WINDOW_S)
        return round(messages / min(WINDOW_S, max(1.0, now - self.since)), 1)

    def keep(self, root: Path) -> None:
        """Write it into a checkpoint; ignore an error, because nothing depends on it."""
        with suppress(OSError):
            write_unsynced(root / _FILE, json.dumps(asdict(self)))

    @classmethod
    def of(cls, root: Path) -> Pace | None:
        """The pace of a run, from its checkpoint; None: it isn't known."""
        try:
            content = json.loads((root / _FILE).read_bytes())
            batches = tuple((float(at), int(received), int(released)) for at, received, released in content["batches"])
            behind = None if content["behind"] is None else int(content["behind"])
            return cls(batches, behind, float(content["since"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
