"""A model of the places of one group at its gate: an origin queue Q, a queue T on the way, and the gate G.

A message comes to Q and gets a number. Its *place* is all that descends from it: the message, *alive* in Q until it ends; children,
alive in T until they end; and results, *placed* at G. A state is what is committed, and what the transaction that has the
lock of the gate's group has read. A step is a commit, or a read of that transaction.

* A worker ends a message in one transaction: it deletes the message's row, publishes children and results, and asks the gate to look
  at the place. It needs no lock of the gate's, so it commits at any time. If it crashes nothing has happened, because nobody has seen
  what it hadn't committed: that is no step. A message that failed is as alive as before, whether it is retried at once or
  stays faulted until somebody retries it; if somebody skips it, it ends with nothing. One that failed for good may become a dead letter.
* The gate's turn has the lock of the group. It reads a request, then looks whether anything of the place is alive, then reads the
  place's results, each with a snapshot of its own; then it commits. It may crash before. A turn that takes several requests does
  the same as several turns, because what it reads of one place says nothing of another; of two requests for one place it might have
  read the earlier one before the later one was written.
* An operator skips the next number, or requeues a dead letter, under the same lock.

The product's kernel decides what leaves the gate and in which order, how ordinals count, whether there is a hole, and where a `Fifo`
takes a requeued message. Its answers are remembered: the same question has the same answer. One rule isn't the kernel's: results of a
place that the gate has passed are late, whatever became of the place.

Q is a `Fifo` or `Unordered`: messages end in any order, and a dead letter that a `Fifo` would put at the end may do both. Results
are counted and have no names: the gate takes those of a place in the order of their commits, and those that come later leave later. A place
has at most two results, and at most two children, so that one can end while the gate looks at the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np

from seriatim import Fifo, Standard
from seriatim.errors import ActionRefused
from seriatim.kernel import resequence
from seriatim.kernel.groups.arrivals import NOT_SAID, Arrivals
from seriatim.kernel.groups.policy import remembering
from seriatim.kernel.groups.state import Flag, Held, Ranges, State
from seriatim.kernel.operators import actions, requeue
from seriatim.kernel.values.outcome import Disposition
from seriatim.kernel.values.time import NEVER
from tests.models.search import Label, Model

__all__ = ["OPEN", "PASSED", "Group", "Look", "Place", "Places", "offered", "parts"]

#: What the gate knows of a place: nothing yet, or that it has passed it. A number from 0: it is closed, was offered to the
#: kernel with this weight, and waits for its turn.
OPEN, PASSED = -2, -1

#: How a message in Q can end: children in T, and results at G.
_ENDS_IN_Q = {
    (0, 0): "message {} ends in Q with nothing, or is skipped",
    (1, 0): "message {} ends in Q with a child in T",
    (2, 0): "message {} ends in Q with two children in T",
    (0, 1): "message {} ends in Q with a result",
    (0, 2): "message {} ends in Q with two results",
    (1, 1): "message {} ends in Q with a child in T and a result",
}
_ENDS_IN_T = {
    0: "a child of {} ends in T with nothing, or is skipped",
    1: "a child of {} ends in T with a result",
    2: "a child of {} ends in T with two results",
}
_MOST_RESULTS = 2


class Place(NamedTuple):
    """What is committed of a place."""

    #: Its message is alive in Q; how many children are alive in T.
    in_q: bool = True
    in_t: int = 0
    #: Its message is a dead letter of Q; how many dead letters of T are its children.
    dead_in_q: bool = False
    dead_in_t: int = 0
    #: How many of its results are at the gate and were not offered.
    placed: int = 0
    gate: int = OPEN
    #: Somebody has asked the gate to look at it.
    asked: bool = False
    #: An operator skipped it, or requeued a message after the gate had passed it: results may be late.
    excused: bool = False

    @property
    def alive(self) -> bool:
        """Whether anything that descends from its message is alive."""
        return self.in_q or self.in_t > 0

    def tidy(self) -> Place:
        """The same place without an excuse that nothing needs any more."""
        if self.excused and not (self.alive or self.placed):
            return self._replace(excused=False)
        return self


#: A place of which nothing is left.
_GONE = Place(in_q=False, gate=PASSED)


class Look(NamedTuple):
    """What a transaction that has the lock of the gate's group has read of a place; None: not yet."""

    skips: bool = False
    alive: bool | None = None
    results: int | None = None


