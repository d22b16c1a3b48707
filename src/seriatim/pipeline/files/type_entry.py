"""A message type in the file of a message box."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seriatim.errors import UsageError
from seriatim.pipeline.bodies.json_paths import path_steps
from seriatim.pipeline.files.declared import read_declared
from seriatim.pipeline.files.promote import usable_xpath
from seriatim.pipeline.files.receive import read_namespaces
from seriatim.pipeline.text.document import Items, Table
from seriatim.pipeline.text.section import Section
from seriatim.pipeline.text.storable import fits_text
from seriatim.pipeline.types.message_type import MessageType
from seriatim.pipeline.types.properties import OF_MESSAGES, property_type, usable_name

_MOST_BYTES = 8_000_000


def type_entry(entry: Section, name: str) -> MessageType | None:
    """The message type that an entry of the file declares; None if it is wrong, which is reported."""
    namespaces = read_namespaces(entry, None)
    properties = _properties(entry, namespaces)
    given = {"name": name, "properties": properties, "namespaces": namespaces}
    if entry.has("schema"):
        given["schema"] = _schema(entry)
    return read_declared(entry, MessageType, given)


def _properties(entry: Section, namespaces: Mapping[str, str]) -> dict[str, Any] | None:
    section = entry.section("properties")
    if section is None:
        return None if entry.has("properties") else {}
    found = {name: _property(section, name, namespaces) for name in section.names()}
    return found if None not in found.values() else None


def _property(section: Section, name: str, namespaces: Mapping[str, str]) -> str | Mapping[str, Any] | None:
    """``name: type``, ``name: path``, ``name: [path, …]`` or ``name: {type: …, path: …}``; None if it is wrong."""
    usable = usable_name(section, name, OF_MESSAGES)
    if name == "type":
        what = "'type' is a field of every message"
        section.key_fault(name, what, "give the property another name")
        usable = False
    if isinstance(section.tree(name, required=True), Table):
        inner = section.section(name)
        return _typed_path(inner, namespaces) if inner and usable else None
    if isinstance(section.tree(name), Items):
        paths = section.texts(name)
        right = paths is not None and all(_is_path(section, name, path, namespaces) for path in paths)
        return {"type": "string", "path": paths} if right and usable else None
    text = section.text(name)
    if text is None:
        return None
    if text.startswith(("$", "/")):
        return {"type": "string", "path": text} if _is_path(section, name, text, namespaces) and usable else None
    return property_type(section, name, text) if usable else None


def _typed_path(inner: Section, namespaces: Mapping[str, str]) -> str | Mapping[str, Any] | None:
    written, paths = inner.text("type"), inner.texts("path")
    inner.finish()
    kind = property_type(inner, "type", written or "string")
    if kind is None or any(inner.has(key) and value is None for key, value in (("type", written), ("path", paths))):
        return None
    if paths is None:
        return kind
    right = [_is_path(inner, "path", path, namespaces) for path in paths]
    return {"type": kind, "path": paths} if all(right) else None


def _is_path(section: Section, key: str, path: str, namespaces: Mapping[str, str]) -> bool:
    if not path.startswith("$"):
        return usable_xpath(section, key, path, namespaces)
    try:
        path_steps(path)
    except UsageError as error:
        section.fault(key, error.what, error.remedy)
        return False
    return True


def _schema(entry: Section) -> str | None:
    written = entry.text("schema")
    if written is None:
        return None
    if not fits_text(written):
        entry.fault("schema", f"{written!r:.80} can't be a path")
        return None
    path = Path(written).expanduser() if written.startswith("~/") else Path(written)
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            entry.fault("schema", f"the schema {written!r} is larger than {_MOST_BYTES:,} bytes")
            return None
        return content.decode("utf-8-sig")
    except FileNotFoundError:
        entry.fault("schema", f"the schema {written!r} does not exist", "a path is relative to the current directory")
    except OSError as error:
        entry.fault("schema", f"the schema {written!r} can't be read: {error.strerror}")
    except UnicodeDecodeError:
        entry.fault("schema", f"the schema {written!r} is not UTF-8", "save it as UTF-8")
    return None
