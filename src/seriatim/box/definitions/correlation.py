"""Correlation: find the running instances to which a message belongs, by the values that they have added.

This module decides how a property's value is stored for the search, and which queues have such properties. It knows no
connections: the caller passes a function that searches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from functools import partial
from typing import Any, NamedTuple

from seriatim.box.definitions.definition import BoxSubscription, Definitions
from seriatim.box.postgres.statements import Statements
from seriatim.errors import UsageError
from seriatim.kernel.filters.filter import Type, ValueKind
from seriatim.kernel.groups.policy import UnitOfWork, Unordered
from seriatim.kernel.groups.sequence import key_problem
from seriatim.pipeline.text.section import likely
from seriatim.pipeline.types.property_columns import Column
from seriatim.pipeline.types.python_values import given_converter

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_EXACT = Context(prec=100)
#: Known at the commit only, after a message is routed; or no application's.
_UNFIT = frozenset({"epoch", "ticket", "received_at", "message_id", "type", "to"})


class ValueQuery(NamedTuple):
    """A query whether an instance of a queue has added a value of a property."""

    queue_id: int
    property: str
    value: str


class InstanceMatch(NamedTuple):
    """The result of a query: the instance's group, and the starting subscription that made the instance."""

    group: str
    subscription_id: int


#: Answers for each that is asked, in order; None where no instance has added it.
Look = Callable[[Sequence[ValueQuery]], Sequence[InstanceMatch | None]]


def looking(statements: Statements) -> Look:
    """A function that searches in a box, in the transaction, with one statement for a batch."""
    return partial(_look, statements)


def _look(statements: Statements, asked: Sequence[ValueQuery]) -> list[InstanceMatch | None]:
    queue_ids, properties, values = (list(column) for column in zip(*asked, strict=True))
    rows = statements.rows("led_by", of_queues=queue_ids, properties=properties, its_values=values)
    return [None if group is None else InstanceMatch(group, number) for group, number in rows]


class Correlation:
    """The properties that lead messages to instances, in one version of the definitions."""

    def __init__(self, definitions: Definitions, properties: Mapping[str, Type]) -> None:
        self._properties = properties
        self._starting: dict[int, BoxSubscription] = {}
        #: By name, the starting subscriptions whose queue or properties don't fit, with the reason: they lead no messages.
        self.unfit: dict[str, UsageError] = {}
        names: dict[str, tuple[str, ...]] = {}
        for one in definitions.subscriptions.values():
            if one.declared.starts is None or definitions.queues[one.declared.to].problem is not None:
                continue
            try:
                self._check(definitions, one.declared.name)
            except UsageError as error:
                self.unfit[one.declared.name] = error
                continue
            self._starting[one.subscription_id] = one
            if one.state != "unenlisted" and len(one.declared.correlate) > 1:
                known = names.get(one.declared.to, ())
                names[one.declared.to] = tuple(dict.fromkeys((*known, *one.declared.correlate[1:])))
        #: By queue name, the properties by which its instances are found besides their group; queues without such properties are left
        #: out.
        self.names: Mapping[str, tuple[str, ...]] = names

    def _check(self, definitions: Definitions, name: str) -> None:
        subscription = definitions.subscriptions[name].declared
        queue = definitions.queues[subscription.to].declared
        where = f"subscription {name!r}"
        if isinstance(queue.policy, Unordered | UnitOfWork):
            what = f"instances can't be in queue {queue.name!r}, which is {type(queue.policy).__name__}"
            raise UsageError(what, where=where, remedy="an instance has a group of its own, in order: such as Fifo()")
        if queue.group.by_type is not None:
            what = f"queue {queue.name!r} puts each type in order by itself, and an instance gets messages of several"
            raise UsageError(what, where=where, remedy="let it lead to a queue without by_type")
        if queue.group.default is not None:
            what = f"queue {queue.name!r} has a default group, and all that is in it would be one instance"
            raise UsageError(what, where=where, remedy="leave the default out")
        if subscription.correlate[0] != queue.group.by:
            what = f"it correlates by {subscription.correlate[0]!r}, and the group of queue {queue.name!r} is {queue.group.by!r}"
            raise UsageError(what, where=where, remedy=f"name {queue.group.by!r} first")
        for one in subscription.correlate:
            if one not in self._properties or one in _UNFIT:
                known = self._properties.keys() - _UNFIT
                raise UsageError(
                    f"instances can't be found by {one!r}",
                    where=where,
                    remedy=likely(one, known) or "declare it in a type",
                )

    def asked(
        self, queue_id: int, names: Sequence[str], found: Mapping[str, Column], rows: Sequence[int]
    ) -> tuple[list[int], list[ValueQuery]]:
        """The queries for some rows of a batch: the rows and the query of each, one property after another."""
        places: list[int] = []
        wanted: list[ValueQuery] = []
        for name in names:
            column, kind = found[name], self._properties[name]
            for row in rows:
                value = column.values[row]
                if value is not None and not key_problem(text := key(value, kind)):
                    places.append(row)
                    wanted.append(ValueQuery(queue_id, name, text))
        return places, wanted

    def leads(self, subscription_id: int, queue: str, kind: str) -> bool:
        """Whether messages of a type are led to the instances that a starting subscription has made in a queue."""
        one = self._starting.get(subscription_id)
        return one is not None and one.state != "unenlisted" and one.declared.to == queue and one.may_match(kind)


def key(value: Any, kind: Type) -> str:
    """A value of a column as text, in the form of a group's key."""
    match kind.kind:
        case ValueKind.STRING:
            return str(value)
        case ValueKind.BOOLEAN:
            return str(value).lower()
        case ValueKind.DECIMAL:
            return f"{Decimal(value).scaleb(-kind.scale):f}"
    return str(value)


def key_of(value: Any, kind: Type) -> str | None:
    """A value from or for an application, in the form of `key`; None if it can't have that type."""
    if value is None:
        return None
    try:
        converted: Any = given_converter(str(kind))(value)
    except (ValueError, ArithmeticError):
        return None
    match kind.kind:
        case ValueKind.DECIMAL:
            converted = int(converted.scaleb(kind.scale, _EXACT))
        case ValueKind.TIMESTAMP:
            converted = (converted - _EPOCH) // _MICROSECOND
    return key(converted, kind)
