"""A turn: the kernel judges messages of some groups of a queue, and the result is written to the box.

This module converts rows of the box to the kernel's columns and back. The kernel makes every decision; this module
knows no connections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from seriatim.box.definitions import marks
from seriatim.box.definitions.meaning import BARE, OVERLAPS, PARTIAL, TOLD, UNWRAPPED, Meanings
from seriatim.box.postgres.array_text import numbers
from seriatim.box.turns import positions
from seriatim.box.turns.partial_reading import EVERYTHING, ArrivedNumbers, HeldPart, go_on
from seriatim.box.turns.turn_result import PLAIN, ActedGroup, ActionResult, HandedMessages, TurnResult
from seriatim.box.turns.turn_rows import (
    ARRIVED,
    HELD,
    LOOKED_UP,
    QUEUED,
    Entries,
    TurnRows,
    lives_of,
    lives_written,
    pairs_of,
    remembered_of,
    state_rows,
    written_down,
)
from seriatim.errors import ActionRefused
from seriatim.kernel import resequence as kernel
from seriatim.kernel.groups.arrivals import NOT_SAID, Arrivals
from seriatim.kernel.groups.numbers import IN_LINE, OF_ENDED, VOID, by_position
from seriatim.kernel.groups.policy import (
    BestEffort,
    Fifo,
    Policy,
    Standard,
    StandardNumbers,
    StandardStays,
    Stays,
    UnitOfWork,
)
from seriatim.kernel.groups.state import STOPPING, Flag, Groups, Held, Ranges, Remembered, State
from seriatim.kernel.groups.verbs import Action
from seriatim.kernel.operators import actions
from seriatim.kernel.values.columns import Bools, Columns, Ints, first_per_group, order_by, rank_in_group, running_max
from seriatim.kernel.values.outcome import REASONS, Decided, Disposition, Events, MessageRows, Reason, runs_of
from seriatim.kernel.values.time import FOREVER, NEVER

#: The time of visibility of a message that waits for an operator.
_NEVER = 2**63 - 1
#: How long a full gate isn't asked again, microseconds: at least, at most, and as a part of how long a message has waited.
_SHORTEST_REST, _LONGEST_REST, _REST_OF = 1_000_000, 60_000_000, 60


@dataclass(frozen=True, slots=True)
class _LeavingMessages(Columns):
    """Released messages in the order in which they leave. `row`: of `Entries`; `fresh`: by this turn; `visible`: when, microseconds."""

    place: Ints
    row: Ints
    ordinal: Ints
    late: Bools
    fresh: Bools
    visible: Ints


@dataclass(frozen=True, slots=True)
class _NumbersNow:
    """What is known of the numbers of entries after a turn, of which more than before, and what partial sets lack, by row."""

    sequence: Ints
    meanings: Meanings
    changed: Bools
    lacks: Mapping[int, Sequence[int]]

    @property
    def sequences(self) -> list[int | None]:
        return [
            None if bits & BARE else number
            for number, bits in zip(self.sequence.tolist(), self.meanings.bits.tolist(), strict=True)
        ]

    def of(self, what: str, rows: Ints) -> dict[str, list[Any]]:
        """The parameters of ``decide`` for some rows: None for what stays."""
        changed, sequences = self.changed[rows].tolist(), self.sequences
        texts = self.meanings.take(rows).texts([self.lacks.get(row, ()) for row in rows.tolist()])
        return {
            f"{what}_sequences": [
                sequences[row] if new else None for row, new in zip(rows.tolist(), changed, strict=True)
            ],
            f"{what}_meanings": [text if new else None for text, new in zip(texts, changed, strict=True)],
        }


class Turn:
    """Some groups of one queue, which the caller has locked, at one moment."""

    def __init__(
        self,
        policy: Policy,
        rows: TurnRows,
        now: int,
        at_most: int,
        *,
        most_arrived: int = EVERYTHING,
        most_held: int = EVERYTHING,
        most_whole: int = EVERYTHING,
        is_all: bool = True,
        means: bool = False,
    ) -> None:
        #: The positions of which sequences and states are ranks; None: they are numbers.
        self._positions: list[bytes] | None = None
        if by_position(policy):
            rows, self._positions = positions.with_ranks(policy, rows)
        keys, entries = rows.keys, rows.entries
        self._policy = policy
        #: Whether a long run may leave in several turns. Where messages open and close groups, or
        #: numbers mean something, all held messages are read.
        self._goes_in_parts = isinstance(policy, Standard) and not isinstance(policy, StandardStays) and not means
        #: Whether the sets of a group follow one another.
        self._begins_again = isinstance(policy, UnitOfWork) and not policy.once
        #: What numbers mean; None: they are plain.
        self._meanings = Meanings.of(entries.meaning, entries.sequence) if means else None
        self._read = rows
        self._keys = keys
        self._known = {row.group_key: row for row in rows.known}
        self._entries = entries
        self._now = now
        #: The most messages of each group that are handed out; 0: the groups are only judged.
        self._at_most = at_most
        #: The most messages of a group that are all read where the time of the first of them matters.
        self._most_whole = most_whole
        self._requests = rows.requests
        #: For groups of an origin queue the first ordinals that aren't handed out, because the gate is full; None: another queue.
        self.bounds: Ints | None = None
        held = self._first_of(_held_of(entries))
        #: The rows of arrivals that are taken in.
        self._arrived = self._first_of(np.flatnonzero(entries.status == ARRIVED))
        #: The row of each message that the kernel gets: its refs are places in this array.
        self._rows = np.concatenate([held, self._arrived])
        self._held = len(held)
        #: For each group how many arrivals are taken back.
        self._taken_back: Ints | int = 0
        self._arrivals = np.array([row.arrivals if (row := self._known.get(key)) else 0 for key in keys], np.int64)
        arrived = np.bincount(entries.place[self._arrived], minlength=len(keys))
        self._come = ArrivedNumbers(arrived, _told(entries.take(self._arrived), len(keys)))
        #: Groups of which more can be taken in by another turn.
        self._more = arrived >= most_arrived
        #: Groups of which more may have arrived: no timer fires before all of that is taken in.
        self._unknown = self._more | (not is_all)
        counts = self._arrivals - np.array(
            [sum(row.decided) if (row := self._known.get(key)) else 0 for key in keys], np.int64
        )
        start = self._state()
        looked_up = entries.status[held[start.held.ref]] == LOOKED_UP
        self._part = HeldPart.of(start.held, looked_up, counts, most_held)
        self._start = start
        if isinstance(policy, Standard) and policy.capacity is not None and not self._part.is_whole:
            # Unread messages take up room, too; a group that holds any has none left at 1 either.
            self._policy = replace(policy, capacity=max(policy.capacity - int(self._part.hidden[0]), 1))

    def is_short(self, *, acts: bool = False) -> bool:
        """Whether the held messages that were read aren't enough to decide; then all have to be read."""
        acts = acts or bool(self._requests)
        return self._part.is_short(
            self._policy, self._start, self._come, self._now, acts=acts, most_whole=self._most_whole
        )

    def judge(self) -> TurnResult:
        return self._written(self._called())

    def put_back(self, numbers: Mapping[str, Sequence[int]]) -> None:
        """Forget that messages with these numbers, by group, were taken out: they are among the arrivals."""
        places = {key: place for place, key in enumerate(self._keys)}
        pairs = sorted({(places[key], number) for key, its in numbers.items() for number in its})
        group, number = np.array(pairs, np.int64).reshape(-1, 2).T
        self._take_back(group, number)

    def _take_back(self, group: Ints, number: Ints) -> None:
        self._start = actions.put_back(self._policy, self._start, number, group)

    def act(
        self, action: Callable[..., kernel.Outcome], *, empties: bool = False, entry_id: int | None = None
    ) -> ActionResult:
        """Perform an operator's action on the turn's one group, after judging as in `judge`."""
        first = self._called()
        before = actions.state_of(self._policy, first.state)
        named = () if entry_id is None else np.flatnonzero(self._entries.entry_id[self._rows] == entry_id)[:1].tolist()
        then = self._marked(action(first.state, *named), first.state)
        if empties:
            then = self._emptied(first, then)
        judged = self._written(first.then(then), empties=empties)
        released = int(np.count_nonzero(then.decided.disposition == Disposition.RELEASED))
        aside = len(then.decided) - released
        if empties:
            aside = len(judged.changes["aside_ids"]) - int(
                np.count_nonzero(first.decided.disposition != Disposition.RELEASED)
            )
        after = actions.state_of(self._policy, then.state)
        more, faulted = (bool(then.state.groups.has(flag)[0]) for flag in (Flag.LEAVING, Flag.FAULTED))
        passed = int(first.state.groups.next[0])
        return ActionResult(judged, before, after, released, aside, passed, more, faulted, first.events, then.events)

    def act_each(
        self, action_of: Sequence[Callable[[State], kernel.Outcome] | None]
    ) -> tuple[TurnResult, Events, list[ActedGroup | ActionRefused]]:
        """Perform an operator's action on each group of the turn, after judging as in `judge`."""
        first = self._called()
        parts: list[kernel.Outcome] = []
        done: list[ActedGroup | ActionRefused] = []
        for place, action in enumerate(action_of):
            state = first.state.select(np.array([place], np.int64))
            before = actions.state_of(self._policy, state)
            part = kernel.Outcome.unchanged(state)
            try:
                part = part if action is None else action(state)
            except ActionRefused as error:
                done.append(error)
            else:
                released = int(np.count_nonzero(part.decided.disposition == Disposition.RELEASED))
                after, aside = actions.state_of(self._policy, part.state), len(part.decided) - released
                done.append(ActedGroup(before, after, released, more=False, set_aside=aside))
            decided = part.decided.with_columns(group=np.full(len(part.decided), place, np.int64))
            events = part.events.with_columns(group=np.full(len(part.events), place, np.int64))
            parts.append(kernel.Outcome(part.state, decided, events))
        whole = kernel.Outcome(
            State.join([part.state for part in parts]),
            Decided.concat([part.decided for part in parts]),
            Events.concat([part.events for part in parts]),
        )
        then = self._marked(whole, first.state)
        leaving = then.state.groups.has(Flag.LEAVING).tolist()
        told = [
            replace(one, more=leaving[place], caused=then.events.take(then.events.group == place))
            if isinstance(one, ActedGroup)
            else one
            for place, one in enumerate(done)
        ]
        return self._written(first.then(then)), first.events, told

    def _emptied(self, first: kernel.Outcome, then: kernel.Outcome) -> kernel.Outcome:
        """Return the result of an action with which queued messages become dead: their numbers count as skipped."""
        line = self._line(Decided.concat([first.decided, then.decided]), None)
        numbers = self._entries.sequence[line.row]
        state = actions.take_out(self._policy, then.state, self._now, self._keys[0], numbers).state
        return kernel.Outcome(state, then.decided, then.events)

    def _called(self, *, clocked: bool = True) -> kernel.Outcome:
        """Call the kernel: requests, messages that have been leaving, arrivals, and then, if `clocked`, due timers."""
        outcome = kernel.Outcome.unchanged(self._start)
        if self._requests:
            outcome = self._marked(self._obeyed(outcome), outcome.state)
        more, going = go_on(self._policy, outcome.state)
        if going.any():
            outcome = outcome.then(self._part.marked(more, going, outcome.state.groups.mark))
        outcome = outcome.then(self._taken_in(outcome.state))
        outcome = outcome.then(self._fired(outcome.state)) if clocked else outcome
        # A number that an event has is a rank: of positions it has none.
        return outcome if self._positions is None else replace(outcome, events=outcome.events.without_numbers())

    def _marked(self, stage: kernel.Outcome, before: State) -> kernel.Outcome:
        """Return the result of requests, without the parts that the turn can't know yet."""
        if not self._goes_in_parts:
            return stage
        which = ~before.groups.has(Flag.LEAVING) | (before.stopped() != stage.state.stopped())
        return self._part.marked(stage, which, stage.state.groups.clock)

    def _taken_in(self, state: State) -> kernel.Outcome:
        """The kernel's result for the arrivals, as far as they can be judged by the read messages."""
        if not self._goes_in_parts:
            return kernel.offer(self._policy, state, self._arrivals_in(self._arrived))
        leaves = state.groups.has(Flag.LEAVING)
        rows = self._arrived[~leaves[self._entries.place[self._arrived]]]
        while True:
            arrivals = self._arrivals_in(rows)
            stage = kernel.offer(self._policy, state, arrivals)
            later = arrivals.ref > self._part.beyond(stage, leaves)[arrivals.group]
            if not later.any():
                break
            rows = rows[~later]
        self._arrived = rows
        return self._part.marked(stage, ~leaves, stage.state.groups.clock)

    def _arrivals_in(self, rows: Ints) -> Arrivals:
        refs = self._held + np.searchsorted(self._rows[self._held :], rows)
        sequence = refs if isinstance(self._policy, Fifo) else self._entries.sequence[rows]
        time, weight = self._entries.time[rows], self._weight(rows)
        size = self._bits(rows) if isinstance(self._policy, Stays) else self._entries.size[rows]
        come = Arrivals(self._entries.place[rows], sequence, refs, time, size, weight, self._fingerprints(rows))
        return come if self._meanings is None else self._meant(come, self._meanings.take(rows))

    def _meant(self, come: Arrivals, its: Meanings) -> Arrivals:
        """Arrivals with what their numbers mean, as their producers gave them."""
        if not isinstance(self._policy, StandardNumbers):
            modulus = getattr(self._policy, "modulus", None)
            turned = come.sequence if modulus is None else come.sequence % modulus
            return come.with_columns(sequence=np.where(its.bits & UNWRAPPED != 0, turned, come.sequence))
        bits, sequence, through = its.bits & TOLD, come.sequence, its.through
        if self._policy.modulus is None:
            through = np.maximum(sequence, through)
        else:
            again = its.bits & UNWRAPPED != 0
            sequence = np.where(again, sequence % self._policy.modulus, sequence)
            through = np.where(again, through % self._policy.modulus, through)
        return come.with_columns(
            sequence=sequence,
            size=np.where(bits == 0, NOT_SAID, bits),
            through=through if self._policy.spans else None,
            epoch=its.epoch if self._policy.epochs else None,
        )

    # ---- the rules of a gate: several messages of one number are one arrival (see ``gate_turn.py``)

    def _first_of(self, rows: Ints) -> Ints:
        return rows

    def _weight(self, rows: Ints) -> Ints:
        """Return how many messages each of these rows stands for."""
        if self._meanings is None:
            return np.ones(len(rows), np.int64)
        return (self._meanings.bits[rows] & VOID == 0).astype(np.int64)

    def _messages(self, decided: Decided) -> tuple[Decided, Ints]:
        """The messages of decided rows: a row for each, and its row among the entries."""
        return decided, self._rows[decided.ref]

    def _stored(self, held: Held) -> tuple[Held, Ints]:
        """The held messages that are stored: a row for each, and its row among the entries."""
        return held, self._rows[held.ref]

    def _passed(self, after: State) -> Ranges:
        """The numbers that groups pass without a message, as they are stored."""
        return after.skipped

    def _come_in(self) -> Ints:
        return self._arrived

    def _counted_by(self, decided: Decided, groups: int, kinds: int) -> Ints:
        """How many messages of each group had each disposition; of shape (groups, kinds)."""
        counts = np.bincount(decided.group * kinds + decided.disposition, minlength=groups * kinds)
        return counts.reshape(-1, kinds)

    @property
    def full(self) -> Sequence[str]:
        """Of a gate the groups whose origin queue had stopped handing out messages, because they had many places; now it may."""
        return ()

    @property
    def _kinds(self) -> int:
        """How many dispositions are counted: only a gate has voids, and a queue whose numbers mean something."""
        return int(Disposition.VOID) + (self._meanings is not None)

    def _fingerprints(self, rows: Ints) -> Ints:
        """The fingerprints of messages; 0 where nothing is compared."""
        if self._begins_again and self._meanings is not None:
            return self._meanings.content[rows]
        if not isinstance(self._policy, Standard):
            return np.zeros(len(rows), np.int64)
        found = marks.fingerprints(self._entries.size[rows])
        return found if self._meanings is None else np.where(self._meanings.bits[rows] & VOID, 0, found)

    def _bits(self, rows: Ints) -> Ints:
        """Whether messages open their groups, or close them."""
        if not isinstance(self._policy, Stays):
            return np.zeros(len(rows), np.int64)
        return marks.bits(self._entries.size[rows])

    def _fired(self, state: State) -> kernel.Outcome:
        """The kernel's result for due timers, if all arrivals are judged."""
        until = np.full(len(self._keys), self._now, np.int64)
        until[self._unknown] = NEVER
        if isinstance(self._policy, BestEffort) and self._policy.window is None:
            # The rest of a round is due at once, but not in the call that was the round.
            until[self._come.messages > 0] = NEVER
        if not self._goes_in_parts:
            return kernel.advance(self._policy, state, until)
        leaves = state.groups.has(Flag.LEAVING)
        until[leaves] = NEVER
        stage = self._part.advanced(self._policy, state, until)
        moments = stage.state.groups.clock.copy()
        moments[stage.decided.group] = stage.decided.cause  # the last one written stays: the last that leaves
        return self._part.marked(stage, ~leaves, moments, fired=True)

    def _obeyed(self, outcome: kernel.Outcome) -> kernel.Outcome:
        """Carry out the requests for locked groups; drop a request that the state no longer allows (a set was completed meanwhile)."""
        for place, _, action in self._requests:
            at = np.array([place], np.int64)
            obey = actions.suspend if action == Action.SUSPEND else actions.resume
            try:
                part = obey(self._policy, outcome.state.select(at), self._now, self._keys[place])
            except ActionRefused:
                continue
            outcome = outcome.then(part.among(outcome.state, at))
        return outcome

    # ---- rows to columns

    def _state(self) -> State:
        fresh = kernel.new_state(self._policy, len(self._keys))
        if not self._known:
            return fresh
        at = np.array([place for place, key in enumerate(self._keys) if key in self._known], np.int64)
        known = [self._known[key] for key in self._keys if key in self._known]
        groups = fresh.groups.put(at, Groups(*np.array([row.state for row in known], np.int64).T))
        entries, rows = self._entries, self._rows[: self._held]
        refs = np.arange(self._held)
        sequence = refs if isinstance(self._policy, Fifo) else entries.sequence[rows]
        time, weight = entries.time[rows], self._weight(rows)
        bits, through, epoch = self._bits(rows), None, None
        if self._meanings is not None and isinstance(self._policy, StandardNumbers):
            its = self._meanings.take(rows)
            bits = its.bits & (TOLD | OF_ENDED | IN_LINE)
            through = its.through if self._policy.spans else None
            epoch = its.epoch if self._policy.epochs else None
        held = Held(
            entries.place[rows], sequence, refs, entries.late[rows], entries.waits[rows], time, weight,
            self._fingerprints(rows), bits, through, epoch,
        )  # fmt: skip
        skipped = [
            (place, first, last)
            for place, row in zip(at.tolist(), known, strict=True)
            for first, last in pairs_of(row.skipped)
        ]
        ranges = Ranges(*np.array(skipped, np.int64).reshape(-1, 3).T)
        compares = isinstance(self._policy, Standard) or self._begins_again
        left = remembered_of(at.tolist(), known) if compares else Remembered.empty()
        state = State(groups, held.take(order_by(held.group, held.sequence)), ranges, left, lives=fresh.lives)
        return lives_of(state, at.tolist(), known)

    # ---- columns to rows

    def _written(self, outcome: kernel.Outcome, *, empties: bool = False) -> TurnResult:
        if self._meanings is not None:
            outcome = self._with_voids(outcome)
        after, decided = outcome.state, outcome.decided
        now = None
        if self._meanings is not None and self._positions is None:
            now = self._numbers_now(self._meanings, outcome)
        line = self._line(decided, None if now is None else now.meanings.epoch)
        dead = line.take(np.full(len(line), empties))
        line = line.take(np.full(len(line), not empties))
        stopped = _kept_back(after.groups)
        if self.bounds is not None:
            far = line.ordinal >= self.bounds[line.place]
            looks = np.maximum(line.visible, self._now + _rest(self._now - self._entries.rank[line.row]))
            line = line.with_columns(visible=np.where(far, looks, line.visible))
        seen = line.visible <= self._now
        # A message that may not be seen yet holds up the ones behind it.
        blocked = running_max(line.place, np.where(seen, -1, np.arange(len(line)))) >= 0
        ready = ~blocked & ~stopped[line.place]
        goes = ready & (rank_in_group(line.place) < self._at_most)
        if self._begins_again and now is not None:  # one set at a time
            its = now.meanings.epoch[line.row]
            first = np.zeros(len(self._keys), np.int64)
            heads = first_per_group(line.place)
            first[line.place[heads]] = its[heads]
            goes &= its == first[line.place]
        stays = line.take(~goes)
        # What is found out about a number would be lost, if a message is put back that leaves at once.
        kept = self._kept(
            after.held, line.take(line.fresh & (~goes if now is None else ~goes | now.changed[line.row])), now
        )
        aside, aside_rows = self._messages(decided.take(decided.disposition != Disposition.RELEASED))
        changes = (
            self._groups(after, decided)
            | self._wakes(after, stays, ready[~goes], stopped)
            | kept
            | {
                "aside_ids": self._entries.entry_id[np.concatenate([aside_rows, dead.row])].tolist(),
                "aside_dispositions": [Disposition(what).word for what in aside.disposition.tolist()]
                + [Disposition.DEAD.word] * len(dead),
                "aside_reasons": [REASONS[Reason(why)] for why in aside.reason.tolist()]
                + [REASONS[Reason.ABORTED]] * len(dead),
                "aside_ordinals": [None] * len(aside) + dead.ordinal.tolist(),
                "aside_counted": _counted(aside, after.groups.ordinal) + [None] * len(dead),
                "obeyed_ids": [*(one.request_id for one in self._requests), *self._read.looks],
            }
            | ({} if now is None else now.of("aside", np.concatenate([aside_rows, dead.row])))
        )
        sequences = None if now is None else now.sequences
        return TurnResult(
            changes,
            self._handed(line.take(goes), sequences if self._positions is None else [None] * len(self._entries)),
            outcome.events,
            len(self._arrived),
            self._has_more(after),
            self._conflicts(aside),
            self._begun(after),
            self._held_s(after),
            self.full,
            int(np.count_nonzero(ready & ~goes)),
            self._timed_out(aside),
        )

    def _timed_out(self, aside: Decided) -> Sequence[list[int]]:
        """The entries of each set that was not complete in time."""
        dead = aside.take(aside.reason == Reason.TIMED_OUT)
        sets: dict[tuple[int, int], list[int]] = {}
        rows = self._entries.entry_id[self._rows[dead.ref]].tolist()
        for group, cause, entry_id in zip(dead.group.tolist(), dead.cause.tolist(), rows, strict=True):
            sets.setdefault((group, cause), []).append(entry_id)
        return tuple(sets.values())

    def _conflicts(self, aside: Decided) -> list[int]:
        """Of each group the entry of the first message that conflicts."""
        found = aside.take(aside.reason == Reason.CONFLICTS)
        if not len(found):
            return []
        _, first = np.unique(found.group, return_index=True)
        return self._entries.entry_id[self._rows[found.ref[first]]].tolist()

    def _begun(self, after: State) -> dict[str, int]:
        """Return how often groups have begun anew by messages: their incarnations rise by that."""
        if not isinstance(self._policy, Stays):
            return {}
        times = (after.groups.mark - self._start.groups.mark).tolist()
        return {key: number for key, number in zip(self._keys, times, strict=True) if number}

    def _held_s(self, after: State) -> list[float]:
        """How long the holes, rounds and sets that have ended had lasted, by the clock of arrival; in seconds."""
        since = self._start.groups.since
        ended = (since != NEVER) & (after.groups.since != since)
        return ((self._now - since[ended]) / 1e6).tolist() if ended.any() else []

    def _has_more(self, after: State) -> bool:
        left = len(self._arrived) < len(self._rows) - self._held
        return left or bool((self._more | after.groups.has(Flag.LEAVING)).any())

    def _line(self, decided: Decided, sets: Ints | None) -> _LeavingMessages:
        """Messages queued before and released now, as they leave. `sets`: by row the set of each, where a group may have several."""
        entries = self._entries
        queued = np.flatnonzero(entries.status == QUEUED)
        new, new_rows = self._messages(decided.take(decided.disposition == Disposition.RELEASED))
        rows = np.concatenate([queued, new_rows])
        line = _LeavingMessages(
            entries.place[rows],
            rows,
            np.concatenate([entries.ordinal[queued], new.ordinal]),
            np.concatenate([entries.late[queued], new.late]),
            np.concatenate([np.zeros(len(queued), np.bool_), np.ones(len(new), np.bool_)]),
            entries.visible[rows],
        )
        line = line.take(order_by(line.place, line.ordinal))
        if not isinstance(self._policy, UnitOfWork):
            return line
        # A set leaves whole, when all of it may be seen. The line of a group is mostly one set.
        its = line.place
        if self._begins_again and sets is not None:
            _, its = np.unique(np.stack([line.place, sets[line.row]]), axis=1, return_inverse=True)
        latest = np.zeros(max(len(self._keys), len(line)), np.int64)
        np.maximum.at(latest, its, line.visible)
        return line.with_columns(visible=latest[its])

    def _groups(self, after: State, decided: Decided) -> dict[str, list[Any]]:
        rows = [self._known.get(key) for key in self._keys]
        groups, kinds = after.groups, self._kinds
        counts = self._counted_by(decided, len(rows), kinds)
        counts += np.array([[*row.decided, 0][:kinds] if row else [0] * kinds for row in rows])
        pairs: list[list[int]] = [[] for _ in rows]
        for place, first, last in zip(*self._passed(after).lists(), strict=True):
            pairs[place] += (first, last)
        new = np.bincount(self._entries.place[self._come_in()], minlength=len(rows))
        if self._positions is None:
            states, remembered = state_rows(groups).ravel().tolist(), written_down(after.remembered, len(rows))
        else:
            states, remembered = positions.written(after, self._positions)
        return {
            "group_keys": list(self._keys),
            "remembered": remembered,
            **PLAIN,
            "lives": lives_written(self._policy, after),
            "states": states,
            "skipped": [numbers(each) for each in pairs],
            "arrivals": (self._arrivals + new - self._taken_back).tolist(),
            "decided": [numbers(each) for each in counts.tolist()],
        }

    def _wakes(self, after: State, stays: _LeavingMessages, ready: Bools, stopped: Bools) -> dict[str, list[Any]]:
        """Return the next time for a turn of each group: its rank if messages are ready, else the time when some will be."""
        due = kernel.due(self._policy, after)
        # A run that is leaving continues at once.
        due = np.where(after.groups.has(Flag.LEAVING), np.minimum(due, after.groups.mark), due)
        ranks: list[int | None] = [None] * len(self._keys)
        heads = np.flatnonzero(first_per_group(stays.place))
        head = stays.take(heads)
        for place, row, visible, is_ready in zip(
            head.place.tolist(), head.row.tolist(), head.visible.tolist(), ready[heads].tolist(), strict=True
        ):
            if is_ready:
                ranks[place] = int(self._entries.rank[row])
            elif not stopped[place] and visible < _NEVER:
                due[place] = min(due[place], visible)
        return {"due_ats": [moment if moment < FOREVER else None for moment in due.tolist()], "ready_ranks": ranks}

    def _with_voids(self, outcome: kernel.Outcome) -> kernel.Outcome:
        """Return the outcome in which a void is decided when its number has passed, and held until then: it is a message of the box."""
        voids = np.flatnonzero(self._weight(self._rows) == 0)
        told = outcome.decided.take(outcome.decided.disposition == Disposition.VOID)
        decided = outcome.decided.take(outcome.decided.disposition != Disposition.VOID)
        number = self._entries.sequence[self._rows]
        number[told.ref] = told.sequence
        gone = np.setdiff1d(voids, np.concatenate([outcome.state.held.ref, decided.ref]))
        rows = MessageRows(self._entries.place[self._rows[gone]], number[gone], gone)
        passed = Decided.of(rows, Disposition.VOID, Reason.LEAVES_NOTHING)
        return kernel.Outcome(outcome.state, Decided.concat([decided, passed]), outcome.events)

    def _numbers_now(self, was: Meanings, outcome: kernel.Outcome) -> _NumbersNow:
        after, decided, events = outcome.state, outcome.decided, outcome.events
        entries, policy = self._entries, self._policy
        sequence, bits = entries.sequence.copy(), was.bits.copy()
        modulus = getattr(policy, "modulus", None)
        turned = 0 if modulus is None else UNWRAPPED
        held, done = after.held, decided.take(decided.disposition != Disposition.INVALID)
        waits = (
            held.bits & (OF_ENDED | IN_LINE) if isinstance(policy, StandardNumbers) else np.zeros(len(held), np.int64)
        )
        for one, more in (
            # In a line they are as their producer gave them.
            (held, np.where(waits & IN_LINE, waits, waits | turned)),
            (done, _flags_of(done.reason) | turned),
        ):
            rows = self._rows[one.ref]
            bits[rows] = was.take(rows).of_turn(more)
            if not isinstance(policy, Fifo):
                sequence[rows] = one.sequence
        through = was.through
        if modulus is not None:
            through = np.where(bits & UNWRAPPED, sequence + (through - entries.sequence) % modulus, through)
        changed = (bits != was.bits) | (sequence != entries.sequence)
        epoch = was.epoch
        if self._begins_again:
            epoch = self._sets(epoch, decided.take(decided.disposition == Disposition.RELEASED))
            changed |= epoch != was.epoch
        now = was.with_columns(bits=bits, through=through, epoch=epoch)
        return _NumbersNow(sequence, now, changed, self._lacks(done, events))

    def _sets(self, before: Ints, left: Decided) -> Ints:
        """By row which set of its group each part that has left is of: the ordinal of the last part. Sets leave by different causes."""
        which = np.stack([left.group, left.cause, left.timed.astype(np.int64)])
        _, its = np.unique(which, axis=1, return_inverse=True)
        last = np.zeros(len(left), np.int64)
        np.maximum.at(last, its, left.ordinal)
        found = before.copy()
        found[self._rows[left.ref]] = last[its]
        return found

    def _lacks(self, done: Decided, events: Events) -> dict[int, list[int]]:
        """What partial sets lack, by the row of the first of their messages."""
        found: dict[int, list[int]] = {}
        for group, at, runs in runs_of(events):
            refs = done.ref[(done.reason == Reason.PARTIAL) & (done.group == group) & (done.cause == at)]
            if len(refs):
                found[int(self._rows[refs[0]])] = [number for run in runs for number in run]
        return found

    def _kept(self, held: Held, queued: _LeavingMessages, now: _NumbersNow | None) -> dict[str, Any]:
        """Return the entries that change and stay: newly held or changed ones, and released ones whose place or number is new."""
        entries = self._entries
        held, rows = self._stored(held)
        new = (held.ref >= self._held) | (held.late != entries.late[rows]) | (held.waits != entries.waits[rows])
        if now is not None:
            new |= now.changed[rows]
        held = held.take(new)
        kept = np.concatenate([rows[new], queued.row])
        return {
            "kept_ids": entries.entry_id[kept].tolist(),
            "kept_statuses": ["held"] * len(held) + ["queued"] * len(queued),
            "kept_arrivals": self._numbers()[kept].tolist(),
            "kept_ordinals": [None] * len(held) + queued.ordinal.tolist(),
            "kept_late": held.late.tolist() + queued.late.tolist(),
            "kept_waits": held.waits.tolist() + [False] * len(queued),
            **({} if now is None else now.of("kept", kept)),
        }

    def _numbers(self) -> Ints:
        """For each row its position in its group, in order of arrival."""
        rows = self._come_in()
        place = self._entries.place[rows]
        found = self._entries.arrival.copy()
        found[rows] = self._arrivals[place] + rank_in_group(place) + 1
        return found

    def _handed(self, line: _LeavingMessages, numbers: list[int | None] | None) -> list[HandedMessages]:
        """Return the messages that leave, by group, which are neighbours in the line. `numbers`: of all entries; None: as stored."""
        places, first = np.unique(line.place, return_index=True)
        bounds = [*first.tolist(), len(line)]
        entry_ids = self._entries.entry_id[line.row].tolist()
        rows = line.row.tolist()
        sequences = self._entries.sequence[line.row].tolist() if numbers is None else [numbers[row] for row in rows]
        columns: tuple[list[Any], ...] = (entry_ids, sequences, line.ordinal.tolist(), line.late.tolist())
        handed = []
        for place, begin, end in zip(places.tolist(), bounds, bounds[1:], strict=False):
            known = self._known.get(self._keys[place])
            incarnation = known.incarnation if known else self._read.incarnation
            handed.append(HandedMessages(self._keys[place], incarnation, *(one[begin:end] for one in columns)))
        return handed


