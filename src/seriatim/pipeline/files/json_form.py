"""Convert declarations to JSON values, as a message box stores them, and back.

The keys are a format of their own, with a version: flat, as the fields of a declaration name them (`takes`), so that renaming a field or
putting it into another value doesn't rename stored keys. A key that is missing has the default of its field.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from seriatim.errors import SchemaMismatch, UsageError
from seriatim.kernel.fields import DAY_S, LONGEST_DAYS, from_stored, to_stored
from seriatim.kernel.groups.policy import UnitOfWork
from seriatim.kernel.groups.sequence import MAX_KEY_BYTES
from seriatim.pipeline.declared.box_settings import BoxSettings
from seriatim.pipeline.declared.contract import Contract
from seriatim.pipeline.declared.link import Link
from seriatim.pipeline.declared.location import Location
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.service import Service
from seriatim.pipeline.declared.subscription import Subscription
from seriatim.pipeline.text.name import checked_name
from seriatim.pipeline.text.storable import fits_text
from seriatim.pipeline.types.message_type import MessageType
from seriatim.pipeline.types.schedule import Schedule

#: Of the keys, all kinds together.
VERSION = 1

_PERIODS = ("hole_timeout", "window", "timeout")
_INSTEAD = {
    "size": "name the property that says how many there are",
    "last": "write a filter, such as \"kind = 'end'\"",
}

Declaration = Location | MessageType | Queue | Subscription | Contract | Service | BoxSettings | Schedule | Link
_Kind = TypeVar("_Kind", Location, MessageType, Queue, Subscription, Contract, Service, BoxSettings, Schedule, Link)


def to_json(definition: Declaration) -> dict[str, Any]:
    """A declaration as a mapping of JSON values; equal declarations give equal mappings."""
    if not isinstance(definition, Declaration):
        raise UsageError(f"{type(definition).__name__} can't be stored in a message box")
    found = {"name": definition.name, **to_stored(definition)}
    if isinstance(definition, Queue):
        storable(definition)
        del found["expire_to"]  # of pipelines
        found["keep"] = definition.keeps
    for key, value in found.items():
        _check_text(value, f"{key} of {type(definition).__name__} {definition.name!r}")
    return {"version": VERSION, **found}


def from_json(kind: type[_Kind], stored: Mapping[str, Any]) -> _Kind:
    """The declaration of a kind from a mapping that `to_json` made."""
    version = stored.get("version") if isinstance(stored, Mapping) else None
    name = stored.get("name") if isinstance(stored, Mapping) else None
    where = f"{kind.__name__} {name!r}"
    if isinstance(version, int) and version > VERSION:
        raise SchemaMismatch(
            f"it is stored in version {version}, but this seriatim knows version {VERSION}",
            where=where,
            remedy="upgrade seriatim",
        )
    try:
        return _made(kind, stored)
    except Exception as error:
        what = f"what the box has of it can't be read: {error}"
        raise SchemaMismatch(what, where=where, remedy="define it again") from error


def _made(kind: type[_Kind], stored: Mapping[str, Any]) -> _Kind:
    """Like `from_json`, for any mapping; it may raise any exception."""
    given = {key: value for key, value in stored.items() if key != "version"}
    if stored["version"] != VERSION or "name" not in given:
        raise SchemaMismatch("it is not in seriatim's format")
    if kind is BoxSettings:
        del given["name"]  # there is one only
    return kind.as_stored(**given) if kind is MessageType else from_stored(kind, given)


def storable(queue: Queue) -> Queue:
    """The queue, if a message box can store it."""
    for what, name in (("group", queue.group.by), ("sequence", queue.numbered_by), ("priority", queue.priority)):
        if name is not None:
            checked_name(name, f"a property ({what} of queue {queue.name!r})")
    for name in queue.compare or ():
        checked_name(name, f"a property (compare of queue {queue.name!r})")
    group = queue.group.default or ""
    if "\0" in group or len(group.encode(errors="replace")) > MAX_KEY_BYTES:
        raise _wrong(queue, "default can't be a key", f"at most {MAX_KEY_BYTES:,} bytes, without NUL")
    if queue.group.expire_to != "tombstone":
        raise _wrong(
            queue,
            "expire_to is for destinations of pipelines",
            "leave it out; to forget groups, clean up with forget_expired",
        )
    for policy in queue.all_policies():
        for what in _PERIODS:
            period = getattr(policy, what, None)
            if period is not None and period > LONGEST_DAYS * DAY_S:
                raise _wrong(queue, f"{what} is too long", f"at most {LONGEST_DAYS:,} days")
        if isinstance(policy, UnitOfWork):
            _check_unit(queue, policy)
    return queue


def _check_unit(queue: Queue, policy: UnitOfWork) -> None:
    for what, remedy in _INSTEAD.items():
        if callable(getattr(policy, what)):
            raise _wrong(queue, f"{what} is a function, which a message box can't keep", remedy)
    if isinstance(policy.size, str):
        checked_name(policy.size, f"a property (size of queue {queue.name!r})")
    if isinstance(policy.last, str) and not policy.last.strip():
        raise _wrong(queue, "last is not a filter", _INSTEAD["last"])


def _wrong(queue: Queue, what: str, remedy: str) -> UsageError:
    return UsageError(f"queue {queue.name!r}: {what}", remedy=remedy)


def _check_text(value: object, where: str) -> None:
    """Check that PostgreSQL can store all texts in a JSON value."""
    match value:
        case str():
            if not fits_text(value):
                raise UsageError("text with a NUL or half a surrogate pair can't be stored", where=where)
        case Mapping():
            for key, inner in value.items():
                _check_text(key, where)
                _check_text(inner, where)
        case list() | tuple():
            for inner in value:
                _check_text(inner, where)
