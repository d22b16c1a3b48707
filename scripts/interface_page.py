"""Write `docs/reference/interface.md`: every public name, with what it takes. A test compares: what goes or changes is seen."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import seriatim
from seriatim import operations, spark, testing

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "interface.md"
HEAD = """# The public interface

Every public name, with what it takes, as `python -m scripts.interface_page` writes it. A name that isn't here may change at any time. What these
names do is in their docstrings and in the other pages of the reference; [message box](message-box.md) begins with what most people need.
"""


def page() -> str:
    """The page."""
    parts = [HEAD]
    for title, names in modules():
        lines = [line for name, thing in names for line in _described(name, thing)]
        parts.append(f"## `{title}`\n\n```text\n" + "\n".join(lines) + "\n```\n")
    return "\n".join(parts)


def modules() -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """The public modules, each with its names."""
    yield "seriatim", [(name, getattr(seriatim, name)) for name in sorted(seriatim.__all__)]
    for module in (spark, testing):
        yield module.__name__, [(name, getattr(module, name)) for name in sorted(module.__all__)]
    for found in sorted(pkgutil.iter_modules(operations.__path__, "seriatim.operations."), key=lambda one: one.name):
        module = importlib.import_module(found.name)
        offered = getattr(module, "__all__", [name for name in vars(module) if not name.startswith("_")])
        found_here = [(name, getattr(module, name)) for name in sorted(offered)]
        own = [(name, thing) for name, thing in found_here if getattr(thing, "__module__", "").startswith(found.name)]
        if own or hasattr(module, "__all__"):
            yield found.name, own


def _described(name: str, thing: Any) -> Iterator[str]:
    if inspect.isclass(thing):
        bases = ", ".join(base.__name__ for base in thing.__bases__ if base is not object)
        yield f"class {name}({bases})" if issubclass(thing, BaseException) else f"class {name}{_signature(thing)}"
        for member, what in sorted(_members(thing).items()):
            if member.startswith("_") or inspect.ismemberdescriptor(what):
                continue
            if isinstance(what, property):
                yield f"    {member}"
            elif callable(raw := getattr(what, "__func__", what)):
                yield f"    {member}{_signature(raw)}"
    elif callable(thing):
        yield f"{name}{_signature(thing)}"
    else:
        yield name


def _members(kind: type) -> dict[str, Any]:
    """What a class has itself, and the properties that it has of others."""
    inherited = {name: what for name in dir(kind) if isinstance(what := inspect.getattr_static(kind, name), property)}
    return inherited | dict(vars(kind))


def _signature(thing: Any) -> str:
    """The parameters with their defaults; types are in the docstrings, and change in what they are called."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return "(…)"
    given = [
        one.replace(annotation=inspect.Parameter.empty, default=_default(one.default))
        for one in found.parameters.values()
        if one.name not in ("self", "cls")
    ]
    return str(found.replace(parameters=given, return_annotation=inspect.Signature.empty))


def _default(value: Any) -> Any:
    """A default that is written alike in every process."""
    if value is inspect.Parameter.empty:
        return value
    if isinstance(value, frozenset):
        return tuple(sorted(map(str, value)))
    return ... if callable(value) else value.value if isinstance(value, Enum) else value


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