class Group(NamedTuple):
    """A state of the model.

    `places`: by their numbers, from 1. `looks`: the number of the place that a transaction at the gate looks at, and what it has read.
    `coming`: how many messages are still to come.
    """

    places: tuple[Place, ...] = ()
    looks: tuple[int, Look] | None = None
    coming: int = 0

    def having(self, number: int, place: Place, looks: tuple[int, Look] | None = None) -> Group:
        """The state with another place of this number."""
        places = self.places
        return Group((*places[: number - 1], place, *places[number:]), looks, self.coming)


def parts(state: Group) -> list[Group]:
    """A state without those places that go on by themselves, and each of these alone.

    A place goes on by itself when the gate has passed it and its message has left Q for good: nothing that happens there changes
    anything for the other places, and the laws look at one place at a time. From then on it has the number 1.
    """
    alone = [one for one in state.places if one.gate == PASSED and not (one.in_q or one.dead_in_q)]
    rest = tuple(_GONE if one in alone else one for one in state.places)
    return [Group(rest, state.looks, state.coming), *(Group((one,)) for one in alone)]


class Outcome(NamedTuple):
    """What a transaction at the gate has done to a place: the texts, the place, and the weight that it offers to the kernel, if any."""

    texts: tuple[str, ...]
    place: Place
    offers: int | None


