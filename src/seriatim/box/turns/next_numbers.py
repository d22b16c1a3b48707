"""The turn of a `Standard` group whose next messages have all come, while nothing waits: most turns of long runs.

The kernel decides whether it is one (``kernel/policies/next_numbers.py``). The result is that of `Turn`, or of `GateTurn`, without their
columns.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any, cast

import numpy as np

from seriatim.box.connection.fast_paths import NEXT_NUMBERS, GroupTurn
from seriatim.box.definitions import marks
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.postgres.array_text import numbers
from seriatim.box.turns.gate_turn import ClosedPlaces
from seriatim.box.turns.locked_groups import LockedGroups
from seriatim.box.turns.turn_result import PLAIN, HandedMessages, TurnResult
from seriatim.box.turns.turn_rows import GroupRow, fresh_row, known_groups
from seriatim.kernel.groups.policy import Policy, Standard
from seriatim.kernel.policies.next_numbers import OneGroup, after_next_numbers
from seriatim.kernel.values.outcome import Disposition, EventKind, Events, no_events
from seriatim.kernel.values.time import NEVER

_NOT_A_GATE = ClosedPlaces((), (), more=False, full=(), late=frozenset())


def judged_at_once(
    queue: BoxQueue, locked: LockedGroups, row: Any, at_most: int, most_arrived: int
) -> TurnResult | None:
    """The result of a turn of one group; None if it isn't that simple."""
    (key,), is_gate = locked.keys, queue.origin_id is not None
    rules, sequences = queue.declared.policy_of(key), row.sequences
    if not NEXT_NUMBERS.applies(GroupTurn(queue, rules, row, at_most, locked.now_us)):
        return None
    policy = cast("Standard", rules)
    closed = ClosedPlaces.of(row) if is_gate else _NOT_A_GATE
    known = _known(row, policy, key, queue.incarnation)
    order: Sequence[int] = range(len(sequences))
    if any(number > other for number, other in pairwise(sequences)):
        order = sorted(order, key=sequences.__getitem__)
        sequences = [sequences[at] for at in order]
    voids = closed.numbers
    # Messages that waited for their place to be closed count from now on.
    clock = max(locked.now_us if is_gate else NEVER, *(NEVER if number is None else number for number in row.times))
    after = after_next_numbers(policy, OneGroup(*known.state), sequences, voids, clock)
    if after is None:
        return None
    counts = [*known.decided, 0][: int(Disposition.VOID) + is_gate]
    counts[Disposition.RELEASED] += len(sequences)
    if voids:
        counts[Disposition.VOID] += len(voids)
    remembered, arrived = "", len(sequences) + len(voids)
    if policy.remember and not is_gate:
        remembered = _remembered(known.remembered, sequences, [row.sizes[at] for at in order], policy.remember)
    changes: dict[str, Any] = {
        "group_keys": [key],
        "remembered": [remembered],
        "states": list(after),
        "skipped": ["{}"],
        "arrivals": [known.arrivals + arrived],
        "decided": [numbers(counts)],
        "due_ats": [None],
        "ready_ranks": [None],
        "obeyed_ids": row.look_ids or [],
    }
    ordinals: list[int | None] = list(range(after.ordinal - len(sequences) + 1, after.ordinal + 1))
    entry_ids = [row.entry_ids[at] for at in order]
    return TurnResult(
        changes | _NOTHING_ELSE,
        [HandedMessages(key, known.incarnation, entry_ids, sequences, ordinals, [False] * len(sequences))],
        _passed(voids, after.clock),
        arrived,
        closed.more or (not is_gate and len(sequences) >= most_arrived),
        full=closed.full,
    )


#: The parameters for messages that wait, or are set aside.
_NOTHING_ELSE: dict[str, Any] = {
    name: []
    for name in (
        "kept_ids", "kept_statuses", "kept_arrivals", "kept_ordinals", "kept_late", "kept_waits",
        "aside_ids", "aside_dispositions", "aside_reasons", "aside_ordinals", "aside_counted",
    )
} | PLAIN  # fmt: skip


def _known(row: Any, policy: Policy, key: str, incarnation: int) -> GroupRow:
    """Return the stored state of the group; for an unknown group the state of a new one."""
    if not row.group_keys:
        return GroupRow(key, incarnation, fresh_row(policy), "{}", 0, [0] * int(Disposition.VOID), "")
    return known_groups(row)[0]


def _remembered(before: str, sequences: Sequence[int], stored: Sequence[int | None], most: int) -> str:
    """The last messages that left, as they are written down (see `GroupRow`)."""
    pairs = chain.from_iterable(zip(sequences, map(marks.fingerprint, stored), strict=True))
    after = b64decode(before) + np.fromiter(pairs, "<i8", 2 * len(sequences)).tobytes()
    return b64encode(after[-16 * most :]).decode()


def _passed(voids: Sequence[int], at: int) -> Events:
    """Return the events of closed places without results: each passes by itself, as the last arrival."""
    if not voids:
        return no_events()
    numbers = np.array(sorted(voids), np.int64)
    return Events.of(
        EventKind.VOID, np.zeros(len(numbers), np.int64), numbers, numbers, np.full(len(numbers), at, np.int64)
    )
