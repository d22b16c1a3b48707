"""A queue in the file of a message box."""

from __future__ import annotations

import re
from typing import Any

from seriatim.errors import UsageError
from seriatim.kernel.policy import Policy
from seriatim.pipeline.level import LEVELS
from seriatim.pipeline.policy import read_policy
from seriatim.pipeline.queue import ERRORS, KEEP, MOST_ATTEMPTS, MOST_MESSAGES, WHEN_FULL, Queue
from seriatim.pipeline.section import Section

__all__ = ["queue_entry"]


def queue_entry(entry: Section, name: str) -> Queue | None:
    """The queue that an entry of the file declares; None if it is wrong, which is reported."""
    _, policy = read_policy(entry)
    given: dict[str, Any] = {
        "group": entry.text("group"),
        "sequence": entry.text("sequence"),
        "default_group": entry.text("default_group"),
        "errors": entry.choice("errors", ERRORS),
        "priority": entry.text("priority"),
        "keep": entry.choice("keep", KEEP),
        "keep_for": entry.duration_s("keep_for"),
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
        "level": entry.choice("level", LEVELS),
        "policies": _policies(entry.section("policies")),
    }
    entry.finish()
    faulty = any(entry.has(key) and value is None for key, value in given.items())
    if policy is None or faulty:
        return None
    try:
        return Queue(name, policy, **{key: value for key, value in given.items() if value is not None})
    except UsageError as error:
        words = re.findall(r"\w+", error.what.removeprefix(f"queue {name!r}: "))
        blamed = next((word for word in words if word in given and entry.has(word)), "policy")
        entry.fault(blamed, error.what, error.remedy)
        return None


def _policies(section: Section | None) -> dict[str, Policy] | None:
    """The policies of types; None if one is wrong, which is reported."""
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
