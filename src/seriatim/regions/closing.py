"""Forget the sessions of a queue below a key: they take no messages any more, are worked off, and go; the key stays.

1. Both boxes refuse new numbers of these sessions. A number is confirmed only with the vote of a box, so none is confirmed after this step.
2. Nothing of them is left: in no outbox, and after that in no queue; and both boxes still refuse. A box that was restored between
   the two steps may not know the key.
3. The journal answers each claim of them with `OVER`. So a restored box that has copies or rows of them hands none out.
4. The rows go, in the boxes and in the journal, in any order.

A box keeps the journal's word beside its own, so a journal that went back in time learns it in its recovery; a restored box
learns it before it votes. `tests/models/closing.py` searches what can happen.
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import errors

from seriatim.box.connection.access import Transaction
from seriatim.box.operators.operator_log import Operator
from seriatim.errors import UsageError, shown
from seriatim.kernel.groups.sequence import MAX_KEY_BYTES
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.storable import fits_text
from seriatim.regions.box_role import role_of
from seriatim.regions.pair import REGIONS, Pair

#: The most sessions that are forgotten in one transaction of a box.
_PORTION = 1_000
#: The longest time of a step, which waits for transactions that write numbers.
_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class ForgottenSessions:
    """What became of the sessions of a queue below a key.

    Args:
        queue: the queue.
        before: the first key whose session stays.
        a: the number of sessions that the box of region a has forgotten.
        b: that of region b.
        journal: that of the journal.
        left: what is left of these sessions, so that nothing was forgotten; empty: nothing is.
    """

    queue: str
    before: str
    a: int
    b: int
    journal: int
    left: tuple[str, ...]


def forget_before(pair: Pair, queue: str, before: str, by: Operator) -> ForgottenSessions:
    """Forget all sessions of a queue below a key, if nothing of them is left."""
    if not isinstance(before, str) or not before or not fits_text(before) or len(before.encode()) > MAX_KEY_BYTES:
        raise UsageError(f"the key can't be {shown(before, 80)}", remedy="the first key whose session stays")
    pair.journal.call(lambda journal: journal.rules(pair.name, queue), anyway=True)  # which refuses an unknown queue
    left = [why for region in REGIONS if (why := _closed(pair, region, queue, before)) is not None]
    left = left or _left(pair, queue, before)
    if not left:
        sessions = pair.journal.call(
            lambda journal: journal.end_before(pair.name, queue, before, actor=by.actor, reason=by.reason),
            patience_s=_PATIENCE_S,
        )
        left = [f"{counted(sessions, 'session')} in the journal"] if sessions else []
    if left:
        return ForgottenSessions(queue, before, 0, 0, 0, tuple(left))
    a, b = (_forgotten(pair, region, queue, before) for region in REGIONS)
    of_journal = pair.journal.call(lambda journal: journal.forget_over(pair.name, queue), patience_s=_PATIENCE_S)
    return ForgottenSessions(queue, before, a, b, of_journal, ())


def _closed(pair: Pair, region: str, queue: str, before: str) -> str | None:
    """Make a box refuse new messages of these sessions; return why it can't yet, or None."""

    def close(transaction: Transaction) -> str | None:
        if not role_of(transaction, pair.name, region).votes:
            return f"region {region}, which was restored, and hasn't learned from the others yet"
        try:
            with transaction.connection.transaction():
                waiting = transaction.value("region_close", of_name=pair.name, of_queue=queue, before=before)
        except errors.LockNotAvailable:
            return f"an open transaction in region {region} that sends messages to both"
        return f"{counted(waiting, 'message')} in region {region} whose numbers aren't confirmed" if waiting else None

    return pair.in_box(region, close, patience_s=_PATIENCE_S)


def _left(pair: Pair, queue: str, before: str) -> list[str]:
    # What was in an outbox is in a queue by the second look, or over.
    for column, place in (("outgoing", "outbox"), ("queued", "queue")):
        found = {
            region: pair.in_box(
                region,
                lambda transaction: transaction.one("region_left", of_name=pair.name, of_queue=queue, before=before),
                patience_s=_PATIENCE_S,
            )
            for region in REGIONS
        }
        # Where a box was restored before the other one was closed, it has learned the key from nobody.
        left = [f"region {region} was restored meanwhile" for region, row in found.items() if not row.is_closed]
        left += [
            f"{counted(count, 'message')} in the {place} of region {region}"
            for region, row in found.items()
            if (count := getattr(row, column))
        ]
        if left:
            return left
    return []


def _forgotten(pair: Pair, region: str, queue: str, before: str) -> int:
    """Forget these sessions in a box; return their number."""

    def portion(transaction: Transaction) -> int:
        return int(
            transaction.value("region_forget", of_name=pair.name, of_queue=queue, before=before, at_most=_PORTION)
        )

    forgotten = 0
    while count := pair.in_box(region, portion, patience_s=_PATIENCE_S):
        forgotten += count
    return forgotten
