"""Whether a run delivers, for a pipeline that runs in two regions; kept in a file for people to look at, as the pace is."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from seriatim.spark.state.checkpoint_files import write_unsynced

_FILE = "lease.json"


@dataclass(frozen=True, slots=True)
class LeaseState:
    """A run's view of the lease of its pipeline.

    Args:
        state: ``active``: this run delivers; ``passive``: another one does, and this one keeps its state; ``waiting``: nobody can know.
        region: the region of this run.
        holder_region: the region of the run that has the lease; None: it isn't known.
        holder: its machine and process; None: it isn't known.
        until: when the lease ends unless it is renewed, such as 2026-11-27T10:00:00Z, by the journal's clock; None: it isn't known.
        reason: why nobody can know; empty otherwise.
    """

    state: Literal["active", "passive", "waiting"]
    region: str
    holder_region: str | None = None
    holder: str | None = None
    until: str | None = None
    reason: str = ""

    @property
    def in_words(self) -> str:
        match self.state:
            case "active":
                return f"active in region {self.region}"
            case "passive":
                holder = "another run" if self.holder_region is None else f"region {self.holder_region}"
                return f"passive: {holder} has the lease{'' if self.until is None else f' until {self.until}'}"
        return f"nobody delivers: {self.reason}"

    @property
    def key(self) -> tuple[str, str | None, str | None]:
        """The part whose change is reported."""
        return self.state, self.holder_region, self.holder

    def keep(self, root: Path) -> None:
        """Write it into a checkpoint; ignore an error, because nothing depends on it."""
        with suppress(OSError):
            write_unsynced(root / _FILE, json.dumps(asdict(self)))

    @classmethod
    def of(cls, root: Path) -> LeaseState | None:
        """Read the state that a run has written into its checkpoint; None: there is none."""
        try:
            state = cls(**json.loads((root / _FILE).read_bytes()))
        except (OSError, ValueError, TypeError):
            return None
        return state if state.state in ("active", "passive", "waiting") else None
