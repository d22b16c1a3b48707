"""`body_as` and `context_as`: a message's body or properties as a model of Pydantic or msgspec, neither of which is needed otherwise."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any, TypeVar

from seriatim.errors import Business, UsageError
from seriatim.pipeline.types.message import Message

Model = TypeVar("Model")
#: The most faults of a body in an error.
_MOST = 3


def body_as(model: type[Model], message: Message) -> Model:
    """Read a message's body, which is JSON, as an object of a model.

    Args:
        model: a class of Pydantic (``BaseModel``, or a dataclass of its) or of msgspec (``Struct``).
        message: the message.

    Returns:
        an object of the class.

    Raises:
        Business: the body isn't JSON, or doesn't fit. The error names the place of each fault, such as ``$.lines[2].price``.
        UsageError: the class is of another kind.
    """
    return _as(model, message, message.body)


def context_as(model: type[Model], message: Message) -> Model:
    """Read a message's properties as an object of a model. Properties that the model doesn't name are left out.

    Args:
        model: as for `body_as`.
        message: the message.

    Returns:
        an object of the class.

    Raises:
        Business: the properties don't fit. The error names each fault, such as ``$.customer: Field required``.
        UsageError: the class is of another kind.
    """
    return _as(model, message, dict(message.context))


def _as(model: Any, message: Message, given: bytes | dict[str, Any]) -> Any:
    """An object of a model, of JSON or of values by their names."""
    if isinstance(model, type) and hasattr(model, "__pydantic_validator__"):
        return _of_pydantic(model, message, given)
    if isinstance(model, type) and hasattr(model, "__struct_fields__"):
        return _of_msgspec(model, message, given)
    raise UsageError(
        f"{getattr(model, '__qualname__', model)!r} is not a model", remedy="a Pydantic model, or a msgspec.Struct"
    )


def _of_pydantic(model: Any, message: Message, given: bytes | dict[str, Any]) -> Any:
    validator = model.__pydantic_validator__
    try:
        return validator.validate_json(given) if isinstance(given, bytes) else validator.validate_python(given)
    except ValueError as error:
        if not hasattr(error, "errors"):
            raise
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        raise _refused(model, message, given, (f"{_path(one['loc'])}: {one['msg']}" for one in faults)) from None


def _of_msgspec(model: Any, message: Message, given: bytes | dict[str, Any]) -> Any:
    msgspec = importlib.import_module("msgspec")
    try:
        return (
            msgspec.json.decode(given, type=model) if isinstance(given, bytes) else msgspec.convert(given, type=model)
        )
    except RecursionError:
        raise _refused(model, message, given, ["$: it is nested too deeply"]) from None
    except msgspec.MsgspecError as error:
        text, _, path = str(error).partition(" - at `")
        raise _refused(model, message, given, [f"{path.removesuffix('`') or '$'}: {text}"]) from None


def _path(places: Iterable[str | int]) -> str:
    """Return a place in JSON, as msgspec writes it."""
    return "$" + "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in places)


def _refused(model: type, message: Message, given: object, faults: Iterable[str]) -> Business:
    found = list(faults)
    more = f"; and {len(found) - _MOST} more" if len(found) > _MOST else ""
    whose = "the body doesn't" if isinstance(given, bytes) else "the properties don't"
    return Business(
        f"{whose} fit {model.__qualname__}: {'; '.join(found[:_MOST])}{more}", where=f"message {message.message_id}"
    )
