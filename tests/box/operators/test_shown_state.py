"""The state that a group shows is the kernel's, in the box, too: of each combination of facts."""

from __future__ import annotations

from itertools import product

from seriatim.kernel.groups.state import Flag
from seriatim.kernel.groups.states import FLAGGED, Fact, shown_state


def test_the_box_shows_the_state_that_the_kernel_shows(box):
    flagged = [sum(bits) for bits in product(*((0, int(flag)) for flag in FLAGGED.values()))]
    facts = list(product(flagged, *[(False, True)] * 3))
    with box.session() as tx:
        rows = tx.connection.execute(
            f"SELECT {box.schema}.shown_state(flags, flags & %s <> 0, locked, hole, overdue)"
            " FROM unnest(%s::bigint[], %s::boolean[], %s::boolean[], %s::boolean[])"
            " WITH ORDINALITY AS one (flags, locked, hole, overdue, nth) ORDER BY nth",
            [int(FLAGGED[Fact.SUSPENDED]), *map(list, zip(*facts, strict=True))],
        ).fetchall()
    expected = [shown_state(flags, locked=locked, hole=hole, overdue=overdue) for flags, locked, hole, overdue in facts]
    assert [state for (state,) in rows] == expected
    assert len(set(expected)) == 7
    assert shown_state(int(Flag.CLOSED | Flag.COMPLETE | Flag.FAULTED)) == "faulted"
