"""Read a YAML file as a tree that remembers the place of each node; this module knows no key of the file.

All faults go to `Problems`, which collects them, so that a file's faults are reported all at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from seriatim.errors import DeclarationError

# Reading takes a second for some hundred thousand characters.
_MOST_BYTES = 2_000_000
# A value may be a page long; the message that quotes it should not be.
_LONGEST = 400
# A word of fewer letters is in many other words.
_SHORT = 6


@dataclass(frozen=True, slots=True)
class Language:
    """The kind of a file, for people: its name, its beginning, and its page in the documents."""

    name: str
    outline: str
    page: str


PIPELINE_FILE = Language("pipeline file", "name: …, receive: …, route: …", "pipeline-file")


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A position in the file; line and column count from 1."""

    line: int = 1
    column: int = 1


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value: text, number, true, false or nothing; ``written`` is its text in the file. `unknown`: an environment variable in it isn't
    set, which is reported; so nothing else can be said of the value.
    """

    place: Place
    value: str | int | float | bool | None
    written: str
    unknown: bool = False


@dataclass(frozen=True, slots=True)
class Items:
    place: Place
    items: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping from text; ``keys`` has the place of each key."""

    place: Place
    entries: Mapping[str, Tree]
    keys: Mapping[str, Place]


Tree = Scalar | Items | Table


class Problems:
    """The faults of one file, as they are found. The value of ``${NAME}`` may be a password: in every text it is replaced by ``${NAME}``
    again.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._found: dict[tuple[Place, str], str] = {}
        self._remarks: list[tuple[Place, str]] = []
        self._unset: set[str] = set()
        self._secrets: dict[str, str] = {}

    def add(self, place: Place | None, what: str, remedy: str = "") -> None:
        """Add a fault; `place` None: the file as a whole."""
        self._found.setdefault((place or Place(0, 0), what), remedy)

    def remark(self, place: Place, what: str) -> None:
        """Add something that is no fault, but may not mean what its author thinks."""
        self._remarks.append((place, what))

    def remarks(self) -> tuple[str, ...]:
        return tuple(f"{self._where(place)}: {self._shown(what)}" for place, what in sorted(self._remarks))

    def unset(self, place: Place, name: str) -> None:
        """Take in that an environment variable isn't set: once, where it stands first."""
        if name not in self._unset:
            self._unset.add(name)
            self.add(place, f"the environment variable {name} is not set", f"export {name}=…")

    @property
    def only_unset(self) -> bool:
        """Whether all faults are environment variables that aren't set."""
        return len(self._found) == len(self._unset)

    def conceal(self, value: str, reference: str) -> None:
        """From now on show `reference` in place of `value`."""
        for shown in (value, repr(value)[1:-1]):
            if shown:
                self._secrets[shown] = reference

    def found(self) -> list[DeclarationError]:
        return [
            DeclarationError(self._shown(what), where=self._where(place), remedy=self._shown(remedy))
            for (place, what), remedy in sorted(self._found.items())
        ]

    def _where(self, place: Place) -> str:
        return f"{self._file}:{place.line}:{place.column}" if place.line else str(self._file)

    def _shown(self, text: str) -> str:
        if self._secrets:
            longest_first = sorted(self._secrets, key=len, reverse=True)
            text = re.sub("|".join(map(_wherever, longest_first)), lambda match: self._secrets[match[0]], text)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _wherever(value: str) -> str:
    """Return a pattern of a concealed value; a short one, which other words may contain by chance, is matched as a word."""
    pattern = re.escape(value)
    return rf"(?<!\w){pattern}(?!\w)" if len(value) < _SHORT else pattern


def read(
    path: Path, problems: Problems, environment: Mapping[str, str] = os.environ, *, language: Language = PIPELINE_FILE
) -> Table | None:
    """Return the mapping in a YAML file, with ``${NAME}`` replaced from `environment`; None if it can't be read."""
    text = _text(path, problems, language)
    return None if text is None else parse(text, problems, environment, language=language)


def parse(
    text: str, problems: Problems, environment: Mapping[str, str] = os.environ, *, language: Language = PIPELINE_FILE
) -> Table | None:
    """Return the mapping in a YAML text; None if it can't be read."""
    # Most processes that import this module, as `import seriatim` does, read no file: the parser would be a fiftieth of their start.
    from seriatim.pipeline.text.yaml_document import parsed  # noqa: PLC0415

    return parsed(text, problems, environment, language)


def _text(path: Path, problems: Problems, language: Language) -> str | None:
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        problems.add(None, "there is no such file")
        return None
    except OSError as error:
        problems.add(None, f"the file can't be read: {error.strerror}")
        return None
    if len(content) > _MOST_BYTES:
        problems.add(None, f"the file is larger than {_MOST_BYTES:,} bytes", f"is this a {language.name}?")
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        problems.add(
            Place(line, column), f"the byte 0x{content[error.start]:02x} is not UTF-8", "save the file as UTF-8"
        )
        return None
