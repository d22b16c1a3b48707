"""The kernel's numbers that are stored never change: in rows of a box, in predicates of its indexes, in checkpoints and in frames."""

from __future__ import annotations

import pytest

from seriatim.kernel import streams
from seriatim.kernel.groups.sequence import LAST_NUMBER
from seriatim.kernel.groups.state import NOTHING, Flag
from seriatim.kernel.policies.stays import CLOSES, OPENS
from seriatim.kernel.regions import claims
from seriatim.kernel.values.outcome import Disposition
from seriatim.kernel.values.time import FOREVER, NEVER

#: Of groups: rows of a box, predicates of its indexes, checkpoints.
FLAGS = (
    "BEGUN=1 CLOSED=2 COMPLETE=4 SUSPENDED=8 FAULTED=16 FIXED=32 LEAVING=64 BY_OPERATOR=128 CLOSING=256 UNOPENED=512 "
    "PARTIAL=1024"
)
#: The places of their counts in rows of groups. Reasons and kinds of events are stored as words.
DISPOSITIONS = "RELEASED=0 HELD=1 LATE=2 DUPLICATE=3 INVALID=4 REJECTED=5 DEAD=6 VOID=7 COPY=8"


@pytest.mark.parametrize(
    ("members", "numbers"),
    [
        (Flag, FLAGS),
        (Disposition, DISPOSITIONS),
        # Of links: rows of streams, and what boxes of several versions say to each other.
        (streams.Status, "OPEN=0 CLOSING=1 ENDING=2"),
        (streams.BatchKind, "MESSAGES=0 CLOSE=1 END=2"),
        (streams.StreamAnswer, "THROUGH=0 WAIT=1 MISSING=2 GONE=3 BROKEN=4"),
        # Of regions: rows of their journal.
        (claims.SessionState, "IDLE=0 WORKING=1 SUSPENDED=2"),
        (claims.EntryState, "KNOWN=0 RESERVED=1 PENDING=2 FAILED=3 SKIPPED=4 VOID=5"),
    ],
    ids=lambda one: one.__name__ if isinstance(one, type) else "",
)
def test_members_of_enumerations_have_their_numbers(members, numbers):
    assert " ".join(f"{one.name}={int(one)}" for one in members) == numbers


def test_constants_have_their_values():
    assert (NOTHING, NEVER, FOREVER, LAST_NUMBER) == (-(2**63), -(2**62), 2**62, 2**53 - 1)
    assert (OPENS, CLOSES) == (1, 2)
