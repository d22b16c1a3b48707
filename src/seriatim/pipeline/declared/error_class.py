"""Classes of exceptions by their names: ``module:Class``, or the name alone of one that Python has built in."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from pathlib import Path

from seriatim.errors import UsageError, shown
from seriatim.pipeline.declared.function import checked_function, load_function

__all__ = ["checked_error_classes", "load_error_class"]

_REMEDY = "write module:Class, such as httpx:TransportError, or ValueError"


def checked_error_classes(names: object, what: str) -> tuple[str, ...]:
    """Check that a value is a list of names of classes of exceptions. The classes need not exist."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise UsageError(f"{what} can't be {shown(names)}", remedy=f"a list: {_REMEDY}", argument=what)
    for one in names:
        if not isinstance(one, str):
            raise UsageError(f"{what}: {shown(one)} doesn't name a class of exceptions", remedy=_REMEDY, argument=what)
        _checked(one, what)
    return tuple(names)


def load_error_class(name: str, folders: Sequence[Path], what: str) -> type[BaseException]:
    """Import a class of exceptions."""
    _checked(name, what)
    found = load_function(name if ":" in name else f"builtins:{name}", folders)
    if not (isinstance(found, type) and issubclass(found, BaseException)):
        raise UsageError(f"{name} is not a class of exceptions", remedy=_REMEDY)
    return found


def _checked(name: str, what: str) -> None:
    """Refuse what can't name a class."""
    if ":" in name:
        try:
            checked_function(name)
        except UsageError as error:
            raise UsageError(
                f"{what}: {shown(name)} doesn't name a class of exceptions", remedy=_REMEDY, argument=what
            ) from error
    elif not isinstance(getattr(builtins, name, None), type):
        raise UsageError(f"{what}: Python has no class {shown(name)}", remedy=_REMEDY, argument=what)
