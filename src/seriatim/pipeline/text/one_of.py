"""A text that names one of several kinds, ``http: {url: …}``, and what is made of it.

``${NAME}`` is replaced from the environment of the process; only there may a password come from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from seriatim.errors import DeclarationError, UsageError
from seriatim.pipeline.text.document import Language, Problems, parse
from seriatim.pipeline.text.section import Section

T = TypeVar("T")
#: Reads the section of a kind, and the same with its ``${NAME}`` not replaced; the function that it returns makes the value.
Maker = Callable[[Section, Section], Callable[[], T]]


def one_of(
    text: str, kinds: Mapping[str, Maker[T]], environment: Mapping[str, str], language: Language, example: str
) -> T:
    """Parse a text, and make the value of the kind that it names."""
    what, problems = language.name, Problems(Path(language.name))
    plain = parse(text, problems, {name: f"${{{name}}}" for name in environment}, language=language)
    document = parse(text, problems, environment, language=language)
    made: Callable[[], T] | None = None
    chosen = ""
    if plain is not None and document is not None:
        whole = Section(document, problems)
        named = [kind for kind in kinds if whole.has(kind)]
        for kind in kinds:
            whole.known(kind)
        whole.finish()
        if len(named) != 1:
            *others, last = kinds
            whole.fault(None, f"a {what} needs one of {', '.join(others)} and {last}", f"such as {example}")
        elif (entry := whole.section(chosen := named[0], required=True)) is not None:
            unreplaced = Section(plain, Problems(Path(what))).section(chosen)
            assert unreplaced is not None  # noqa: S101 -- it is the same text
            made = kinds[chosen](entry, unreplaced)
            entry.finish()
    if faults := problems.found():
        raise faults[0] if len(faults) == 1 else DeclarationError("; ".join(map(str, faults)), where=what)
    assert made is not None  # noqa: S101 -- or there was a fault
    try:
        return made()
    except DeclarationError:
        raise
    except UsageError as error:
        raise UsageError(error.what, where=error.where or f"{what} {chosen}", remedy=error.remedy) from None


def texts(entry: Section, key: str) -> dict[str, str]:
    """A mapping of names to texts; faults are reported."""
    section = entry.section(key)
    if section is None:
        return {}
    return {name: text for name in section.names() if (text := section.text(name, required=True)) is not None}


def later(module: str, name: str, /, *arguments: Any, **values: Any) -> Callable[[], Any]:
    """What makes an object of a class whose module, perhaps of an extra, is imported only then."""
    return lambda: getattr(import_module(module), name)(*arguments, **values)


def given(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
