"""Replies to requests among messages that reach no queue: they are kept under their request, and are no slips."""

from __future__ import annotations

from dataclasses import replace

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.route import Routed

#: How the correlations begin that the box draws for requests.
REQUEST = "request-"


def may_be_reply(correlation: object) -> bool:
    return isinstance(correlation, str) and correlation.startswith(REQUEST)


def with_awaited(transaction: Transaction, routed: Routed) -> Routed:
    """The same batch, with the messages noted that reach no queue, and are replies to open requests."""
    messages, problems = routed.typed.messages, routed.typed.problems
    wanted = set(routed.entries.places)
    rows = [
        row
        for row in range(len(messages))
        if row not in wanted and problems[row] is None and may_be_reply(messages[row].context.get("correlation_id"))
    ]
    if not rows:
        return routed
    correlations = [str(messages[row].context["correlation_id"]) for row in rows]
    places = transaction.value("asked_for", correlations=correlations, types=[messages[row].type for row in rows])
    return replace(routed, awaited=frozenset(rows[place - 1] for place in places))
