"""Check that the definitions of a box fit together: types, queues and filters."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from seriatim.box.definitions.definition import Definitions
from seriatim.box.definitions.live_changes import named_by
from seriatim.box.definitions.route import broken_in, router_of
from seriatim.errors import ActionRefused, UsageError
from seriatim.kernel.route import named_types
from seriatim.pipeline.filters.syntax import named, parsed
from seriatim.pipeline.types.box_properties import UNFIT, clashes, declared


@dataclass(frozen=True, slots=True)
class Redefinition:
    """The definitions before and after a change, and the declarations that were given, by kind and name."""

    before: Definitions
    after: Definitions
    given: Collection[tuple[str, str]]


def check_fit(redefined: Redefinition) -> None:
    """Refuse definitions that don't fit together, unless they didn't fit before and aren't given now."""
    after = redefined.after
    clashing, unfit = list(clashes(after.types.values())), router_of(after).unfit
    if not (clashing or unfit):
        return  # what didn't fit before is of no interest then; to find it takes a router, as many filters as there are
    known = {(one.kind, one.name) for one in broken_in(redefined.before)} - set(redefined.given)
    for clash in clashing:
        if ("type", clash.type) not in known:
            raise clash.error()
    for kind in ("type", "queue", "subscription"):
        for (its_kind, name), error in unfit.items():
            if its_kind == kind and (kind, name) not in known:
                raise error


def check_types(redefined: Redefinition) -> None:
    """Refuse given subscriptions of a role that name a type that the role isn't granted."""
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
    """Refuse to remove a property that a remaining definition names."""
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
    """The definitions that name properties, and these properties; new definitions are left to `check_fit`."""
    for name, queue in after.queues.items():
        if name in before.queues and ("queue", name) not in router_of(before).unfit:
            yield f"queue {name!r}", named_by(queue.declared)
    for name, subscription in after.subscriptions.items():
        if name in before.subscriptions and ("subscription", name) not in router_of(before).unfit:
            yield f"subscription {name!r}", named(subscription.declared.where)
