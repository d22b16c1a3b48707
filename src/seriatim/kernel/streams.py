"""Streams between two boxes: what a receiver answers to a batch, and what a sender does with each answer.

A stream carries messages from its sender to its receiver, in order and exactly once. Its messages have the numbers 1, 2, 3 …, and after each number
there is a chain (`kernel/chain.py`). The sender keeps what isn't acknowledged, and for a time what is. It remembers `acked` (the receiver has
this number on disk) and `sent` (its last number). The receiver remembers `received`, its last number, and the chain there.

1. **A batch changes nothing unless it fits.** It says after which number it begins, and the chain there. The receiver takes messages only
   if the chain that the batch gives at `received` is its own. So a batch that is repeated or late is harmless.
2. **An answer says where the receiver is**, with the chain there. If the sender has the same chain at this number, and it lies between `acked` and
   `sent`, the answer is true whatever happened since: messages up to it are acknowledged. No other knowledge is needed for that.
3. **Anything else is believed only if it answers the sender's last question.** Before a batch leaves, the sender notes a random token; whatever changes
   `acked` deletes it. An answer without this token is stale: it may be about a history that a restore has undone.
4. If the receiver is before `acked`, it went back in time. What the sender still keeps is sent again, marked as replayed. Where the chains
   differ, or something isn't kept any more, nothing can make the stream whole. Its sender tells the receiver that it is over, with an event in both boxes.
   What isn't acknowledged goes on in a new stream, marked as replayed, but not before the receiver has answered that the old one is over.
5. **Numbers of streams never come back.** The box that opens streams counts them. The receiver keeps the numbers that are over, for
   ever, as ranges, and answers `gone`. Every answer names the highest number that the receiver knows, with the first chain of that stream. A sender that knows
   no such stream was restored: it goes on above, and marks as replayed what waits for a new stream, since that may have left by one that it has forgotten.
6. A receiver that went back may have lost whole streams that are over for the sender, which will never send in them again. So the sender says which
   streams are over; what the receiver doesn't know of these is lost, and is noted as an event.

Rules are columnar: a row a stream. `equal` is computed by the caller: whether two chains at one number are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from seriatim.kernel.columns import Bools, Columns, Ints

__all__ = [
    "LARGEST_ROUND",
    "MOST_BOXES",
    "WINDOW",
    "WINDOW_BYTES",
    "Answer",
    "Answers",
    "Batches",
    "Decision",
    "Kind",
    "Receivers",
    "Senders",
    "Side",
    "Status",
    "Verdicts",
    "answered",
    "fitting",
    "goes_in_circles",
    "is_idle",
    "lost_above",
    "received",
    "went_back",
]

#: So many messages, and so many bytes, a stream may be ahead of what its receiver has taken.
WINDOW, WINDOW_BYTES = 1_000, 64 * 1024 * 1024
#: At most so many bytes of one stream travel in a round; one message or fragment may always.
LARGEST_ROUND = 2 * 1024 * 1024
#: A message may go through so many boxes before it comes to the last one.
MOST_BOXES = 8


class Kind(IntEnum):
    """What a batch is: messages; the end of a stream that was idle; the end of one that can't be made whole."""

    MESSAGES = 0
    CLOSE = 1
    END = 2


class Answer(IntEnum):
    """What a receiver answers for one stream of a batch."""

    THROUGH = 0
    WAIT = 1
    MISSING = 2
    GONE = 3
    BROKEN = 4


class Status(IntEnum):
    """What a sender does with a stream: sends; waits until its idle stream is closed; until its broken one is known to be over."""

    OPEN = 0
    CLOSING = 1
    ENDING = 2


