"""Recover the journal after a restore, or a failover with a loss: it learns from both boxes which numbers are known, and which are over.

A box has learned from the journal what is over, so it may know more than a journal that went back in time. Sessions are read and raised in
portions, each a transaction; a number only ever rises, so an interrupted recovery is repeated as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.errors import NotFound, Unavailable, shown
from seriatim.regions.box_role import bounds_of, role_of
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.operators import Recovery
from seriatim.regions.journal.values import KnownByBox
from seriatim.regions.pair import REGIONS, Pair

#: How many sessions are read from each box at once.
_PORTION = 10_000
#: The longest time of each step: a box with many sessions has much to report.
_PATIENCE_S = 60.0

#: Called after each portion: how many sessions were read from the boxes so far, and how many they have.
Progress = Callable[[int, int], None]


def recover(
    pair: Pair, *, actor: str, reason: str, without: Sequence[str] = (),
    known: Mapping[str, Mapping[str, int]] | None = None, progress: Progress | None = None,
) -> Recovery:  # fmt: skip
    for lost in without:
        if lost not in REGIONS:
            raise NotFound(f"there is no region {shown(lost, 80)}", remedy='"a" (the primary) or "b"')
    reached = [region for region in REGIONS if region not in without]
    reports = {region: _asks(pair, region, partial(_told, pair.name, region)) for region in reached}
    sizes = {region: queues for region, (_, queues) in reports.items()}
    total = sum(sum(queues.values()) for queues in sizes.values())
    done = pair.journal.call(
        lambda journal: journal.begin_recovery(pair.name, actor=actor, reason=reason), patience_s=_PATIENCE_S
    )
    for region, (incarnation, _) in reports.items():
        # It refuses votes from before a restore of the box, even if it had forgotten the restore.
        pair.journal.call(partial(Journal.fence, name=pair.name, region=region, incarnation=incarnation))
    for region in reached:
        over = {
            bounds.queue: bounds.over_before
            for bounds in _asks(pair, region, bounds_of(pair.name))
            if bounds.over_before
        }
        pair.journal.call(partial(Journal.raise_over, name=pair.name, befores=over))
    raised = 0
    for queue, known_sessions in (known or {}).items():
        raised += _raise(pair, queue, {key: KnownByBox(over, over) for key, over in known_sessions.items()})
    read = 0
    for queue in sorted({queue for queues in sizes.values() for queue in queues}):
        readers = [partial(_portion, pair, region, queue) for region, queues in sizes.items() if queue in queues]
        for rows, portion in _merged(readers):
            raised += _raise(pair, queue, portion)
            read += rows
            if progress is not None:
                progress(read, total)
    recovery = Recovery(done.incarnation, done.stopped, raised, tuple(reached))
    pair.journal.call(lambda journal: journal.end_recovery(pair.name, recovery, actor=actor, reason=reason))
    return recovery


def _asks(pair: Pair, region: str, work: Callable[[Transaction], Any]) -> Any:
    try:
        return pair.in_box(region, work, patience_s=_PATIENCE_S)
    except Unavailable as error:
        raise Unavailable(
            f"the box of region {region} can't be asked what is over: {error.what}",
            remedy=f"repeat it when the box is back. Without it (--without {region}; in Python without=[{region!r}]), "
            "messages that only this box knows to be over may be handed out once more",
        ) from error


def _told(name: str, region: str, transaction: Transaction) -> tuple[int, dict[str, int]]:
    """Return the incarnation of a region, and its queues, each with the number of its sessions."""
    role = role_of(transaction, name, region)
    rows = transaction.rows("region_session_counts", of_name=name)
    return role.incarnation, {row.queue: row.sessions for row in rows}


def _portion(pair: Pair, region: str, queue: str, behind: str) -> list[Any]:
    """Return the sessions of a queue in a box after one of them, by their keys."""

    def read(transaction: Transaction) -> list[Any]:
        return transaction.rows(
            "region_sessions_behind", of_name=pair.name, of_queue=queue, behind=behind, at_most=_PORTION
        )

    rows: list[Any] = _asks(pair, region, read)
    return rows


def _merged(readers: Sequence[Callable[[str], list[Any]]]) -> Iterator[tuple[int, dict[str, KnownByBox]]]:
    """Yield the sessions of all boxes together, portion after portion; with each, the number of its rows."""
    behind = ""
    while True:
        portions = [reader(behind) for reader in readers]
        # Rows of one box after the last row of the other belong to the next portion.
        bound = min((rows[-1].session for rows in portions if len(rows) == _PORTION), default=None)
        merged: dict[str, KnownByBox] = {}
        count = 0
        for rows in portions:
            for row in rows:
                if bound is None or row.session <= bound:
                    merged[row.session] = _higher(merged.get(row.session), KnownByBox(row.through, row.over_through))
                    count += 1
        yield count, merged
        if bound is None:
            return
        behind = bound


def _higher(own: KnownByBox | None, other: KnownByBox) -> KnownByBox:
    if own is None:
        return other
    overs = [over for over in (own.over, other.over) if over is not None]
    return KnownByBox(max(own.through, other.through), max(overs, default=None))


def _raise(pair: Pair, queue: str, portion: Mapping[str, KnownByBox]) -> int:
    """Tell the journal; return how many sessions it raised."""
    return pair.journal.call(lambda journal: journal.raise_known(pair.name, queue, portion), patience_s=_PATIENCE_S)
