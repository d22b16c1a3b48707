"""A queue in the file of a message box."""

from __future__ import annotations

import re
from typing import Any

from seriatim.errors import UsageError
from seriatim.kernel.groups.policy import Policy
from seriatim.pipeline.declared.activation import MOST_READERS, Activation
from seriatim.pipeline.declared.queue import (
    ERRORS,
    EVENTS,
    KEEP,
    MOST_ATTEMPTS,
    MOST_LANES,
    MOST_MESSAGES,
    MOST_OPEN,
    WHEN_FULL,
    Queue,
)
from seriatim.pipeline.declared.queue_level import LEVELS
from seriatim.pipeline.declared.work_limits import MOST_RUN, Mode, rate_of
from seriatim.pipeline.files.policy import read_group, read_policy
from seriatim.pipeline.text.secret import secret_in
from seriatim.pipeline.text.section import Section

__all__ = ["queue_entry"]

_REPLACED = re.compile(r"(?<!\$)\$\{")


def queue_entry(entry: Section, name: str) -> Queue | None:
    """The queue that an entry of the file declares; None if it is wrong, which is reported."""
    _, policy = read_policy(entry)
    given: dict[str, Any] = {
        "group": read_group(entry),
        "sequence": entry.text("sequence"),
        "default_group": entry.text("default_group"),
        "errors": entry.choice("errors", ERRORS),
        "priority": entry.text("priority"),
        "keep": entry.choice("keep", KEEP),
        "keep_for": entry.duration_s("keep_for"),
        "events": entry.choice("events", EVENTS),
        "max_messages": entry.whole("max_messages", 1, MOST_MESSAGES),
        "when_full": entry.choice("when_full", WHEN_FULL),
        "enabled": entry.flag("enabled"),
        "expire_after": entry.duration_s("expire_after"),
        "attempts": entry.whole("attempts", 1, MOST_ATTEMPTS),
        "retry_delay": entry.duration_s("retry_delay"),
        "retry_factor": entry.plain("retry_factor"),
        "retry_ceiling": entry.duration_s("retry_ceiling"),
        "retry_jitter": entry.plain("retry_jitter"),
        "recoveries": entry.whole("recoveries", 0, MOST_ATTEMPTS),
        "recover_delay": entry.duration_s("recover_delay"),
        "recover_factor": entry.plain("recover_factor"),
        "activation": _activation(entry),
        "rollbacks": entry.whole("rollbacks", 0, MOST_ATTEMPTS),
        "level": entry.choice("level", LEVELS),
        "policies": _policies(entry.section("policies")),
        "compare": entry.texts("compare"),
        "opens": entry.text("opens"),
        "closes": entry.text("closes"),
        "unopened_timeout": entry.duration_s("unopened_timeout"),
        "gate": entry.text("gate"),
        "through": entry.texts("through"),
        "open_at_most": entry.whole("open_at_most", 1, MOST_OPEN),
        "at": entry.text("at"),
        "remote": entry.text("remote"),
        "lanes": entry.whole("lanes", 1, MOST_LANES),
    }
    entry.finish()
    faulty = any(entry.has(key) and value is None for key, value in given.items())
    if policy is None or faulty:
        return None
    try:
        return Queue(name, policy, **{key: value for key, value in given.items() if value is not None})
    except UsageError as error:
        entry.refuse(error)
        return None


def _activation(queue: Section) -> Activation | None:
    """The activation of the queue; None if there is none, or it is wrong, which is reported."""
    entry = queue.section("activation")
    if entry is None:
        return None
    given: dict[str, Any] = {
        "handler": entry.text("handler"),
        "minimum": entry.whole("minimum", 0, MOST_READERS),
        "maximum": entry.whole("maximum", 1, MOST_READERS),
        "batch": entry.flag("batch"),
        "run_as": entry.text("run_as"),
        "enabled": entry.flag("enabled"),
        "port": _port(entry),
        "run_length": entry.whole("run_length", 1, MOST_RUN),
        "rate": _rate(entry),
        "mode": entry.choice("mode", [one.value for one in Mode]),
        "turn_limit": entry.duration_s("turn_limit"),
        "lease": entry.duration_s("lease"),
        "heartbeat": entry.duration_s("heartbeat"),
        "transient": entry.texts("transient"),
        "business": entry.texts("business"),
    }
    entry.finish()
    if any(entry.has(key) and value is None for key, value in given.items()):
        return None
    try:
        return Activation(**{key: value for key, value in given.items() if value is not None})
    except UsageError as error:
        entry.refuse(error)
        return None


def _rate(entry: Section) -> object:
    """Messages a second, or text such as ``30/m``; None if it is no rate, which is reported."""
    found = entry.plain("rate")
    if not isinstance(found, str):
        return found
    try:
        return rate_of(found)
    except UsageError as error:
        entry.refuse(error)
        return None


def _port(entry: Section) -> str | None:
    """A port as text; its ``${NAME}`` aren't replaced here, because the values may be passwords."""
    found = entry.text("port")
    if found is not None and (secret := secret_in(found)) is not None:
        what = f"{entry.full('port')} would be kept in the box, and shown: {secret}"
        entry.fault("port", what, "write $${NAME} in place of the secret: it is replaced by who works")
        return None
    if found is None or not _REPLACED.search(entry.written("port")):
        return found
    entry.fault(
        "port", "the value of ${NAME} would be stored in the box", "write $${NAME}: it is replaced by who works"
    )
    return None


def _policies(section: Section | None) -> dict[str, Policy] | None:
    """The policies of types; None if a policy is wrong, which is reported."""
    if section is None:
        return None
    found: dict[str, Policy | None] = {}
    for kind in section.names():
        inner = section.section(kind)
        found[kind] = None if inner is None else read_policy(inner)[1]
        if inner is not None:
            inner.finish()
    whole = {kind: policy for kind, policy in found.items() if policy is not None}
    return whole if len(whole) == len(found) else None
