"""The ``route`` part of a pipeline file: destinations, how each is ordered and where it is delivered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from seriatim.errors import meant
from seriatim.kernel.fields import For
from seriatim.kernel.groups import numbers
from seriatim.kernel.groups.policy import BestEffort, Fifo, Policy, Standard, UnitOfWork, Unordered
from seriatim.pipeline.declared.pipeline import BOX, DROP, MOST_DESTINATIONS, TABLE, Deliver, Destination, StartFrom
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.queue_parts import WHOLE_QUEUE, Group
from seriatim.pipeline.files import kafka
from seriatim.pipeline.files.box_place import queue_port, service_port
from seriatim.pipeline.files.declared import made, read_fields
from seriatim.pipeline.files.paths import PORT_FORMATS, Paths, file_format
from seriatim.pipeline.files.policy import read_policy
from seriatim.pipeline.files.process import process, returning
from seriatim.pipeline.files.receive import LATER
from seriatim.pipeline.files.where import filter_types, where
from seriatim.pipeline.text.document import Scalar
from seriatim.pipeline.text.section import Section, likely
from seriatim.pipeline.text.storable import fits_text
from seriatim.pipeline.types.properties import Properties

# Sinks whose names are not ours written wrongly, however near they are.
_SPARK_FORMATS = frozenset(
    {"avro", "console", "delta", "hudi", "iceberg", "jdbc", "kafka", "noop", "orc", "text", "xml"}
)
_LONGEST_NAME = 128
# Properties that every message has without being promoted.
_OWN = {"location": "string", "message_id": "string", "type": "string"}


def route(
    pipeline: Section, properties: Properties, paths: Paths, functions: Sequence[Path]
) -> tuple[Destination, ...]:
    """Read all destinations; `functions` are the folders in which the user's functions are looked for."""
    written = pipeline.tree("route")
    if isinstance(written, Scalar) and written.value == "box":
        return (Destination(Queue("box", Unordered()), Deliver(BOX)),)  # whose subscriptions route further
    returned: dict[str, str] = {}
    types = filter_types(properties)
    destinations: list[Destination] = []
    names: set[str] = set()
    for number, section in enumerate(pipeline.sections("route")):
        if number == MOST_DESTINATIONS:
            what = f"a pipeline has at most {MOST_DESTINATIONS:,} destinations"
            section.fault(None, what, "make them groups of one destination, or several pipelines")
            break
        name = section.text("to", required=True)
        if name is not None and name in names:
            section.fault("to", f"destination {name!r} is given twice", "one destination has one policy and one port")
        names.add(name or "")
        filtered = where(section, types, unknown=properties.unknown)
        step = process(section, functions, properties, returned)
        found = returning(properties, step)
        ordering = _resequence(section, name, found, paths)
        port = _deliver(section, paths, found, ordering[0] if ordering is not None else None)
        section.finish(LATER)
        if ordering is not None and port is not None:
            queue, start_from, start_said = ordering
            _check_expiry(section, queue, port)
            destinations.append(Destination(queue, port, filtered, step, start_from, start_said))
    return tuple(destinations)


def _check_expiry(section: Section, queue: Queue, port: Deliver) -> None:
    """Report a destination whose ordinals begin again, where another queue goes by them."""
    if queue.group.expire_to == "nothing" and port.format == BOX:
        what = f"destination {queue.name!r} forgets groups, whose ordinals begin again, and a queue of a box goes by the ordinals"
        section.fault(
            "resequence", what, "leave out expire_to: then a group that has expired goes on with its ordinals"
        )


def require_property(
    section: Section, key: str, name: str, properties: Properties, types: tuple[str, ...] = ()
) -> None:
    """Report a property that isn't promoted everywhere, or not with one of `types`."""
    found = _OWN.get(name) or properties.type_of(name)
    if found is None:
        if not properties.is_unknown(name):
            what = f"no location promotes a property {name!r}"
            section.named_fault(
                key, what, likely(name, properties.names() | (properties.faulty or set())) or "promote it under receive"
            )
        return
    if types and found not in types:
        what = f"{name!r} is {found}, but has to be {' or '.join(types)}"
        section.named_fault(key, what, f"promote it as {{path: …, type: {types[0]}}}")
    lacking = [] if name in _OWN else properties.without(name)
    if lacking:
        section.named_fault(key, f"location {lacking[0]!r} doesn't promote {name!r}", "promote it there, too")


def _deliver(section: Section, paths: Paths, properties: Properties, queue: Queue | None) -> Deliver | None:
    if section.written("deliver"):  # a word
        if section.plain("deliver") == DROP:
            return Deliver(DROP)
        section.fault("deliver", f"{section.full('deliver')} must be a mapping, or {DROP}")
        return None
    port = section.section("deliver", required=True)
    if port is None:
        return None
    if port.has("service"):
        _check_key(port, properties, queue)
        return service_port(port)
    if port.has("queue"):
        return queue_port(port)
    kind = _port_format(port)
    return _table(port) if kind == TABLE else _sink(port, kind, paths)


def _sink(port: Section, kind: str | None, paths: Paths) -> Deliver | None:
    options = port.options("options")
    if kind in PORT_FORMATS:
        path = paths.port(port, "path", required=True)
        port.finish()
        return Deliver(kind, path, options) if kind and path else None
    if kind == kafka.FORMAT:
        kafka.check_sink(port, options)
    # Spark's sinks have paths of all kinds, or none; what isn't a path of this machine goes to Spark as it is.
    written = port.text("path") if kind else None
    plain = written is not None and "://" not in written
    path = paths.port(port, "path") if plain else None
    if written is not None and not plain:
        options = {**options, "path": written}
    port.known("path")
    port.finish()
    return Deliver(kind, path, options) if kind else None


