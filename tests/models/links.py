"""A model of two boxes with one stream each way, of which a restore, a crash and the network undo, repeat and delay what they can.

A state is what both boxes remember, what of that is on disk, a backup of each, and what is under way. A box sends a message, and its content depends on
all that the box has sent and handled before, so a box that was restored sends other messages under the same numbers. Transmitters send
batches and apply the answers; each has one batch under way. The network may copy a batch and deliver the copy at any time, any number
of times, also after the stream was closed. A transmitter may give up waiting: the batch or the answer is lost.

A crash loses what isn't on disk. Before a batch leaves, its sender's memory is written to disk; before an answer leaves, the receiver's. That an answer was applied isn't written
by itself: a crash may take it back, with all that followed from it. What is in memory may also come to disk at any other time, so a crash goes back to any state since the last
write. Transmitters outlive it, and apply the answers that they wait for to what is left. A backup is taken at any time, and restored at any later one; there, too, transmitters
that had asked before go on.

The model in `streams.py`, with which the schema's functions are compared, decides what a receiver does with a batch, and what a sender does with an answer;
`stream_numbers.py` decides which numbers are over and which is next. What is remembered here beside that serves the laws only: `sent`, `handled`, `placed` and `named`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from seriatim.kernel.streams import BatchKind, Decision, Status, StreamAnswer
from tests.models import chain, streams
from tests.models.search import Label, Model
from tests.models.stream_numbers import NumberRanges, following, was_restored

__all__ = ["Box", "Boxes", "Calm", "Links", "Reply", "Request"]

#: A message: its content, and whether it is marked as replayed.
Message = tuple[int, bool]
#: Numbers as ranges.
Numbers = tuple[tuple[int, int], ...]


class Out(NamedTuple):
    """What a box remembers of what it sends."""

    opened: int = 0
    #: The stream that is open, 0 for none, and its id.
    number: int = 0
    ident: bytes = b""
    status: int = Status.OPEN
    acked: int = 0
    sent: int = 0
    kept: int = 0
    #: What follows `kept`, and the chain there.
    queue: tuple[Message, ...] = ()
    base: bytes = b""
    #: What was sent again is marked up to this number.
    again: int = 0
    #: Of a broken stream: what the receiver lacks begins above this number.
    lacks: int = 0
    #: Which transmitter's question is the last one; 0: nobody's.
    token: int = 0
    #: What waits for a new stream.
    pending: tuple[Message, ...] = ()
    over: Numbers = ()


class Known(NamedTuple):
    """What a box remembers of a stream that it receives."""

    number: int
    received: int
    chain: bytes


class Box(NamedTuple):
    """What a box remembers."""

    out: Out = Out()
    streams: tuple[Known, ...] = ()
    over: Numbers = ()
    #: The highest number that it has known of its peer's streams, and the first chain of that one.
    highest: tuple[int, bytes] = (0, b"")
    sent: tuple[int, ...] = ()
    handled: tuple[Message, ...] = ()
    #: Where its messages were: content, number of the stream, number in it.
    placed: tuple[tuple[int, int, int], ...] = ()
    #: Contents that an event in this box names, its own or the peer's.
    named: frozenset[int] = frozenset()
    #: An event was noted.
    event: bool = False


class Request(NamedTuple):
    """A batch under way."""

    kind: int
    number: int
    ident: bytes
    after: int
    chain: bytes
    messages: tuple[Message, ...]
    over: Numbers
    placed: tuple[tuple[int, int, int], ...]
    lacks: int = 0
    #: It was made after the last restore.
    fresh: bool = True


class Reply(NamedTuple):
    """An answer under way."""

    answer: int
    received: int
    chain: bytes
    #: The highest number that the receiver has known, and the first chain of that stream.
    highest: int
    highest_begins: bytes
    lost: Numbers


class Slot(NamedTuple):
    """A transmitter that waits for an answer, or has it."""

    request: Request
    reply: Reply | None = None


class Boxes(NamedTuple):
    """A state of the model. Pairs are of the two boxes; a transmitter and a copy belong to the box that has sent the batch."""

    memory: tuple[Box, Box]
    disk: tuple[Box, Box]
    backup: tuple[Box | None, Box | None]
    slots: tuple[tuple[Slot | None, ...], tuple[Slot | None, ...]]
    copies: tuple[Request | None, Request | None]
    #: How many messages each box may still send.
    coming: tuple[int, int]
    crashes: int
    restores: tuple[int, int]
    #: Since the last restore the box has not heard an answer to a question that it asked afterwards.
    owed: tuple[bool, bool] = (False, False)
    restored: bool = False


class Links(Model[Boxes]):
    """The model.

    Args:
        sends: how many messages each box sends.
        transmitters: how many transmitters each box has.
        restores: how often each box is restored.
        crashes: how often a box crashes without its unflushed tail, or a part of it.
        copies: whether the network repeats and delays batches of each box.
        keeps: a sender keeps what is acknowledged until its stream is over.
    """

    def __init__(
        self,
        sends: tuple[int, int] = (2, 0),
        transmitters: tuple[int, int] = (1, 1),
        restores: tuple[int, int] = (0, 0),
        crashes: int = 0,
        copies: tuple[bool, bool] = (True, True),
        *,
        keeps: bool = False,
    ) -> None:
        two = (Box(), Box())
        slots = ((None,) * transmitters[0], (None,) * transmitters[1])
        self.start = Boxes(two, two, (None, None), slots, (None, None), sends, crashes, restores)
        self._copies = copies
        self._keeps = keeps
        #: Both boxes go back: then an event may only say what isn't proven.
        self._both = all(restores)

    # ---- what happens

    def steps(self, state: Boxes) -> Iterator[tuple[Label, Boxes]]:
        """All that can happen next."""
        yield from self.calm(state)
        for side in (0, 1):
            yield from self._faults(state, side)

    def calm(self, state: Boxes) -> Iterator[tuple[Label, Boxes]]:
        """All that can happen next without a fault."""
        for side in (0, 1):
            name, box = "AB"[side], state.memory[side]
            if state.coming[side]:
                content = _content(side, state.restores, box.sent, box.handled)
                coming = _put(state.coming, side, state.coming[side] - 1)
                after = self._remember(state, side, _sends(box, content, side))._replace(coming=coming)
                yield ((f"{name} sends {{}}",), content), after
            out = box.out
            if out.number and _is_idle(out.status, out.acked, out.sent):
                closing = box._replace(out=out._replace(status=Status.CLOSING))
                yield ((f"{name} closes its idle stream {{}}",), out.number), self._remember(state, side, closing)
            for place, slot in enumerate(state.slots[side]):
                if slot is None:
                    yield from self._asks(state, side, place)
                elif slot.reply is None:
                    yield from self._delivers(state, side, slot.request, place)
                else:
                    yield from self._applies(state, side, place, slot.request, slot.reply)

    def _faults(self, state: Boxes, side: int) -> Iterator[tuple[Label, Boxes]]:
        name = "AB"[side]
        for place, slot in enumerate(state.slots[side]):
            if slot is None:
                continue
            yield ((f"a transmitter of {name} gives up{{}}",), ""), self._free(state, side, place)
            if self._copies[side] and state.copies[side] != slot.request:
                copied = state._replace(copies=_put(state.copies, side, slot.request))
                yield ((f"the network copies a batch of {name}{{}}",), ""), copied
        copy = state.copies[side]
        if copy is not None:
            yield from self._delivers(state, side, copy, None)
        if state.crashes and state.memory[side] != state.disk[side]:
            after = state._replace(memory=_put(state.memory, side, state.disk[side]), crashes=state.crashes - 1)
            yield ((f"{name} crashes without its tail{{}}",), ""), after
            written = state._replace(disk=_put(state.disk, side, state.memory[side]))
            yield ((f"what {name} remembers comes to its disk{{}}",), ""), written
        if state.restores[side]:
            backup = state.backup[side]
            if backup is None:
                taken = state._replace(backup=_put(state.backup, side, state.disk[side]))
                yield ((f"a backup of {name} is taken{{}}",), ""), taken
            elif backup != state.memory[side]:
                yield ((f"{name} is restored{{}}",), ""), _restored(state, side, backup)

    def _asks(self, state: Boxes, side: int, place: int) -> Iterator[tuple[Label, Boxes]]:
        """A free transmitter sends what there is, or just which streams are over."""
        box = state.memory[side]
        out = box.out
        request: Request | None = None
        if out.number and (out.status != Status.OPEN or out.acked < out.sent):
            kind = {Status.OPEN: BatchKind.MESSAGES, Status.CLOSING: BatchKind.CLOSE, Status.ENDING: BatchKind.END}[
                Status(out.status)
            ]
            waiting = out.queue[out.acked - out.kept :] if kind == BatchKind.MESSAGES else ()
            marked = tuple(
                (content, replayed or out.acked + nth <= out.again)
                for nth, (content, replayed) in enumerate(waiting, 1)
            )
            at = _chains(out.base, out.queue)[out.acked - out.kept]
            request = Request(kind, out.number, out.ident, out.acked, at, marked, out.over, box.placed, out.lacks)
        elif state.owed[side] and not out.number:
            request = Request(BatchKind.MESSAGES, 0, b"", 0, b"", (), out.over, box.placed)
        if request is None:
            return
        noted = box._replace(out=out._replace(token=place + 1))
        after = self._remember(state, side, noted)
        if self.writes_before_asking:
            after = after._replace(disk=_put(after.disk, side, after.memory[side]))
        after = after._replace(slots=_put(state.slots, side, _put(state.slots[side], place, Slot(request))))
        yield (
            (("{} asks with " + f"{BatchKind(request.kind).name} {request.number} after {request.after}",), "AB"[side]),
            after,
        )

    def _delivers(self, state: Boxes, side: int, request: Request, place: int | None) -> Iterator[tuple[Label, Boxes]]:
        """A batch comes to the other box. `place`: of the transmitter that gets the answer; None: nobody does."""
        far = 1 - side
        box, reply = self._takes(state.memory[far], request)
        after = self._remember(state, far, box)
        if self.writes_before_answer:
            after = after._replace(disk=_put(after.disk, far, after.memory[far]))
        which = "the batch" if place is not None else "a copy of a batch"
        if place is not None:
            after = after._replace(slots=_put(after.slots, side, _put(after.slots[side], place, Slot(request, reply))))
        text = f"{{}} gets {which} ({request.number} after {request.after}) and says {StreamAnswer(reply.answer).name} {reply.received}"
        yield ((text,), "AB"[far]), after

    def _takes(self, box: Box, request: Request) -> tuple[Box, Reply]:
        """The receiver's transaction."""
        lost = _without(request.over, box.over)
        if lost:
            gone = frozenset(content for content, number, _ in request.placed if _within(lost, number))
            box = box._replace(
                over=_joined(box.over, lost),
                highest=max(box.highest, (lost[-1][1], b"")),
                streams=tuple(one for one in box.streams if not _within(lost, one.number)),
                named=box.named | gone,
                event=True,
            )
        if not request.number:
            return box, Reply(StreamAnswer.THROUGH, 0, b"", *box.highest, lost)
        known = next((one for one in box.streams if one.number == request.number), None)
        begins = chain.first(request.ident)
        here = known or Known(request.number, 0, begins)
        ahead = here.received - request.after
        reaches = 0 <= ahead <= len(request.messages)
        told = _chains(request.chain, request.messages)
        equal = reaches and self.is_equal(told[ahead], here.chain)
        verdict = _received(
            here.received,
            request.kind,
            request.after,
            len(request.messages),
            over=_within(box.over, request.number),
            equal=equal,
        )
        answer, number, skip, take, over, event = verdict
        taken = request.messages[skip : skip + take]
        here = Known(request.number, number, told[skip + take] if take else here.chain)
        others = tuple(one for one in box.streams if one.number != request.number)
        if over:
            box = box._replace(streams=others, over=_joined(box.over, ((request.number, request.number),)))
        elif known or take:
            box = box._replace(streams=tuple(sorted((*others, here))))
        if (over or take) and request.number > box.highest[0]:
            box = box._replace(highest=(request.number, begins))
        if event:
            lacks = _placed(request.placed, request.number, min(here.received, request.lacks), request.after)
            box = box._replace(named=box.named | lacks)
        box = box._replace(handled=box.handled + taken, event=box.event or event)
        return box, Reply(answer, number, here.chain, *box.highest, lost)

    def _applies(
        self, state: Boxes, side: int, place: int, request: Request, reply: Reply
    ) -> Iterator[tuple[Label, Boxes]]:
        """A transmitter applies an answer to what its box remembers now."""
        box = state.memory[side]
        out = box.out
        named = frozenset(content for content, number, _ in box.placed if _within(reply.lost, number))
        box = box._replace(named=box.named | named, event=box.event or bool(reply.lost))
        begins = chain.first(out.ident) if out.number == reply.highest else reply.highest_begins
        if was_restored(out.opened, reply.highest, is_same=begins == reply.highest_begins):
            marked = tuple((content, True) for content, _ in out.pending)
            out = out._replace(opened=max(out.opened, reply.highest), pending=marked)
            box = box._replace(event=True)
        text = "nothing"
        if request.number and (out.number, out.ident) == (request.number, request.ident):
            box, text = self._decides(box._replace(out=out), side, place, reply)
        else:
            box = box._replace(out=out)
        after = self._free(self._remember(state, side, box), side, place)
        if request.fresh:
            after = after._replace(owed=_put(after.owed, side, False))
        yield ((f"{{}} applies {StreamAnswer(reply.answer).name} {reply.received}: {text}",), "AB"[side]), after

    def _decides(self, box: Box, side: int, place: int, reply: Reply) -> tuple[Box, str]:
        out = box.out
        chains = _chains(out.base, out.queue)
        at = reply.received - out.kept
        equal = 0 <= at < len(chains) and self.is_acked(chains[at], reply.chain)
        decision, acked = _answered(
            out.acked,
            out.sent,
            out.kept,
            out.status,
            reply.answer,
            reply.received,
            equal=equal,
            current=self.is_current(out.token == place + 1),
            known=out.number <= reply.highest,
        )
        text = Decision(decision).name
        if decision == Decision.REPEAT:
            out = out._replace(status=Status.OPEN, again=max(out.again, out.acked), acked=acked, token=0)
        elif acked != out.acked:
            out = out._replace(acked=acked, token=0)
            if not self._keeps:
                out = out._replace(kept=acked, queue=out.queue[acked - out.kept :], base=chains[acked - out.kept])
        box = box._replace(out=out)
        if decision in (Decision.END, Decision.LOST):
            at = (reply.answer, reply.received)
            above, perhaps_above = _lost_above(out.acked, out.sent, out.kept, out.status, *at, equal=equal)
            box = _ended(box, perhaps_above if self._both else above)
        if decision in (Decision.OVER, Decision.LOST):
            box = _over(box, side)
        return box, text

    # ---- what the broken variants do otherwise

    #: The receiver's transaction is on disk before it is acknowledged.
    writes_before_answer = True
    #: All that the sender remembers is on disk before a batch leaves.
    writes_before_asking = True

    def is_equal(self, told: bytes, here: bytes) -> bool:
        """Whether the receiver takes two chains for the same."""
        return told == here

    def is_acked(self, here: bytes, told: bytes) -> bool:
        """Whether the sender takes two chains for the same."""
        return here == told

    def is_current(self, current: bool) -> bool:
        """Whether the sender takes an answer for that to its last question."""
        return current

    # ---- bookkeeping

    def _remember(self, state: Boxes, side: int, box: Box) -> Boxes:
        return state._replace(memory=_put(state.memory, side, box))

    def _free(self, state: Boxes, side: int, place: int) -> Boxes:
        """The transmitter waits for nothing any more: its token is nobody's, wherever it is remembered."""
        backup = state.backup[side]
        return state._replace(
            slots=_put(state.slots, side, _put(state.slots[side], place, None)),
            memory=_put(state.memory, side, _without_token(state.memory[side], place)),
            disk=_put(state.disk, side, _without_token(state.disk[side], place)),
            backup=_put(state.backup, side, backup and _without_token(backup, place)),
        )

    # ---- the laws

    def fault(self, state: Boxes) -> str | None:
        """The law that the state breaks."""
        for side in (0, 1):
            near, far = state.memory[side], state.memory[1 - side]
            seen: set[int] = set()
            last = 0
            for content, replayed in far.handled:
                if content in seen and not replayed:
                    return f"{'BA'[side]} has handled {content} twice"
                seen.add(content)
                if content in near.sent and not replayed:
                    if near.sent.index(content) < last:
                        return f"{'BA'[side]} has handled {content} out of order"
                    last = near.sent.index(content)
            if not state.restored and (near.event or near.named or near.out.status == Status.ENDING):
                return f"nothing was restored, and {'AB'[side]} has noted that a stream is broken"
            if self._is_done(state, side):
                for content in near.sent:
                    if content not in seen and content not in near.named | far.named:
                        return f"{'AB'[side]} has sent {content}, all is acknowledged, and {'BA'[side]} has neither it nor an event"
        return None

    @staticmethod
    def _is_done(state: Boxes, side: int) -> bool:
        out = state.memory[side].out
        return not (out.number or out.pending or state.owed[side] or any(state.slots[side]))

    def done(self, state: Boxes) -> bool:
        """Whether nothing waits, in either direction."""
        return self._is_done(state, 0) and self._is_done(state, 1)


