"""Findings of the doctor as rows of a page, each with the link to where it is mended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from seriatim.console.page import Asked
from seriatim.operations.doctor import Finding

#: Where a finding is mended, by its name: the parts of the address, with its query, and what the link says.
_MENDED: Mapping[str, tuple[Sequence[str | Mapping[str, str]], str]] = {
    "faulted": (("groups", {"state": "faulted"}), "Show them, and retry"),
    "suspended": (("groups", {"state": "suspended"}), "Show them, and resume"),
    "waiting": (("groups", {}), "Show them"),
    "gates": (("groups", {}), "Show them"),
    "restarts": (("groups", {}), "Show them"),
    "dead letters": (("dead-letters",), "Show them, and requeue"),
    "unrouted": (("unrouted",), "Show them, and route again"),
    "unended": (("messages",), "Show the messages"),
    "set aside": (("messages", {"status": "invalid"}), "Show what is invalid"),
    "dialogs": (("dialogs",), "Show them"),
    "far dialogs": (("dialogs", {"unanswered": "1m"}), "Show them"),
    "queues off": (("queues",), "Show it, and turn it on"),
    "queues full": (("queues",), "Show it"),
    "oldest": (("messages",), "Show the messages"),
    "at work": (("workers",), "Show the workers"),
    "workers": (("workers",), "Show them"),
    "leases": (("workers",), "Show the workers"),
    "subscriptions": (("subscriptions",), "Show them, and start one"),
    "transactions": (("connections",), "Show the connections, and end one"),
    "links": (("links",), "Show them"),
    "schedules": (("schedules",), "Show them"),
    "bulk": (("bulk-operations",), "Show them"),
    "faults": (("faults",), "Show them"),
}
#: These pages can be of one queue.
_BY_QUEUE = ("groups", "dead-letters", "messages", "workers", "faults")


def row(
    asked: Asked, finding: Finding, queue: str | None = None
) -> tuple[Finding, Sequence[str | Mapping[str, str]] | None, str]:
    """A finding with its link, to what is in a queue if one is given. Why a message is unrouted isn't for all to see."""
    if finding.name == "unrouted" and not asked.may("see-bodies"):
        finding = replace(finding, found="there are messages that no queue has")
    to, label = _MENDED.get(finding.name, (None, ""))
    if finding.queue is not None and finding.name == "faulted":  # messages of queues without groups
        to = ("messages", {"status": "faulted"})
    elif finding.queue is not None:
        to = None if queue is not None else ("queues", finding.queue)  # the page of a queue is where it is mended
    if to is not None and queue is not None and to[0] in _BY_QUEUE:
        to = (to[0], {**(to[1] if len(to) > 1 and isinstance(to[1], Mapping) else {}), "queue": queue})
    return finding, to, label
