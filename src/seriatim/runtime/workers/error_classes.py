"""What a user says of classes of exceptions, given as classes or by their names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from seriatim.errors import UsageError, shown
from seriatim.kernel.operators.fault import ErrorClasses
from seriatim.pipeline.declared.error_class import load_error_class

__all__ = ["error_classes"]


def error_classes(
    transient: Sequence[type[BaseException] | str],
    business: Sequence[type[BaseException] | str],
    folders: Sequence[str],
) -> ErrorClasses:
    """The classes, imported where a name is given."""
    places = [Path(one) for one in folders] or [Path.cwd()]
    found = ErrorClasses(
        tuple(_loaded("transient", one, places) for one in _listed("transient", transient)),
        tuple(_loaded("business", one, places) for one in _listed("business", business)),
    )
    if found.contradictions:
        raise UsageError(
            f"{found.contradictions[0].__name__} can't be both transient and business",
            remedy="leave it out of one of them",
        )
    return found


def _listed(what: str, given: Sequence[type[BaseException] | str]) -> Sequence[type[BaseException] | str]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise UsageError(f"{what} can't be {shown(given)}", remedy=f"a list, such as {what}=[httpx.TransportError]")
    return given


def _loaded(what: str, given: type[BaseException] | str, folders: Sequence[Path]) -> type[BaseException]:
    if isinstance(given, str):
        return load_error_class(given, folders, what)
    if not (isinstance(given, type) and issubclass(given, BaseException)):
        raise UsageError(
            f"{shown(given)} is not a class of exceptions", remedy=f"such as {what}=[httpx.TransportError]"
        )
    return given
