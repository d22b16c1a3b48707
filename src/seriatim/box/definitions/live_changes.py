"""The fields of a definition that may change while it is in use; see ``docs/reference/box-definitions.md``.

Pure functions of declarations, without rows or connections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from seriatim.kernel.groups.policy import BestEffort, Policy, Standard, UnitOfWork
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.filters.syntax import named
from seriatim.pipeline.types.message_type import MessageType

#: By these a queue has judged its groups, and would have judged otherwise.
_FROZEN_OF_QUEUE: Mapping[str, Callable[[Queue], object]] = {
    "group": lambda one: one.group.by,
    # Another filter is for messages that come, as below.
    "sequence": lambda one: {name: name in one.says.filters or text for name, text in one.says.given().items()},
    "group.by_type": lambda one: one.group.by_type is None,
    # Groups are open or not; another filter is for messages that come.
    "group.opens": lambda one: one.group.opens is None,
    "group.closes": lambda one: one.group.closes is None,
}
_FROZEN_OF_POLICY: Mapping[type[Policy], tuple[str, ...]] = {
    Standard: ("start", "increment"),
    BestEffort: ("by",),
    UnitOfWork: ("size", "last", "start", "once"),
}
#: By these it is told when a group has to be looked at.
_TIMERS = ("hole_timeout", "hole_retries", "on_hole", "window", "buffer", "max_rows", "timeout", "settle")


def frozen(old: Queue, new: Queue) -> list[str]:
    """The changed fields that may not change while the queue has groups."""
    found = [name for name, its in _FROZEN_OF_QUEUE.items() if its(old) != its(new)]
    for before, after in _policies(old, new):
        found += [name for name in _frozen(before, after) if name not in found]
    return sorted(found, key=lambda name: name != "policy")  # which says most


def _policies(old: Queue, new: Queue) -> list[tuple[Policy, Policy]]:
    """The old and the new policy of each type; first the policy of all other types."""
    kinds = dict.fromkeys([*old.policies, *new.policies])
    return [(old.policy, new.policy)] + [
        (old.policies.get(kind, old.policy), new.policies.get(kind, new.policy)) for kind in kinds
    ]


def _frozen(old: Policy, new: Policy) -> list[str]:
    if type(old) is not type(new):
        return ["policy"]
    found = [name for name in _FROZEN_OF_POLICY.get(type(old), ()) if getattr(old, name) != getattr(new, name)]
    if isinstance(old, BestEffort) and isinstance(new, BestEffort):
        # A round that was begun by time ends by time.
        found += ["window"] if (old.window is None) != (new.window is None) else []
    return found


def moves_timers(old: Queue, new: Queue) -> bool:
    """Whether waiting groups have to be judged again, because their timers have changed."""
    return old.group.unopened_timeout != new.group.unopened_timeout or any(
        getattr(before, name, None) != getattr(after, name, None)
        for before, after in _policies(old, new)
        for name in _TIMERS
    )


def retyped(old: MessageType, new: MessageType) -> set[str]:
    before, after = old.types(), new.types()
    return {name for name, kind in before.items() if after.get(name, kind) != kind}


def judged_by(queue: Queue) -> set[str]:
    """The properties whose values a queue has stored: groups, sequences and sizes."""
    sizes = [one.size for one in queue.all_policies() if isinstance(one, UnitOfWork)]
    return {name for name in (queue.group.by, *queue.says.names, *sizes) if isinstance(name, str)}


def named_by(queue: Queue) -> set[str]:
    found = judged_by(queue) | ({queue.priority} if queue.priority else set()) | set(queue.compare or ())
    filters = [one.last for one in queue.all_policies() if isinstance(one, UnitOfWork)]
    filters += [queue.group.opens, queue.group.closes, *queue.says.filters.values()]
    return found.union(*(named(one) for one in filters if isinstance(one, str)))
