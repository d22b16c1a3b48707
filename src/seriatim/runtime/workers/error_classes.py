"""The user's declarations of classes of exceptions, given as classes or by their names."""

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
    places = [Path(folder) for folder in folders] or [Path.cwd()]
    classes = ErrorClasses(
        tuple(_loaded("transient", name, places) for name in _listed("transient", transient)),
        tuple(_loaded("business", name, places) for name in _listed("business", business)),
    )
    if classes.contradictions:
        raise UsageError(
            f"{classes.contradictions[0].__name__} can't be both transient and business",
            remedy="leave it out of one of them",
        )
    return classes


def _listed(parameter: str, classes: Sequence[type[BaseException] | str]) -> Sequence[type[BaseException] | str]:
    if isinstance(classes, str) or not isinstance(classes, Sequence):
        raise UsageError(
            f"{parameter} can't be {shown(classes)}", remedy=f"a list, such as {parameter}=[httpx.TransportError]"
        )
    return classes


def _loaded(parameter: str, exception: type[BaseException] | str, folders: Sequence[Path]) -> type[BaseException]:
    if isinstance(exception, str):
        return load_error_class(exception, folders, parameter)
    if not (isinstance(exception, type) and issubclass(exception, BaseException)):
        raise UsageError(
            f"{shown(exception)} is not a class of exceptions", remedy=f"such as {parameter}=[httpx.TransportError]"
        )
    return exception
