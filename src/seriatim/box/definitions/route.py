"""Route messages at publishing: find each message's queues, subscriptions, and entry in the queue.

This module turns a message's properties into a queue entry: group, sequence, size, priority. The filters belong to the
kernel. It knows no connections.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from seriatim.box.definitions.correlation import Correlation, InstanceMatch, Look, ValueQuery, key
from seriatim.box.definitions.definition import BoxQueue, BoxSubscription, BrokenDefinition, Definitions
from seriatim.box.definitions.entries import Entries
from seriatim.box.definitions.gates import Gates
from seriatim.box.definitions.marks import of_content, plain, written
from seriatim.box.definitions.meaning import Meaning
from seriatim.box.definitions.unique import with_keys
from seriatim.box.notice import MessageFailed, Notice, invalid, unrouted
from seriatim.box.postgres.array_text import numbers_in
from seriatim.errors import UsageError, shown
from seriatim.kernel.filters.filter import Expression, Type
from seriatim.kernel.filters.filter_eval import Values, evaluate
from seriatim.kernel.groups.number_reader import NumberReader
from seriatim.kernel.groups.numbers import VOID, by_position
from seriatim.kernel.groups.policy import Fifo, Policy, Standard, UnitOfWork, Unordered
from seriatim.kernel.groups.sequence import key_problem
from seriatim.kernel.match import Matcher
from seriatim.kernel.policies.stays import CLOSES, OPENS
from seriatim.kernel.route import of_types, properties
from seriatim.kernel.values.columns import Bools, Ints, first_per_group
from seriatim.kernel.values.fingerprint import of_value
from seriatim.kernel.values.outcome import REASONS, Reason
from seriatim.pipeline.bodies.property_values import problem_text
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.queue_level import group_of_type
from seriatim.pipeline.filters.syntax import parsed
from seriatim.pipeline.text.section import likely
from seriatim.pipeline.types.box_properties import UNFIT, UNIQUE_KEY, by_ticket, clashes, misfits
from seriatim.pipeline.types.failure_message import FAILURE, asks_for_failures
from seriatim.pipeline.types.message import Message
from seriatim.pipeline.types.property_columns import Column, columns
from seriatim.pipeline.types.typed_message import MessageTypes, Typed

#: The group of messages in a queue that has none.
_NO_GROUP = ""
_MIDDLE = 5
_LONGEST_WHY = 500
_MOST_REMEMBERED = 10_000


class _Columns(NamedTuple):
    groups: Sequence[str | None]
    sequences: Sequence[int | None]
    sizes: Sequence[int | None]
    priorities: Sequence[int]
    problems: Sequence[str | None]
    meanings: Sequence[str | None] | None


class _QueueRows(NamedTuple):
    """Columns of messages, and the rows of some of them."""

    columns: Mapping[str, Column]
    rows: Sequence[int]

    def values(self, name: str | None) -> list[Any]:
        """The values of a property; None if the property is unknown."""
        if name is None or name not in self.columns:
            return [None] * len(self.rows)
        values = self.columns[name].values
        return [values[row] for row in self.rows]

    def holds(self, expression: Expression) -> Bools:
        names = [each.name for each in properties(expression)]
        whole = max((len(self.columns[name].values) for name in names), default=max(self.rows, default=0) + 1)
        holds: Bools = np.broadcast_to(evaluate(expression, _arrays(self.columns, names), whole)[0], whole)[self.rows]
        return holds


@dataclass(frozen=True, slots=True)
class _Bound:
    """Messages and where they go: rows, queues, subscriptions. `parts`: for each queue its number, its places, its messages' rows."""

    rows: list[int]
    queue_ids: list[int]
    subscriptions: list[str]
    parts: list[tuple[int, list[int], list[int]]]


