"""Streams between two boxes: the words of the rules by which a receiver answers a batch, and a sender acts on an answer.

A stream carries messages from its sender to its receiver, in order and exactly once. Its messages have the numbers 1, 2, 3 …, and after
each number there is a chain: one hash for all messages up to it. The sender keeps what isn't acknowledged, and for a time what is. It
remembers `acked` (the receiver has this number on disk) and `sent` (its last number). The receiver remembers `received`, its last number,
and the chain there.

1. **A batch changes nothing unless it fits.** It says after which number it begins, and the chain there. The receiver takes messages only
   if the chain that the batch gives at `received` is its own. So a batch that is repeated or late is harmless.
2. **An answer says where the receiver is**, with the chain there. If the sender has the same chain at this number, and it lies between
   `acked` and `sent`, the answer is true whatever happened since: messages up to it are acknowledged. No other knowledge is needed for
   that.
3. **Anything else is believed only if it answers the sender's last question.** Before a batch leaves, the sender notes a random token;
   whatever changes `acked` deletes it. An answer without this token is stale: it may be about a history that a restore has undone.
4. If the receiver is before `acked`, it went back in time. Messages that the sender still keeps are sent again, marked as replayed. Where
   the chains differ, or something isn't kept any more, nothing can make the stream whole. Its sender tells the receiver that it is over,
   with an event in both boxes. Messages that aren't acknowledged go on in a new stream, marked as replayed, but not before the receiver has
   answered that the old one is over.
5. **Numbers of streams never come back.** The box that opens streams counts them. The receiver keeps the numbers that are over, for ever,
   as ranges, and answers `gone`. Every answer names the highest number that the receiver knows, with the first chain of that stream. A
   sender that knows no such stream was restored: it goes on above, and marks as replayed what waits for a new stream, since that may have
   left by one that it has forgotten.
6. A receiver that went back may have lost whole streams that are over for the sender, which will never send in them again. So the sender
   says which streams are over; those of them that the receiver doesn't know are lost, and are noted as an event.

The schema's functions `link_verdict` (rules 1 and 5) and `link_decision` (2 to 4) decide, with the values of this module.
`tests/models/streams.py` is a model of them: all that can happen between two boxes is searched with it, and a test compares the functions
with it.
"""

from __future__ import annotations

from enum import IntEnum

#: How many messages, and how many bytes, a stream may be ahead of its receiver.
WINDOW, WINDOW_BYTES = 1_000, 64 * 1024 * 1024
#: The most bytes of one stream in a round; one message or fragment always fits.
LARGEST_ROUND = 2 * 1024 * 1024
#: How many boxes a message may pass before the last one.
MOST_BOXES = 8
#: Added to the kind of a batch: the stream carries records of dialogs, not messages for a queue. From version 2 of the protocol on.
OF_DIALOGS = 16


class BatchKind(IntEnum):
    """The kind of a batch: messages; the end of an idle stream; the end of a stream that can't be made whole."""

    MESSAGES = 0
    CLOSE = 1
    END = 2


class StreamAnswer(IntEnum):
    THROUGH = 0
    WAIT = 1
    MISSING = 2
    GONE = 3
    BROKEN = 4


class Status(IntEnum):
    """The state of a stream at its sender: it sends; it waits until the idle stream is closed, or the broken one known to be over."""

    OPEN = 0
    CLOSING = 1
    ENDING = 2


class Decision(IntEnum):
    """The action of a sender after an answer. `ACK`: acknowledged messages may be deleted, and the stream goes on. `LATER`: nothing more
    than that, and it asks again after a while. `FRAGMENTS`: it sends the fragments that are missing. `REPEAT`: it sends again from the
    receiver's number, marked as replayed. `OVER`: the stream is over, as both know. `END`: it can't be made whole, and the sender tells the
    receiver so. `LOST`: it is over at the receiver, although not everything is acknowledged. `STALE`: an answer to an older question, or
    about another history.
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
    """The box that seems to have gone back in time, in the sender's view."""

    UNKNOWN = 0
    SENDER = 1
    RECEIVER = 2
