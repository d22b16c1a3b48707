"""The wanted number of readers of a queue: the rule of activation, by the load.

Pure: it uses no clock and no box. At most as many readers are useful as there are groups with work. The rule:

1. If there is work and no reader, one reader is started at once. There are never fewer readers than the minimum, nor
   more than the maximum.
2. If for one second every check finds more groups with work than readers, the readers don't keep up: their number is
   doubled, as far as there are groups for them.
3. If for fifteen seconds every check finds fewer groups with work than readers, their number is reduced to the largest
   number of groups with work in that time.
"""

from __future__ import annotations

from dataclasses import dataclass

BEHIND_S = 1.0
IDLE_S = 15.0


@dataclass(frozen=True, slots=True)
class Readers:
    """The wanted number of readers, and the state for the next change."""

    wanted: int = 0
    #: The time since which every check found work for more readers; None: the last check didn't.
    behind_since: float | None = None
    #: The time since which every check found work for fewer readers only; None: the last check didn't.
    idle_since: float | None = None
    #: The largest number of groups with work since then.
    most: int = 0


def after_look(before: Readers, ready: int, minimum: int, maximum: int, now: float) -> Readers:
    useful = max(minimum, min(ready, maximum))
    wanted = max(minimum, min(before.wanted, maximum))
    if wanted == 0 and useful:
        wanted = 1
    if useful > wanted:
        since = now if before.behind_since is None else before.behind_since
        if now - since < BEHIND_S:
            return Readers(wanted, behind_since=since)
        wanted = min(2 * wanted, useful)
        return Readers(wanted, behind_since=now if useful > wanted else None)
    if useful < wanted:
        since, most = (now, useful) if before.idle_since is None else (before.idle_since, max(before.most, useful))
        if now - since < IDLE_S:
            return Readers(wanted, idle_since=since, most=most)
        return Readers(most)
    return Readers(wanted)