@dataclass(frozen=True, slots=True)
class Routed:
    """A batch with its entries, routed by the definitions of that version. `numbered`: the queues of the box whose entries get a number
    when they are stored: a place, as `BoxQueue.numbers`, or their sequence from their tickets. `gates`: the gates, if an entry is in a
    queue on the way to one, or in one. `awaited`: the rows of messages that reach no queue, and are kept as replies to requests.
    """

    version: int
    typed: Typed
    entries: Entries
    numbered: frozenset[int] = frozenset()
    gates: Gates | None = None
    awaited: frozenset[int] = frozenset()

    @property
    def on_way(self) -> bool:
        """Whether an entry is in a queue on the way to a gate, or in a gate."""
        return self.gates is not None

    def refusing(self, places: Iterable[int], why: str) -> Routed:
        """The same batch, with some entries made invalid for a reason."""
        problems = list(self.entries.problems)
        for at in places:
            problems[at] = why
        return replace(self, entries=replace(self.entries, problems=problems))

    def notices(self, definitions: Definitions, messages: Sequence[Message], *, again: bool = False) -> list[Notice]:
        """The notices for messages that were routed now, and are new to the box or to their queues."""
        entries, queues = self.entries, {one.queue_id: name for name, one in definitions.queues.items()}
        wanted = self.awaited.union(entries.places)
        unwanted = [] if again else [row for row in range(len(messages)) if row not in wanted]
        refused = [
            (messages[place], queues.get(queue_id), group, problem)
            for place, queue_id, group, problem in zip(
                entries.places, entries.queue_ids, entries.groups, entries.problems, strict=True
            )
            if problem is not None
        ]
        return [
            *(MessageFailed(messages[row], unrouted(self.typed.problems[row])) for row in unwanted),
            *(MessageFailed(message, invalid(queue, group, why)) for message, queue, group, why in refused),
        ]


