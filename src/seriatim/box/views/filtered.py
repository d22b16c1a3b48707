"""Functions whose parameters and help are the fields of a `Listing`."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Collection
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from seriatim.box.views.listing import Choice, Filter, Listing, filters_of

_Given = ParamSpec("_Given")
_Of = TypeVar("_Of")
_Chosen = TypeVar("_Chosen", bound=Listing)
_Rows = TypeVar("_Rows")


def filtered(
    listing: Callable[_Given, _Chosen], about: str = "", *, without: Collection[str] = (), **defaults: Any
) -> Callable[[Callable[[_Of, _Chosen], _Rows]], Callable[Concatenate[_Of, _Given], _Rows]]:
    """A function with the fields of `listing` as parameters, from one that takes it. `about`: its first parameter; empty: a method."""

    def made(read: Callable[[_Of, _Chosen], _Rows]) -> Callable[Concatenate[_Of, _Given], _Rows]:
        @wraps(read)
        def function(*args: Any, **kwargs: Any) -> _Rows:
            of, *args_of_list = args or (kwargs.pop(first.name),)
            if refused := [one for one in kwargs if one in without]:
                raise TypeError(f"{read.__name__}() got an unexpected keyword argument {refused[0]!r}")
            return read(of, listing(*args_of_list, **(defaults | kwargs)))

        first = next(iter(inspect.signature(read, follow_wrapped=False).parameters.values()))
        taken = [
            one.replace(default=defaults.get(name, one.default))
            for name, one in inspect.signature(listing).parameters.items()
            if name not in without
        ]
        offers = {one.name: filters_of(listing)[one.name] for one in taken}
        returns = inspect.get_annotations(read).get("return", inspect.Signature.empty)
        function.__signature__ = inspect.Signature([first, *taken], return_annotation=returns)  # type: ignore[attr-defined]
        function.__doc__ = _documented(inspect.getdoc(read) or "", {first.name: about} if about else {}, offers)
        function.__offers__ = offers  # type: ignore[attr-defined]
        return function

    return made


def offered(reads: Callable[..., Any]) -> dict[str, tuple[Filter, Any]]:
    """The filters that a function takes, or that a list has, with their defaults, by name; none: it takes none."""
    offers = filters_of(reads) if isinstance(reads, type) else getattr(reads, "__offers__", {})
    parameters = inspect.signature(reads).parameters
    return {name: (one, parameters[name].default) for name, one in offers.items()}


def _documented(about: str, first: dict[str, str], offers: dict[str, Filter]) -> str:
    """The help of a function: what it says of itself, and a line for each parameter."""
    lines = first | {name: one.help for name, one in offers.items()}
    lines |= {
        name: f"{one.help} One of {', '.join(f'``{value}``' for value in one.kind.values)}."
        for name, one in offers.items()
        if isinstance(one.kind, Choice)
    }
    told = "\n".join(
        textwrap.fill(f"{name}: {line}", 120, initial_indent="    ", subsequent_indent="        ")
        for name, line in lines.items()
    )
    head, mark, more = about.partition("\n\nRaises:")
    return f"{head}\n\nArgs:\n{told}\n\nRaises:\n    UsageError: a value is invalid, or there is no such queue.{more if mark else ''}\n"
