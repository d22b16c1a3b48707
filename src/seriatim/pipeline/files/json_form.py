"""Convert declarations to JSON values, as a message box stores them, and back.

The keys are a format of their own, with a version: renaming a field of a declaration doesn't rename stored keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from seriatim.errors import SchemaMismatch, UsageError
from seriatim.kernel.groups.policy import Policy, UnitOfWork, policy_from, remembering
from seriatim.kernel.groups.sequence import MAX_KEY_BYTES
from seriatim.kernel.values.time import micros
from seriatim.pipeline.declared.activation import Activation
from seriatim.pipeline.declared.box_settings import BoxSettings
from seriatim.pipeline.declared.contract import Contract
from seriatim.pipeline.declared.link import Link
from seriatim.pipeline.declared.location import Location
from seriatim.pipeline.declared.queue import LONGEST_DAYS, Queue
from seriatim.pipeline.declared.service import Service
from seriatim.pipeline.declared.subscription import Subscription
from seriatim.pipeline.text.name import checked_name
from seriatim.pipeline.text.storable import fits_text
from seriatim.pipeline.types.message_type import MessageType
from seriatim.pipeline.types.schedule import Schedule

__all__ = ["VERSION", "from_json", "storable", "to_json"]

#: Of the keys, all kinds together.
VERSION = 1

_LOCATION = ("name", "last_number")
_TYPE = ("name", "properties", "validation", "schema", "namespaces")
_QUEUE = (
    *("name", "policy", "group", "sequence", "default_group", "errors", "priority", "keep", "keep_for"),
    *("max_messages", "when_full", "enabled", "expire_after"),
    *("attempts", "retry_delay", "retry_factor", "retry_ceiling", "retry_jitter"),
    *("recoveries", "recover_delay", "recover_factor"),
    *("activation", "rollbacks"),
    *("level", "policies"),
    *("events", "compare"),
    *("opens", "closes", "unopened_timeout"),
    *("gate", "through", "open_at_most"),
    *("at", "remote", "lanes"),
)
_SUBSCRIPTION = ("name", "where", "to", "state", "starts", "correlate")
_CONTRACT = ("name", "types")
_SERVICE = ("name", "queue", "contracts", "retention")
_SETTINGS = ("name", "unrouted")
_SCHEDULE = (*("name", "cron", "timezone", "type", "body", "context", "content_type"), *("due_property", "catch_up"))
_LINK = (
    *("name", "dsn", "box", "queues", "keep_sent", "max_waiting", "stream_idle", "insecure", "schema"),
    *("url", "certificate", "key", "authority"),
)
_KEYS: Mapping[type, tuple[str, ...]] = {
    Location: _LOCATION,
    MessageType: _TYPE,
    Queue: _QUEUE,
    Subscription: _SUBSCRIPTION,
    Contract: _CONTRACT,
    Service: _SERVICE,
    BoxSettings: _SETTINGS,
    Schedule: _SCHEDULE,
    Link: _LINK,
}
_PERIODS = ("hole_timeout", "window", "timeout")
_INSTEAD = {
    "size": "name the property that says how many there are",
    "last": "write a filter, such as \"kind = 'end'\"",
}

Declaration = Location | MessageType | Queue | Subscription | Contract | Service | BoxSettings | Schedule | Link
_Kind = TypeVar("_Kind", Location, MessageType, Queue, Subscription, Contract, Service, BoxSettings, Schedule, Link)


def to_json(definition: Declaration) -> dict[str, Any]:
    """A declaration as a mapping of JSON values; equal declarations give equal mappings."""
    match definition:
        case Location():
            found = _fields(definition, _LOCATION)
        case MessageType():
            found = _fields(definition, _TYPE)
            found["properties"] = {name: _plain(one) for name, one in definition.properties.items()}
            found["namespaces"] = dict(definition.namespaces)
        case Queue():
            found = _fields(storable(definition), _QUEUE)
            found["policy"] = _policy(definition.policy)
            found["keep"] = definition.keeps
            found["through"] = list(definition.through)
            found["compare"] = None if definition.compare is None else list(definition.compare)
            found["activation"] = None if definition.activation is None else definition.activation.as_json()
            found["policies"] = {kind: _policy(one) for kind, one in definition.policies.items()}
        case Subscription():
            found = _fields(definition, _SUBSCRIPTION)
            found["correlate"] = list(definition.correlate)
        case Contract():
            found = {"name": definition.name, "types": dict(definition.types)}
        case Service():
            found = _fields(definition, _SERVICE)
            found["contracts"] = list(definition.contracts)
        case BoxSettings():
            found = _fields(definition, _SETTINGS)
        case Schedule() | Link():
            found = definition.as_json()
        case _:
            raise UsageError(f"{type(definition).__name__} can't be stored in a message box")
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
    if stored["version"] != VERSION or given.keys() != set(_KEYS[kind]):
        raise SchemaMismatch("it is not in seriatim's format")
    if kind is Queue:
        given["policy"] = _policy_of(given["policy"])
        if given["activation"] is not None:
            given["activation"] = Activation(**given["activation"])
        given["policies"] = {name: _policy_of(one) for name, one in given["policies"].items()}
    if kind is BoxSettings:
        del given["name"]  # there is one only
    return kind.as_stored(**given) if kind in (MessageType, Schedule) else kind(**given)


def storable(queue: Queue) -> Queue:
    """The queue, if a message box can store it."""
    for what in ("group", "sequence", "priority"):
        if (name := getattr(queue, what)) is not None:
            checked_name(name, f"a property ({what} of queue {queue.name!r})")
    for name in queue.compare or ():
        checked_name(name, f"a property (compare of queue {queue.name!r})")
    group = queue.default_group or ""
    if "\0" in group or len(group.encode(errors="replace")) > MAX_KEY_BYTES:
        raise _wrong(queue, "default_group can't be a key", f"at most {MAX_KEY_BYTES:,} bytes, without NUL")
    if queue.expire_to != "tombstone":
        raise _wrong(
            queue,
            "expire_to is for destinations of pipelines",
            "leave it out; to forget groups, clean up with forget_expired",
        )
    for policy in queue.all_policies():
        for what in _PERIODS:
            period = getattr(policy, what, None)
            if period is not None and micros(period) > LONGEST_DAYS * micros("1d"):
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


def _fields(definition: Declaration, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(definition, name) for name in names}


def _plain(declared: str | Mapping[str, Any]) -> Any:
    if isinstance(declared, str):
        return declared
    return {key: value if isinstance(value, str) else list(value) for key, value in declared.items()}


def _policy(policy: Policy) -> dict[str, Any]:
    policy = remembering(policy)  # as it is judged, so that it is shown
    return {"name": policy.name, **{one.name: getattr(policy, one.name) for one in fields(policy)}}


def _policy_of(stored: Mapping[str, Any]) -> Policy:
    return remembering(policy_from(stored["name"], **{key: value for key, value in stored.items() if key != "name"}))


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
