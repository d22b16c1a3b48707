"""How the destinations of a checkpoint were added and removed, as far as a bucket needs it.

A bucket's state isn't rewritten when the pipeline file changes. Each call of a bucket compares what it finds there with this, and takes
out the groups of a destination that was taken away, or that lived earlier under a name that is used again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class DestinationHistory:
    #: How often each destination was added, from 1; also of removed destinations.
    incarnations: Mapping[str, int] = field(default_factory=dict)
    #: The last incarnation that was removed although it held messages, which are dead then.
    abandoned: Mapping[str, int] = field(default_factory=dict)
    #: The folder with the first numbers of groups, of a destination that was added to a checkpoint with batches.
    first_numbers: Mapping[str, str] = field(default_factory=dict)

    @property
    def gone(self) -> list[str]:
        """The destinations that were abandoned and not added again."""
        return [name for name, last in self.abandoned.items() if last >= self.incarnation(name)]

    def incarnation(self, name: str) -> int:
        return self.incarnations.get(name, 1)
