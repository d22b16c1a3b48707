"""Which pipelines go from text to packets in one stage.

The choice depends on the declaration alone, and is made before the query starts: no batch of a query goes another way than the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from seriatim.kernel.filters.filter import LONG, STRING, TIMESTAMP, Expression, Type, ValueKind, type_from
from seriatim.kernel.groups.numbers import by_position
from seriatim.kernel.groups.policy import BestEffort, Fifo, UnitOfWork, Unordered
from seriatim.kernel.route import properties
from seriatim.pipeline.bodies.envelopes.registry import has_parts
from seriatim.pipeline.declared.pipeline import Pipeline, Receive
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.queue_parts import WHOLE_QUEUE
from seriatim.pipeline.filters.syntax import parsed
from seriatim.spark.resequence.input_columns import compared

_TEXT_FILES = ("json", "csv", "text", "xml")
_TICKET = ("ticket", "epoch")


@dataclass(frozen=True, slots=True)
class Way:
    """How the messages of a pipeline reach the operator: in one stage, or in stages of their own for a reason."""

    pipeline: str
    one_stage: bool
    reason: str | None


def way_of(pipeline: Pipeline) -> Way:
    reason = why_apart(pipeline)
    return Way(pipeline.name, reason is None, reason)


def why_apart(pipeline: Pipeline) -> str | None:
    """Why a pipeline is received, stamped and routed in stages of their own, in words; None: one stage does it all."""
    return next(_reasons(pipeline), None)


def column_types(pipeline: Pipeline) -> dict[str, Type]:
    """The columns of messages that filters may name, and their types."""
    found = {"message_id": STRING, "type": STRING, "location": STRING, "received_at": TIMESTAMP}
    for entry in pipeline.receive:
        found |= {item.name: type_from(item.type) for item in entry.promote}
    found |= {"_invalid": STRING, "_file": STRING, "_position": LONG}
    if has_parts(pipeline.receive):
        found |= {"parent_id": STRING, "part": LONG, "parts": LONG}
    return found | {name: LONG for name in _TICKET if name not in found}


def filter_of(text: str, types: Mapping[str, Type], where: str) -> Expression:
    return parsed(text, types, where=where, unfit={"body": "binary"})


def _reasons(pipeline: Pipeline) -> Iterator[str]:
    if pipeline.merges:
        yield "two regions send its messages"
    if pipeline.clock == "event":
        yield "it has the event clock"
    if pipeline.process is not None:
        yield f"{pipeline.process.function} works on its messages before they are routed"
    for entry in pipeline.receive:
        yield from _of_location(entry)
    types = column_types(pipeline)
    for one in pipeline.route:
        where = f"destination {one.queue.name!r}"
        if one.process is not None:
            yield f"{one.process.function} works on the messages of {where} before they are put in order"
        texts = {f"subscription {one.queue.name!r}": one.where, **_filters(one.queue)}
        for place, text in texts.items():
            if any(named.name in _TICKET for named in properties(filter_of(text, types, place))):
                yield f"{where} looks at tickets, which messages get later"
        yield from (f"{where} {reason}" for reason in _of_queue(one.queue, types))


def _of_location(entry: Receive) -> Iterator[str]:
    where = f"location {entry.location!r}"
    if entry.source.kind not in _TEXT_FILES:
        yield f"{where} isn't of text files, but of format {entry.source.kind}"
    split = None if entry.split is None else entry.split.function
    if entry.function is not None or split is not None:
        yield f"{entry.function or split} reads the messages of {where}"
    if entry.stamp is not None and entry.stamp.order_by:
        yield f"{where} is ordered by {', '.join(entry.stamp.order_by)}"


def _filters(queue: Queue) -> dict[str, str]:
    policy = queue.policy
    last = policy.last if isinstance(policy, UnitOfWork) else None
    texts = {"opens": queue.group.opens, "closes": queue.group.closes, "last": last if isinstance(last, str) else None}
    return {f"queue {queue.name!r}: {what}": text for what, text in texts.items() if text is not None}


def _of_queue(queue: Queue, types: Mapping[str, Type]) -> Iterator[str]:
    """Why a queue needs more of a message than the stage reads, if it does."""
    policy = queue.policy
    if queue.says.says() or by_position(policy):
        yield "says what its numbers mean"
    if isinstance(policy, Unordered):
        return
    if queue.group.by not in (None, WHOLE_QUEUE) and not _is(types, queue.group.by, ValueKind.STRING, ValueKind.LONG):
        yield f"has groups by {queue.group.by}, which is neither text nor a long"
    if queue.numbered_by is not None and not isinstance(policy, Fifo):
        by_time = isinstance(policy, BestEffort) and policy.by == "time"
        if not _is(types, queue.numbered_by, ValueKind.TIMESTAMP if by_time else ValueKind.LONG):
            yield f"is in order of {queue.numbered_by}, which is no {'timestamp' if by_time else 'long'}"
    size = policy.size if isinstance(policy, UnitOfWork) else None
    if isinstance(size, str) and not _is(types, size, ValueKind.LONG):
        yield f"has sets of {size}, which is no long"
    if compared(queue) is not None:
        yield "compares messages that come again"


def _is(types: Mapping[str, Type], name: str | None, *kinds: ValueKind) -> bool:
    return name not in _TICKET and name in types and types[str(name)].kind in kinds