class Places(Model[Group]):
    """The model.

    Args:
        messages: how many messages come.
        again: how many numbers there are besides, for messages that are requeued and go to the end.
        by_reads: each read of a transaction at the gate is a step, and anything may happen between two of them. Else such a transaction
            is one step, together with what happens meanwhile at the place that it looks at. What happens at other places could as
            well have happened before, since neither reads what the other changes. A test compares both.
    """

    #: In which order the gate's turn reads, after it has read the request.
    reads = ("alive", "results")
    #: Whether a requeue waits for the lock of the gate's group.
    requeue_locks = True

    def __init__(self, messages: int = 3, again: int = 1, *, by_reads: bool = False) -> None:
        self.start = Group(coming=messages)
        self._most = messages + again
        self._by_reads = by_reads
        self._ends = cache(self._all_ends)
        self._looks = cache(self._all_looks)

    # ---- what happens

    def steps(self, state: Group) -> Iterator[tuple[Label, Group]]:
        """All that can happen next."""
        for label, after in self._all_steps(state):
            is_one_alone = len(after.places) == 1 and not after.coming
            if self._by_reads or is_one_alone or after.places[0].gate != PASSED:
                yield label, after
            else:
                yield from ((label, part) for part in parts(after))

    def _all_steps(self, state: Group) -> Iterator[tuple[Label, Group]]:
        places = state.places
        if state.coming and len(places) < self._most:
            yield (("message {} comes",), len(places) + 1), Group((*places, Place()), state.looks, state.coming - 1)
        gate = _at_gate(places)
        for number, place in enumerate(places, 1):
            read = state.looks is not None and state.looks[0] == number
            for text, after in self._ends(place, read):
                yield ((text,), number), state.having(number, after, state.looks)
            if state.looks is None or not self.requeue_locks:
                yield from self._requeues(state, number)
            if state.looks is None:
                yield from self._turns(state, number, gate)
            elif read:
                look = state.looks[1]
                crashed = place if look.skips else place._replace(asked=True)
                yield (("the transaction at the gate crashes",), number), state.having(number, crashed)
                for text, after, reads, offers in self._goes_on(place, look):
                    then = state.having(number, after, (number, reads))
                    if reads is None:
                        then = self._offered(state, number, gate, look, after, offers)
                    yield ((text,), number), then

    def _all_ends(self, place: Place, read: bool) -> list[tuple[str, Place]]:
        """Each way in which a message of a place can end; `read`: a transaction looks at the place, and has read a request."""
        return [
            (text, after._replace(asked=place.asked or self.asks(published=published, read=read)).tidy())
            for text, after, published in (*_ends_in_q(place), *_ends_in_t(place))
        ]

    def _requeues(self, state: Group, number: int) -> Iterator[tuple[Label, Group]]:
        """An operator requeues a dead letter of a place."""
        place, looks = state.places[number - 1], state.looks
        if place.dead_in_t:
            child = self._alive(state, number, place._replace(in_t=place.in_t + 1, dead_in_t=place.dead_in_t - 1))
            yield (("a dead letter of T goes back to place {}",), number), state.having(number, child, looks)
        if not place.dead_in_q:
            return
        gone = place._replace(dead_in_q=False)
        if place.gate != PASSED:  # an Unordered queue has no order of its own
            back = self._alive(state, number, gone._replace(in_q=True))
            yield (("the dead letter of Q goes back to place {}",), number), state.having(number, back, looks)
        intact = all(later.in_q for later in state.places[number:])
        to_the_end = place.gate == PASSED or _place_in_fifo(number, intact=intact) is requeue.RequeuePosition.END
        if to_the_end and len(state.places) < self._most:
            places = (*state.having(number, gone).places, Place())
            yield (("the dead letter of Q at place {} goes to the end",), number), Group(places, looks, state.coming)

    def _alive(self, state: Group, number: int, place: Place) -> Place:
        """A place of which something is alive again: it is open, if the gate hasn't passed it; else its results will be late."""
        if place.gate == PASSED:
            return place._replace(excused=True)
        if place.gate != OPEN:
            _check_taking_back(*_at_gate(state.places), number)
        return self.reopened(place)

    def _turns(self, state: Group, number: int, gate: Gate) -> Iterator[tuple[Label, Group]]:
        """A transaction locks the gate's group and looks at a place: a turn that was asked to, or an operator who skips the next number."""
        place = state.places[number - 1]
        begun = []
        if place.asked:
            begun.append(("the gate reads the request for place {}", place._replace(asked=False), Look()))
        if number == gate[0] and _skipped(*gate) is not None:
            text = "an operator locks the gate to skip {}, and reads its results"
            begun.append((text, place, Look(skips=True, results=place.placed)))
        for text, after, look in begun:
            if self._by_reads:
                yield ((text,), number), state.having(number, after, (number, look))
                continue
            for outcome in self._looks(after, look):
                then = self._offered(state, number, gate, look, outcome.place, outcome.offers)
                yield ((text, *outcome.texts), number), then

    def _goes_on(self, place: Place, look: Look) -> Iterator[tuple[str, Place, Look | None, int | None]]:
        """A transaction at the gate reads on or commits: the place, what it has read, if it goes on, and what it offers the kernel."""
        todo = [what for what in self.reads if getattr(look, what) is None]
        if look.skips or (look.alive and self.reads[0] == "alive"):
            todo = []  # it has read all that it needs
        if todo[:1] == ["alive"]:
            yield "the gate looks what is alive of place {}", place, look._replace(alive=place.alive), None
        elif todo:
            yield "the gate reads the results of place {}", place, look._replace(results=place.placed), None
        elif look.skips:
            left = place._replace(placed=place.placed - look.results, excused=True)
            yield "the operator's skip of {} commits", left.tidy(), None, look.results
        elif not self.closed(look):
            yield "the gate leaves place {} open and commits", self.looked_at(place), None, None
        else:
            left = place if place.gate >= 0 else place._replace(placed=place.placed - look.results)
            # The results of a place that it has passed leave late.
            offers = look.results if place.gate == OPEN else None
            yield "the gate closes place {} and commits", self.looked_at(left).tidy(), None, offers

    def _all_looks(self, place: Place, look: Look) -> list[Outcome]:
        """Every outcome of a transaction at the gate that looks at a place, whatever happens there meanwhile."""
        outcomes: dict[tuple[Place, int | None], Outcome] = {}
        todo, seen = [(place, look, ())], {(place, look)}
        for here, read, texts in todo:
            for text, after, looks, offers in self._goes_on(here, read):
                steps = [(text, after, looks)]
                if looks is not None:  # what ends after the last read might as well end after the commit
                    steps += [(end, ended, read) for end, ended in self._ends(here, True)]
                elif offers is not None or after.gate == PASSED or not after.asked:
                    # Else a message has ended meanwhile, and asks again: as if there had been no transaction.
                    outcomes.setdefault((after, offers), Outcome((*texts, text), after, offers))
                for what, then, reads in steps:
                    if reads is not None and (then, reads) not in seen:
                        seen.add((then, reads))
                        todo.append((then, reads, (*texts, what)))
        return list(outcomes.values())

    def _offered(self, state: Group, number: int, gate: Gate, look: Look, place: Place, offers: int | None) -> Group:
        """The state after a transaction at the gate that has offered the place to the kernel, or not."""
        if offers is None:
            return state.having(number, place)
        following, waiting = _skipped(*gate) if look.skips and not offers else offered(*gate, ((number, offers),))
        known = dict(waiting)
        places = tuple(
            _at_gate_now(one, PASSED if at < following else known.get(at, OPEN))
            for at, one in enumerate(state.having(number, place).places, 1)
        )
        return Group(places, None, state.coming)

    # ---- the rules that broken variants break

    def asks(self, *, published: bool, read: bool) -> bool:
        """Whether the transaction that ends a message asks the gate to look at its place.

        Args:
            published: it published children or results.
            read: a turn that hasn't committed has read a request for the place.
        """
        return True

    def closed(self, look: Look) -> bool:
        """Whether the gate's turn takes the place for closed."""
        return not look.alive

    def reopened(self, place: Place) -> Place:
        """A place with a requeued message: what the gate has of it is taken back, a void or results."""
        return place if place.gate == OPEN else place._replace(placed=place.placed + place.gate, gate=OPEN)

    def looked_at(self, place: Place) -> Place:
        """A place after the turn has deleted the request that it has read, and no other."""
        return place

    # ---- the laws

    def fault(self, state: Group) -> str | None:
        """The law that a state breaks."""
        looks = 0 if state.looks is None else state.looks[0]
        for number, place in enumerate(state.places, 1):
            if place.gate == PASSED and not place.excused and (place.alive or place.placed):
                what = "something of it is alive" if place.alive else "a result of it is late"
                return f"place {number} has left the gate, nobody skipped it, and {what}"
            if not (place.alive or place.asked or number == looks) and (place.gate == OPEN or place.placed):
                return f"nothing of place {number} is alive, and nobody has asked the gate to look: it waits for ever"
        if self.quiet(state) and not self.empty(state):
            return "nothing is alive, the gate has looked, and a place waits"
        return None

    @staticmethod
    def quiet(state: Group) -> bool:
        """Whether nothing is alive, and the gate has nothing to look at."""
        return state.looks is None and not any(place.alive or place.asked for place in state.places)

    @staticmethod
    def empty(state: Group) -> bool:
        """Whether the gate has passed every place, and no result waits."""
        return all(place.gate == PASSED and not place.placed for place in state.places)