class Decision(IntEnum):
    """What a sender does after an answer.

    `ACK`: what is acknowledged may be deleted, and the stream goes on. `LATER`: nothing more than that, and it asks again after a while.
    `FRAGMENTS`: it sends the fragments that are missing. `REPEAT`: it sends again from the receiver's number, marked as replayed.
    `OVER`: the stream is over, as both know. `END`: it can't be made whole, and the sender tells the receiver so. `LOST`: it is over
    at the receiver, although not everything is acknowledged. `STALE`: an answer to an older question, or about another history.
    """

    ACK = 0
    LATER = 1
    FRAGMENTS = 2
    REPEAT = 3
    OVER = 4
    END = 5
    LOST = 6
    STALE = 7


class Side(IntEnum):
    """Which box seems to have gone back in time, as the sender sees it."""

    UNKNOWN = 0
    SENDER = 1
    RECEIVER = 2


# ---- the receiver


@dataclass(frozen=True, slots=True)
class Receivers(Columns):
    """Streams as their receiver knows them.

    `received`: its last number; 0 for a stream that it doesn't know. `over`: the number of the stream is over. `allowed`: the peer may send
    into what the stream leads to. `busy`: another transaction has the stream. `room`: how many messages the destination takes.
    """

    received: Ints
    over: Bools
    allowed: Bools
    busy: Bools
    room: Ints


@dataclass(frozen=True, slots=True)
class Batches(Columns):
    """Batches, a row a stream.

    `kind`: a `Kind`. `after`: the number before the first message. `count`: how many messages are complete. `equal`: whether the chain
    that the batch gives at `received` is the receiver's; of no meaning where the batch doesn't reach that number. `fits`: no fragment contradicts
    what its message was announced with. `incomplete`: behind the complete ones it has fragments of one more.
    """

    kind: Ints
    after: Ints
    count: Ints
    equal: Bools
    fits: Bools
    incomplete: Bools


@dataclass(frozen=True, slots=True)
class Verdicts(Columns):
    """What becomes of batches.

    `answer`: an `Answer`, told with `received`, which is the number afterwards. `skipped`: how many messages the receiver has already. `taken`: how many
    behind these it takes. `over`: the number of the stream becomes one that is over. `event`: the receiver notes that the stream is broken.
    """

    answer: Ints
    received: Ints
    skipped: Ints
    taken: Ints
    over: Bools
    event: Bools


def received(known: Receivers, batches: Batches) -> Verdicts:
    """What a receiver does with batches, and what it answers."""
    ahead = known.received - batches.after
    reaches = (ahead >= 0) & (ahead <= batches.count)
    open_ = known.allowed & ~known.over & ~known.busy
    ends = open_ & (batches.kind == Kind.END)
    joins = open_ & reaches & batches.equal & ~ends
    closes = joins & (batches.kind == Kind.CLOSE) & (ahead == batches.count)
    new = np.where(joins & batches.fits, batches.count - ahead, 0)
    taken = np.minimum(new, np.maximum(known.room, 0))
    broken = open_ & ~ends & ((reaches & ~batches.equal) | (joins & ~batches.fits))
    complete = taken == new
    answer = np.select(
        [
            ~known.allowed | known.over | ends | closes,
            known.busy | ~complete,
            broken,
            joins & batches.incomplete,
        ],
        [Answer.GONE, Answer.WAIT, Answer.BROKEN, Answer.MISSING],
        Answer.THROUGH,
    )
    return Verdicts(
        answer=answer.astype(np.int64),
        received=known.received + taken,
        skipped=np.where(joins, ahead, 0),
        taken=taken,
        over=ends | closes,
        event=ends,
    )


# ---- the sender


@dataclass(frozen=True, slots=True)
class Senders(Columns):
    """Streams as their sender knows them.

    `acked`: the receiver has this number on disk. `sent`: the last number. `kept`: what follows this number is still here, with its
    chains. `status`: a `Status`.
    """

    acked: Ints
    sent: Ints
    kept: Ints
    status: Ints


