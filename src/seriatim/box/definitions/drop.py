"""Parse the arguments of `drop`, and refuse to drop a definition that is in use; the error names its user."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from seriatim.box.definitions.change import Kind
from seriatim.box.definitions.definition import BoxQueue, Definitions
from seriatim.box.definitions.links import linked
from seriatim.box.definitions.schedules import scheduled
from seriatim.box.postgres.statements import Statements
from seriatim.errors import ActionRefused, NotFound, UsageError, shown
from seriatim.pipeline.declared.location import Location
from seriatim.pipeline.text.command import command
from seriatim.pipeline.text.section import likely

#: The definitions of a kind that all who route know.
_BY_KIND: Mapping[Kind, Callable[[Definitions], Collection[str]]] = {
    Kind.TYPE: lambda before: before.types,
    Kind.QUEUE: lambda before: before.queues,
    Kind.SUBSCRIPTION: lambda before: before.subscriptions,
    Kind.CONTRACT: lambda before: before.contracts,
    Kind.SERVICE: lambda before: before.services,
}
#: Counted up to there.
_MANY = 1000


def drops_of(named: Mapping[str, str | Iterable[str]]) -> list[tuple[Kind, str]]:
    found: list[tuple[Kind, str]] = []
    for word, names in named.items():
        if word not in list(Kind):
            raise UsageError(f"{word!r} can't be dropped", remedy=f"{', '.join(Kind)}: drop(queue='fulfilment')")
        for name in [names] if isinstance(names, str) or not isinstance(names, Iterable) else names:
            if not isinstance(name, str):
                raise UsageError(f"{name!r} is not the name of a {word}", remedy="give its name")
            found.append((Kind(word), name))
    return found


def check_there(statements: Statements, before: Definitions, kind: Kind, name: str) -> None:
    if (kind.value, name) in before.unreadable:
        return
    known: Collection[str]
    match kind:
        case Kind.LOCATION:
            known = {one.name for one, _ in locations(statements)}
        case Kind.SCHEDULE:
            known = scheduled(statements)
        case Kind.LINK:
            known = linked(statements)
        case Kind.SETTINGS:
            known = () if before.settings is None else (before.settings.name,)
        case _:
            known = _BY_KIND[kind](before)
    if name not in known:
        raise NotFound(f"there is no {kind} {shown(name)}", remedy=likely(name, known))


def check_queue(statements: Statements, queue: BoxQueue) -> None:
    """Refuse to drop a queue that has messages, or to which subscriptions lead."""
    name = queue.declared.name
    if queue.owner is not None:
        raise _refused(
            Kind.QUEUE,
            name,
            f"it belongs to the pipeline {queue.owner!r}",
            f"{command('queue', 'release', name)}, when that has stopped",
        )
    after = [named for (named,) in statements.rows("leading_to", queue_id=queue.queue_id)]
    if after:
        listed = ", ".join(after[:5]) + (f" and {len(after) - 5:,} more" if len(after) > 5 else "")
        raise _refused(Kind.QUEUE, name, f"subscriptions lead to it: {listed}", "drop them first, or together with it")
    row = statements.one("queue_contents", queue_id=queue.queue_id)
    words = ("to be handed out or held", "set aside", "in its history")
    found = [f"{_counted(count)} {what}" for count, what in zip(row, words, strict=True) if count]
    if found:
        what = f"it has messages: {', '.join(found)}"
        helps = [one for count, one in zip(row, _emptying(name), strict=True) if count]
        raise _refused(Kind.QUEUE, name, what, "; ".join(helps))


def check_collected(statements: Statements, before: Definitions, name: str, doing: str) -> None:
    """Refuse to remove a subscription that isn't started while messages wait that it has collected: nothing would hold them."""
    subscription_id, to = _place_of(before, name)
    waiting = statements.value("collected", queue_id=before.queues[to].queue_id, subscription_id=subscription_id)
    if waiting:
        raise ActionRefused(
            f"subscription {name!r} is {state_of(before, name)} and can't {doing}: collected messages wait: {_counted(waiting)}",
            remedy="start it, or abort the groups",
        )


def check_running(
    statements: Statements, before: Definitions, name: str, doing: str, *, having: str | None = None
) -> None:
    """Refuse to remove a starting subscription while instances of it run: their messages would have no handler."""
    one = before.subscriptions.get(name)
    if one is not None and one.declared.starts is None:
        return
    if running := statements.value("running_of", of_subscription=_place_of(before, name)[0], of_property=having):
        instances = "instance of it runs" if running == 1 else "instances of it run"
        value = "" if having is None else " with a value of it"
        raise ActionRefused(
            f"subscription {name!r} can't {doing}: {_counted(running)} {instances}{value}",
            remedy="let them end, or terminate them: seriatim instances",
        )


def state_of(before: Definitions, name: str) -> str | None:
    """The state of a subscription, even if its definition can't be read."""
    one = before.subscriptions.get(name)
    return before.unreadable["subscription", name].state if one is None else one.state


def _place_of(before: Definitions, name: str) -> tuple[int | None, str]:
    """The number of a subscription and the name of its queue, even if its definition can't be read."""
    one = before.subscriptions.get(name)
    if one is None:
        broken = before.unreadable["subscription", name]
        return broken.id, str(broken.queue)
    return one.subscription_id, one.declared.to


def drop_location(statements: Statements, name: str) -> None:
    statements.do("lock_location", location=name)
    if statements.maybe("drop_location", name=name) is None:
        what = "it has given numbers, which nobody may give again"
        raise _refused(Kind.LOCATION, name, what, "leave it: a location that nobody uses costs nothing")


def locations(statements: Statements) -> list[tuple[Location, bool]]:
    """The locations of a box by name, each with whether it has given a number."""
    rows = statements.rows("locations")
    return [(Location(name, last_number), used) for name, last_number, used in rows]


def _emptying(name: str) -> tuple[str, str, str]:
    """The commands that empty a queue: of messages to hand out, of set-aside messages, and of its history."""
    messages, letters = (command(noun, "delete", "--all", queue=name) for noun in ("messages", "dead-letters"))
    return (
        "let workers empty it, or abort its groups",
        f"delete what was set aside: {messages}, {letters}",
        f"purge its history: {command('box', 'purge', queue=name)} --older-than 0s",
    )


def _refused(kind: Kind, name: str, what: str, remedy: str) -> ActionRefused:
    return ActionRefused(f"{kind} {name!r} can't be dropped: {what}", remedy=remedy)


def _counted(count: int) -> str:
    return f"more than {_MANY:,}" if count > _MANY else f"{count:,}"
