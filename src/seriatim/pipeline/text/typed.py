"""Refuse arguments of another kind than their annotation, for classes that no table of fields declares."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from seriatim.errors import UsageError, is_whole, shown
from seriatim.pipeline.text.storable import fits_text

P = ParamSpec("P")
T = TypeVar("T")


def _is_text(value: object) -> bool:
    return isinstance(value, str) and fits_text(value)


def _are_texts(values: Sequence[object]) -> bool:
    return not isinstance(values, str | bytes) and all(map(_is_text, values))


def _is_number(value: object) -> bool:
    if isinstance(value, float):
        return not math.isnan(value)
    return is_whole(value)


def _is_path(value: object) -> bool:
    return isinstance(value, os.PathLike)


#: By annotation: which values fit, and the words for them.
_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "None": (lambda value: value is None, ""),
    "float": (_is_number, "a number"),
    "str": (_is_text, "text without NUL"),
    "bool": (lambda value: isinstance(value, bool), "True or False"),
    "int": (is_whole, "a whole number"),
    "Path": (_is_path, "a path"),
    "Sequence[str]": (lambda value: isinstance(value, Sequence) and _are_texts(value), "a list of texts"),
    "Mapping[str, str]": (
        lambda value: isinstance(value, Mapping) and _are_texts([*value, *value.values()]),
        "a mapping of text to text",
    ),
}


def typed(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function: an argument that doesn't fit its annotation raises UsageError. Annotations of other kinds it leaves alone."""
    parts = {name: told.split(" | ") for name, told in function.__annotations__.items() if name != "return"}
    checked = {name: [_KINDS[part] for part in its] for name, its in parts.items() if _KINDS.keys() >= set(its)}
    names = function.__code__.co_varnames

    @functools.wraps(function)
    def called(*args: P.args, **values: P.kwargs) -> T:
        for name, value in (*zip(names, args, strict=False), *values.items()):
            kinds = checked.get(name, ())
            if kinds and not any(fits(value) for fits, _ in kinds):
                remedy = " or ".join(words for _, words in kinds if words)
                # A text or a mapping may have a password in it.
                what = shown(value) if value is None or isinstance(value, int | float) else f"a {type(value).__name__}"
                raise UsageError(f"{name} can't be {what}", remedy=remedy, argument=name)
        return function(*args, **values)

    return called