class Calm(Links):
    """The same, without faults: for what happens when they are over."""

    def steps(self, state: Boxes) -> Iterator[tuple[Label, Boxes]]:
        """All that can happen next."""
        return self.calm(state)


# ---- a box's own steps


def _sends(box: Box, content: int, side: int) -> Box:
    box = box._replace(sent=(*box.sent, content))
    out = box.out
    box = box._replace(out=out._replace(pending=(*out.pending, (content, False))))
    return _streamed(box, side)


def _streamed(box: Box, side: int) -> Box:
    """What waits goes into the stream that is open, or into a new one."""
    out = box.out
    if not out.pending or (out.number and out.status != Status.OPEN):
        return box
    if not out.number:
        number = following(out.opened, 0)
        ident = sha256(repr((side, number, box.sent, box.handled, box.placed)).encode()).digest()[:16]
        out = out._replace(
            opened=number, number=number, ident=ident, status=Status.OPEN, acked=0, sent=0, kept=0, queue=(),
            base=chain.first(ident), again=0, lacks=0, token=0,
        )  # fmt: skip
    placed = tuple((content, out.number, out.sent + nth) for nth, (content, _) in enumerate(out.pending, 1))
    out = out._replace(queue=out.queue + out.pending, sent=out.sent + len(out.pending), pending=())
    return box._replace(out=out, placed=box.placed + placed)


