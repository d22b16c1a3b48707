"""Groups that a transaction has locked."""

from __future__ import annotations

from typing import NamedTuple

from seriatim.box.definitions.definition import BoxQueue
from seriatim.errors import UsageError
from seriatim.pipeline.declared.queue_level import type_of


class LockedGroups(NamedTuple):
    """Locked groups: their keys; the time in microseconds; the version of the definitions. `unrouted`: whether messages that were published
    through SQL wait to be routed. `many`: whether more messages wait to be judged than a turn of one group is worth. `has_expired`: whether
    a lease of the queue has run out; None: nobody has looked. `is_new`: whether nothing is remembered of the one group; `is_marked`:
    whether its last turn was rolled back; `on_trial`: see `lost_turns.py`.
    """

    keys: list[str]
    now_us: int
    version: int
    unrouted: bool = False
    many: bool = False
    has_expired: bool | None = None
    is_new: bool = False
    is_marked: bool = False
    on_trial: bool = False

    def by_policy(self, queue: BoxQueue) -> list[LockedGroups]:
        if not queue.declared.policies:
            return [self]
        kept: dict[str | None, list[str]] = {}
        for key in self.keys:
            kind = type_of(key)
            kept.setdefault(kind if kind in queue.declared.policies else None, []).append(key)
        return [self._replace(keys=keys) for keys in kept.values()]


def check_isolation(isolation: str) -> None:
    """Refuse a transaction that reads by a snapshot older than the lock would be."""
    if isolation != "read committed":
        raise UsageError(
            f"messages can't be received in a transaction that is {isolation}",
            remedy="use READ COMMITTED: what it reads has to be younger than the lock of the group",
        )
