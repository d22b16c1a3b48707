"""Sessions before a key that are closed and forgotten: two boxes, the journal, senders, a copier and workers, each of which may stop anywhere.

One session stands for all. Each sender sends a message of it under its first number. Voting is in short the rule of `kernel/regions/votes.py`; how
a box refuses, what the journal answers and in which order the bound is set is that of `regions/closing.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, NamedTuple

from tests.models.search import Label

__all__ = ["BROKEN", "Closing", "ClosingModel"]

_BOXES = (0, 1)
_JOURNAL = 2
#: How the rules can be wrong; each is caught.
BROKEN = (
    "boxes aren't closed", "one box isn't closed", "nothing is looked at", "the journal keeps no key",
    "rows go before the key is kept", "nobody looks whether a box is still closed", "a restored box learns no key",
)  # fmt: skip


class Box(NamedTuple):
    """`voted`: the message that it has voted for; 0: none. `through`: whether it knows the number. `out`, `queue`: messages. `over`: it has
    heard that the number is over.
    """

    closed: bool = False
    voted: int = 0
    through: bool = False
    out: tuple[int, ...] = ()
    queue: tuple[int, ...] = ()
    over: bool = False
    votes: bool = True


class Work(NamedTuple):
    """A copy that a worker has taken. `over`: what its box knew then. `claim`: it has a claim, of this serial; 0: it hasn't asked."""

    message: int
    over: bool
    claim: int = 0


class Closing(NamedTuple):
    """The state. `holder`: whose the number is in the journal. `claim`: the serial of the present claim, with the box that has it.
    `step`: how far the closing has come; `kept`: the journal has the key. `told`: how senders stand with each of the three.
    """

    boxes: tuple[Box, Box] = (Box(), Box())
    holder: int = 0
    done: bool = False
    claim: int = 0
    serials: int = 0
    kept: bool = False
    step: int = 0
    told: tuple[tuple[bool, bool, bool], ...] = ((False, False, False), (False, False, False))
    refused: tuple[bool, ...] = (False, False)
    copying: tuple[int, int] | None = None
    work: tuple[Work | None, Work | None] = (None, None)
    handled: tuple[int, ...] = ()
    aside: tuple[int, ...] = ()
    backup: tuple[int, Box] | None = None
    restored: bool = False
    forgotten: tuple[bool, bool, bool] = (False, False, False)