class Router:
    """A router by one version of the definitions. It never changes, so threads may share it. A definition that doesn't fit the others is
    ignored, and stops nothing else: an unusable subscription matches nothing, messages for an unusable queue are invalid there, and
    messages of an unusable type are unrouted.
    """

    def __init__(self, definitions: Definitions, whole: Definitions | None = None) -> None:
        self._version = definitions.version
        self._queues = definitions.queues
        #: The definitions that don't fit, by kind and name, with the reason.
        self.unfit: dict[tuple[str, str], UsageError] = {}
        self._gates = Gates(definitions if whole is None else whole)
        self._types = self._sound_types(definitions)
        #: By the name of each unusable type the reason why its messages are unrouted.
        self._problems = {
            name: problem_text(f"the definition of the type {name!r} can't be used")
            for kind, name in (*definitions.unreadable, *self.unfit)
            if kind == "type"
        }
        self._correlation = Correlation(definitions, self._types.properties)
        self.unfit |= {("subscription", name): error for name, error in self._correlation.unfit.items()}
        enlisted, self._filters, self._asking = self._subscribed(definitions)
        self._matcher = Matcher([expression for _, expression in self._filters])
        by_name = {name: number for number, name in enumerate(definitions.queues)}
        self._destinations = list(definitions.queues.values())
        self._queues_by_id = {one.queue_id: one.declared for one in self._destinations}
        self._numbered = frozenset(one.queue_id for one in self._destinations if one.numbers or by_ticket(one.declared))
        self._declared = definitions.types
        self._queue_of = np.array([by_name[one.declared.to] for one in enlisted], np.int64)
        self._id_of = np.array([one.subscription_id for one in enlisted], np.int64)
        self._check_queues(definitions)
        #: The numbers of the subscriptions that belong to other roles than the owner.
        self.roles_own = frozenset(
            one.subscription_id for one in definitions.subscriptions.values() if one.role is not None
        )
        self._lasts: dict[tuple[str, Policy], Expression] = {
            (name, policy): self._filter(policy.last, f"queue {name!r}: last")
            for name, queue in definitions.queues.items()
            if ("queue", name) not in self.unfit
            for policy in queue.declared.all_policies()
            if isinstance(policy, UnitOfWork) and isinstance(policy.last, str)
        }
        self._types_apart: dict[tuple[str, str], Queue] = {}
        self._stays: dict[str, list[tuple[int, Expression]]] = {
            name: [
                (bit, self._filter(text, f"queue {name!r}: {what}"))
                for bit, what, text in (
                    (OPENS, "opens", one.declared.group.opens),
                    (CLOSES, "closes", one.declared.group.closes),
                )
                if text is not None
            ]
            for name, one in definitions.queues.items()
            if one.declared.has_stays and ("queue", name) not in self.unfit
        }
        #: By queue the filters that say what its numbers mean, with their texts.
        self._meaning: dict[str, list[tuple[str, Expression]]] = {
            name: [
                (text, self._filter(text, f"queue {name!r}: {what}"))
                for what, text in one.declared.says.filters.items()
            ]
            for name, one in definitions.queues.items()
            if (one.declared.says.says() or any(map(by_position, one.declared.all_policies())))
            and ("queue", name) not in self.unfit
        }
        self._needed = self._needed_properties()
        # Where one message goes, by its values of the properties that filters look at.
        self._remembered: dict[tuple[Any, ...], _Bound] = {}

    @property
    def properties(self) -> Mapping[str, Type]:
        return self._types.properties

    @cached_property
    def _asks(self) -> Bools:
        """The subscriptions whose filters ask for failures; a queue for all messages would otherwise get its own failures again."""
        return np.array(self._asking, np.bool_)

    @cached_property
    def wants_failures(self) -> bool:
        return bool(self._asks.any())

    @property
    def filters(self) -> list[Expression]:
        return [expression for _, expression in self._filters]

    def value_of(self, message: Message, name: str) -> Any:
        """A message's value of a property that filters can name; None: it has none, or isn't what its type says."""
        if (kind := self._types.properties.get(name)) is None:
            return None
        return columns(self.typed([message]), {name: kind})[name].values[0]

    def leading(self, queue: str) -> tuple[str, ...]:
        """The properties that lead messages to the instances of a queue, besides the group."""
        return self._correlation.names.get(queue, ())

    @property
    def needs_time(self) -> bool:
        """Whether a filter reads the time when a message is received."""
        return "received_at" in self._needed

    @property
    def filtered(self) -> Mapping[str, Type]:
        """The properties that filters look at, and their types."""
        return self._matcher.properties

    def plain_properties(self, kinds: Iterable[str]) -> Mapping[str, str] | None:
        """The properties of messages of these types that only filters lead, with their types; None: route them one by one."""
        if self._correlation.names or self.needs_time:
            return None
        types = [None if kind in self._problems else self._declared.get(kind) for kind in kinds]
        if any(one is None or one.checks_bodies for one in types):
            return None
        every = [set(one.types().items()) for one in types if one is not None]
        return dict(set.intersection(*every)) if every else {}

    def is_plain(self, queue: str) -> bool:
        """Whether a queue takes messages without a look at each of them."""
        return self._problem_of(queue) is None and queue not in self._gates

    def led_by_filters(self, columns: Mapping[str, Values], n: int) -> list[tuple[BoxQueue, Ints, Ints]] | None:
        """By queue the rows that filters lead there, and their subscriptions; None: several lead a message to one queue."""
        rows, filters = self._matcher.matches(columns, n)
        queues, ids = self._queue_of[filters], self._id_of[filters]
        places = np.sort(rows * len(self._destinations) + queues)
        if (places[1:] == places[:-1]).any():
            return None
        return [
            (self._destinations[number], rows[queues == number], ids[queues == number])
            for number in np.unique(queues).tolist()
        ]

    def route(
        self,
        messages: Sequence[Message],
        received_at: datetime | None = None,
        look: Look | None = None,
        *,
        bodies: bool = True,
        carried: bool = False,
    ) -> Routed:
        return self.route_typed(self.typed(messages, carried=carried), received_at, look, bodies=bodies)

    def typed(self, messages: Sequence[Message], *, carried: bool = False) -> Typed:
        """Convert the properties of messages by their types: the first half of `route`; raises nothing."""
        typed = self._types.typed(messages, carried=carried)
        if self._problems and any(one.type in self._problems for one in messages):
            wrong = [self._problems.get(one.type) for one in messages]
            return Typed(
                messages,
                [{} if why else context for why, context in zip(wrong, typed.contexts, strict=True)],
                [why or problem for why, problem in zip(wrong, typed.problems, strict=True)],
                [row for row in typed.undeclared if wrong[row] is None],
                carried,
            )
        return typed

    def route_typed(
        self, typed: Typed, received_at: datetime | None = None, look: Look | None = None, *, bodies: bool = True
    ) -> Routed:
        """Find the queues: the second half of `route`, with its arguments and errors. Messages with a problem have no queue."""
        found = columns(typed, self._needed, received_at=received_at)
        look = look if self._correlation.names else None
        led: dict[tuple[int, int], InstanceMatch] = {}
        bound = self._bound_alone(typed, found, look)
        if bound is None:
            bound, led = self._bound(typed, found, look)
        entries = self._entries(bound, found, led, typed, bodies=bodies)
        for context in typed.contexts:  # a loop: for one message a generator would cost more than all it does
            if UNIQUE_KEY in context:
                entries = with_keys(entries, typed.contexts, self._queues_by_id)
                break
        gates = self._gates if self._gates.lead(entries.queue_ids) else None
        return Routed(self._version, typed, entries, self._numbered, gates)

    def _bound_alone(self, typed: Typed, found: Mapping[str, Column], look: Look | None) -> _Bound | None:
        """The destinations of a single message that only filters lead; cached, because many messages have the same few values."""
        if len(typed.messages) != 1 or typed.problems[0] is not None or look is not None or "to" in typed.contexts[0]:
            return None
        values = (typed.messages[0].type == FAILURE, *[found[name].values[0] for name in self._matcher.properties])
        if (bound := self._remembered.get(values)) is None:
            bound, _ = self._bound(typed, found, None)
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered.clear()
            self._remembered[values] = bound
        return bound

    def _bound(
        self, typed: Typed, found: Mapping[str, Column], look: Look | None
    ) -> tuple[_Bound, dict[tuple[int, int], InstanceMatch]]:
        """The destinations of messages, by filters and by running instances."""
        fine = np.array([problem is None for problem in typed.problems], np.bool_)
        rows, filters = self._matcher.matches(_arrays(found, self._matcher.properties), len(typed.messages))
        chosen = fine[rows]
        if all(one.type == FAILURE for one in typed.messages):  # ends at the first that is something else
            chosen &= self._asks[filters]
        rows, filters = rows[chosen], filters[chosen]
        addressed = self._addressed(typed)
        rows = np.concatenate([rows, np.array([row for row, _ in addressed], np.int64)])
        queues = np.concatenate([self._queue_of[filters], np.array([queue for _, queue in addressed], np.int64)])
        none = np.full(len(addressed), -1, np.int64)
        ids = np.concatenate([self._id_of[filters], none])
        led: dict[tuple[int, int], InstanceMatch] = {}
        if look is not None:
            led = self._led(look, found, fine, rows, queues, typed.messages)
            by = [one.subscription_id for one in led.values()]
            rows = np.concatenate([rows, np.array([row for row, _ in led], np.int64)])
            queues = np.concatenate([queues, np.array([queue for _, queue in led], np.int64)])
            ids = np.concatenate([ids, np.array(by, np.int64)])
        order = np.lexsort((ids, queues, rows))
        return self._once(rows[order], queues[order], ids[order]), led

    def _sound_types(self, definitions: Definitions) -> MessageTypes:
        """The types that fit together; of two types that don't fit, the later by name is left out."""
        types = dict(sorted(definitions.types.items()))
        for clash in clashes(definitions.types[name] for name in sorted(definitions.types)):
            if types.pop(clash.type, None) is not None:
                self.unfit["type", clash.type] = clash.error()
        return MessageTypes(types.values())

    def _subscribed(
        self, definitions: Definitions
    ) -> tuple[list[BoxSubscription], list[tuple[str, Expression]], list[bool]]:
        """The collecting subscriptions, their filters, and whether they ask for failures."""
        found: list[BoxSubscription] = []
        filters: list[tuple[str, Expression]] = []
        asking: list[bool] = []
        for name, one in definitions.subscriptions.items():
            if ("subscription", name) in self.unfit:
                continue
            where = one.declared.where
            try:
                expression = self._filter(where, f"subscription {name!r}")
            except UsageError as error:
                self.unfit["subscription", name] = error
                continue
            if one.state == "unenlisted" or one.types == ():
                continue
            found.append(one)
            asking.append(asks_for_failures(where, expression) and one.may_match(FAILURE))
            filters.append((where, expression if one.types is None else of_types(expression, one.types)))
        return found, filters, asking

    def _check_queues(self, definitions: Definitions) -> None:
        """Find the queues that don't fit the properties."""
        written = {name: str(kind) for name, kind in self._types.properties.items()}
        for name, queue in definitions.queues.items():
            if queue.problem is None and (wrong := next(misfits(queue.declared, written), None)) is not None:
                where = f"queue {name!r}: {wrong.field}"
                self.unfit["queue", name] = UsageError(wrong.what, where=where, remedy=wrong.remedy)

    def is_roles_own(self, subscriptions: str) -> bool:
        """Whether only subscriptions of roles have led a message to a queue; the argument is as in `Entries.subscriptions`."""
        if not self.roles_own:
            return False
        ids = numbers_in(subscriptions)
        return bool(ids) and self.roles_own.issuperset(ids)

    def _problem_of(self, name: str) -> str | None:
        """The reason why all messages for a queue are invalid, if any."""
        if self._queues[name].problem is None and ("queue", name) not in self.unfit:
            return None
        return problem_text(f"the definition of the queue {name!r} can't be used")

    def _filter(self, text: str, where: str) -> Expression:
        return parsed(text, self._types.properties, where=where, unfit=UNFIT)

    def _needed_properties(self) -> dict[str, Type]:
        names = set(self._matcher.properties)
        for queue in self._queues.values():
            one = queue.declared
            sizes = [policy.size for policy in one.all_policies() if isinstance(policy, UnitOfWork)]
            kind = "type" if one.group.by_type is not None else None
            named = (one.group.by, *one.says.names, one.priority, kind, *sizes, *(one.compare or ()))
            names |= {name for name in named if isinstance(name, str)}
            if one.name in self._correlation.names:
                names |= {str(one.group.by), *self._correlation.names[one.name]}
        names |= {each.name for last in self._lasts.values() for each in properties(last)}
        filters = [one for its in self._stays.values() for _, one in its]
        filters += [one for its in self._meaning.values() for _, one in its]
        names |= {each.name for one in filters for each in properties(one)}
        return {name: self._types.properties[name] for name in names if name in self._types.properties}

    def _addressed(self, typed: Typed) -> list[tuple[int, int]]:
        """The rows of addressed messages, and the numbers of their queues."""
        found = []
        for row, context in enumerate(typed.contexts):
            if (to := context.get("to")) is not None:
                if (wrong := self.misaddressed(typed.messages[row].message_id, to)) is not None:
                    raise wrong
                found.append((row, next(n for n, one in enumerate(self._destinations) if one.declared.name == to)))
        return found

    def misaddressed(self, message_id: str, to: object) -> UsageError | None:
        """The problem with a message's address; None if there is no problem, or no address."""
        if to is None or to in self._queues:
            return None
        return UsageError(
            f"message {message_id} is addressed to {shown(to)}, which is no queue",
            remedy=likely(to, self._queues) or "box.define(Queue(…))",
        )

    def _led(
        self,
        look: Look,
        found: Mapping[str, Column],
        fine: np.ndarray[Any, Any],
        rows: Ints,
        queues: Ints,
        kinds: Sequence[Message],
    ) -> dict[tuple[int, int], InstanceMatch]:
        """The groups, by row and queue, to which instances lead messages without an own one; the first property of `correlate` wins."""
        places: list[tuple[int, int]] = []
        asked: list[ValueQuery] = []
        for number, queue in enumerate(self._destinations):
            names = self._correlation.names.get(queue.declared.name)
            if names is None:
                continue
            mine = rows[queues == number].tolist()
            keys = self._keys(queue.declared.group.by, _QueueRows(found, mine))
            free = fine.copy()
            free[[row for row, one in zip(mine, keys, strict=True) if not key_problem(one)]] = False
            at, wanted = self._correlation.asked(queue.queue_id, names, found, np.flatnonzero(free).tolist())
            places += [(row, number) for row in at]
            asked += wanted
        led: dict[tuple[int, int], InstanceMatch] = {}
        for place, one in zip(places, look(asked) if asked else (), strict=True):
            row, number = place
            name = self._destinations[number].declared.name
            if one is not None and self._correlation.leads(one.subscription_id, name, kinds[row].type):
                led.setdefault(place, one)
        return led

    def _once(self, rows: Ints, queues: Ints, ids: Ints) -> _Bound:
        """Merge duplicates: a message goes to a queue once, however many subscriptions led it there."""
        first = np.flatnonzero(first_per_group(rows * len(self._destinations) + queues))
        by = [
            tuple(one.tolist()) for one in (np.split(ids, first[1:]) if len(first) < len(ids) else ids.reshape(-1, 1))
        ]
        # The same few again and again.
        written = {each: "{" + ",".join(str(one) for one in each if one >= 0) + "}" for each in set(by)}
        rows, queues = rows[first], queues[first]
        parts = [(number, np.flatnonzero(queues == number)) for number in np.unique(queues).tolist()]
        return _Bound(
            rows.tolist(),
            [self._destinations[number].queue_id for number in queues.tolist()],
            [written[each] for each in by],
            [(number, places.tolist(), rows[places].tolist()) for number, places in parts],
        )

    def _entries(
        self,
        bound: _Bound,
        found: Mapping[str, Column],
        led: Mapping[tuple[int, int], InstanceMatch],
        typed: Typed,
        *,
        bodies: bool,
    ) -> Entries:
        """An entry for each message and queue. `bodies`: whether bodies are compared."""
        messages = typed.messages if bodies else None
        made: list[_Columns] = []
        for number, _, rows in bound.parts:
            groups_led = [led.get((row, number)) for row in rows] if led else None
            queue = self._destinations[number].declared
            if (wrong := self._problem_of(queue.name)) is not None:
                n = len(rows)
                made.append(_Columns([None] * n, [None] * n, [None] * n, [_MIDDLE] * n, [wrong] * n, None))
                continue
            columns_of = self._columns_by_type if queue.group.by_type is not None else self._columns_of
            made.append(columns_of(queue, _QueueRows(found, rows), groups_led, messages))
            if queue.name in self._gates:
                made[-1] = self._refused(queue.name, typed, rows, made[-1])
        whole = made[0] if len(made) == 1 else _merged(made, [places for _, places, _ in bound.parts], len(bound.rows))
        return Entries(bound.rows, bound.queue_ids, *whole[:5], bound.subscriptions, meanings=whole[5])

    def _refused(self, queue: str, typed: Typed, rows: Sequence[int], made: _Columns) -> _Columns:
        """The columns of a gate, or of a queue that has one: messages that it doesn't take have a problem, and no group."""
        wrong = [self._gates.problem(queue, typed.contexts[row]) for row in rows]
        if not any(wrong):
            return made
        return made._replace(
            groups=[None if why else key for key, why in zip(made.groups, wrong, strict=True)],
            problems=[why or problem for why, problem in zip(wrong, made.problems, strict=True)],
        )

    def _columns_by_type(
        self,
        one: Queue,
        part: _QueueRows,
        led: Sequence[InstanceMatch | None] | None,
        messages: Sequence[Message] | None,
    ) -> _Columns:
        """Like `_columns_of`, for a queue that orders each type by itself: its groups begin with the type."""
        kinds: list[str] = [str(kind) for kind in part.values("type")]
        made: list[list[Any]] = [[None] * len(kinds) for _ in range(6)]
        for kind in dict.fromkeys(kinds):
            mine = [at for at, its in enumerate(kinds) if its == kind]
            of_kind = part._replace(rows=[part.rows[at] for at in mine])
            made_of_kind = self._columns_of(self._of_type(one, kind), of_kind, None, messages)
            groups, *others, problems, meanings = made_of_kind
            means = meanings or [None] * len(mine)
            for at, inner, problem, *values in zip(mine, groups, problems, *others, means, strict=True):
                whole, why = None if inner is None else group_of_type(kind, inner), problem
                if whole is not None and why is None and (reason := key_problem(whole)):
                    whole, why = None, REASONS[reason]
                for column, value in zip(made, (whole, *values, why), strict=True):
                    column[at] = value
        groups, sequences, sizes, priorities, meanings, problems = made
        return _Columns(groups, sequences, sizes, priorities, problems, meanings if any(meanings) else None)

    def _of_type(self, one: Queue, kind: str) -> Queue:
        if (found := self._types_apart.get((one.name, kind))) is None:
            group = replace(one.group, by_type=None)
            found = replace(one, policy=one.policies.get(kind, one.policy), group=group)
            self._types_apart[one.name, kind] = found
        return found

    def _columns_of(
        self,
        one: Queue,
        part: _QueueRows,
        led: Sequence[InstanceMatch | None] | None,
        messages: Sequence[Message] | None,
    ) -> _Columns:
        """Groups, sequences, sizes (or marks), priorities and problems of messages in one queue."""
        n = len(part.rows)
        priorities = [_MIDDLE] * n
        if one.priority is not None:
            levels = part.values(one.priority)
            priorities = [_MIDDLE if level is None else min(max(level, 1), 10) for level in levels]
        means = one.name in self._meaning and (one.says.says() or by_position(one.policy))
        only_voids = means == ["void"] and not by_position(one.policy)
        if isinstance(one.policy, Unordered) and one.gate is None:
            none: list[int | None] = [None] * n
            meanings = self._voids(one, part, none) if only_voids else None
            return _Columns([_NO_GROUP] * n, none, none, priorities, [None] * n, meanings)
        keys = self._keys(str(one.group.by), part)
        if led is not None:
            keys = [key if to is None else to.group for key, to in zip(keys, led, strict=True)]
        reasons = [key_problem(key) for key in keys]
        if (default := one.group.default) is not None:
            keys = [default if why else key for key, why in zip(keys, reasons, strict=True)]
            reasons = [Reason.NONE] * n
        sequences: list[int | None] = [None] * n
        if not isinstance(one.policy, Fifo | Unordered) and not by_ticket(one):
            sequences = part.values(one.numbered_by)
            reasons = [
                why or (Reason.SEQUENCE_MISSING if number is None else Reason.NONE)
                for why, number in zip(reasons, sequences, strict=True)
            ]
        meanings = None
        if only_voids:
            meanings = self._voids(one, part, sequences)
        elif means:
            sequences, reasons, meanings = self._meant(one, part, sequences, reasons)
        sizes, meanings = self._sizes_or_marks(one, part, sequences, meanings, messages)
        problems: list[str | None] = [None] * n
        if any(reasons):
            problems = [REASONS[why] if why else None for why in reasons]
            keys = [None if why in _UNKEPT else key for key, why in zip(keys, reasons, strict=True)]
        return _Columns(keys, sequences, sizes, priorities, problems, meanings)

    def _sizes_or_marks(
        self,
        one: Queue,
        part: _QueueRows,
        sequences: Sequence[int | None],
        meanings: Sequence[str | None] | None,
        messages: Sequence[Message] | None,
    ) -> tuple[Sequence[int | None], Sequence[str | None] | None]:
        """The sizes of sets, or marks; and the meanings, with the contents of parts that are compared."""
        if isinstance(one.policy, UnitOfWork):
            sizes = self._sizes(one.name, one.policy, part, sequences)
            contents = None if one.policy.once else _fingerprints(one.compare, part, messages)
            return sizes, meanings if contents is None else Meaning.with_contents(meanings, sequences, contents)
        its = self._stays.get(one.name)
        # Whether messages open their groups, and close them.
        bits = (
            None
            if its is None
            else sum((bit * part.holds(each) for bit, each in its), np.zeros(len(part.rows), np.int64)).tolist()
        )
        # What a gate lets pass has numbers that the box gave: it is compared with nothing.
        compares = isinstance(one.policy, Standard) and not self._gates.is_gate(one.name)
        prints = _fingerprints(one.compare, part, messages) if compares else None
        marked = prints is not None or bits is not None
        return written(prints, bits) if marked else [None] * len(part.rows), meanings

    def _voids(self, one: Queue, part: _QueueRows, sequences: Sequence[int | None]) -> Sequence[str | None] | None:
        """The meanings of messages whose numbers are plain, and some of which are voids; None if none is."""
        ((_, filter_),) = self._meaning[one.name]
        are_void = part.holds(filter_).tolist()
        if not any(are_void):
            return None
        return [
            Meaning(VOID, number or 0).written() if is_void else None
            for is_void, number in zip(are_void, sequences, strict=True)
        ]

    def _meant(
        self, one: Queue, part: _QueueRows, sequences: list[int | None], reasons: list[Reason]
    ) -> tuple[list[int | None], list[Reason], Sequence[str | None] | None]:
        """Numbers, problems and meanings of messages, by what the queue's numbers mean."""
        says = one.says
        columns_of = {name: part.values(name) for name in says.names}
        columns_of |= {text: part.holds(filter_).tolist() for text, filter_ in self._meaning[one.name]}
        reader = NumberReader(one.policy_of(None), says)
        numbers, whys = [*sequences], [*reasons]
        texts: list[str | None] = []
        for at, values in enumerate(zip(*columns_of.values(), strict=True)):
            value = dict(zip(columns_of, values, strict=True))
            read = reader.read(None, value, void=False)
            bare = read.reason or read.position is not None or reader.is_bare(value)
            numbers[at] = None if bare else read.number
            if whys[at] in (Reason.NONE, Reason.SEQUENCE_MISSING):
                whys[at] = read.reason
            texts.append(None if read.reason else Meaning.of(read))
        return numbers, whys, texts if any(texts) else None

    def _sizes(
        self, name: str, policy: UnitOfWork, part: _QueueRows, sequences: Sequence[int | None]
    ) -> list[int | None]:
        if (last := self._lasts.get((name, policy))) is not None:
            is_last = part.holds(last).tolist()
            return [number if last else None for last, number in zip(is_last, sequences, strict=True)]
        sizes = part.values(policy.size if isinstance(policy.size, str) else None)
        # Each number below 1 is invalid: the lowest number has another meaning in the kernel.
        return [None if size is None else max(size, 0) for size in sizes]

    def _keys(self, name: str | None, part: _QueueRows) -> list[str | None]:
        if name is None or name not in part.columns:
            return [None] * len(part.rows)
        kind = self._types.properties[name]
        return [None if value is None else key(value, kind) for value in part.values(name)]


