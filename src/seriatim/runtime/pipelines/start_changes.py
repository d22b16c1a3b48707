"""The changes that a start may make: a declaration compared with the first one of its checkpoint.

The table is in `docs/reference/pipeline-file.md`. The parameters by which the state was written stay: the next batch would judge new
numbers by an old state. All others count from the next batch on; held messages keep their columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Literal

from seriatim.pipeline.declared.pipeline import Destination, Pipeline, Receive
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.text.counted import counted

#: Parameters of policies by which a state was written.
_FIXED = ("start", "increment", "by", "size")
#: The options of ports that name the place; a server's address may have a password.
_PLACES = ("path", "table", "dbtable", "topic", "queue", "service")
_MISREAD = "new messages would be judged by a state that was written otherwise"


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between a checkpoint and the declaration with which it is to go on."""

    #: The destination or the location, in words; empty: the pipeline.
    where: str
    what: str
    before: str
    after: str
    #: ``refused``: the pipeline doesn't start; ``from the next batch on``.
    effect: Literal["refused", "from the next batch on"]
    reason: str = ""
    #: The remedy for a refusal; empty: a new checkpoint, or to undo the change.
    remedy: str = ""

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.what} {self.before} → {self.after}: {self.effect}"


def ordering(queues: Sequence[Queue]) -> dict[str, dict[str, Any]]:
    """By queue the parameters by which its state is written, as JSON has them."""
    return {queue.name: _ordering_of(queue) for queue in queues}


def _ordering_of(queue: Queue) -> dict[str, Any]:
    ordering: dict[str, Any] = {"sequence": queue.numbered_by}
    ordering |= {name: one for name, one in queue.says.given().items() if name in ("through", "previous", "epoch")}
    return ordering | {name: getattr(queue.policy, name) for name in _FIXED if hasattr(queue.policy, name)}


def ordering_changes(before: Mapping[str, Mapping[str, Any]], queues: Sequence[Queue]) -> Iterator[Change]:
    """The refused changes of parameters by which a state was written."""
    for queue in queues:
        former = before.get(queue.name, {})
        for name, value in _ordering_of(queue).items():
            if name in former and former[name] != value:
                where = f"destination {queue.name!r}"
                before_, after = _said(former[name]), _said(value)
                reason = f"its {name} is {before_}, yours is {after}; {_MISREAD}"
                yield Change(where, name, before_, after, "refused", reason)


@dataclass(frozen=True, slots=True)
class KnownDestination:
    incarnation: int
    #: Its order in words; None: it was removed.
    ordered: str | None
    #: The queue of the message box that gets its ordinals; None: there is none.
    feeds: str | None = None
    held: int = 0
    waiting: int = 0
    #: Whether its groups were ever forgotten after a rest, so that its rows have incarnations of groups.
    forgets: bool = False


def destination_changes(
    before: Mapping[str, KnownDestination],
    after: Sequence[Destination],
    ordered: Mapping[str, str],
    feeds: Mapping[str, str],
    abandoned: Collection[str],
) -> Iterator[Change]:
    """The destinations that are added, are taken away, or are ordered otherwise."""
    for destination in after:
        name = destination.queue.name
        known = before.get(name)
        if known is None or known.ordered is None:
            departed = [other for key, other in before.items() if key == name or key not in ordered]
            fed = feeds.get(name) if any(other.feeds == feeds.get(name) for other in departed) else None
            yield _added(destination, known, ordered[name], fed)
        elif known.ordered != ordered[name]:
            reason = f"it is {known.ordered}, yours is {ordered[name]}; {_MISREAD}"
            remedy = (
                "give the destination another name, which takes this one away and adds the other; or change it back"
            )
            yield Change(_place(name), "policy", known.ordered, ordered[name], "refused", reason, remedy)
        elif known.forgets and destination.queue.group.expire_to != "nothing":
            reason = "groups of it were forgotten and have begun again, so its rows need their incarnations"
            yield Change(
                _place(name), "expire_to", "nothing", destination.queue.group.expire_to, "refused", reason, "leave it"
            )
    for name, known in before.items():
        if known.ordered is not None and name not in ordered:
            yield _taken_away(name, known, known.ordered, is_abandoned=name in abandoned)


def _place(name: str) -> str:
    return f"destination {name!r}"