def _ended(box: Box, lacks: int) -> Box:
    """The stream can't be made whole: an event names what is lost, and what isn't acknowledged waits for a new one."""
    out = box.out
    missing = _placed(box.placed, out.number, lacks, out.acked)
    left = tuple((content, True) for content, _ in out.queue[out.acked - out.kept :])
    base = _chains(out.base, out.queue)[out.acked - out.kept]
    out = out._replace(
        status=Status.ENDING, sent=out.acked, kept=out.acked, queue=(), base=base, lacks=lacks, token=0,
        pending=left + out.pending,
    )  # fmt: skip
    return box._replace(out=out, named=box.named | missing, event=True)


def _over(box: Box, side: int) -> Box:
    """The number of the stream is over; what waits goes into a new one."""
    out = box.out
    over = _joined(out.over, ((out.number, out.number),))
    clean = Out(opened=out.opened, pending=out.pending, over=over)
    return _streamed(box._replace(out=clean), side)


def _restored(state: Boxes, side: int, backup: Box) -> Boxes:
    def older(slots: tuple[Slot | None, ...]) -> tuple[Slot | None, ...]:
        return tuple(slot and slot._replace(request=slot.request._replace(fresh=False)) for slot in slots)

    return state._replace(
        memory=_put(state.memory, side, backup),
        disk=_put(state.disk, side, backup),
        backup=_put(state.backup, side, None),
        slots=(older(state.slots[0]), older(state.slots[1])),
        restores=_put(state.restores, side, state.restores[side] - 1),
        owed=(True, True),
        restored=True,
    )