def _fingerprints(
    compare: Sequence[str] | None, part: _QueueRows, messages: Sequence[Message] | None
) -> list[int] | None:
    """The fingerprints of messages, by which they are compared, 0: one isn't compared; None: none is."""
    if compare is not None:
        names = [name for name in compare if name in part.columns]
        return [of_value({name: plain(part.columns[name].values[row]) for name in names}) for row in part.rows]
    if messages is None:
        return None
    return [of_content(messages[row]) for row in part.rows]


#: Keys that can't be kept as text.
_UNKEPT = frozenset({Reason.KEY_HAS_NUL, Reason.KEY_NOT_TEXT, Reason.KEY_TOO_LONG})


def _merged(made: Sequence[_Columns], places: Sequence[Sequence[int]], size: int) -> _Columns:
    """The columns of several queues as one, each value at its place."""
    columns: list[list[Any]] = [[None] * size for _ in range(5)]
    meanings: list[str | None] | None = None if all(part[-1] is None for part in made) else [None] * size
    for (*part, its_meanings), its in zip(made, places, strict=True):
        for column, values in zip(columns, part, strict=True):
            for place, value in zip(its, values, strict=True):
                column[place] = value
        if meanings is not None and its_meanings is not None:
            for place, text in zip(its, its_meanings, strict=True):
                meanings[place] = text
    groups, sequences, sizes, priorities, problems = columns
    return _Columns(groups, sequences, sizes, priorities, problems, meanings)


def _arrays(found: Mapping[str, Column], names: Iterable[str]) -> dict[str, Values]:
    return {name: found[name].arrays() for name in names}


def router_of(definitions: Definitions) -> Router:
    """The router for definitions; made at the first call."""
    return definitions.derived(Router)


def broken_in(definitions: Definitions) -> tuple[BrokenDefinition, ...]:
    """The unusable definitions, sorted: definitions that can't be read, and definitions that contradict others."""
    unfit = {key: BrokenDefinition(*key, _said(error)) for key, error in router_of(definitions).unfit.items()}
    found = {**unfit, **definitions.unreadable}
    return tuple(found[key] for key in sorted(found))


def _said(error: UsageError) -> str:
    return f"{error.where}: {error.what}"[:_LONGEST_WHY] if error.where else error.what[:_LONGEST_WHY]
