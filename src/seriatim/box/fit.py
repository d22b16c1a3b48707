"""Whether all that is defined in a box goes together."""

from __future__ import annotations

from collections.abc import Iterator

from seriatim.box.definitions import Definitions
from seriatim.box.live import named_by
from seriatim.box.route import Router
from seriatim.errors import ActionRefused, UsageError
from seriatim.pipeline.box_types import declared, misfits, property_types
from seriatim.pipeline.filters import named

__all__ = ["check_fit", "check_lost"]


def check_fit(after: Definitions) -> None:
    """Refuse what doesn't go together.

    Raises:
        UsageError: two types that don't agree, a queue or a filter that names what isn't there.
    """
    types = property_types(after.types.values())
    for name, queue in after.queues.items():
        for one in misfits(queue.declared, types):
            raise UsageError(one.what, where=f"queue {name!r}: {one.field}", remedy=one.remedy)
    Router(after)


def check_lost(before: Definitions, after: Definitions) -> None:
    """Refuse that a property goes that something names which stays.

    Raises:
        ActionRefused: which property of which type, and what names it.
    """
    owners = {name: kind for kind, one in before.types.items() for name in declared(one)}
    lost = owners.keys() - {name for one in after.types.values() for name in declared(one)}
    if not lost:
        return
    for what, names in _naming(before, after):
        if used := sorted(lost & names):
            raise ActionRefused(
                f"property {used[0]!r} of type {owners[used[0]]!r} can't go: {what} names it",
                remedy=f"change or drop {what} first, or together with it",
            )


def _naming(before: Definitions, after: Definitions) -> Iterator[tuple[str, frozenset[str] | set[str]]]:
    """What names properties, and which. What is new is left to `check_fit`."""
    for name, queue in after.queues.items():
        if name in before.queues:
            yield f"queue {name!r}", named_by(queue.declared)
    for name, subscription in after.subscriptions.items():
        if name in before.subscriptions:
            yield f"subscription {name!r}", named(subscription.declared.where)
