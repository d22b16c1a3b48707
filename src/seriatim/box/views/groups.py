"""List groups and their states. Reads without locks; one statement reads all of a group, so that it counts no entry twice.

A page reads the next groups by queue and key, and of these those that fit; where that fills no page, it reads on. Groups that
may be stopped have an index of their own.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.turns.positions import positions_in
from seriatim.box.views import listing
from seriatim.box.views.listing import Listing, When
from seriatim.errors import NotFound, UsageError, shown
from seriatim.kernel.groups.positions import shown_position
from seriatim.kernel.groups.sequence import MAX_KEY_BYTES, key_problem
from seriatim.kernel.groups.states import STOPPED, TRIED_AGAIN, GroupState
from seriatim.kernel.groups.verbs import Action, Situation
from seriatim.kernel.values.outcome import REASONS, Reason
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.moment import local
from seriatim.pipeline.text.storable import checked_text


@dataclass(frozen=True, slots=True)
class GroupView:
    """The present state of a group.

    Args:
        queue: the queue's name.
        group: its key.
        state: its state.
        since: the time from which it has this state, as far as known; None if it was never judged.
        locked: whether a receiver has it; `state` shows that only if nothing else stops the group.
        locked_by: the server process that has the lock.
        next: the next number to leave; None if its policy has no numbers.
        arrived: messages that aren't judged yet.
        held: messages that wait for other messages, or for an operator.
        queued: messages that are released and not handed out.
        in_hand: messages that the queue's pipeline has in hand; a worker's messages are counted as before it got them.
        hole_since: the time from which it waits for a missing number; None if it doesn't wait.
        hole_through: the last missing number; the first is `next`.
        last_released: the sequence of the last released message; microseconds if the queue orders by time; text if by position, which is
            in hexadecimal digits if it isn't text itself.
        ordinal: the number of released messages.
        incarnation: its incarnation, from 0; a forgotten group that comes again has a higher one.
        due_at: the time of its next timer or of its next delayed message.
        touched_at: the time when it was last handed out or judged; None: never.
        suspended_by: the actor who suspended it; None if it isn't suspended, or a rule of order suspended it.
        suspended_because: the actor's reason; or the rule, with the sequence of the late message.
        error: the handler's error that stopped it or that will be retried; None if there is none.
        leased_by: the worker that has it under a lease; None if there is no lease.
        leased_until: the end of that lease, unless its worker renews it.
        late: the number of held messages that are late.
        retry_at: the time of the failed message's next attempt; None if no message waits for an attempt.
        obeyed: False if its suspension begins only at the end of the present turn.
        locked_name: the name that the connection with the lock told the server (`application_name`): for a connection of
            seriatim's, its machine and process.
        locked_host: the address of that connection's client; None if it is on the server's machine.
        locked_idle_s: the seconds for which that connection has executed nothing in its transaction; None: it executes something, or the
            caller may not see it.
        due_in_s: seconds until `due_at`, if its clock began while the database's clock was ahead: then it is due later than
            it should be. None: that isn't so.
        suspects: how many messages below `next` count as those of a producer that has begun anew, since a message left in
            its turn.
        restart_suspected: whether they are as many as the queue's `restart_after`.
        closing: whether it was told to close: it is closed when it holds nothing.
        unopened: whether it waits for a message that opens it.
        postponed: how many times its first message was postponed; None if that isn't postponed now.
        postponed_until: when its first message is handed out again, which a receiver has postponed.
        places: of a gate: the number of places that haven't passed it: they are open, or wait for one that is.
        open_places: of a gate: the number of places that are open, because a message of theirs is on the way to the gate.
        open_number: of a gate: the number of the first open place; None: none is open.
        open_since: of a gate: the time from which the first open place has its oldest message in the queue where that is.
        stands: whether it stands still: suspended, faulted, or with a hole that is older than its time-out, or than a minute.
        regions: the name of the two regions whose journal decides what is over in its queue; None: this box decides.
        gathers: what it waits for because it doesn't know its first number: ``"settling"`` (until `due_at`), ``"base"`` or ``"reset"``;
            None: it knows it, or holds nothing.
    """

    queue: str
    group: str
    state: GroupState
    since: datetime | None
    locked: bool
    locked_by: int | None
    next: int | None
    arrived: int
    held: int
    queued: int
    in_hand: int
    hole_since: datetime | None
    hole_through: int | None
    last_released: int | str | None
    ordinal: int
    incarnation: int
    due_at: datetime | None
    touched_at: datetime | None
    suspended_by: str | None
    suspended_because: str | None
    error: str | None
    leased_by: str | None = None
    leased_until: datetime | None = None
    late: int = 0
    retry_at: datetime | None = None
    obeyed: bool = True
    locked_name: str | None = None
    locked_host: str | None = None
    locked_idle_s: float | None = None
    due_in_s: float | None = None
    suspects: int = 0
    restart_suspected: bool = False
    closing: bool = False
    unopened: bool = False
    postponed: int | None = None
    postponed_until: datetime | None = None
    places: int | None = None
    open_places: int | None = None
    open_number: int | None = None
    open_since: datetime | None = None
    stands: bool = False
    regions: str | None = None
    gathers: str | None = None

    @property
    def waiting(self) -> int:
        """The number of its messages."""
        return self.arrived + self.held + self.queued + self.in_hand

    @property
    def reason(self) -> str | None:
        """The reason and the actor of its suspension, fault or retry, or the reason why it waits; None if there is none."""
        if self.state is GroupState.SUSPENDED and self.suspended_by is not None:
            return f"{self.suspended_by}: {self.suspended_because}"
        if self.state is GroupState.SUSPENDED:
            return self.suspended_because
        if self.state is GroupState.FAULTED or self.tries_again:
            return self.error
        if self.is_postponed:
            return self.postponement
        if self.state is GroupState.WAITING and (self.unopened or self.gathers is not None):
            return "not opened" if self.unopened else self.gathering
        return self.clock_was_ahead or self.restart

    @property
    def gathering(self) -> str:
        """What it waits for that says where it begins."""
        if self.gathers == "settling" and self.due_at is not None:
            return f"settles until {self.due_at.astimezone().isoformat(' ', 'milliseconds')}"
        return f"waits for {'the base' if self.gathers == 'base' else 'a reset'}"

    @property
    def restart(self) -> str | None:
        """The evidence that its producer has begun anew; None: there is none."""
        if not self.restart_suspected:
            return None
        return f"its producer seems to have begun anew: {counted(self.suspects, 'message')} below its next number"

    @property
    def clock_was_ahead(self) -> str | None:
        """The time until its timer is due, if its clock began while the database's clock was ahead; None if it didn't."""
        if self.due_in_s is None or self.state not in TRIED_AGAIN:
            return None
        hours, minutes = divmod(int(self.due_in_s) // 60, 60)
        return f"due in {f'{hours} h ' if hours else ''}{minutes} m: the clock was ahead"

    @property
    def tries_again(self) -> bool:
        """Whether it waits only for the next attempt."""
        return self.retry_at is not None and self.state in TRIED_AGAIN

    @property
    def is_postponed(self) -> bool:
        """Whether its first message is postponed, and nothing else stops it."""
        return self.postponed_until is not None and self.state in TRIED_AGAIN

    @property
    def postponement(self) -> str | None:
        """Until when its first message is postponed, and how often it was; None if it isn't postponed."""
        return postponement_of(self.postponed_until, self.postponed)

    @property
    def situation(self) -> Situation:
        """The facts that decide which actions it allows."""
        late = self.late > 0 and self.suspended_by is None
        return Situation(
            self.state,
            by_message=self.state is GroupState.FAULTED or (self.state is GroupState.SUSPENDED and late),
            tries_again=self.tries_again or self.is_postponed or self.clock_was_ahead is not None,
            leased=self.leased_by is not None,
            in_turn=not self.obeyed,
            unopened=self.unopened,
            postponed=(self.is_postponed and self.hole_since is None) or self.gathers is not None,
            regional=self.regions is not None,
        )

    def allows(self, action: Action) -> bool:
        """Whether the group allows an action now, by its state and other conditions."""
        return self.situation.allows(action)


