"""Check that the definitions of a box fit together: types, queues and filters."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from seriatim.box.definitions.changeable import named_by
from seriatim.box.definitions.definition import Definitions
from seriatim.box.definitions.route import broken_in, router_of
from seriatim.errors import ActionRefused, UsageError
from seriatim.kernel.route import named_types
from seriatim.pipeline.filters.syntax import named, parsed
from seriatim.pipeline.types.box_properties import UNFIT, clashes, declared

__all__ = ["Redefinition", "check_fit", "check_lost", "check_types"]


@dataclass(frozen=True, slots=True)
class Redefinition:
    """What was defined, what is now, and what of it was given, by what it is and its name."""

    before: Definitions
    after: Definitions
    given: Collection[tuple[str, str]]


def check_fit(redefined: Redefinition) -> None:
    """Refuse what doesn't go together; but for what didn't before, and isn't given now.

    Raises:
        UsageError: two types that don't agree, a queue or a filter that names what isn't there.
    """
    after = redefined.after
    known = {(one.kind, one.name) for one in broken_in(redefined.before)} - set(redefined.given)
    for clash in clashes(after.types.values()):
        if ("type", clash.type) not in known:
            raise clash.error()
    for kind in ("type", "queue", "subscription"):
        for (its_kind, name), error in router_of(after).unfit.items():
            if its_kind == kind and (kind, name) not in known:
                raise error


def check_types(redefined: Redefinition) -> None:
    """Refuse given subscriptions of a role that name a type which it isn't granted.

    Raises:
        UsageError: which subscription, and which type.
    """
    after = redefined.after
    for name in sorted(name for kind, name in redefined.given if kind == "subscription"):
        one = after.subscriptions[name]
        if one.types is None:
            continue
        where = f"subscription {name!r}"
        wrong = named_types(parsed(one.declared.where, router_of(after).properties, where=where, unfit=UNFIT)) - set(
            one.types
        )
        if wrong:
            raise UsageError(
                f"its filter names the type {min(wrong)!r}, which the role {one.role!r} may not subscribe to",
                where=where,
                remedy=f"it may subscribe to {', '.join(one.types)}; others: seriatim box grant {one.role} --type TYPE",
            )


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
        if name in before.queues and ("queue", name) not in router_of(before).unfit:
            yield f"queue {name!r}", named_by(queue.declared)
    for name, subscription in after.subscriptions.items():
        if name in before.subscriptions and ("subscription", name) not in router_of(before).unfit:
            yield f"subscription {name!r}", named(subscription.declared.where)