def _added(destination: Destination, known: KnownDestination | None, ordered: str, fed: str | None) -> Change:
    """`fed`: the queue of the message box that it feeds, if that got ordinals of a removed destination."""
    name = destination.queue.name
    after = ordered if known is None else f"{ordered}, incarnation {known.incarnation}"
    change = partial(Change, _place(name), "destination", "none" if known is None else "taken away", after)
    if known is not None and known.forgets:
        return change(
            "refused",
            "groups of it were forgotten under this name, so incarnations and ordinals would come again",
            "give the destination another name",
        )
    if not destination.says_its_start:
        return change(
            "refused",
            "it gets what is received from now on, and a group whose next number isn't 1 would wait for ever for those before it",
            "say where its numbers begin: start: first, start_from with a file, or start: 1 in so many words",
        )
    if fed is not None:
        return change(
            "refused",
            f"its ordinals begin at 1, and queue {fed!r} of the message box has got ordinals of this pipeline: it would take "
            "these for repetitions",
            "deliver to a new queue",
        )
    return change("from the next batch on")


def _taken_away(name: str, known: KnownDestination, ordered: str, *, is_abandoned: bool) -> Change:
    change = partial(Change, _place(name), "destination", ordered, "none")
    parts = [f"{counted(known.held, 'message is', 'messages are')} held"] if known.held else []
    parts += [f"{counted(known.waiting, 'message waits', 'messages wait')} for its port"] if known.waiting else []
    if not parts or is_abandoned:
        return change("from the next batch on")
    return change(
        "refused",
        f"{' and '.join(parts)}",
        f"seriatim pipeline drain with the former file; or run it with --abandon {name}, which sets them aside as dead",
    )


def later_changes(before: Pipeline, after: Pipeline) -> Iterator[Change]:
    former = {entry.title: entry for entry in before.receive}
    for entry in after.receive:
        if entry.title in former:
            yield from _between(f"location {entry.title!r}", _of_location(former[entry.title]), _of_location(entry))
    places = {route.queue.name: route for route in before.route}
    for route in after.route:
        if route.queue.name in places:
            yield from _between(
                f"destination {route.queue.name!r}", _of_place(places[route.queue.name]), _of_place(route)
            )
    yield from _between("", _of_pipeline(before), _of_pipeline(after))


def _between(where: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    for name in {**before, **after}:
        if before.get(name) != after.get(name):
            yield Change(where, name, _said(before.get(name)), _said(after.get(name)), "from the next batch on")


def _of_location(entry: Receive) -> dict[str, Any]:
    promoted = {f"promote {item.name}": f"{item.type} from {' or '.join(item.paths)}" for item in entry.promote}
    split = None if entry.split is None else entry.split.path or entry.split.function
    facts = {"function": entry.function, "split": split, "envelope": entry.envelope, **promoted}
    return facts if entry.region is None else {**facts, "message_id": entry.message_id}


def _of_place(destination: Destination) -> dict[str, Any]:
    policy = destination.queue.policy
    parameters = {each.name: getattr(policy, each.name) for each in fields(policy)}
    port = " ".join(str(part) for part in (destination.deliver.format, _place_of(destination)) if part)
    function = (
        None
        if destination.process is None
        else f"{destination.process.function}, on error {destination.process.on_error}"
    )
    later = {name: value for name, value in parameters.items() if name not in _FIXED}
    expiry = {name: getattr(destination.queue.group, name) for name in ("expire_after", "expire_to")}
    return {
        "where": destination.where,
        "to": port,
        "process": function,
        "default_group": destination.queue.group.default,
        **expiry,
        **later,
    }


def _place_of(destination: Destination) -> object:
    port = destination.deliver
    options = {name.lower(): value for name, value in port.options.items()}  # Spark takes names in any case
    return port.path or next((options[name] for name in _PLACES if name in options), None)


def written_to(pipeline: Pipeline) -> dict[str, str]:
    """The places to which batches are written: by destination, and the folders of other messages. Texts with variables are filled in."""
    folders = {"set_aside": pipeline.set_aside, "unrouted": pipeline.unrouted}
    ports = {f"destination {route.queue.name!r}": _place_of(route) for route in pipeline.route}
    return {name: str(place) for name, place in (ports | folders).items() if place is not None}


def _of_pipeline(pipeline: Pipeline) -> dict[str, Any]:
    process = pipeline.process
    function = None if process is None else f"{process.function}, on error {process.on_error}"
    folders = {"set_aside": pipeline.set_aside, "unrouted": pipeline.unrouted}
    times = {"trigger": f"{pipeline.trigger_s:g} s", "time": pipeline.time, "watermark": f"{pipeline.watermark_s:g} s"}
    horizon = (
        {"horizon": "1 h" if pipeline.horizon_s is None else f"{pipeline.horizon_s:g} s"} if pipeline.merges else {}
    )
    claims = {} if pipeline.claims is None else {"lease": f"{pipeline.claims.lease_s:g} s"}
    return {"process": function, **times, "arrival": pipeline.arrival, **horizon, **claims, **folders}


def _said(value: object) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