class ClosingModel:
    """All that can happen."""

    def __init__(self, broken: str = "", *, restores: bool = False, away: int | None = None, senders: int = 2) -> None:
        assert broken in ("", *BROKEN)
        self._broken, self._restores, self._away = broken, restores, away
        self.start = Closing(refused=(False, senders < 2))
        looks: tuple[str, ...] = ("out 0", "out 1", "queue 0", "queue 1")
        if broken == "nothing is looked at":
            looks = ()
        closes: tuple[str, ...] = ("close 0", "close 1")
        closes = {"boxes aren't closed": (), "one box isn't closed": closes[:1]}.get(broken, closes)
        self._sees_closed = broken not in (*BROKEN[:2], "nobody looks whether a box is still closed")
        self._plan = (*closes, *looks, "keep")

    def alike(self, state: Closing) -> Iterator[Closing]:
        """The state."""
        yield state

    def steps(self, state: Closing) -> Iterator[tuple[Label, Closing]]:
        """All that can happen next."""
        for what, after in chain(
            self._sends(state), self._copies(state), self._works(state), self._closes(state), self._restored(state)
        ):
            yield ((what,), None), after

    # ---- senders

    def _sends(self, state: Closing) -> Iterator[tuple[str, Closing]]:
        for sender, told in enumerate(state.told):
            message = sender + 1
            if sum(told) >= 2 or state.refused[sender]:
                continue
            for party in range(3):
                if told[party] or (party == _JOURNAL and self._away is None) or party == self._away:
                    continue
                after = self._voted(state, party, message)
                if after is None:
                    yield f"{party} refuses {message}", state._replace(refused=_put(state.refused, sender, True))
                elif after is not state or party == _JOURNAL:
                    known = after._replace(told=_put(after.told, sender, _put(told, party, True)))
                    yield f"{party} votes for {message}", known

    def _voted(self, state: Closing, party: int, message: int) -> Closing | None:
        """The state behind a vote; None: it is refused; the same: the party doesn't vote."""
        if party == _JOURNAL:
            if state.kept or (state.holder or message) != message or (state.done and not state.holder):
                return None
            return state._replace(holder=message)
        box = state.boxes[party]
        if not box.votes:
            return state
        if box.voted == message and message in (*box.queue, *box.out):
            return state._replace(boxes=_put(state.boxes, party, box))
        if box.closed or box.through or box.over:
            return None
        taken = box._replace(voted=message, through=True, out=_with(box.out, message), queue=_with(box.queue, message))
        return state._replace(boxes=_put(state.boxes, party, taken))

    # ---- copies

    def _copies(self, state: Closing) -> Iterator[tuple[str, Closing]]:
        for here in _BOXES:
            for message in state.boxes[here].out:
                if state.boxes[1 - here].voted == message:
                    struck = _put(state.boxes, here, _without_out(state.boxes[here], message))
                    yield f"{message} is struck off in {here}", state._replace(boxes=struck)
        if state.copying is None:
            for here in _BOXES:
                for message in state.boxes[here].out:
                    yield f"a copier reads {message} of {here}", state._replace(copying=(here, message))
            return
        here, message = state.copying
        other = state.boxes[1 - here]
        yield "the copier ends", state._replace(copying=None)
        if 1 - here != self._away:
            vote = other.voted or (0 if other.through or other.over else message)
            queue = other.queue if other.voted == message and other.over else _with(other.queue, message)
            got = other._replace(queue=queue, through=True, voted=vote)
            boxes = _put(_put(state.boxes, 1 - here, got), here, _without_out(state.boxes[here], message))
            yield f"{message} is copied to {1 - here}", state._replace(boxes=boxes, copying=None)

    # ---- workers

    def _works(self, state: Closing) -> Iterator[tuple[str, Closing]]:
        for here in _BOXES:
            box, work = state.boxes[here], state.work[here]
            if work is None:
                for message in box.queue:
                    taken = _put(state.work, here, Work(message, box.over))
                    yield f"a worker of {here} takes {message}", state._replace(work=taken)
                continue
            yield f"the worker of {here} dies", state._replace(work=_put(state.work, here, None))
            if work.claim == 0:
                yield from self._asks(state, here, work)
            elif work.claim == state.claim and not state.done:
                ended = self._ended(state._replace(done=True, claim=0), here, work.message, over=True)
                yield f"{work.message} is handled in {here}", ended._replace(handled=(*state.handled, work.message))
        if state.claim:
            yield "the lease is over", state._replace(claim=0)

    def _asks(self, state: Closing, here: int, work: Work) -> Iterator[tuple[str, Closing]]:
        if state.kept:
            yield f"the key is told to {here}", self._ended(state, here, work.message, over=True)
            return
        if work.over and not state.done:
            state = state._replace(done=True)
        if state.holder not in (0, work.message):
            gone = self._ended(state, here, work.message, over=state.done)
            yield f"{work.message} is set aside in {here}", gone._replace(aside=_with(state.aside, work.message))
        elif state.done:
            yield f"{work.message} is over in {here}", self._ended(state, here, work.message, over=True)
        elif not state.claim:
            serial = state.serials + 1
            work = work._replace(claim=serial)
            yield (
                f"{here} claims {work.message}",
                state._replace(
                    holder=work.message, claim=serial, serials=min(serial, 3), work=_put(state.work, here, work)
                ),
            )

    def _ended(self, state: Closing, here: int, message: int, *, over: bool) -> Closing:
        box = state.boxes[here]
        queue = tuple(one for one in box.queue if one != message)
        box = box._replace(queue=queue, over=box.over or over, through=box.through or over)
        return state._replace(boxes=_put(state.boxes, here, box), work=_put(state.work, here, None))

    # ---- the closing

    def _closes(self, state: Closing) -> Iterator[tuple[str, Closing]]:
        if state.step < len(self._plan):
            what = self._plan[state.step]
            after = self._planned(state, what)
            if after is not None:
                yield what, after
        early = self._broken == "rows go before the key is kept" and state.step == len(self._plan) - 1
        if state.step == len(self._plan) or early:
            for party in range(3):
                if not state.forgotten[party] and party != self._away:
                    yield f"the rows of {party} go", self._forgotten(state, party)

    def _planned(self, state: Closing, what: str) -> Closing | None:
        onwards = state._replace(step=state.step + 1)
        again = state._replace(step=0)
        if what == "keep":
            open_ = state.claim or (state.holder and not state.done)
            if open_ and self._broken != "nothing is looked at":
                return again
            return onwards if self._broken == "the journal keeps no key" else onwards._replace(kept=True)
        verb, party = what.split()
        here = int(party)
        box = state.boxes[here]
        if here == self._away or not box.votes:
            return None
        if verb == "close":
            return onwards._replace(boxes=_put(state.boxes, here, box._replace(closed=True)))
        is_left = bool(box.out if verb == "out" else box.queue) or (self._sees_closed and not box.closed)
        return again if is_left else onwards

    def _forgotten(self, state: Closing, party: int) -> Closing:
        state = state._replace(forgotten=_put(state.forgotten, party, True))
        if party == _JOURNAL:
            return state._replace(holder=0, done=False)
        box = state.boxes[party]._replace(voted=0, through=False, over=False)
        return state._replace(boxes=_put(state.boxes, party, box))

    # ---- a box that goes back in time

    def _restored(self, state: Closing) -> Iterator[tuple[str, Closing]]:
        if not self._restores:
            return
        if state.backup is None:
            for here in _BOXES:
                yield f"{here} is backed up", state._replace(backup=(here, state.boxes[here]))
            return
        here, kept = state.backup
        box, other = state.boxes[here], state.boxes[1 - here]
        if not state.restored:
            boxes = _put(state.boxes, here, kept._replace(votes=False, voted=0))
            # What a sender has of it counts no more; a worker of it has lost its copy.
            yield (
                f"{here} is restored",
                state._replace(
                    boxes=boxes, restored=True, work=_put(state.work, here, None),
                    refused=tuple(one or (told[here] and sum(told) < 2) for one, told in zip(state.refused, state.told, strict=True)),
                ),
            )  # fmt: skip
        elif not box.votes and other.votes and 1 - here != self._away:
            closed = box.closed or other.closed or state.kept
            learned = box._replace(
                closed=box.closed if self._broken == "a restored box learns no key" else closed, votes=True,
                through=box.through or other.through or bool(state.holder) or state.done,
                over=box.over or other.over or state.done,
            )  # fmt: skip
            yield f"{here} has learned", state._replace(boxes=_put(state.boxes, here, learned))

    # ---- the laws

    def fault(self, state: Closing) -> str | None:
        """The law that the state breaks."""
        if len(set(state.handled)) < len(state.handled):
            return "a message was handled twice"
        for sender, told in enumerate(state.told):
            message = sender + 1
            if sum(told) < 2 or message in state.handled or message in state.aside:
                continue
            if state.kept:
                return f"{message} was answered, and its session is over without it"
            if state.done and state.holder in (0, message):
                return f"{message} was answered, and its number is over without it"
        return None


def _put(several: tuple[Any, ...], place: int, one: Any) -> Any:
    return (*several[:place], one, *several[place + 1 :])


def _with(messages: tuple[int, ...], message: int) -> tuple[int, ...]:
    return tuple(sorted({*messages, message}))


def _without_out(box: Box, message: int) -> Box:
    return box._replace(out=tuple(one for one in box.out if one != message))
