"""The history checker: what publishers committed, against what handlers wrote down themselves.

It knows the rules of order (design.md) and nothing of the box: it reads no table of ours, asks no clock and decides
from lists alone.

What *in order* means among handled ones, by `log_id`:

* ``Standard``: numbers without a gap from `start`, or from the first (with ``on_hole="skip"``: ascending); of several
  copies of a number the one that came first. A late message that is delivered as such may come at any time.
* ``BestEffort``: numbers that never descend (what is below an earlier round is late); of equal ones the earlier first.
* ``Fifo``: no message before one that was committed before it.
* ``UnitOfWork``: numbers from 1 without a gap, all of a group in one turn, all or nothing.
* ``Unordered``: any.

For all but ``Unordered`` the ordinals of a group count its messages in the order of handling, and no two turns of a
group overlap in time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from seriatim.kernel.groups.policy import BestEffort, Fifo, Policy, Standard, UnitOfWork, Unordered
from tests.faults.history import Anomaly, Finding, Findings, Handled, History, Sent, arrival, before


def check(history: History) -> Findings:
    """Look for every anomaly."""
    sent: dict[str, Sent] = {}
    for one in history.sent:
        sent[one.message_id] = arrival(sent[one.message_id], one) if one.message_id in sent else one
    rows = sorted(history.handled, key=lambda row: row.log_id)
    groups: dict[str | None, list[Handled]] = defaultdict(list)
    for row in rows:
        groups[row.group].append(row)
    found = [*_handled_once(rows), *_as_sent(sent, rows), *_all_there(history, sent, rows)]
    if not isinstance(history.policy, Unordered):
        excused = _excused(history, sent)
        for group, mine in groups.items():
            found += _in_order(history.policy, group, mine, sent, excused[group])
            found += _ordinals(group, mine, len(excused[group]))
            found += _turns(history.policy, group, mine)
    if history.set_aside is not None:
        found += _conserved(history.set_aside, sent, rows)
    return Findings(len(sent), len(rows), len(groups), tuple(found))


def assert_good(history: History) -> Findings:
    """Fail with the first few findings of each kind.

    Returns:
        what was looked at, so that a test can assert that it was something.
    """
    findings = check(history)
    assert not findings.found, str(findings)
    return findings


def _handled_once(rows: list[Handled]) -> Iterator[Finding]:
    first: dict[str, Handled] = {}
    for row in rows:
        if first.setdefault(row.message_id, row) is not row:
            yield Finding(Anomaly.DUPLICATED, row.group, f"{row}, after {first[row.message_id]}")


def _as_sent(sent: Mapping[str, Sent], rows: list[Handled]) -> Iterator[Finding]:
    for row in rows:
        one = sent.get(row.message_id)
        if one is None:
            yield Finding(Anomaly.PHANTOM, row.group, f"{row} was never sent")
        elif (one.group, one.sequence, one.body) != (row.group, row.sequence, row.body):
            was = f"group {one.group}, number {one.sequence}, body {one.body!r:.60}"
            yield Finding(Anomaly.ALTERED, row.group, f"{row} with body {row.body!r:.60} was sent as {was}")


def _all_there(history: History, sent: Mapping[str, Sent], rows: list[Handled]) -> Iterator[Finding]:
    """What had to be handled, was, and of each number the copy that came first."""
    handled = {row.message_id for row in rows}
    match history.policy:
        case Standard() | UnitOfWork():
            copies: dict[tuple[str | None, int], list[Sent]] = defaultdict(list)
            for one in sent.values():
                if one.sequence is not None:
                    copies[one.group, one.sequence].append(one)
            yield from _first_copies(history.policy, copies, {row.message_id for row in rows if not row.late})
            yield from _numbers_there(history, copies, handled)
        case _:
            for one in sent.values():
                if one.ended is not None and one.message_id not in handled and not _is_excused(history, one):
                    yield _lost([one])


def _first_copies(
    policy: Standard | UnitOfWork, copies: Mapping[tuple[str | None, int], list[Sent]], handled: set[str]
) -> Iterator[Finding]:
    """`handled` are those that were not late: of a number that was skipped every copy may be delivered."""
    rejects = isinstance(policy, Standard) and policy.capacity is not None  # a rejected copy may be sent again
    for (group, number), all_of_it in copies.items():
        taken = [one for one in all_of_it if one.message_id in handled]
        if len(taken) > 1:
            ids = ", ".join(one.message_id for one in taken)
            yield Finding(Anomaly.DUPLICATED, group, f"copies of number {number} were all handled: {ids}")
        elif taken and not rejects:
            for one in all_of_it:
                if before(one, taken[0]):
                    what = f"{taken[0].message_id} was handled as number {number}, {one.message_id} came before it"
                    yield Finding(Anomaly.SUPPLANTED, group, what)


def _numbers_there(
    history: History, copies: Mapping[tuple[str | None, int], list[Sent]], handled: set[str]
) -> Iterator[Finding]:
    numbers: dict[str | None, dict[int, list[Sent]]] = defaultdict(dict)
    for (group, number), all_of_it in copies.items():
        numbers[group][number] = all_of_it
    for group, mine in numbers.items():
        taken = {number for number, all_of_it in mine.items() if any(one.message_id in handled for one in all_of_it)}
        certain = {number for number, all_of_it in mine.items() if any(one.ended is not None for one in all_of_it)}
        for number in sorted(_due(history, group, certain | taken, taken) - taken):
            if not any(_is_excused(history, one) for one in mine[number]):
                yield _lost(mine[number])
        size = _size(history, group)
        if taken and size is not None and taken != set(range(1, size + 1)):
            yield Finding(Anomaly.DIVIDED, group, f"of {size} numbers only {sorted(taken)} were handled")


def _size(history: History, group: str | None) -> int | None:
    """Of a unit of work, if anybody knows it."""
    size = history.policy.size if isinstance(history.policy, UnitOfWork) else None
    return size if isinstance(size, int) else history.sizes.get(group or "")


def _due(history: History, group: str | None, there: set[int], taken: set[int]) -> set[int]:
    """The numbers of a group that had to be handled, of those that are there."""
    policy = history.policy
    if isinstance(policy, UnitOfWork):
        size = _size(history, group)
        whole = set(range(1, (max(taken, default=0) if size is None else size) + 1))
        return whole if there >= whole else set()
    assert isinstance(policy, Standard)
    start = min(taken, default=None) if policy.start == "first" else policy.start
    if start is None:
        return there  # a group of which nothing at all was handled
    if policy.on_hole == "skip" and policy.hole_timeout is not None:
        return {number for number in there if number >= start}
    return set(_contiguous(there, start, policy.increment))


def _contiguous(numbers: set[int], start: int, increment: int) -> Iterator[int]:
    while start in numbers:
        yield start
        start += increment


def _is_excused(history: History, one: Sent) -> bool:
    return history.set_aside is not None and history.set_aside.get(one.message_id) in history.excused


def _lost(copies: list[Sent]) -> Finding:
    ids = " or ".join(f"{one.message_id} (of batch {one.batch})" for one in copies)
    return Finding(Anomaly.LOST, copies[0].group, f"{ids}, number {copies[0].sequence}, was never handled")


def _excused(history: History, sent: Mapping[str, Sent]) -> dict[str | None, list[int | None]]:
    """The numbers of a group that were set aside for a good reason."""
    numbers: dict[str | None, list[int | None]] = defaultdict(list)
    for message_id in history.set_aside or ():
        if message_id in sent and _is_excused(history, sent[message_id]):
            numbers[sent[message_id].group].append(sent[message_id].sequence)
    return numbers


def _in_order(
    policy: Policy, group: str | None, rows: list[Handled], sent: Mapping[str, Sent], excused: Iterable[int | None]
) -> Iterator[Finding]:
    if isinstance(policy, Standard | BestEffort) and policy.late == "set_aside":
        for row in rows:
            if row.late:
                yield Finding(Anomaly.REORDERED, group, f"{row} was late, and the queue sets late ones aside")
    match policy:
        case Fifo():
            yield from _by_arrival(group, rows, sent)
        case BestEffort():
            yield from _ascending(group, rows, sent)
        case Standard():
            skips = policy.on_hole == "skip" and policy.hole_timeout is not None
            start = policy.start if isinstance(policy.start, int) else None
            yield from _by_number(group, rows, start, None if skips else policy.increment, excused)
        case UnitOfWork():
            yield from _by_number(group, rows, 1, 1, excused)


def _by_number(
    group: str | None, rows: list[Handled], start: int | None, step: int | None, excused: Iterable[int | None]
) -> Iterator[Finding]:
    """Ascending, and with a step also without a gap. What is handled again is a duplicate, and not out of order."""
    missing = set(excused)
    seen: set[int] = set()
    last, expected = None, start
    for row in rows:
        if row.late or row.sequence is None or row.sequence in seen:
            continue
        seen.add(row.sequence)
        if last is not None and last.sequence is not None and row.sequence < last.sequence:
            yield Finding(Anomaly.REORDERED, group, f"{row}, after {last}")
            continue
        if step is not None:
            while expected is not None and expected in missing:
                expected += step
            if expected is not None and row.sequence != expected:
                what = f"{row}, next to {last or 'the beginning'}: {expected} was passed over"
                yield Finding(Anomaly.REORDERED, group, what)
            expected = row.sequence + step
        last = row


def _ascending(group: str | None, rows: list[Handled], sent: Mapping[str, Sent]) -> Iterator[Finding]:
    equal: list[Handled] = []
    for row in rows:
        if row.late or row.sequence is None:
            continue
        last = equal[-1] if equal else None
        if last is not None and last.sequence is not None and row.sequence < last.sequence:
            yield Finding(Anomaly.REORDERED, group, f"{row}, after {last}")
            continue
        if last is not None and row.sequence != last.sequence:
            yield from _by_arrival(group, equal, sent)
            equal = []
        equal.append(row)
    yield from _by_arrival(group, equal, sent)


def _by_arrival(group: str | None, rows: list[Handled], sent: Mapping[str, Sent]) -> Iterator[Finding]:
    """No message after one that it certainly came before."""
    latest: tuple[int, Handled] | None = None  # of those handled so far the one whose transaction began last
    furthest: dict[str, tuple[int, Handled]] = {}  # of each transaction the one with the last place
    seen: set[str] = set()
    for row in rows:
        one = sent.get(row.message_id)
        if one is None or row.message_id in seen:
            continue
        seen.add(row.message_id)
        if one.batch in furthest and one.place < furthest[one.batch][0]:
            what = f"{row}, after {furthest[one.batch][1]}, which follows it in batch {one.batch}"
            yield Finding(Anomaly.REORDERED, group, what)
        elif latest is not None and one.ended is not None and one.ended < latest[0]:
            what = f"{row}, committed at {one.ended}, after {latest[1]}, sent from {latest[0]} on"
            yield Finding(Anomaly.REORDERED, group, what)
        if one.batch not in furthest or one.place > furthest[one.batch][0]:
            furthest[one.batch] = (one.place, row)
        if latest is None or one.began > latest[0]:
            latest = (one.began, row)


def _ordinals(group: str | None, rows: list[Handled], excused: int) -> Iterator[Finding]:
    """1, 2, 3, …; a message that was released and then set aside has taken one along."""
    expected = 1
    for row in rows:
        passed_over = (row.ordinal or 0) - expected
        if passed_over and not 0 < passed_over <= excused:
            yield Finding(Anomaly.MISCOUNTED, group, f"{row} should have the ordinal {expected}")
        elif passed_over:
            excused -= passed_over
        expected = (row.ordinal or expected) + 1


def _turns(policy: Policy, group: str | None, rows: list[Handled]) -> Iterator[Finding]:
    """One at a time; of a unit of work there is but one."""
    ends: dict[tuple[int, str], int] = {}
    for row in rows:
        turn = (row.began, row.receiver)
        ends[turn] = max(ends.get(turn, row.ended), row.ended)
    if isinstance(policy, UnitOfWork) and len(ends) > 1:
        yield Finding(Anomaly.DIVIDED, group, f"{len(rows)} messages in {len(ends)} turns, first {rows[0]}")
    longest: tuple[int, str] | None = None
    for turn in sorted(ends):
        if longest is not None and turn[0] < ends[longest]:
            what = f"{turn[1]} from {turn[0]} to {ends[turn]}, while {longest[1]} from {longest[0]} to {ends[longest]}"
            yield Finding(Anomaly.OVERLAPPING, group, what)
        if longest is None or ends[turn] > ends[longest]:
            longest = turn


def _conserved(set_aside: Mapping[str, str], sent: Mapping[str, Sent], rows: list[Handled]) -> Iterator[Finding]:
    handled = {row.message_id for row in rows}
    for message_id, disposition in set_aside.items():
        if message_id not in sent:
            yield Finding(Anomaly.PHANTOM, None, f"{message_id} is {disposition} and was never sent")
        elif message_id in handled:
            yield Finding(Anomaly.UNACCOUNTED, sent[message_id].group, f"{message_id} was handled and is {disposition}")
    for one in sent.values():
        if one.ended is not None and one.message_id not in handled and one.message_id not in set_aside:
            yield Finding(Anomaly.UNACCOUNTED, one.group, f"{one.message_id} was neither handled nor set aside")