def _table(port: Section) -> Deliver | None:
    """A port that is a table of the journal's database: its name, or ``schema.name``."""
    name = port.text("table", required=True)
    port.finish()
    if name is None:
        return None
    what, remedy = "is not the name of a table", "name, or schema.name, of 1 to 128 characters each"
    if not all(fits_text(one) and 1 <= len(one) <= _LONGEST_NAME for one in name.split(".")) or name.count(".") > 1:
        port.named_fault("table", f"{name!r} {what}", remedy)
        return None
    return Deliver(TABLE, None, {"table": name})


def _check_key(port: Section, properties: Properties, queue: Queue | None) -> None:
    """Check that messages that go into dialogs have keys: a property, or the groups in which they are ordered."""
    key = port.text("dialog_by")
    if key is not None:
        require_property(port, "dialog_by", key, properties, ("string", "long"))
    elif queue is not None and queue.group.by is None:
        what = f"{port.full('dialog_by')} is missing, and {queue.policy.name} has no groups"
        port.fault("service", what, "name the property with a dialog for each value")


def _port_format(port: Section) -> str | None:
    """One of our formats, or any other name that isn't a misspelling of one of them."""
    written = port.text("format", required=True)
    if written is None or written in PORT_FORMATS or written.casefold() in _SPARK_FORMATS or "." in written:
        return written
    hint = meant(written, PORT_FORMATS)
    if not hint:
        return written
    port.fault("format", f"there is no format {written!r}", hint)
    return None


def _resequence(
    destination: Section, name: str | None, properties: Properties, paths: Paths
) -> tuple[Queue, StartFrom | None, bool] | None:
    dropped = destination.written("deliver") == DROP
    section = destination.section("resequence", required=not dropped)
    if section is None:
        none = dropped and name is not None and not destination.has("resequence")
        return (Queue(name or "", Unordered()), None, False) if none else None
    kind, policy = read_policy(section)
    start_from = _start_from(section, paths)
    values = read_fields(section, Queue, {"name": name, "policy": policy}, For.PIPELINE, LATER)
    group = values["group"].by if isinstance(values["group"], Group) else values["group"]
    _check_columns(section, kind, policy, properties, group=group, sequence=values["sequence"])
    if isinstance(values["group"], Group):
        for path in ("group.opens", "group.closes"):
            inner, key = section.inside(path)
            if key is not None and inner is not section:
                where(inner, filter_types(properties), key=key, unknown=properties.unknown)
    for one in values["compare"] or ():
        if one != "body":
            require_property(section, "compare", one, properties)
    if start_from is not None and kind is not None and kind is not Standard:
        section.fault("start_from", f"{kind.name} has no first numbers", "start_from goes with policy: standard")
    queue = None if policy is None or name is None else made(section, Queue, values)
    return None if queue is None else (queue, start_from, section.has("start"))


def _check_columns(
    section: Section,
    kind: type[Policy] | None,
    policy: Policy | None,
    properties: Properties,
    *,
    group: str | None,
    sequence: str | numbers.Sequence | None,
) -> None:
    if group is not None and group != WHOLE_QUEUE:
        require_property(section, "group", group, properties)
    if sequence == "ticket":
        if properties.unstamped:
            what = f"location {properties.unstamped[0]!r} stamps no tickets"
            section.named_fault("sequence", what, "leave out its stamp: false, or name a promoted property")
    elif isinstance(sequence, numbers.Sequence):
        _check_numbers(section, sequence, properties, policy)
    elif sequence is not None and kind not in (None, Fifo, Unordered):
        fitting = () if kind is BestEffort and policy is None else _fitting(policy)
        require_property(section, "sequence", sequence, properties, fitting)
    if isinstance(policy, UnitOfWork) and isinstance(policy.size, str):
        require_property(section, "size", policy.size, properties, ("long",))
    if isinstance(policy, UnitOfWork) and isinstance(policy.last, str):
        where(section, filter_types(properties), key="last", unknown=properties.unknown)


def _fitting(policy: Policy | None) -> tuple[str, ...]:
    """The types that the sequence of a policy may have; empty: any."""
    if policy is not None and numbers.by_position(policy):
        return ()
    return ("timestamp",) if isinstance(policy, BestEffort) and policy.by == "time" else ("long",)


def _check_numbers(section: Section, sequence: numbers.Sequence, properties: Properties, policy: Policy | None) -> None:
    inner = section.section("sequence")
    if inner is None:
        return
    for key, value in sequence.given().items():
        if key in sequence.filters:
            where(inner, filter_types(properties), key=key, unknown=properties.unknown)
        elif key in ("by", "through", "previous", "epoch") and value != "ticket":
            for name in (value,) if isinstance(value, str) else value:
                require_property(inner, key, name, properties, _fitting(policy))


def _start_from(section: Section, paths: Paths) -> StartFrom | None:
    start_from = section.section("start_from")
    if start_from is None:
        return None
    kind = file_format(start_from)
    path = paths.file(start_from, "path")
    group, following = start_from.text("group"), start_from.text("next")
    start_from.finish()
    return StartFrom(kind, path, group or "group", following or "next") if kind and path else None
