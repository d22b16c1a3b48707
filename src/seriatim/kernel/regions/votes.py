"""Votes on the numbers of a session that is sent to two regions: the parties that know a number, and the next number.

Three parties know the numbers of a session: the box of each region, and the journal. A message has a number for good when two of the three
know it under its id. So a sender goes on while any one of them is away, and what it was told survives the loss of any one.

1. **A vote is conditional.** A party takes a number for a message if it knows no message with this number, and none with a higher one, and
   doesn't know the message under another number. It remembers the id *for each number*, not only for the highest: a copy of another
   message with a lower number may still come, and only the id tells them apart. The same message may ask again; the answer is the same. All
   numbers of a session in one call are taken, or none.
2. **The next number** is the highest that any two of the three know, plus the increment. No party's number is used alone: it may be the one
   that was away, or that has lost what it knew.
3. **The boxes are asked first**, the journal only in place of a box that is away. A refusal ends the call, because another sender is at
   work: the journal's vote could make two of three, but then each sender could have two.
4. **A vote never changes.** A copy that comes to a box is its vote only if the box has voted for no other message with this number, also
   for one that was withdrawn since, if it doesn't know the number to be over (a hole there may have been skipped), and if the number is
   above all that it took over after a restore (it doesn't know whose those are). The copy waits beside that other message: whose the number
   is the journal says, when one of them is claimed.
5. **A message gets another number only when the journal bars it from the first one**: the journal knows another message under the number,
   or makes the number void, so that none can ever be claimed under it. It does that only for a sender that counts the vote of a box: then
   no other message can have the votes of both boxes. If the journal knows the message itself under the number, there are two votes, and it
   is sent. If a reply is missing, or the journal is away, the sender raises: the message may be handled under its first number, or not at
   all. A sender that repeats this while a box is away may not see the first number. So a box that has the message under a lower number
   doesn't vote on another one, and the journal decides: it makes the one void that it doesn't know.
6. **A party that was restored** has a new incarnation, and votes again when it has learned the numbers of both others, and has the messages
   of the other box that aren't over. It has voted for none of these. They know its incarnation from then on, and refuse calls that count a
   vote of an earlier one.
7. **A number that the journal has reserved** is a message's when it is confirmed, in time; a message that has a number gets no second one.
   A message that no box has in a queue yet, because its transaction has just committed, may get another number when its reservation has
   ended, without being barred: no region can have asked for it.

A claim of the journal (`kernel/regions/claims.py`) is a vote of the journal, too. Rules are columnar: a row a message, the rows of a
session are neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from seriatim.kernel.values.columns import Bools, Columns, Ints, sum_per_group

#: No number is known: fewer than two of the three were reached.
NO_NUMBER = -(2**63)
#: How many of the three have to know a number.
QUORUM = 2


class Vote(IntEnum):
    """The answer of a party to a number for a message. `GRANTED`: it knows the number now. `HELD`: it has known it before, for this
    message. `REFUSED`: this number, or a higher one, is another message's; or it knows the message under another number; or another number
    of the same session was refused in this call.
    `STALE`: the call counts a vote from before a restore.
    """

    GRANTED = 0
    HELD = 1
    REFUSED = 2
    STALE = 3


class Reply(IntEnum):
    """The reply of one of the three to a sender: none yet, a vote for the message, a vote against it, or none because the party is away."""

    NOT_ASKED = 0
    FOR = 1
    AGAINST = 2
    AWAY = 3


class SendStep(IntEnum):
    """The next step of a sender. `ASK_BOX`: ask a box that wasn't asked. `ASK_JOURNAL`: a box is away. `ANSWER`: two know the number; the
    rest is for the outbox. `WITHDRAW`: take back what was written, for another sender has the number. `GIVE_UP`: two are away.
    """

    ASK_BOX = 0
    ASK_JOURNAL = 1
    ANSWER = 2
    WITHDRAW = 3
    GIVE_UP = 4


@dataclass(frozen=True, slots=True)
class VoteRequests(Columns):
    """Numbers for messages, a row a message, in the view of the party that votes. `session`: from 0, ascending. `number`: its number.
    `through`: the highest number that the party knows in the session. `same`: it knows this number, for this message. `stale`: the call
    counts a vote that a party gave before it was restored. `elsewhere`: it knows the message under another number.
    """

    session: Ints
    number: Ints
    through: Ints
    same: Bools
    stale: Bools
    elsewhere: Bools


def voted(requests: VoteRequests) -> Ints:
    """A `Vote` for each row. All rows of a session are refused if one of them is."""
    votes = np.select(
        [requests.stale, requests.same, ~requests.elsewhere & (requests.number > requests.through)],
        [Vote.STALE, Vote.HELD, Vote.GRANTED],
        Vote.REFUSED,
    ).astype(np.int64)
    if not len(votes):
        return votes
    refusals = sum_per_group(requests.session, (votes == Vote.REFUSED).astype(np.int64), int(requests.session[-1]) + 1)
    return np.where((refusals[requests.session] > 0) & (votes != Vote.STALE), Vote.REFUSED, votes)


def next_numbers(through: Sequence[Ints], reached: Sequence[Bools], increment: Ints) -> Ints:
    """The next number of each session; `NO_NUMBER` where fewer than two of the three were reached. `through`: for each of the three, the
    highest number that it knows of each session; below the first by the increment if it knows none. `reached`: whether it was reached.
    `increment`: of each session.
    """
    known = np.stack(reached)
    highest = np.where(known, np.stack(through), NO_NUMBER).max(axis=0)
    return np.where(known.sum(axis=0) >= QUORUM, highest + increment, NO_NUMBER)


def may_bar(first: Ints, second: Ints) -> Bools:
    """Return the messages whose refused sender may have the journal bar their number: both boxes have replied, and one has voted for it.
    Where neither has voted, this call has written nothing. The message may get another number without that, if no earlier call has written
    it either. `first`: the `Reply` of one box. `second`: that of the other.
    """
    boxes = np.stack([first, second])
    bars: Bools = (boxes == Reply.FOR).any(axis=0) & ~(boxes == Reply.AWAY).any(axis=0)
    return bars


def barred(same: Bools, stale: Bools, published: Ints, forgotten_before: Ints) -> Ints:
    """Return the journal's answer to a sender that wants messages barred from their numbers: a `Vote` for each. `GRANTED`: the message is
    barred; a number of which the journal knows nothing is void. `HELD`: the number is the message's. `STALE`: the sender counts a vote from
    before a restore, or the message is older than what the journal has forgotten: it may have been handled. `same`: the journal knows the
    message under the number. `stale`: the call counts a vote that a box gave before it was restored. `published`: when the sender began to
    publish the message. `forgotten_before`: messages that were published before it may be forgotten; `NEVER` for none.
    """
    is_unsure = stale | (~same & (published < forgotten_before))
    return np.select([is_unsure, same], [Vote.STALE, Vote.HELD], Vote.GRANTED).astype(np.int64)


def send_steps(first: Ints, second: Ints, journal: Ints, enough: int = QUORUM) -> Ints:
    """Return a sender's next step, a `SendStep` for each session, after the replies (`Reply`) of two boxes and of the journal. `first`: the
    replies of one box. `second`: those of the other. `journal`: those of the journal. `enough`: how many votes the sender waits for; with 1
    the journal is never asked.
    """
    replies = np.stack([first, second, journal])
    votes = (replies == Reply.FOR).sum(axis=0)
    away = (replies == Reply.AWAY).sum(axis=0)
    steps = {  # the first that applies
        SendStep.WITHDRAW: (replies == Reply.AGAINST).any(axis=0),
        SendStep.ANSWER: votes >= enough,
        SendStep.GIVE_UP: away >= QUORUM,
        SendStep.ASK_BOX: (replies[:2] == Reply.NOT_ASKED).any(axis=0),
    }
    return np.select(list(steps.values()), list(steps), SendStep.ASK_JOURNAL).astype(np.int64)
