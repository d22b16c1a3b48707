"""Classes of exceptions by their names: ``module:Class``, or the name alone of one that Python has built in."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seriatim.errors import UsageError, shown
from seriatim.kernel.arguments import refusing
from seriatim.kernel.fields import Declaration, Kind, Texts, Wrong, takes
from seriatim.pipeline.declared.function import checked_function, load_function

_REMEDY = "write module:Class, such as httpx:TransportError, or ValueError"


@dataclass(frozen=True)
class _ErrorClass(Kind):
    """A class of exceptions, or its name. A class that is named need not exist."""

    def check(self, value: Any) -> Any:
        if isinstance(value, type) and issubclass(value, BaseException):
            return value
        if not isinstance(value, str) or not _names_a_class(value):
            raise Wrong(_REMEDY, f"{shown(value)} doesn't name a class of exceptions")
        return value


_CLASSES = Texts(_ErrorClass(), f"a list: {_REMEDY}")


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class FaultKinds(Declaration):
    """What kind of fault a class of exceptions is, besides `Transient` and `Business`. Of two classes that say different things, the one
    that is nearer to the exception's own counts.

    Args:
        transient: classes of exceptions after which a retry may succeed, or their names (``module:Class``, or
            ``ValueError``): they are tried as often as `Retry` says even where the handler's own code raised them. Every other
            exception is, too; but a `TypeError`, `AttributeError`, `NameError` or `ImportError` that the handler's own code
            raised is tried twice.
        business: classes of exceptions, or their names, after which a retry won't help: the message fails at once, as at
            `Business`.

    Raises:
        UsageError: something doesn't name a class of exceptions, or a class is both.
    """

    transient: Sequence[type[BaseException] | str] = takes(_CLASSES, ())
    business: Sequence[type[BaseException] | str] = takes(_CLASSES, ())

    def __post_init__(self) -> None:
        self._check_fields()
        for one in self.transient:
            if one in self.business:
                raise self._wrong(
                    ("transient", "business"),
                    f"{one if isinstance(one, str) else one.__name__} can't be both transient and business",
                    "leave it out of one of them",
                )


def load_error_class(name: str, folders: Sequence[Path]) -> type[BaseException]:
    found = load_function(name if ":" in name else f"builtins:{name}", folders)
    if not (isinstance(found, type) and issubclass(found, BaseException)):
        raise UsageError(f"{name} is not a class of exceptions", remedy=_REMEDY)
    return found


def _names_a_class(name: str) -> bool:
    if ":" not in name:
        return isinstance(getattr(builtins, name, None), type)
    try:
        checked_function(name)
    except UsageError:
        return False
    return True
