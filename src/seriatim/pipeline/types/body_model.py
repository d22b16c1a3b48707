"""`body_as`: a message's body as a model of Pydantic or msgspec, neither of which is needed otherwise."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any, TypeVar

from seriatim.errors import Business, UsageError
from seriatim.pipeline.types.message import Message

__all__ = ["body_as"]

Model = TypeVar("Model")
#: So many faults of a body are told.
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
    if isinstance(model, type) and hasattr(model, "__pydantic_validator__"):
        return _of_pydantic(model, message)
    if isinstance(model, type) and hasattr(model, "__struct_fields__"):
        return _of_msgspec(model, message)
    raise UsageError(
        f"{getattr(model, '__qualname__', model)!r} is not a model", remedy="a Pydantic model, or a msgspec.Struct"
    )


def _of_pydantic(model: Any, message: Message) -> Any:
    try:
        return model.__pydantic_validator__.validate_json(message.body)
    except ValueError as error:
        if not hasattr(error, "errors"):
            raise
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        raise _refused(model, message, (f"{_path(one['loc'])}: {one['msg']}" for one in faults)) from None


def _of_msgspec(model: Any, message: Message) -> Any:
    msgspec = importlib.import_module("msgspec")
    try:
        return msgspec.json.decode(message.body, type=model)
    except RecursionError:
        raise _refused(model, message, ["$: it is nested too deeply"]) from None
    except msgspec.MsgspecError as error:
        text, _, path = str(error).partition(" - at `")
        raise _refused(model, message, [f"{path.removesuffix('`') or '$'}: {text}"]) from None


def _path(places: Iterable[str | int]) -> str:
    """A place in JSON, as msgspec writes it."""
    return "$" + "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in places)


def _refused(model: type, message: Message, faults: Iterable[str]) -> Business:
    found = list(faults)
    more = f"; and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return Business(
        f"the body doesn't fit {model.__qualname__}: {'; '.join(found[:_MOST])}{more}",
        where=f"message {message.message_id}",
    )
