"""The ``receive`` part of a pipeline file: locations, and the treatment of their messages on arrival."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from seriatim.kernel.groups.sequence import LAST_NUMBER
from seriatim.kernel.policies.copies import REGIONS
from seriatim.pipeline.bodies.envelopes.registry import has_parts
from seriatim.pipeline.bodies.xpath import is_prefix
from seriatim.pipeline.declared.pipeline import BOX, REGION, Receive, Source, Split, Stamp
from seriatim.pipeline.declared.promotion import Promotion
from seriatim.pipeline.files.box_place import box_source, own_place, with_dialog, with_type
from seriatim.pipeline.files.paths import Paths
from seriatim.pipeline.files.promote import is_json_path, promote, usable_function, usable_xpath, written_names
from seriatim.pipeline.files.source import source
from seriatim.pipeline.text.document import Scalar, Table
from seriatim.pipeline.text.section import Section, likely
from seriatim.pipeline.types.properties import PARTS, Properties

#: Keys of the file's language that later versions understand, wherever they stand.
LATER = {"dialogs": "dialogs of the pipeline's own"}

_ORDERED = ("string", "long", "timestamp")


def receive(pipeline: Section, paths: Paths, functions: Sequence[Path] = ()) -> tuple[tuple[Receive, ...], Properties]:
    """Read all locations; `functions` are the folders in which the user's functions are looked for."""
    received: list[Receive] = []
    titles: set[str] = set()
    types: dict[str, str] = {}
    whole, splits = True, False
    faulty: set[str] | None = set()
    for section in pipeline.sections("receive"):
        region = section.choice("region", REGIONS)
        name = _name(section, titles, region)
        entry = _location(section, name or "", paths, functions, types, region)
        section.finish(LATER)
        splits = splits or section.has("split")
        if name is not None and entry is not None:
            received.append(entry)
        else:
            whole = False
            written = written_names(section)
            faulty = None if faulty is None or written is None else {*faulty, *written, *({REGION} if region else ())}
    if whole:
        _check_regions(pipeline, received)
    own = {REGION: "string"} if any(entry.region is not None for entry in received) else {}
    by_location = {entry.title: {one.name: one.type for one in entry.promote} | own for entry in received}
    unstamped = tuple(entry.location for entry in received if entry.stamp is None)
    known = None if faulty is None or not (received or faulty) else frozenset(faulty)
    return tuple(received), Properties(
        by_location, whole and bool(received), splits or has_parts(received), unstamped, known
    )


def _check_regions(pipeline: Section, received: Sequence[Receive]) -> None:
    """Report locations that aren't received from both regions alike."""
    sections = dict(zip((entry.title for entry in received), pipeline.sections("receive"), strict=False))
    of_location: dict[str, list[Receive]] = {}
    for entry in received:
        of_location.setdefault(entry.location, []).append(entry)
    if all(entry.region is None for entry in received):
        return
    for location, entries in of_location.items():
        last = entries[-1]
        section, regions = sections[last.title], [entry.region for entry in entries]
        if None in regions:
            what = f"location {location!r} says no region, and others of the pipeline do"
            section.fault("location", what, "receive all from two regions, or make it a pipeline of its own")
            continue
        if len(regions) == 1:
            missing = next(name for name in REGIONS if name not in regions)
            what = f"location {location!r} is received from region {regions[0]} only"
            section.fault("region", what, f"add an entry of this location with region: {missing}, or leave out region")
        first = entries[0]
        if last.stamp != first.stamp:
            what = f"location {location!r} stamps the messages of region {last.region} otherwise than those of {first.region}"
            section.fault(
                "stamp" if section.has("stamp") else "location", what, "both take their tickets from one counter"
            )
        for entry in entries:
            _check_identity(sections[entry.title], entry)


def _check_identity(section: Section, entry: Receive) -> None:
    """Report a source of a region whose messages have no id that they have in the other, or a property that is taken."""
    known = {"message_id", *(one.name for one in entry.promote)}
    if entry.message_id is None and entry.source.format != BOX:
        what = f"{section.full('message_id')} is missing: by which property is a message known in both regions?"
        section.fault("region", what, "promote the id that its sender gave it, and name it here: message_id: …")
    elif entry.message_id is not None and entry.message_id not in known:
        what = f"the location promotes no property {entry.message_id!r}"
        section.named_fault(
            "message_id", what, likely(entry.message_id, sorted(known - {"message_id"})) or "promote it"
        )
    elif entry.message_id == "message_id" and entry.source.format != BOX:
        what = "message_id names the row of a file, which is another one in each region"
        section.named_fault("message_id", what, "promote the id that its sender gave it, and name that")
    if any(one.name.casefold() == REGION for one in entry.promote):
        what = "region is the property that says which region has shown a message"
        section.fault("promote", what, "give the property another name")


def _name(section: Section, titles: set[str], region: str | None) -> str | None:
    boxed = section.has("queue") or section.has("service")
    name = section.text("location", required=not boxed) or section.text("queue") or section.text("service")
    title = f"{name}/{region}" if region is not None else name
    if name is not None and title in titles:
        twice = f"region {region} of location {name!r}" if region is not None else f"location {name!r}"
        section.fault("region" if region is not None else "location", f"{twice} is given twice")
    elif name is not None and len(name) > 128:
        section.fault("location", "a location has at most 128 characters")
    titles.add(title or "")
    return name