def _ends_in_q(place: Place) -> Iterator[tuple[str, Place, bool]]:
    """Each way in which the message can end in Q, and whether it publishes."""
    if not place.in_q:
        return
    ended = place._replace(in_q=False)
    for (children, results), text in _ENDS_IN_Q.items():
        yield text, ended._replace(in_t=children, placed=place.placed + results), bool(children or results)
    yield "message {} becomes a dead letter of Q", ended._replace(dead_in_q=True), False


def _ends_in_t(place: Place) -> Iterator[tuple[str, Place, bool]]:
    """Each way in which a child can end in T, and whether it publishes."""
    if not place.in_t:
        return
    ended = place._replace(in_t=place.in_t - 1)
    for results, text in _ENDS_IN_T.items():
        if place.placed + results <= _MOST_RESULTS:
            yield text, ended._replace(placed=place.placed + results), bool(results)
    yield "a child of {} becomes a dead letter of T", ended._replace(dead_in_t=place.dead_in_t + 1), False


@cache
def _at_gate_now(place: Place, gate: int) -> Place:
    return place._replace(gate=gate).tidy()


# ---- what the kernel decides

_GATE = remembering(Standard(hole_timeout="100s", on_hole="wait"))
_ONE = np.zeros(1, np.int64)

#: Places that wait at the gate, by number: the weight that they were offered with.
Waiting = tuple[tuple[int, int], ...]
#: The gate's next number, and what waits there.
Gate = tuple[int, Waiting]