def _without_token(box: Box, place: int) -> Box:
    return box._replace(out=box.out._replace(token=0)) if box.out.token == place + 1 else box


def _put(several: tuple[Any, ...], place: int, one: Any) -> Any:
    return (*several[:place], one, *several[place + 1 :])


_CONTENTS: dict[object, int] = {}


def _content(side: int, restores: tuple[int, int], sent: tuple[int, ...], handled: tuple[Message, ...]) -> int:
    """A number for the content that a box sends after what it has sent and handled.

    The same history has the same, so that states meet. What is sent anew after a restore is another message: it has another id.
    """
    return _CONTENTS.setdefault((side, restores, sent, handled), len(_CONTENTS) + 1)


# ---- what the kernel decides


def _row(*values: int) -> list[Any]:
    return [np.array([value]) for value in values]


@cache
def _chains(base: bytes, messages: tuple[Message, ...]) -> list[bytes]:
    ids = [content.to_bytes(16, "big") for content, _ in messages]
    return chain.extended(base, ids, [chain.content_digest(b"", one) for one in ids])


@cache
def _received(
    number: int, kind: int, after: int, count: int, *, over: bool, equal: bool
) -> tuple[int, int, int, int, bool, bool]:
    known = streams.Receivers(*_row(number, over, False, count))
    batch = streams.Batches(*_row(kind, after, count, equal, True, False))
    answer, through, skipped, taken, closed, event = (one[0] for one in streams.received(known, batch).lists())
    return answer, through, skipped, taken, closed, event