def _held_of(entries: Entries) -> Ints:
    """The rows of held messages, each message once, within each group in order of arrival."""
    held = np.flatnonzero((entries.status == HELD) | (entries.status == LOOKED_UP))
    if not (entries.status == LOOKED_UP).any():
        return held
    _, first = np.unique(entries.entry_id[held], return_index=True)  # the first of equal ones
    held = held[np.sort(first)]
    return held[np.lexsort((entries.arrival[held], entries.place[held]))]


def _told(arrived: Entries, groups: int) -> Bools:
    """The groups where an arrived message contains the size of its set."""
    told = np.zeros(groups, np.bool_)
    told[arrived.place[arrived.size != NOT_SAID]] = True
    return told


def _rest(waited: Ints) -> Ints:
    """Return when to check again whether a gate releases messages that have waited so long; microseconds from now on. A gate that goes on
    asks its origin queue to look. But the worker on the released messages has not committed its progress, and may not know that the origin
    queue has looked meanwhile.
    """
    return np.clip(waited // _REST_OF, _SHORTEST_REST, _LONGEST_REST)


def _flags_of(reason: Ints) -> Ints:
    """The bits that say why messages are flagged."""
    return np.where(reason == Reason.OVERLAPS, OVERLAPS, np.where(reason == Reason.PARTIAL, PARTIAL, 0))


def _kept_back(groups: Groups) -> Bools:
    """The groups from which nothing is handed out. A complete set closes its group, but is handed out nevertheless."""
    complete = groups.has(Flag.COMPLETE) & ~groups.has(Flag.SUSPENDED | Flag.FAULTED)
    return groups.has(STOPPING) & ~complete


def _counted(aside: Decided, ordinal: Ints) -> list[int | None]:
    """Return for messages that count for a restart of a producer the ordinal of their group; None for others."""
    if not aside.counted.any():
        return [None] * len(aside)
    its = zip(aside.counted.tolist(), ordinal[aside.group].tolist(), strict=True)
    return [number if counted else None for counted, number in its]
