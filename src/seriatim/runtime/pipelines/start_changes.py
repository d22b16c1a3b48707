"""What a start may change: a declaration compared with what its checkpoint was begun with.

The table is in `docs/reference/pipeline-file.md`. What the state was written by stays: the next batch would judge new numbers by an
old state. Everything else counts from the next batch on; what is held keeps the columns that it came with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from seriatim.pipeline.declared.pipeline import Destination, Pipeline, Receive
from seriatim.pipeline.declared.queue import Queue

__all__ = ["Change", "later_changes", "ordering", "ordering_changes"]

#: Parameters of policies by which a state was written.
_FIXED = ("start", "increment", "by", "size")
_MISREAD = "new messages would be judged by a state that was written otherwise"


@dataclass(frozen=True, slots=True)
class Change:
    """A difference between a checkpoint and the declaration with which it is to go on.

    Args:
        where: the destination or the location, in words; empty: the pipeline.
        what: the entry of the pipeline file.
        before: its former value, in words.
        after: its new value, in words.
        effect: ``refused``: the pipeline doesn't start; ``from the next batch on``.
        reason: why it is refused; empty if it isn't.
    """

    where: str
    what: str
    before: str
    after: str
    effect: Literal["refused", "from the next batch on"]
    reason: str = ""

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.what} {self.before} → {self.after}: {self.effect}"


def ordering(queues: Sequence[Queue]) -> dict[str, dict[str, Any]]:
    """By queue the parameters by which its state is written, as JSON has them."""
    return {queue.name: _ordering_of(queue) for queue in queues}


def _ordering_of(queue: Queue) -> dict[str, Any]:
    found: dict[str, Any] = {"sequence": queue.sequence}
    return found | {name: getattr(queue.policy, name) for name in _FIXED if hasattr(queue.policy, name)}


def ordering_changes(before: Mapping[str, Mapping[str, Any]], queues: Sequence[Queue]) -> Iterator[Change]:
    """The refused changes of parameters by which a state was written.

    Args:
        before: as `ordering` gives it.
        queues: the queues of the new declaration; those that `before` doesn't have are new.
    """
    for queue in queues:
        former = before.get(queue.name, {})
        for name, value in _ordering_of(queue).items():
            if name in former and former[name] != value:
                where = f"destination {queue.name!r}"
                before_, after = _said(former[name]), _said(value)
                reason = f"its {name} is {before_}, yours is {after}; {_MISREAD}"
                yield Change(where, name, before_, after, "refused", reason)


def later_changes(before: Pipeline, after: Pipeline) -> Iterator[Change]:
    """The changes that count from the next batch on.

    Args:
        before: the pipeline under which the last batch was begun.
        after: the pipeline as it is declared now.
    """
    former = {entry.location: entry for entry in before.receive}
    for entry in after.receive:
        if entry.location in former:
            yield from _between(
                f"location {entry.location!r}", _of_location(former[entry.location]), _of_location(entry)
            )
    places = {one.queue.name: one for one in before.route}
    for one in after.route:
        if one.queue.name in places:
            yield from _between(f"destination {one.queue.name!r}", _of_place(places[one.queue.name]), _of_place(one))
    yield from _between("", _of_pipeline(before), _of_pipeline(after))


def _between(where: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    for name in {**before, **after}:
        if before.get(name) != after.get(name):
            yield Change(where, name, _said(before.get(name)), _said(after.get(name)), "from the next batch on")


def _of_location(entry: Receive) -> dict[str, Any]:
    promoted = {f"promote {one.name}": f"{one.type} from {' or '.join(one.paths)}" for one in entry.promote}
    split = None if entry.split is None else entry.split.path or entry.split.function
    return {"function": entry.function, "split": split, "envelope": entry.envelope, **promoted}


def _of_place(one: Destination) -> dict[str, Any]:
    policy = one.queue.policy
    parameters = {each.name: getattr(policy, each.name) for each in fields(policy)}
    port = " ".join(
        str(part) for part in (one.deliver.format, one.deliver.path or one.deliver.options.get("path")) if part
    )
    function = None if one.process is None else f"{one.process.function}, on error {one.process.on_error}"
    later = {name: value for name, value in parameters.items() if name not in _FIXED}
    expiry = {name: getattr(one.queue, name) for name in ("expire_after", "expire_to")}
    return {
        "where": one.where,
        "to": port,
        "process": function,
        "default_group": one.queue.default_group,
        **expiry,
        **later,
    }


def _of_pipeline(pipeline: Pipeline) -> dict[str, Any]:
    process = pipeline.process
    function = None if process is None else f"{process.function}, on error {process.on_error}"
    folders = {"set_aside": pipeline.set_aside, "unrouted": pipeline.unrouted}
    times = {"trigger": f"{pipeline.trigger_s:g} s", "time": pipeline.time, "watermark": f"{pipeline.watermark_s:g} s"}
    return {"process": function, **times, "arrival": pipeline.arrival, **folders}


def _said(value: object) -> str:
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