@cache
def _answered(
    acked: int, sent: int, kept: int, status: int, answer: int, number: int, *, equal: bool, current: bool, known: bool
) -> tuple[int, int]:
    senders = streams.Senders(*_row(acked, sent, kept, status))
    decisions, through = streams.answered(senders, streams.Answers(*_row(answer, number, equal, current, known)))
    return int(decisions[0]), int(through[0])


@cache
def _lost_above(
    acked: int, sent: int, kept: int, status: int, answer: int, number: int, *, equal: bool
) -> tuple[int, int]:
    senders = streams.Senders(*_row(acked, sent, kept, status))
    above, perhaps = streams.lost_above(senders, streams.Answers(*_row(answer, number, equal, True, True)))
    return int(above[0]), int(perhaps[0])


@cache
def _is_idle(status: int, acked: int, sent: int) -> bool:
    senders = streams.Senders(*_row(acked, sent, 0, status))
    return bool(streams.is_idle(senders, np.array([0]), 10, 10)[0])


def _ranges(numbers: Numbers) -> NumberRanges:
    array = np.array(numbers, np.int64).reshape(-1, 2)
    return NumberRanges(array[:, 0], array[:, 1])


def _pairs(ranges: NumberRanges) -> Numbers:
    return tuple(zip(ranges.first.tolist(), ranges.last.tolist(), strict=True))


@cache
def _joined(one: Numbers, other: Numbers) -> Numbers:
    return _pairs(_ranges(one).joined(_ranges(other)))


@cache
def _without(one: Numbers, other: Numbers) -> Numbers:
    return _pairs(_ranges(one).without(_ranges(other)))


@cache
def _within(numbers: Numbers, number: int) -> bool:
    return bool(_ranges(numbers).contain(np.array([number]))[0])


def _placed(placed: tuple[tuple[int, int, int], ...], number: int, above: int, through: int) -> frozenset[int]:
    """The contents that had the numbers above one and through another in a stream."""
    return frozenset(content for content, stream, nth in placed if stream == number and above < nth <= through)