def _location(
    section: Section, name: str, paths: Paths, functions: Sequence[Path], types: dict[str, str], region: str | None
) -> Receive | None:
    boxed = section.has("queue") or section.has("service")
    origin = box_source(section) if boxed else source(section, paths)
    namespaces = read_namespaces(section, origin)
    split = _split(section, origin, namespaces, functions)
    # What is wrong with the split is told; paths are read as if it were there.
    promoted = promote(
        section, origin, split or (Split() if section.has("split") else None), namespaces, functions, types
    )
    stamp = _stamp(section, promoted.properties if promoted else None, split)
    identity, place = section.text("message_id"), own_place(section, boxed=boxed)
    if identity is not None and not section.has("region"):
        section.fault(
            "message_id", f"{section.full('message_id')} is for messages of two regions", "add region: a, or b"
        )
    if origin is None or promoted is None or (section.has("split") and split is None):
        return None
    if section.has("region") and region is None:
        return None
    properties = with_type(promoted.properties) if origin.format == BOX else promoted.properties
    if section.has("service"):
        properties = with_dialog(section, properties, types, origin.options.get("prefix", ""))
    return Receive(
        name,
        origin,
        properties,
        promoted.function,
        namespaces,
        split,
        stamp,
        promoted.envelope,
        region,
        identity,
        place,
    )


def read_namespaces(location: Section, origin: Source | None) -> Mapping[str, str]:
    """The prefixes of XPath, and their URIs; `origin`: the source that the XPath is for, None if unknown."""
    section = location.section("namespaces")
    if section is None:
        return {}
    if origin is not None and origin.kind in ("json", "csv", "text", "parquet"):
        what = f"{location.full('namespaces')}: {origin.format} has none"
        location.key_fault("namespaces", what, "they are for XML")
    found: dict[str, str] = {}
    for prefix in section.names():
        uri = section.text(prefix, required=True)
        if not is_prefix(prefix):
            section.key_fault(prefix, f"{prefix!r} can't be a prefix of names in XML")
        elif uri is not None:
            found[prefix] = uri
    return found


def _split(
    location: Section, origin: Source | None, namespaces: Mapping[str, str], functions: Sequence[Path]
) -> Split | None:
    value = location.tree("split")
    if value is None:
        return None
    section = location.section("split") if isinstance(value, Table) else None
    otherwise: Literal["invalid", "whole"] = "invalid"
    if section is None:
        inner, key = location, "split"
    else:
        inner, key = section, "path"
        section.known("path")
        section.known("function")
        written = section.choice("otherwise", ("invalid", "whole"))
        if written is None and section.has("otherwise"):
            return None
        otherwise = "whole" if written == "whole" else "invalid"
        section.finish()
        if section.has("path") == section.has("function"):
            location.fault("split", f"{location.full('split')} needs either a path or a function")
            return None
        if section.has("function"):
            function = usable_function(section, "function", functions)
            return Split(function=function, otherwise=otherwise) if function else None
    path = inner.text(key)
    return Split(path, otherwise=otherwise) if path and _splits(inner, key, path, origin, namespaces) else None


def _splits(section: Section, key: str, path: str, origin: Source | None, namespaces: Mapping[str, str]) -> bool:
    if origin is None:
        return True
    kind = origin.kind
    if kind in ("csv", "text"):
        what = f"{path!r}: {kind} has no lists to split by a path"
        section.fault(key, what, "write split: {function: module:name}")
        return False
    if kind == "xml" or (kind not in ("json", "parquet") and not path.startswith("$")):
        return usable_xpath(section, key, path, namespaces)
    if is_json_path(path):
        return True
    section.fault(key, f"{path!r} is not a path into JSON", "write the path to a list, such as $.lines")
    return False


def _stamp(location: Section, promoted: Sequence[Promotion] | None, split: Split | None) -> Stamp | None:
    value = location.tree("stamp")
    if value is None or (isinstance(value, Scalar) and value.value is True):
        return Stamp()
    if isinstance(value, Scalar) and value.value is False:
        return None
    if not isinstance(value, Table):
        location.fault(
            "stamp", f"{location.full('stamp')} must be false or a mapping", "{last_number: …, order_by: […]}"
        )
        return None
    section = location.section("stamp")
    if section is None:
        return None
    last_number = section.whole("last_number", 1, LAST_NUMBER)
    order_by = section.texts("order_by") or ()
    section.finish()
    known = {"message_id": "string", "received_at": "timestamp", **(PARTS if split else {})}
    if promoted is not None:
        known |= {one.name: one.type for one in promoted}
        for name in order_by:
            _check_order(section, name, known)
    return Stamp(last_number or LAST_NUMBER, order_by)


def _check_order(section: Section, name: str, known: Mapping[str, str]) -> None:
    kind = known.get(name)
    if kind is None:
        section.named_fault("order_by", f"the location doesn't promote {name!r}", likely(name, known))
    elif kind not in _ORDERED and not kind.startswith("decimal"):
        what = f"{name!r} is {kind}, which says no order of arrival"
        section.named_fault("order_by", what, "take a string, long, decimal or timestamp")
