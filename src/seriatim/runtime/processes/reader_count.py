"""The wanted number of readers of a queue: the rule of activation, by the load.

Pure: it asks no clock and no box. The rule, where at most as many readers are useful as there are groups with work:

1. Where there is work and no reader, there is one at once; and never fewer than the minimum, nor more than the maximum.
2. Where at every look of a second there were more groups with work than readers, these don't keep up: there are twice
   as many then, as far as there are groups for them.
3. Where at every look of fifteen seconds there were fewer groups with work than readers, there are as many as there
   were groups at most in that time.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BEHIND_S", "IDLE_S", "Readers", "after_look"]

BEHIND_S = 1.0
IDLE_S = 15.0


@dataclass(frozen=True, slots=True)
class Readers:
    """How many there are to be, and what the next change goes by.

    Args:
        wanted: so many.
        behind_since: since when, at every look, there was work for more; None: at the last one there wasn't.
        idle_since: since when, at every look, there was work for fewer only; None: at the last one there was.
        most: the most groups with work since then.
    """

    wanted: int = 0
    behind_since: float | None = None
    idle_since: float | None = None
    most: int = 0


def after_look(before: Readers, ready: int, minimum: int, maximum: int, now: float) -> Readers:
    """What the rule says after a look.

    Args:
        before: what it said after the look before.
        ready: in how many groups there is something to do, those included that are being worked on.
        minimum: at least so many readers.
        maximum: at most so many.
        now: seconds, of a clock that never goes back.
    """
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
