"""The conformance cases in a message box, a queue each: published by real transactions, judged by turns at a case's times.

In a box nobody waits for a timer: whoever comes first applies it. So before each moment at which messages come somebody
looks a microsecond earlier, and what is due by then fires. Messages arrive at the times of the case, which are written
down in place of the database's. Nothing else is special: messages are addressed to their queue, deliveries are
completed, and what became of the others is read from the tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from collections.abc import Sequence as List
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import psycopg

from seriatim import (
    BestEffort,
    Group,
    Keep,
    Message,
    MessageBox,
    MessageType,
    Queue,
    Sequence,
    Sequencer,
    UnitOfWork,
    Unordered,
)
from seriatim.box.definitions.definition import BoxQueue, Definitions
from seriatim.box.definitions.known import Known
from seriatim.box.definitions.meaning import OVERLAPS
from seriatim.box.operators import actions
from seriatim.box.operators.actions import ActionRequest
from seriatim.box.turns.turns import Turns
from seriatim.box.views.groups import GroupView, group_of
from seriatim.errors import ActionRefused
from seriatim.kernel import resequence as kernel
from seriatim.kernel.groups.numbers import VOID, by_position
from seriatim.kernel.groups.verbs import Action
from seriatim.kernel.values.columns import Ints
from seriatim.kernel.values.outcome import Disposition, Events
from seriatim.kernel.values.time import micros
from seriatim.pipeline.types.message import Received
from tests.conformance.case import REPORTS, Act, Case, Fate, Result, positions, same
from tests.conformance.in_memory import beginning, take_step, tuple_of_event

#: What happened, to which group, and the first and last number that it is about.
_Event = tuple[str, Any, Any, Any]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MANY = 1000
_TYPE = MessageType(
    "case",
    {
        "key": "string",
        "number": "long",
        "moment": "timestamp",
        "size": "long",
        "is_last": "boolean",
        "opens": "boolean",
        "closes": "boolean",
        "message": "long",
        "content": "string",
        **dict.fromkeys(("through", "previous", "life"), "long"),
        "position": "string",
        "lsn": "string",
        "index": "long",
        **dict.fromkeys(("base", "base_only", "restarts", "unnumbered", "leaves_nothing", "fill", "void"), "boolean"),
    },
)
#: The properties of messages, by their names in a case: a box has an epoch of its own.
_NAMES = {name: name for name in _TYPE.types()} | {"epoch": "life"}


def cannot_run(case: Case) -> str | None:
    """Why a case doesn't apply to a box; None: it does."""
    if case.regions:
        return "the messages of a box come from one region"
    if not case.plain:
        return "its keys, sequences or sizes have no type of a property in common"
    return None


def queue_of(case: Case) -> Queue:
    """A case as a queue."""
    by_time = isinstance(case.policy, BestEffort) and case.policy.by == "time"
    return Queue(
        case.name,
        case.policy,
        group=Group(
            "key",
            opens="opens" if case.opens else None,
            closes="closes" if case.closes else None,
            unopened_timeout=case.unopened_timeout,
        ),
        sequence=_sequence_of(case, "moment" if by_time else "number"),
        keep=Keep(events="all"),
        compare="content" if isinstance(case.policy, UnitOfWork) and not case.policy.once else None,
    )


def _sequence_of(case: Case, by: str) -> str | Sequence:
    """What the numbers of a case mean; its voids are told by a filter."""
    says = Sequence(void="void") if case.numbers is None and case.has_voids else case.numbers
    if says is None:
        return by
    own = None if says.previous is not None else says.by or by
    return replace(says, by=own, epoch=None if says.epoch is None else "life")


