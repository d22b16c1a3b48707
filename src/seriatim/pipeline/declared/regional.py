"""What a queue of two regions may say of itself: an order, and nothing by which one box would decide what is over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from seriatim.errors import UsageError
from seriatim.kernel.fields import For, leaves
from seriatim.kernel.groups.policy import Standard
from seriatim.kernel.operators.fault import MOST_ATTEMPTS
from seriatim.pipeline.declared.queue import Queue

#: `restart_after` only reports. What is late is over, however it is handed out.
_ALLOWED_OF_POLICY = frozenset({"start", "increment", "remember", "restart_after", "late"})
#: Rules that lie in the journal, and what they are called there.
_IN_JOURNAL = {
    "retry.attempts": "attempts", "errors": "errors", "retry.delay": "retry_delay", "hole_timeout": "hole_timeout",
    "on_hole": "hole_timeout", "hole_retries": "hole_timeout", "recover.limit": "attempts",
}  # fmt: skip


def check_decides_nothing(queue: Queue) -> None:
    policy, where = queue.policy, f"queue {queue.name!r}"
    if not isinstance(policy, Standard):
        raise UsageError(
            f"its policy is {policy.name}, and the messages of a session in two regions have numbers", where=where,
            remedy=f"RegionalQueue({queue.name!r}, group=…, sequence=…)", argument="policy",
        )  # fmt: skip
    if isinstance(policy.start, str):
        raise UsageError(
            f"start can't be {policy.start!r}: both regions have to begin at the same number", where=where,
            remedy="give the first number", argument="start",
        )  # fmt: skip
    if queue.says.says():
        raise UsageError(
            f"{queue.says.says()[0]} is for one box: two regions have plain numbers", where=where, remedy="name the property alone",
            argument="sequence",
        )  # fmt: skip
    # A worker that dies is counted in the journal: so no number of them is the last in a box.
    decided = [
        one.path
        for one in leaves(queue)
        if one.is_given
        and not one.row.engines & For.REGIONAL
        and (one.path, one.value) != ("retry.attempts", MOST_ATTEMPTS)
    ]
    for name in (*decided, *_changed(policy)):
        known = _IN_JOURNAL.get(name)
        raise UsageError(
            f"{name} would be decided by each box, and in two regions the journal decides",
            where=where,
            remedy=f"RegionalQueue({queue.name!r}, …, {known}=…) keeps it in the journal" if known else "leave it out",
            argument=name,
        )


def _changed(policy: Standard) -> Iterator[str]:
    """The parameters that aren't as by default, beside those that may be so."""
    plain = Standard()
    for field in fields(policy):
        if field.name not in _ALLOWED_OF_POLICY and getattr(policy, field.name) != getattr(plain, field.name):
            yield field.name
