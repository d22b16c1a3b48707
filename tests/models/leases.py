"""A model of the door: two callers, one group of three messages, and leases on it.

A request and its answer may each be lost, come late, or come again. So a request that its caller may have sent can reach the box at any time
from then on, any number of times or never, and what a caller knows is what it has worked on itself. An aborted transaction is a request that
hasn't come. A state is what is committed:

* the leases, in the order in which they were handed out: whose, for which attempt, from which message on, how many are done, how many its
  holder has worked on, which calls were applied, and whether it is over;
* how many attempts each caller has begun.

A caller asks for a lease again with the id of its attempt; works on the next message of a lease; completes what it has worked on, by the
position of the last one; says that the next one failed; renews, or gives back. The other caller may send the same on this lease: it knows the
id. A lease may run out at any time.

Laws: one lease at a time is not over; messages are done in order, once, and only if their holder has worked on them; an attempt has one lease;
a call that was applied isn't told that the lease is over, and nothing is told to be done that isn't.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.models.search import Label, Model

__all__ = ["Box", "Door", "Lease"]

_CALLERS = "AB"
_VERBS = ("complete", "fail", "renew", "give back")


class Lease(NamedTuple):
    """A lease: `start` messages were done when it was handed out; `applied`: the calls that changed it."""

    owner: str
    attempt: int
    start: int
    done: int = 0
    worked: int = 0
    applied: tuple[tuple[str, int], ...] = ()
    over: bool = False
    #: Whether the id of the attempt is committed with it.
    noted: bool = True


class Box(NamedTuple):
    """A state; `begun`: the attempts of each caller; `times`: how often each message was done; `lie`: the wrong answer that was given."""

    leases: tuple[Lease, ...] = ()
    begun: tuple[int, ...] = (0, 0)
    times: tuple[int, ...] = (0, 0, 0)
    lie: str | None = None

    def having(self, at: int, lease: Lease) -> Box:
        """The state with another lease in a place."""
        return self._replace(leases=(*self.leases[:at], lease, *self.leases[at + 1 :]))


class Door(Model[Box]):
    """The rules of the door; broken variants override them."""

    def __init__(self, leases: int = 3, attempts: int = 2, messages: int = 3) -> None:
        self._most = leases
        self._attempts = attempts
        self._messages = messages
        self.start = Box(times=(0,) * messages)

    # ---- the rules

    def is_holder(self, lease: Lease, caller: str) -> bool:
        """Whether a caller may act on a lease."""
        return lease.owner == caller

    def stored(self, lease: Lease, verb: str, at: int) -> bool:
        """Whether the answer of this call is kept."""
        return (verb, at) in lease.applied

    def handed_out(self, caller: str, attempt: int, start: int) -> Iterator[Lease]:
        """What a hand-out may commit."""
        yield Lease(caller, attempt, start)

    # ---- what can happen

    def steps(self, state: Box) -> Iterator[tuple[Label, Box]]:
        """All that can happen next."""
        for place, caller in enumerate(_CALLERS):
            begun = state.begun[place]
            if begun < self._attempts:
                more = tuple(count + (at == place) for at, count in enumerate(state.begun))
                yield (("caller {} begins an attempt",), caller), state._replace(begun=more)
            for attempt in range(1, begun + 1):
                yield from self._asked(state, caller, attempt)
        for at, lease in enumerate(state.leases):
            if lease.start + lease.worked < self._messages:
                yield (
                    (("the holder of lease {} works on its next message",), at),
                    state.having(at, lease._replace(worked=lease.worked + 1)),
                )
            if not lease.over:
                yield (("lease {} runs out",), at), state.having(at, lease._replace(over=True))
            for caller in _CALLERS:
                for verb in _VERBS:
                    for position in self._positions(lease, verb):
                        label = (f"a request of {caller} comes: {verb} at {position} of lease {{}}",), at
                        yield label, self._called(state, at, caller, verb, position)

    def fault(self, state: Box) -> str | None:
        """The law that a state breaks."""
        tried = [(lease.owner, lease.attempt) for lease in state.leases]
        laws = {
            "two leases on one group": sum(not lease.over for lease in state.leases) > 1,
            "a message is done twice": max(state.times) > 1,
            "a message is skipped": list(state.times) != sorted(state.times, reverse=True),
            "a message is done that its holder hasn't worked on": any(one.done > one.worked for one in state.leases),
            "an attempt has two deliveries": len(set(tried)) < len(tried),
        }
        return state.lie or next((law for law, broken in laws.items() if broken), None)

    def _asked(self, state: Box, caller: str, attempt: int) -> Iterator[tuple[Label, Box]]:
        """The request of an attempt comes: its lease, or the next one that is handed out."""
        known = any(lease.noted and (lease.owner, lease.attempt) == (caller, attempt) for lease in state.leases)
        done, busy = sum(state.times), any(not lease.over for lease in state.leases)
        if known or busy or done == self._messages or len(state.leases) == self._most:
            return
        for lease in self.handed_out(caller, attempt, done):
            yield (
                (("attempt {} of caller " + caller + " gets a lease",), attempt),
                state._replace(leases=(*state.leases, lease)),
            )

    def _positions(self, lease: Lease, verb: str) -> Iterator[int]:
        """Where the holder may have sent a call: as far as it has worked, or one further."""
        if verb == "complete":
            yield from range(1, lease.worked + 1)
        elif verb == "fail":
            yield from range(1, min(lease.worked + 1, self._messages - lease.start) + 1)
        else:
            yield 0

    def _called(self, state: Box, at: int, caller: str, verb: str, position: int) -> Box:  # noqa: PLR0911 -- an answer each
        lease = state.leases[at]
        was = (verb, position) in lease.applied
        if not self.is_holder(lease, caller):
            return state
        if self.stored(lease, verb, position) or (verb == "complete" and 0 < position <= lease.done):
            return state if position <= lease.done or was else state._replace(lie="what isn't done is told to be done")
        if 0 < position <= lease.done:
            return state  # it says something else about a position that is done
        if lease.over:
            return state._replace(lie="a call that was applied is told that the lease is over") if was else state
        if caller != lease.owner:
            return state._replace(lie="another principal acts on a lease")
        if verb == "renew":
            return state
        through = {"complete": position, "fail": position - 1}.get(verb, lease.done)
        times = list(state.times)
        for message in range(lease.start + lease.done, min(lease.start + through, self._messages)):
            times[message] += 1
        ends = verb != "complete" or lease.start + through >= self._messages
        after = lease._replace(done=through, applied=(*lease.applied, (verb, position)), over=ends)
        return state.having(at, after)._replace(times=tuple(times))
