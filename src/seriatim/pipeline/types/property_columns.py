"""The properties of a batch as columns: lists, and for filters arrays in the form of `filter_eval`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Context
from typing import Any

from seriatim.kernel.filters.filter import Type, ValueKind
from seriatim.kernel.filters.filter_eval import Values, column
from seriatim.pipeline.declared.location import DEFAULT_LOCATION
from seriatim.pipeline.types.python_values import given_converter
from seriatim.pipeline.types.typed_message import Typed

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# More digits than any property has.
_EXACT = Context(prec=100)


@dataclass(slots=True)
class Column:
    """A property of a batch. Its arrays are made only if they are needed: for one message they cost more than all other work."""

    #: A value for each message, as `filter_eval.column` takes them; None if it is unknown.
    values: list[Any]
    kind: Type
    _arrays: Values | None = field(default=None, init=False)

    def arrays(self) -> Values:
        if self._arrays is None:
            self._arrays = column(self.values, self.kind)
        return self._arrays


def columns(typed: Typed, properties: Mapping[str, Type], *, received_at: datetime | None = None) -> dict[str, Column]:
    """The columns of some properties, each as long as the batch. A property that a message doesn't have is unknown; for a message with a
    problem everything but `type` and `message_id` is unknown. A property of a message whose type isn't declared is converted if possible,
    else unknown. `ticket` and `epoch` are unknown: a message is numbered when its transaction commits, and routed before.
    """
    return {name: Column(_values(typed, name, kind, received_at), kind) for name, kind in properties.items()}


def _values(typed: Typed, name: str, kind: Type, received_at: datetime | None) -> list[Any]:
    match name:
        case "type":
            return [message.type for message in typed.messages]
        case "message_id":
            return [message.message_id for message in typed.messages]
        case "ticket" | "epoch":
            return [None] * len(typed.messages)
        case "received_at":
            return _stored([received_at], kind) * len(typed.messages)
    values: list[Any] = [context.get(name) for context in typed.contexts]
    if name == "location":
        fine = [problem is None for problem in typed.problems]
        values = [(one or DEFAULT_LOCATION) if known else None for one, known in zip(values, fine, strict=True)]
    elif typed.undeclared:
        _convert(values, typed.undeclared, kind)
    return _stored(values, kind)


def _convert(values: list[Any], rows: Sequence[int], kind: Type) -> None:
    """Convert values to their property's type, or to None."""
    convert = given_converter(str(kind))
    for row in rows:
        if (value := values[row]) is not None:
            try:
                values[row] = convert(value)
            except (ValueError, ArithmeticError):
                values[row] = None


def _stored(values: list[Any], kind: Type) -> list[Any]:
    """Decimals as their whole numbers, timestamps as their microseconds."""
    match kind.kind:
        case ValueKind.DECIMAL:
            return [None if one is None else int(one.scaleb(kind.scale, _EXACT)) for one in values]
        case ValueKind.TIMESTAMP:
            return [None if one is None else (one - _EPOCH) // _MICROSECOND for one in values]
    return values
