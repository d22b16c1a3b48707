"""A queue in the file of a message box."""

from __future__ import annotations

import re
from typing import Any

from seriatim.errors import UsageError
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
        "rollbacks": entry.whole("rollbacks", 0, MOST_ATTEMPTS),
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
