"""The operator log: the actor and the reason of each action."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from seriatim.box.connection.access import Transaction
from seriatim.errors import UsageError, shown
from seriatim.pipeline.text.storable import fits_text

_LONGEST_ACTOR, _LONGEST_REASON = 256, 4096


@dataclass(frozen=True, slots=True)
class Operator:
    """The operator of an action and the reason: `actor`, at most 256 characters, and `reason`, at most 4,096."""

    actor: str
    reason: str

    def __post_init__(self) -> None:
        _checked(self.actor, "actor", _LONGEST_ACTOR)
        _checked(self.reason, "reason", _LONGEST_REASON)


def log(
    transaction: Transaction,
    by: Operator,
    action: str,
    *,
    queue: str | None,
    group: str | None,
    details: Mapping[str, object],
) -> int:
    parameters = {
        "its_actor": by.actor, "its_action": action, "of_queue": queue, "of_group": group, "its_reason": by.reason,
        "its_details": json.dumps(details),
    }  # fmt: skip
    number = transaction.value("log_operation", **parameters)
    return int(number)


def log_each(
    transaction: Transaction,
    by: Operator,
    action: str,
    *,
    queue: str,
    groups: Sequence[str],
    details: Sequence[Mapping[str, object]],
) -> list[int]:
    """Log an operator's action on several groups of a queue, in one statement; returns the numbers of the entries."""
    parameters = {
        "its_actor": by.actor, "its_action": action, "of_queue": queue, "of_groups": list(groups),
        "its_reason": by.reason, "of_details": [json.dumps(one) for one in details],
    }  # fmt: skip
    return list(transaction.value("log_operations", **parameters))


def _checked(text: object, what: str, longest: int) -> None:
    if not isinstance(text, str) or not fits_text(text) or not text.strip() or len(text) > longest:
        raise UsageError(
            f"{shown(text)} is not {what}", remedy=f"1 to {longest:,} characters, without NUL: it is written down"
        )
