"""The message box of a pipeline file: its DSN, and the queues and services to read from and deliver to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from seriatim.errors import UsageError
from seriatim.kernel.groups.policy import Unordered
from seriatim.pipeline.declared.contract import DEFAULT
from seriatim.pipeline.declared.pipeline import BOX, BoxPlace, Deliver, Destination, Receive, Source, source_variable
from seriatim.pipeline.declared.promotion import Promotion
from seriatim.pipeline.text.name import checked_name
from seriatim.pipeline.text.section import Section, likely
from seriatim.pipeline.types.box_properties import DIALOG

_READING = ("maxMessagesPerTrigger", "prefix", "takeOver")
#: Group, ordinal and id: they name a row, and say when it came.
_ROW = ("group", "ordinal", "message_id")


def read_place(pipeline: Section) -> BoxPlace:
    section = pipeline.section("box")
    if section is None:
        return BoxPlace()
    place = BoxPlace(section.text("dsn"), section.text("schema"))
    section.finish()
    return place


def own_place(location: Section, *, boxed: bool) -> BoxPlace | None:
    """The ``box`` of a source, where it isn't the pipeline's: ``{dsn: …, schema: …}``; `boxed`: whether it reads from a box."""
    section = location.section("box")
    if section is None:
        return None
    place = BoxPlace(section.text("dsn", required=True), section.text("schema"))
    section.finish()
    if not boxed:
        location.named_fault("box", "the messages come from no box", "add queue: …, or leave it out")
        return None
    return place if place.dsn is not None else None


def box_source(location: Section) -> Source | None:
    """The source of a location with ``queue: NAME``, or ``service: NAME``."""
    kind = "service" if location.has("service") else "queue"
    name, options = location.text(kind, required=True), location.options("options")
    inner = location.section("options") if options else None
    for option in options:
        if option not in _READING and inner is not None:
            inner.key_fault(option, f"unknown option {option!r} of a {kind}", likely(option, _READING))
    for key in ("queue", "source", "namespaces"):
        if key != kind and location.has(key):
            location.known(key)
            location.named_fault(key, f"the messages come from a {kind}", "leave out the one or the other")
    return Source(BOX, None, {**options, kind: name}, None, _ROW, "body") if name else None


def with_type(promoted: Sequence[Promotion]) -> tuple[Promotion, ...]:
    """The properties of messages of a box, which have types."""
    if any(one.name == "type" for one in promoted):
        return tuple(promoted)
    return (*promoted, Promotion("type", "type"))


def queue_port(port: Section) -> Deliver | None:
    """A port with ``queue: NAME``; `type` is the type of messages without a type."""
    queue, kind = port.text("queue", required=True), port.text("type")
    port.finish()
    if queue is None:
        return None
    return Deliver(BOX, None, {"queue": queue} | ({"type": kind} if kind else {}))


def with_dialog(
    location: Section, promoted: Sequence[Promotion], types: dict[str, str], prefix: str
) -> tuple[Promotion, ...]:
    """The properties of messages for a service, which describe their dialogs; `types`: those of earlier locations."""
    given = {one.name.casefold() for one in promoted}
    added = [Promotion(name, prefix + name, kind) for name, kind in DIALOG.items() if name not in given]
    for one in added:
        before = types.setdefault(one.name, one.type)
        if before != one.type:
            what = f"property {one.name!r} of a service's messages is {one.type}, and {before} at another location"
            location.fault("service", what, f"promote it here under a name of yours, or as {before}")
    return (*promoted, *added)


def service_port(port: Section) -> Deliver | None:
    """A port with ``service: NAME``; `dialog_by` names the property with the keys; by default the groups are the keys."""
    names = {
        "service": port.text("service", required=True),
        "fromService": port.text("from_service", required=True),
        "contract": port.text("contract") or DEFAULT,
        "dialogBy": port.text("dialog_by"),
        "type": port.text("type") or DEFAULT,
    }
    for key in ("queue", "format", "path"):
        if port.has(key):
            port.known(key)
            port.named_fault(key, "not allowed for messages that go into dialogs", "leave out the one or the other")
    port.finish()
    if names["service"] is None or names["fromService"] is None:
        return None
    for key, option in (("service", "service"), ("from_service", "fromService"), ("contract", "contract")):
        try:
            checked_name(names[option], f"a {key.replace('_', ' ')}")
        except UsageError as error:
            port.named_fault(key, error.what, error.remedy)
            return None
    return Deliver(BOX, None, {option: value for option, value in names.items() if value is not None})


def in_place(
    received: Sequence[Receive], routed: Sequence[Destination], name: str, place: BoxPlace, *, by_number: bool = False
) -> tuple[tuple[Receive, ...], tuple[Destination, ...]]:
    """The sources and ports of a box, with the options that follow from the whole file. `by_number`: queues get the numbers of the
    messages, where two runs of the pipeline have ordinals of their own.
    """
    schema = {} if place.schema is None else {"schema": place.schema}

    def reads(entry: Receive, place: int) -> Receive:
        own = entry.box
        there = schema if own is None else {} if own.schema is None else {"schema": own.schema}
        # The DSN itself, which may have a password, is in no option.
        dsn = {} if own is None else {"dsn": f"${{{source_variable(place)}}}"}
        options = {**entry.source.options, **there, **dsn, "pipeline": name}
        return replace(entry, source=replace(entry.source, options=options))

    def delivers(one: Destination) -> Destination:
        options = {"type": one.queue.name, **one.deliver.options, **schema}
        if "service" in options:
            options = {"dialogBy": "group", **options}
        if "queue" in options and not isinstance(one.queue.policy, Unordered):
            options |= {"group": "group", "sequence": "sequence" if by_number else "ordinal"}
        return replace(one, deliver=replace(one.deliver, options=options))

    return (
        tuple(reads(entry, n) if entry.source.format == BOX else entry for n, entry in enumerate(received)),
        tuple(delivers(one) if one.deliver.format == BOX else one for one in routed),
    )
