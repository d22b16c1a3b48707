"""Typed getters: a property of a message as a value of one Python type, or a `Business` fault that names it."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

from seriatim.errors import Business


class TypedGetters:
    """The getters of a message's properties. An optional property is read with ``message.context.get(name)``."""

    __slots__ = ()

    context: Mapping[str, Any]
    message_id: str

    def text(self, name: str) -> str:
        """A property of type string."""
        return self._typed(name, "text", str)

    def whole(self, name: str) -> int:
        """A property of type long."""
        return self._typed(name, "a whole number", int)

    def decimal(self, name: str) -> Decimal:
        """A property of type decimal; also of type long."""
        return Decimal(self._typed(name, "a decimal number", Decimal, int))

    def double(self, name: str) -> float:
        """A property of type double; also of type long."""
        return float(self._typed(name, "a number", float, int))

    def flag(self, name: str) -> bool:
        """A property of type boolean."""
        return self._typed(name, "true or false", bool)

    def moment(self, name: str) -> datetime:
        """A property of type timestamp."""
        return self._typed(name, "a timestamp", datetime)

    def _typed(self, name: str, wanted: str, *types: type) -> Any:
        value = self.context.get(name)
        if isinstance(value, types) and (not isinstance(value, bool) or bool in types):
            return value
        if value is None:
            what = f"property {name!r} is null" if name in self.context else f"there is no property {name!r}"
            remedy = f"it has {', '.join(sorted(self.context)) or 'none'}; context.get({name!r}) reads an optional one"
        else:
            what, remedy = (
                f"property {name!r} is {type(value).__name__}, not {wanted}",
                "declare its type in the message type",
            )
        raise Business(what, where=f"message {self.message_id}", remedy=remedy)