@dataclass(frozen=True, slots=True)
class GroupFilter(Listing):
    queue: str | None = listing.queue("groups of this queue")
    _: KW_ONLY
    state: GroupState | str | Iterable[GroupState | str] | None = listing.choice(
        "groups in this state", GroupState, "a state of groups", many=True
    )
    standing: bool = listing.flag(
        "Only groups that stand still: suspended or faulted ones, and holes from their time-out on, or without one after a minute.",
        label="Without groups that have just begun to wait",
    )
    key: str | None = listing.key("groups with a key that matches")
    error_class: str | None = listing.error_class("groups that an error of this class has stopped")
    error: str | None = listing.error("groups with this text in the reason for which they stopped")
    older_than: float | str | None = listing.period(
        "groups that have been in their state for longer", label="In this state for longer than", example="5m"
    )
    since: When | None = listing.since("groups that have been in their state")
    until: When | None = listing.until("groups that have been in their state")
    properties: Mapping[str, object] | None = listing.properties("groups that have a message")
    suspected: bool | None = listing.given(
        "Whether groups whose producer seems to have begun anew are listed: True: in any state; False: never; None: like others."
    )
    after: tuple[str, str] | None = listing.place(lambda one: (one.queue, one.group), "after_queue", "after_key")
    limit: int = listing.limit("groups", 1000)

    @property
    def states(self) -> frozenset[GroupState] | None:
        found = self.parameters()["state"]
        return None if found is None else frozenset(map(GroupState, found))