class InBox:
    """An engine over a message box.

    Args:
        box: a box in which no case has run.
        cases: all that will.
        limit: so many messages a delivery. A round that is a call is taken by one delivery.
        straight: whether what arrived leaves without a turn where no rule has to be asked.
    """

    def __init__(self, box: MessageBox, cases: List[Case], limit: int = 50, *, straight: bool = True) -> None:
        self.name = f"in a message box, by {limit}" + (", straight" if straight else "")
        self.box = box
        self.limit = limit
        self.straight = straight
        #: The names of the cases that have run.
        self.done: set[str] = set()
        box.define(_TYPE, *map(queue_of, cases))
        with box.session() as tx:
            self._definitions = Known().read(tx.transaction)

    def run(self, case: Case) -> Result:
        """Runs the case in its queue."""
        self.done.add(case.name)
        limit = _MANY if case.per_call else self.limit
        return _Run(self.box, case, self._definitions, limit, straight=self.straight).result()


class _Run:
    def __init__(self, box: MessageBox, case: Case, definitions: Definitions, limit: int, *, straight: bool) -> None:
        self.box, self.case, self.limit, self.straight = box, case, limit, straight
        self.definitions = definitions
        self.queue: BoxQueue = definitions.queues[case.name]
        self.refused: list[int] = []
        self.handed: list[Fate] = []
        self.released: dict[int, Fate] = {}
        self.events: list[_Event] = []

    def result(self) -> Result:
        self._begin()
        left = [fates for step, numbers in positions(self.case) if (fates := self._step(step, numbers)) is not None]
        if self.case.per_call:  # what a round leaves behind is due at once
            left[-1] += self._turns(micros(self.case.last_time))
        fates = list(self.released.values())
        aborted = self._aborted()
        fates += [Fate(n, disposition) for n, disposition in self._aside() if n not in aborted]
        voids = set(self._entries("held", voids=True))
        fates += [Fate(n, "void" if n in voids else "held") for n in self._entries("held")]
        fates += [Fate(n, "invalid") for n in self.refused]
        assert self._entries("arrived") == [], "all that arrived is judged"
        self._check(fates)
        states = {group: str(self._view(group).state) for group in self.case.states}
        recorded = self._recorded()
        reports = tuple(event for event in recorded if event[0] in REPORTS)
        conflicts = tuple((group, first) for kind, group, first, _ in recorded if kind == "conflict")
        self._check_groups(reports)
        return Result(tuple(fates), tuple(map(tuple, left)), reports, states, conflicts)

    def _recorded(self) -> list[_Event]:
        """The events on record, in order of time; they are those that the turns and actions have told of, each once."""
        by_time = isinstance(self.case.policy, BestEffort) and self.case.policy.by == "time"
        with self.box.session() as tx:
            found: list[_Event] = tx.connection.execute(
                f"SELECT kind, group_key, first, last FROM {self.box.schema}.events WHERE queue_id = %s ORDER BY at, event_id",
                [self.queue.queue_id],
            ).fetchall()
        same("events on record", Counter(found), Counter(self.events))
        return [(*one[:2], *(n / 1e6 if by_time and n is not None else n for n in one[2:])) for one in found]

    def _begin(self) -> None:
        """Groups that begin at another number."""
        with self.box.session() as tx:
            for group, number in self.case.start_from.items():
                state = kernel.new_state(self.case.policy, 1, np.array([number], np.int64)).groups
                columns = ("flags", "first", "next", "mark", "last", "ordinal", "since", "reports", "clock")
                tx.connection.execute(
                    f"INSERT INTO {self.box.schema}.known_groups (queue_id, group_key, {', '.join(columns)}, skipped, arrivals)"
                    f" VALUES (%s, %s, {', '.join(['%s'] * len(columns))}, '{{}}', 0)",
                    [self.queue.queue_id, group, *(int(getattr(state, column)[0]) for column in columns)],
                )

    # ---- steps

    def _step(self, step: Any, numbers: range) -> list[Fate] | None:
        case, messages = self.case, self.case.messages
        if isinstance(step, Act):
            self._turns(micros(step.at))
            self._act(step)
            self._turns(micros(step.at))
            return None
        if case.per_call:
            self._publish(numbers)
            return self._turn(micros(messages[numbers[-1]].at)) or []
        if case.unwatched:
            self._publish(numbers)
            return self._turns(micros(case.last_time)) if numbers.stop == len(messages) else []
        fates = []
        for moment, together in groupby(numbers, lambda n: micros(messages[n].at)):
            fates += self._turns(moment - 1)
            self._publish(list(together))
            fates += self._turns(moment)
        return fates

    def _publish(self, numbers: List[int]) -> None:
        """Commits what comes, the messages that no publisher can make left out."""
        for n in numbers:
            if "\0" in (self.case.messages[n].group or ""):
                self.refused.append(n)
        with self.box.session() as tx:
            tx.publish([self._message(n) for n in numbers if n not in self.refused])
        with self.box.session() as tx:
            self._arrive(tx.connection, numbers)

    def _arrive(self, connection: psycopg.Connection, numbers: List[int]) -> None:
        """Has messages arrive at the times of the case."""
        connection.execute(
            f"UPDATE {self.box.schema}.entries AS entry SET arrived_us = came.at_us"
            f" FROM {self.box.schema}.spool AS stored, unnest(%s::bigint[], %s::bigint[]) AS came (message, at_us)"
            " WHERE entry.queue_id = %s AND entry.status = 'arrived'"
            " AND (stored.arrival_id, stored.position) = (entry.arrival_id, entry.position)"
            " AND (stored.context ->> 'message')::bigint = came.message",
            [list(numbers), [micros(self.case.messages[n].at) for n in numbers], self.queue.queue_id],
        )

    def _message(self, number: int) -> Message:
        message = self.case.messages[number]
        by_time = isinstance(self.case.policy, BestEffort) and self.case.policy.by == "time"
        context = {
            "key": message.group,
            "moment" if by_time else "number": message.sequence,
            "message": number,
            "content": message.label,
            "to": self.case.name,
            **{_NAMES[name]: value for name, value in message.properties.items() if name in _NAMES},
        }
        if by_time and message.sequence is not None:
            context["moment"] = _EPOCH + timedelta(seconds=message.sequence)
        return Message(type="case", body=message.label.encode(), context=context)

    def _act(self, step: Act) -> None:
        arguments = dict(step.arguments)
        if "sequence" in arguments:
            arguments = {"message": self._named(step.group, arguments["sequence"])}
        asked = ActionRequest(Action(step.action), self.case.name, step.group, "the case", "it says so", arguments)
        try:
            with self.box.session() as tx:
                operation = actions.act(tx.transaction, asked, micros(step.at))
        except ActionRefused as error:
            same(f"{step.action} refused ({error})", True, step.refused)
        else:
            same(f"{step.action} refused", False, step.refused)
            assert operation.obeyed
            self.events += map(tuple_of_event, operation.events)

    def _named(self, group: str, sequence: int) -> str:
        """The id of the first held message with a sequence; one that nobody has where there is none."""
        with self.box.session() as tx:
            row = tx.connection.execute(
                f"SELECT message_id FROM {self.box.schema}.entries JOIN {self.box.schema}.spool USING (arrival_id, position)"
                " WHERE queue_id = %s AND group_key = %s AND status = 'held' AND (context ->> 'number')::bigint = %s"
                " ORDER BY arrival LIMIT 1",
                [self.queue.queue_id, group, sequence],
            ).fetchone()
        return "nobody's" if row is None else str(row[0])

    # ---- turns

    def _turns(self, now: int) -> list[Fate]:
        """Turns at a moment, until there is nothing to do any more."""
        fates = []
        while (more := self._turn(now)) is not None:
            fates += more
        return fates

    def _turn(self, now: int) -> list[Fate] | None:
        """Turns of all groups that have something to do: what was released by them, and before; None if none has. Without order there are
        no turns.
        """
        if isinstance(self.case.policy, Unordered):
            with self.box.session() as tx:
                taken = [_left(one) for one in tx.receive(self.case.name, limit=self.limit) or ()]
            self.handed += taken
            return self._new(taken) or None
        handed: list[Fate] = []
        heard: list[tuple[int, _Event]] = []
        with self.box.session() as tx:
            turns = Turns(tx.transaction, now)
            arrived = self.queue.is_fifo and self.straight
            while (
                delivery := turns.hand_out(self.queue, self.limit, None, self.definitions, arrived=arrived)[0]
            ) is not None:
                handed += map(_left, delivery)
            locked = turns.lock(self.queue, _MANY)
            if locked.keys:  # the first is delivered, and the others are judged ahead, as a receiver does
                first, others = locked._replace(keys=locked.keys[:1]), locked._replace(keys=locked.keys[1:])
                judged = turns.look(self.queue, first, self.limit, wary=False)
                assert judged is not None
                heard += self._heard(first.keys, judged.events)
                handed += map(_left, turns.deliver(self.queue, first, judged, self.definitions) or ())
                if others.keys:
                    heard += self._heard(others.keys, turns.judge(self.queue, others, 0).events)
        self.events += [event for _, event in sorted(heard, key=itemgetter(0))]
        if not locked.keys and not handed:
            return None
        self.handed += handed
        return self._new(handed + self._queued())

    def _new(self, fates: list[Fate]) -> list[Fate]:
        """Those not seen before; the others have to be the same."""
        known: dict[int, Fate] = {}
        for fate in fates:  # what it lacks is seen when it is handed out
            before = self.released.get(fate.message, fate)
            same("released before as", replace(before, lacks=None), replace(fate, lacks=None))
            if before.lacks is None and fate.lacks is not None:
                known |= {fate.message: fate}
        new = [fate for fate in fates if fate.message not in self.released]
        self.released |= {number: fate for number, fate in known.items() if number in self.released}
        self.released |= {fate.message: fate for fate in new}
        return new

    @staticmethod
    def _heard(keys: List[str], events: Events) -> Iterator[tuple[int, _Event]]:
        """The events of some groups, each with its time."""
        for one in events.rows():
            yield one.at, (one.kind.word, keys[one.group], one.first, one.last)

    # ---- what there is

    def _queued(self) -> list[Fate]:
        """What is released and not handed out, in the order in which it will be."""
        with self.box.session() as tx:
            rows = tx.connection.execute(
                f"SELECT (context ->> 'message')::integer, ordinal, late, coalesce(meaning[1] & {OVERLAPS} <> 0, FALSE)"
                f" FROM {self.box.schema}.entries"
                f" JOIN {self.box.schema}.spool USING (arrival_id, position)"
                " WHERE queue_id = %s AND status = 'queued' ORDER BY group_key, ordinal",
                [self.queue.queue_id],
            )
            return [Fate(n, "released", ordinal, late, overlaps) for n, ordinal, late, overlaps in rows]

    def _entries(self, status: str, *, voids: bool = False) -> list[int]:
        with self.box.session() as tx:
            rows = tx.connection.execute(
                f"SELECT (context ->> 'message')::integer FROM {self.box.schema}.entries"
                f" JOIN {self.box.schema}.spool USING (arrival_id, position)"
                " WHERE queue_id = %s AND status = %s AND (NOT %s OR meaning[1] & %s <> 0) ORDER BY 1",
                [self.queue.queue_id, status, voids, VOID],
            )
            return [n for (n,) in rows]

    def _aside(self) -> list[tuple[int, str]]:
        with self.box.session() as tx:
            rows = tx.connection.execute(
                f"SELECT (context ->> 'message')::integer, disposition FROM {self.box.schema}.aside"
                f" JOIN {self.box.schema}.spool USING (arrival_id, position)"
                " WHERE queue_id = %s ORDER BY entry_id",
                [self.queue.queue_id],
            )
            return list(rows)

    def _aborted(self) -> set[int]:
        """Released messages that an abort has set aside from a suspended group; in memory a release is final."""
        waited = self.released.keys() - {fate.message for fate in self.handed}
        return {n for n, disposition in self._aside() if n in waited and disposition == "dead"}

    def _view(self, group: str) -> GroupView:
        with self.box.session() as tx:
            return group_of(tx.transaction, self.case.name, group)

    def _check_groups(self, reports: List[_Event]) -> None:
        """What is shown of each group is what is shown in memory, and so are its events."""
        sequencer = Sequencer(self.case.policy, **beginning(self.case))
        told: list[_Event] = []
        for step, numbers in positions(self.case):
            told += [
                tuple_of_event(event) for one in take_step(sequencer, self.case, step, numbers) for event in one.events
            ]
        if by_position(self.case.policy):  # which events of a box don't have
            told = [(kind, group, None, None) for kind, group, *_ in told]
        for group in sequencer.groups():
            in_memory = [event for event in told if event[0] in REPORTS and event[1] == group]
            same(f"events of {group!r}", [event for event in reports if event[1] == group], in_memory)
            there, here = sequencer.group(group), self._view(group)
            same(f"{group!r} shows", str(here.state), there.state)
            since = None if here.hole_since is None else here.hole_since.timestamp()
            waiting = self._voids_held(group)  # in a box a void waits like a message
            same(
                f"{group!r}",
                (here.next, here.held - waiting, since, here.ordinal, here.closing),
                (there.next, there.held, there.hole_since, there.ordinal, there.closing),
            )
            last = there.last_released
            last = f"0x{last.hex()}" if isinstance(last, bytes) else last
            by_time = isinstance(self.case.policy, BestEffort) and self.case.policy.by == "time"
            same(f"last of {group!r}", here.last_released, micros(last) if by_time and last is not None else last)
            assert not here.locked

    def _voids_held(self, group: str) -> int:
        held = self._entries("held", voids=True)
        return sum(self.case.messages[n].group == group for n in held)

    def _check(self, fates: List[Fate]) -> None:
        """What holds of every queue: the laws of conservation, and that what left did so once and in order."""
        same("handed out once", len({fate.message for fate in self.handed}), len(self.handed))
        if isinstance(self.case.policy, Unordered):  # which has no groups
            return
        counts = Counter(fate.disposition for fate in fates)
        with self.box.session() as tx:
            rows = tx.connection.execute(
                f"SELECT group_key, decided, arrivals FROM {self.box.schema}.known_groups WHERE queue_id = %s",
                [self.queue.queue_id],
            ).fetchall()
        padded = [(*row[1], 0)[: Disposition.COPY] for row in rows]
        decided: Ints = np.array(padded, np.int64).reshape(-1, Disposition.COPY).sum(axis=0)
        counts["void"] -= len(self._entries("held", voids=True))
        taken = sum(row[2] for row in rows)
        at_the_door = len(fates) - taken
        for disposition in (one for one in Disposition if one is not Disposition.COPY):
            expected = counts[disposition.word] - at_the_door * (disposition is Disposition.INVALID)
            same(
                f"groups' {disposition.word}", int(decided[disposition]), 0 if disposition.word == "held" else expected
            )
        left = len(self._queued()) + len(self.handed) + len(self._aborted())
        same("released = queued + done + aborted", len(self.released), left)
        last: dict[Any, int] = {}
        for fate in self.handed:
            group = self.case.messages[fate.message].group
            assert fate.ordinal is not None
            same(f"handed out next of {group!r}", fate.ordinal, last.get(group, 0) + 1)
            last[group] = fate.ordinal


def _left(message: Received) -> Fate:
    number = message.context["message"]
    assert isinstance(number, int)
    return Fate(number, "released", message.ordinal, message.late, message.overlaps, message.missing)