def _at_gate(places: tuple[Place, ...]) -> Gate:
    """The gate's next number, and what waits there."""
    passed = sum(place.gate == PASSED for place in places)
    waiting = [(number, place.gate) for number, place in enumerate(places, 1) if place.gate >= 0]
    return passed + 1, tuple(waiting)


def _known(following: int, waiting: Waiting) -> State:
    """The kernel's state of the gate's group. Ordinals begin at 0: the kernel adds to what there was."""
    held = np.array([(number, weight) for number, weight in waiting if weight], np.int64).reshape(-1, 2)
    none, no = np.zeros(len(held), np.int64), np.zeros(len(held), np.bool_)
    voids = np.array([number for number, weight in waiting if not weight], np.int64)
    state = resequence.new_state(_GATE, 1).with_groups(
        next=_ONE + following, flags=_ONE + Flag.BEGUN, clock=_ONE, since=_ONE if len(held) else _ONE + NEVER
    )
    return state.having(
        held=Held(none, held[:, 0], held[:, 0], no, no, none, held[:, 1], none, none),
        skipped=Ranges(np.zeros(len(voids), np.int64), voids, voids),
    )


def _read(outcome: resequence.Outcome, before: int, weights: dict[int, int]) -> Gate:
    """The gate's next number and what waits there afterwards; checks that the kernel has kept the order and counted the weights."""
    state, decided = outcome.state, outcome.decided
    following = int(state.groups.next[0])
    left = decided.take(decided.disposition == Disposition.RELEASED)
    others = decided.take(decided.disposition != Disposition.RELEASED)
    assert (others.disposition == Disposition.VOID).all()
    numbers = left.sequence.tolist()
    assert numbers == [number for number in range(before, following) if weights.get(number)]
    ordinals = np.cumsum([1] + [weights[number] for number in numbers]).tolist()
    assert [*left.ordinal.tolist(), int(state.groups.ordinal[0]) + 1] == ordinals
    ahead = state.skipped.take(state.skipped.first >= following)
    waiting = dict(zip(state.held.sequence.tolist(), state.held.weight.tolist(), strict=True))
    for first, last in zip(ahead.first.tolist(), ahead.last.tolist(), strict=True):
        waiting |= dict.fromkeys(range(first, last + 1), 0)
    assert waiting == {number: weight for number, weight in weights.items() if number >= following}
    assert (state.groups.since[0] != NEVER) == any(waiting.values())
    return following, tuple(sorted(waiting.items()))


@cache
def offered(following: int, waiting: Waiting, offers: Waiting) -> Gate:
    """The gate's next number and what waits there, after places were offered with their weights."""
    if not offers:
        return following, waiting
    numbers, weights = np.array(offers, np.int64).T
    none = np.zeros(len(numbers), np.int64)
    arrivals = Arrivals(none, numbers, 100 + np.arange(len(numbers)), none, none + NOT_SAID, weights, none)
    outcome = resequence.offer(_GATE, _known(following, waiting), arrivals)
    return _read(outcome, following, dict(waiting + offers))


@cache
def _skipped(following: int, waiting: Waiting) -> Gate | None:
    """The gate's next number and what waits there, after that number was skipped; None if the kernel sees no hole."""
    try:
        outcome = actions.skip_hole(_GATE, _known(following, waiting), 0, "group", following)
    except ActionRefused:
        return None
    return _read(outcome, following, dict(waiting))


@cache
def _check_taking_back(following: int, waiting: Waiting, number: int) -> None:
    """Check that the kernel takes back a place that waits, void or results, so that the rest waits as before."""
    state = actions.put_back(_GATE, _known(following, waiting), np.array([number]))
    state = state.having(held=state.held.take(state.held.sequence != number))
    rest = tuple(one for one in waiting if one[0] != number)
    assert _read(resequence.Outcome(*resequence.settle(_GATE, state, _ONE)), following, dict(rest)) == (following, rest)


@cache
def _place_in_fifo(number: int, *, intact: bool) -> requeue.RequeuePosition:
    return requeue.place(Fifo(), 0, None, number, intact=intact)
