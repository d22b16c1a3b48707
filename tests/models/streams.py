"""A model of the rules of streams: what a receiver answers to a batch, and what a sender does with each answer.

The rules are told in `kernel/streams.py`. The box decides by the schema's functions `link_verdict` and `link_decision`, and a test compares them with
this. Rules are columnar: a row a stream. `equal` is computed by the caller: whether two chains at one number are the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from seriatim.kernel.streams import BatchKind, Decision, Side, Status, StreamAnswer
from seriatim.kernel.values.columns import Bools, Columns, Ints

__all__ = [
    "Answers",
    "Batches",
    "Receivers",
    "Senders",
    "Verdicts",
    "answered",
    "is_idle",
    "lost_above",
    "received",
    "went_back",
]

# ---- the receiver


@dataclass(frozen=True, slots=True)
class Receivers(Columns):
    """Streams as their receiver knows them.

    `received`: its last number; 0 for a stream that it doesn't know. `over`: the number of the stream is over. `busy`: another
    transaction has the stream. `room`: how many messages the destination takes; 0 where the peer may not send there.
    """

    received: Ints
    over: Bools
    busy: Bools
    room: Ints


@dataclass(frozen=True, slots=True)
class Batches(Columns):
    """Batches, a row a stream.

    `kind`: a `BatchKind`. `after`: the number before the first message. `count`: how many messages are complete. `equal`: whether the chain
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

    `answer`: an `StreamAnswer`, told with `received`, which is the number afterwards. `skipped`: how many messages the receiver has already. `taken`: how many
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
    open_ = ~known.over & ~known.busy
    ends = open_ & (batches.kind == BatchKind.END)
    joins = open_ & reaches & batches.equal & ~ends
    closes = joins & (batches.kind == BatchKind.CLOSE) & (ahead == batches.count)
    new = np.where(joins & batches.fits, batches.count - ahead, 0)
    taken = np.minimum(new, np.maximum(known.room, 0))
    broken = open_ & ~ends & ((reaches & ~batches.equal) | (joins & ~batches.fits))
    complete = taken == new
    answer = np.select(
        [known.over | ends | closes, known.busy | ~complete, broken, joins & batches.incomplete],
        [StreamAnswer.GONE, StreamAnswer.WAIT, StreamAnswer.BROKEN, StreamAnswer.MISSING],
        StreamAnswer.THROUGH,
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

    `answer`: an `StreamAnswer`. `received`: the receiver's number. `equal`: whether its chain there is the sender's; False where the sender has
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
    tells = (
        (answers.answer == StreamAnswer.THROUGH)
        | (answers.answer == StreamAnswer.WAIT)
        | (answers.answer == StreamAnswer.MISSING)
    )
    ending = streams.status == Status.ENDING
    closing = streams.status == Status.CLOSING
    is_same = answers.equal & (answers.received <= streams.sent)
    holds = tells & is_same & (answers.received >= streams.acked) & ~ending
    gone = answers.answer == StreamAnswer.GONE
    decision = np.select(
        [
            holds & (closing | (answers.answer == StreamAnswer.WAIT)),
            holds & (answers.answer == StreamAnswer.MISSING),
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
            # A peer that isn't let in is told nothing else. Or it is told of a stream that is known to be broken.
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
        [answers.answer == StreamAnswer.GONE, answers.received > streams.sent, answers.received < streams.acked],
        [Side.SENDER, Side.SENDER, Side.RECEIVER],
        Side.UNKNOWN,
    ).astype(np.int64)


def lost_above(streams: Senders, answers: Answers) -> tuple[Ints, Ints]:
    """For streams that ended: above which number the receiver lacks what is acknowledged, and above which it may.

    They differ where the sender can't compare the chains at the receiver's number: if both boxes went back, a late batch of the lost history
    may have come in between, so that not even the numbers that the receiver has are proven.
    """
    known = np.where(answers.answer == StreamAnswer.GONE, streams.acked, np.minimum(answers.received, streams.acked))
    return known, np.where(answers.equal | (answers.answer == StreamAnswer.GONE), known, 0)


def is_idle(streams: Senders, last_used: Ints, now: int, stream_idle: int) -> Bools:
    """The streams that their sender closes: open, everything acknowledged, and not used for `stream_idle` microseconds."""
    all_acked = (streams.status == Status.OPEN) & (streams.acked == streams.sent)
    idle: Bools = all_acked & (now - last_used >= stream_idle)
    return idle
