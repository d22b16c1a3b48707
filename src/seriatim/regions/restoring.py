"""A restored box, or the replacement of a lost one: it takes over the journal's numbers, then those of the other box, and votes again.

The journal, and then the other box, first note its new incarnation: from then on they refuse calls that count a vote of an earlier one.
Before it votes, all messages of the other box that aren't over are copied to it, as far as it lacks them: behind a message of which only
the boxes know, a sender's next one would be a hole, which the journal skips.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from seriatim.box.connection.access import Transaction
from seriatim.errors import Unavailable
from seriatim.pipeline.text.event_log import LOG
from seriatim.regions.box_role import VOTES, bounds_of, role_of, take_bounds
from seriatim.regions.journal.journal import Journal
from seriatim.regions.outbox import Copied, copy_outbox
from seriatim.regions.pair import Pair, other_than

#: How many sessions are read, and written, at once.
_PORTION = 10_000
#: How long a box may look for its messages that aren't over: for a million it needs about 20 s.
_LOOKING_S = 600.0
_Session = tuple[str, str, int, int | None]


def restore(
    pair: Pair, region: str, *, patience_s: float | None = None, progress: Callable[[], object] | None = None
) -> bool:
    """Make a box take over the knowledge of the others, if it doesn't vote."""
    try:
        role = pair.in_box(region, lambda transaction: role_of(transaction, pair.name, region))
        if role.votes:
            return True
        if role.is_restored:
            known = pair.journal.call(
                lambda journal: {row.region: row.incarnation for row in journal.regions(pair.name)}.get(region, 0)
            )
            pair.in_box(region, lambda transaction: transaction.do("region_restored", of_name=pair.name, known=known))
            role = pair.in_box(region, lambda transaction: role_of(transaction, pair.name, region))
        if role.learned == 0:
            _learn_from_journal(pair, region, role.incarnation, patience_s)
        if role.learned < VOTES:
            _learn_from_box(pair, region, role.incarnation, patience_s, progress)
    except Unavailable as error:
        LOG.info("region_not_voting", region=region, error=error)
        return False
    LOG.warning("region_votes_again", region=region, incarnation=role.incarnation)
    return True


def _learn_from_journal(pair: Pair, region: str, incarnation: int, patience_s: float | None) -> None:
    pair.journal.call(lambda journal: journal.fence(pair.name, region, incarnation))

    def portion(after: tuple[str, str]) -> list[_Session]:
        def read(journal: Journal) -> list[_Session]:
            return list(journal.known_sessions(pair.name, after, limit=_PORTION))

        return pair.journal.call(read, patience_s=patience_s)

    _take_bounds(pair, region, pair.journal.call(lambda journal: journal.over_before(pair.name)))
    _take_over(pair, region, _all(portion), patience_s)
    _note(pair, region, incarnation, 1, patience_s)


def _learn_from_box(
    pair: Pair, region: str, incarnation: int, patience_s: float | None, progress: Callable[[], object] | None
) -> None:
    other = other_than(region)
    last = pair.in_box(
        other,
        lambda transaction: transaction.value("region_fence", of_name=pair.name, incarnation=incarnation),
        patience_s=_LOOKING_S,
    )

    def portion(after: tuple[str, str]) -> list[_Session]:
        def read(transaction: Transaction) -> list[_Session]:
            role_of(transaction, pair.name, other)
            rows = transaction.rows(
                "region_all_sessions",
                of_name=pair.name,
                behind_queue=after[0],
                behind_session=after[1],
                at_most=_PORTION,
            )
            return [tuple(row) for row in rows]

        return pair.in_box(other, read, patience_s=patience_s)

    _take_bounds(
        pair, region, {bounds.queue: bounds.closed_before for bounds in pair.in_box(other, bounds_of(pair.name))}
    )
    _take_over(pair, region, _all(portion), patience_s)
    copied = Copied(other)
    for _ in copy_outbox(pair, copied, through=last or 0):
        if progress is not None:
            progress()
    if copied.why:
        raise Unavailable(f"not all messages of region {other} are copied: {copied.why}", remedy="it is tried again")
    _note(pair, region, incarnation, VOTES, patience_s)


def _all(portion: Callable[[tuple[str, str]], list[_Session]]) -> Iterator[list[_Session]]:
    """Yield portion after portion, each following the one before."""
    after = ("", "")
    while rows := portion(after):
        yield rows
        after = rows[-1][0], rows[-1][1]


def _take_over(pair: Pair, region: str, portions: Iterable[list[_Session]], patience_s: float | None) -> None:
    for rows in portions:
        columns = {
            "queues": [row[0] for row in rows], "of_sessions": [row[1] for row in rows],
            "throughs": [row[2] for row in rows], "overs": [row[3] for row in rows],
        }  # fmt: skip

        def write(transaction: Transaction, values: dict[str, list[object]] = columns) -> None:  # type: ignore[assignment]
            transaction.do("region_take_over", of_name=pair.name, **values)

        pair.in_box(region, write, patience_s=patience_s)


def _take_bounds(pair: Pair, region: str, befores: Mapping[str, str]) -> None:
    """Let a box know before which keys sessions take no messages any more."""
    if befores:
        pair.in_box(region, lambda one: take_bounds(one, pair.name, befores))


def _note(pair: Pair, region: str, incarnation: int, step: int, patience_s: float | None) -> None:

    def note(transaction: Transaction) -> bool:
        role = role_of(transaction, pair.name, region)
        if role.is_restored or role.incarnation != incarnation:
            return False
        return role.learned >= step or bool(
            transaction.value("region_learned", of_name=pair.name, at_incarnation=incarnation, step=step)
        )

    if not pair.in_box(region, note, patience_s=patience_s):
        raise Unavailable(f"region {region} was restored once more", remedy="repeat it")
