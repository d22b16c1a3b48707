"""Refuse unknown arguments of a declaration with an error of seriatim, which names the known ones."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from seriatim.errors import UsageError, meant

Kind = TypeVar("Kind", bound=type)


def refusing(error: type[UsageError]) -> Callable[[Kind], Kind]:
    """Decorate a dataclass: an unknown argument raises `error`, not Python's TypeError."""

    def decorated(kind: Kind) -> Kind:
        init = kind.__init__  # type: ignore[misc]
        signature = inspect.signature(init)
        names = signature.parameters.keys()
        arguments = getattr(kind, "arguments", None)  # of a declaration whose fields have fields

        @functools.wraps(init)
        def checked(self: object, *args: Any, **values: Any) -> None:
            if arguments is not None and not values.keys() <= names:
                args, values = (), arguments(args, values)
            try:
                init(self, *args, **values)
            except TypeError as raised:
                try:
                    signature.bind(self, *args, **values)
                except TypeError as told:
                    raise _refusal(error, kind, values, told) from None
                raise raised  # noqa: TRY201 -- the one of its own checks

        kind.__init__ = checked  # type: ignore[misc]
        return kind

    return decorated


def _refusal(error: type[UsageError], kind: type, values: dict[str, Any], type_error: TypeError) -> UsageError:
    known = [parameter for parameter in inspect.signature(kind).parameters if parameter != "_"]
    takes = f"it takes {', '.join(known) or 'no arguments'}"
    unknown = next((name for name in values if name not in known), None)
    if unknown is None:
        return error(f"{kind.__name__}: {type_error}", remedy=takes)
    return error(
        f"{kind.__name__}: unknown argument {unknown!r}", remedy=meant(unknown, known) or takes, argument=unknown
    )