def postponement_of(until: datetime | None, times: int | None) -> str | None:
    """Return until when a message is postponed, and how often it was; None if it isn't postponed."""
    if until is None:
        return None
    return f"postponed until {local(until)} ({counted(times or 1, 'time')})"


def group_of(transaction: Transaction, queue: str, group: str) -> GroupView:
    found = groups_of(transaction, GroupFilter(queue), [checked_text(group, "a group's key")])
    if not found:
        raise NotFound(
            f"there is no group {group!r} in queue {queue!r}",
            remedy="it has no messages, and keeps nothing of former ones; see the groups",
        )
    return found[0]


def new_group(queue: str, group: str) -> GroupView:
    """A group of which no message has come yet. Raises `UsageError` for a key that no group can have."""
    if (problem := key_problem(group)) is not Reason.NONE:
        raise UsageError(
            f"{shown(group, 60)} can't be the key of a group: {REASONS[problem]}", remedy="text of at most 1 KiB"
        )
    numbers = {"next": None, "arrived": 0, "held": 0, "queued": 0, "in_hand": 0, "ordinal": 0, "incarnation": 0}
    facts = (
        "since",
        "locked_by",
        "hole_since",
        "hole_through",
        "last_released",
        "due_at",
        "touched_at",
        "suspended_by",
    )
    unknown = dict.fromkeys((*facts, "suspended_because", "error"))
    return GroupView(queue, group, GroupState.READY, locked=False, **numbers, **unknown)  # type: ignore[arg-type]


def groups_of(transaction: Transaction, chosen: GroupFilter, groups: Sequence[str] | None = None) -> list[GroupView]:
    """List groups by queue and key; `groups`: only those with these keys, which are all read at once."""
    parameters = chosen.parameters() | {
        "group_keys": None if groups is None else list(groups),
        "among": _among(chosen.states, suspected=bool(chosen.suspected)),
        **_bounds(chosen.key),
    }
    found: list[GroupView] = []
    after, limit = chosen.after, chosen.limit
    most = limit if groups is None else _ALL_NAMED
    while True:
        after_queue, after_key = after or (None, None)
        place = {"after_queue": after_queue, "after_key": after_key, "most": most, "limit": limit - len(found)}
        rows = transaction.rows("groups", dict, **parameters | place)
        fit = [_view(row) for row in rows if row["group"] is not None]
        found += fit
        if len(found) == limit or not rows or rows[0]["read"] < most:
            return found
        after = (rows[0]["last_queue"], rows[0]["last_group"])
        # As many as are needed if the next ones fit as often, and a quarter more.
        wanted = most * 4 if not fit else (limit - len(found)) * most * 5 // (len(fit) * 4) + 1
        most = min(wanted, most * 4, _MOST_READ)


#: The most groups that one statement reads; where few of them fit, the next reads up to four times as many.
_MOST_READ = 20_000
#: Groups that are named are all read at once.
_ALL_NAMED = 2**31 - 1
#: No key is above that, or above the same after the key's beginning.
_ABOVE_KEYS = chr(sys.maxunicode) * (MAX_KEY_BYTES // 4 + 1)


def _view(row: Mapping[str, Any]) -> GroupView:
    its = {name: value for name, value in row.items() if name not in ("last_queue", "last_group", "read", "positions")}
    if row["positions"] and row["last_released"] is not None:  # it is a rank in these
        its["last_released"] = shown_position(positions_in(row["positions"])[row["last_released"]])
    return GroupView(**its | {"state": GroupState(row["state"])})


def _among(states: frozenset[GroupState] | None, *, suspected: bool) -> str:
    """Return the groups that include those in these states: there is an index of groups that may be stopped, or are faulted."""
    if not states or not states <= STOPPED:
        return "all"
    return "faulted" if states == {GroupState.FAULTED} and not suspected else "standing"


def _bounds(glob: str | None) -> dict[str, str]:
    """The lowest key that a pattern can match, and a key above all that it can match."""
    beginning = re.split(r"[*?]", glob or "", maxsplit=1)[0]
    last = ord(beginning[-1]) if beginning else sys.maxunicode
    if last in (ord("\ud7ff"), sys.maxunicode):  # the next character isn't simply the next number
        return {"lowest": beginning, "below": beginning + _ABOVE_KEYS}
    return {"lowest": beginning, "below": beginning[:-1] + chr(last + 1)}