@dataclass(frozen=True, slots=True)
class Answers(Columns):
    """Answers, a row a stream.

    `answer`: an `Answer`. `received`: the receiver's number. `equal`: whether its chain there is the sender's; False where the sender has
    no chain at this number. `current`: whether this answers the sender's last question. `known`: whether the receiver has known this stream's number
    or a higher one.
    """

    answer: Ints
    received: Ints
    equal: Bools
    current: Bools
    known: Bools


def answered(streams: Senders, answers: Answers) -> tuple[Ints, Ints]:
    """What a sender does after answers: a `Decision` for each, and what is acknowledged then."""
    tells = (answers.answer == Answer.THROUGH) | (answers.answer == Answer.WAIT) | (answers.answer == Answer.MISSING)
    ending = streams.status == Status.ENDING
    closing = streams.status == Status.CLOSING
    is_same = answers.equal & (answers.received <= streams.sent)
    holds = tells & is_same & (answers.received >= streams.acked) & ~ending
    gone = answers.answer == Answer.GONE
    decision = np.select(
        [
            holds & (closing | (answers.answer == Answer.WAIT)),
            holds & (answers.answer == Answer.MISSING),
            holds,
            ~answers.current,
            gone & (ending | closing),
            gone & answers.known,
            gone | ending,
            tells & is_same & (answers.received >= streams.kept),
        ],
        [
            Decision.LATER,
            Decision.FRAGMENTS,
            Decision.ACK,
            Decision.STALE,
            Decision.OVER,
            Decision.LOST,
            # Refused: not a word about what exists there. Or told of a stream that is known to be broken.
            Decision.LATER,
            Decision.REPEAT,
        ],
        Decision.END,
    )
    moves = holds | (decision == Decision.REPEAT)
    return decision.astype(np.int64), np.where(moves, answers.received, streams.acked)


def went_back(streams: Senders, answers: Answers) -> Ints:
    """For streams that ended: which `Side` seems to have gone back in time."""
    return np.select(
        [
            answers.answer == Answer.GONE,
            answers.received > streams.sent,
            answers.received < streams.acked,
        ],
        [Side.SENDER, Side.SENDER, Side.RECEIVER],
        Side.UNKNOWN,
    ).astype(np.int64)


def lost_above(streams: Senders, answers: Answers) -> tuple[Ints, Ints]:
    """For streams that ended: above which number the receiver lacks what is acknowledged, and above which it may.

    They differ where the sender can't compare the chains at the receiver's number: if both boxes went back, a late batch of the lost history
    may have come in between, so that not even the numbers that the receiver has are proven.
    """
    known = np.where(answers.answer == Answer.GONE, streams.acked, np.minimum(answers.received, streams.acked))
    return known, np.where(answers.equal | (answers.answer == Answer.GONE), known, 0)


def is_idle(streams: Senders, last_used: Ints, now: int, stream_idle: int) -> Bools:
    """The streams that their sender closes: open, everything acknowledged, and not used for `stream_idle` microseconds."""
    all_acked = (streams.status == Status.OPEN) & (streams.acked == streams.sent)
    idle: Bools = all_acked & (now - last_used >= stream_idle)
    return idle


def fitting(sizes: Ints, ahead: int = 0, ahead_bytes: int = 0, most_bytes: int = LARGEST_ROUND) -> int:
    """How many of the next messages of a stream go into this round.

    Args:
        sizes: their bytes, in order.
        ahead: how many were sent before them and aren't acknowledged.
        ahead_bytes: their bytes.
        most_bytes: of this round. One message goes anyway, if nothing was sent before it.
    """
    room = max(0, WINDOW - ahead)
    most = min(most_bytes, WINDOW_BYTES - ahead_bytes)
    fit = int(np.searchsorted(np.cumsum(sizes[:room]), most, side="right"))
    return fit if fit or ahead else min(1, room, len(sizes))


def goes_in_circles(through: Sequence[str], here: str) -> bool:
    """Whether a message that went through these boxes may not be taken in by this one: it was here, or went through too many."""
    return here in through or len(through) > MOST_BOXES
