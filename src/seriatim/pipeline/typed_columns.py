"""The properties of a batch as columns for filters, in the form of `filter_eval`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Context
from typing import Any

import numpy as np

from seriatim.kernel.filter import Kind, Type
from seriatim.kernel.filter_eval import Values, column
from seriatim.pipeline.given import given_converter
from seriatim.pipeline.location import DEFAULT_LOCATION
from seriatim.pipeline.message import Property
from seriatim.pipeline.typed import Typed

__all__ = ["columns"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# More digits than any property has.
_EXACT = Context(prec=100)


def columns(typed: Typed, properties: Mapping[str, Type], *, received_at: datetime | None = None) -> dict[str, Values]:
    """The columns of some properties, each as long as the batch.

    What a message doesn't have is unknown, and so is everything but `type` and `message_id` where there is a problem.
    A property of a message whose type isn't declared is converted where it can be, and else unknown. `ticket` and
    `epoch` are unknown: a message is numbered when its transaction commits, and routed before.

    Args:
        typed: the batch.
        properties: those that are wanted, with the types that they have in ``MessageTypes.properties``.
        received_at: when the messages are received, the time of the publisher's transaction; None: unknown.
    """
    return {name: _column(typed, name, kind, received_at) for name, kind in properties.items()}


def _column(typed: Typed, name: str, kind: Type, received_at: datetime | None) -> Values:
    match name:
        case "type":
            return column([message.type for message in typed.messages], kind)
        case "message_id":
            return column([message.message_id for message in typed.messages], kind)
        case "ticket" | "epoch":
            return column([None] * len(typed.messages), kind)
        case "received_at":
            return _same(received_at, kind, len(typed.messages))
    values: list[Any] = [context.get(name) for context in typed.contexts]
    if name == "location":
        fine = [problem is None for problem in typed.problems]
        values = [(one or DEFAULT_LOCATION) if known else None for one, known in zip(values, fine, strict=True)]
    elif typed.undeclared:
        _convert(values, typed.undeclared, kind)
    return column(_stored(values, kind), kind)


def _same(moment: datetime | None, kind: Type, n: int) -> Values:
    one = column(_stored([moment], kind), kind)
    return Values(np.repeat(one.values, n), np.repeat(one.known, n))


def _convert(values: list[Any], rows: Sequence[int], kind: Type) -> None:
    """Make of some values what their property's type demands, or None."""
    convert = given_converter(str(kind))
    for row in rows:
        if (value := values[row]) is not None:
            try:
                values[row] = convert(value)
            except (ValueError, ArithmeticError):
                values[row] = None


def _stored(values: Sequence[Property], kind: Type) -> Sequence[Any]:
    """Decimals as their whole numbers, moments as their microseconds."""
    match kind.kind:
        case Kind.DECIMAL:
            return [None if one is None else int(one.scaleb(kind.scale, _EXACT)) for one in values]  # type: ignore[union-attr]
        case Kind.TIMESTAMP:
            return [None if one is None else (one - _EPOCH) // _MICROSECOND for one in values]  # type: ignore[operator]
    return values
