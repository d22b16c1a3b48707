"""One mapping of a pipeline file, read key by key, with the simple checks of a value's kind.

The reader of a section reads every key that it knows and then calls `finish`; the remaining keys are
unknown. A wrong value is reported and read as None.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from seriatim.errors import UsageError, is_whole, meant
from seriatim.kernel.values.time import micros, seconds
from seriatim.pipeline.text.document import Items, Place, Problems, Scalar, Table, Tree
from seriatim.pipeline.text.secret import secret_in

#: A variable that is replaced when the file is read.
_REPLACED = re.compile(r"(?<!\$)\$\{")


def likely(name: object, known: Collection[str]) -> str:
    """The hint for an unknown `name`, where only `known` names are allowed."""
    return meant(name, known) or (f"one of {', '.join(sorted(known))}" if known else "")


class Section:
    def __init__(self, table: Table, problems: Problems, title: str = "") -> None:
        self._table = table
        self._asked: set[str] = set()
        self.problems = problems
        #: Its name in messages, e.g. ``route[1].deliver``; empty for the whole file.
        self.title = title

    def place(self, key: str | None = None) -> Place:
        value = self._table.entries.get(key) if key else None
        return value.place if value else self.key_place(key)

    def key_place(self, key: str | None) -> Place:
        return self._table.keys.get(key, self._table.place) if key else self._table.place

    def has(self, key: str) -> bool:
        return key in self._table.keys

    def names(self) -> list[str]:
        return list(self._table.keys)

    def fault(self, key: str | None, what: str, remedy: str = "") -> None:
        self.problems.add(self.place(key), what, remedy)

    def key_fault(self, key: str, what: str, remedy: str = "") -> None:
        """A fault at the key itself, not at its value."""
        self.problems.add(self.key_place(key), what, remedy)

    def named_fault(self, key: str, what: str, remedy: str = "") -> None:
        """A fault whose text begins with the full name of the key."""
        self.fault(key, f"{self.full(key)}: {what}", remedy)

    def refuse(self, error: UsageError, otherwise: str | None = None) -> None:
        """Report the error of a declaration: at the first of its arguments that the section has, else at `otherwise`, or the section."""
        for argument in error.arguments:
            if self.has(argument.partition(".")[0]):
                section, key = self.inside(argument)
                section.fault(key, error.what, error.remedy)
                return
        self.fault(otherwise, error.what, error.remedy)

    def inside(self, path: str) -> tuple[Section, str | None]:
        """The section and the key of a path such as ``retry.delay``, as far as there are sections."""
        key, _, inner = path.partition(".")
        value = self._table.entries.get(key)
        if not isinstance(value, Table):
            return self, key
        section = Section(value, self.problems, self.full(key))
        return section.inside(inner) if inner else (section, None)

    def known(self, key: str) -> None:
        self._asked.add(key)

    def full(self, key: str) -> str:
        return f"{self.title}.{key}" if self.title else key

    def tree(self, key: str, *, required: bool = False) -> Tree | None:
        """What stands under `key`; None also where it is unknown. A required one that is missing is a fault."""
        self._asked.add(key)
        value = self._table.entries.get(key)
        if isinstance(value, Scalar) and value.unknown:
            return None  # reported
        absent = value is None or (isinstance(value, Scalar) and value.value is None)
        if absent and self.has(key):
            # YAML places an absent value where the next thing begins, so the key is what to point at.
            remedy = "" if required else "give one or leave the key out"
            self.key_fault(key, f"{self.full(key)} has no value", remedy)
        elif absent and required:
            self.fault(None, f"{self.full(key)} is missing")
        return None if absent else value

    def plain(self, key: str, *, required: bool = False) -> str | int | float | bool | None:
        value = self.tree(key, required=required)
        if value is None or isinstance(value, Scalar):
            return value.value if value else None
        self.fault(key, f"{self.full(key)} must be a single value, not {_kind(value)}")
        return None

    def text(self, key: str, *, required: bool = False) -> str | None:
        value = self.plain(key, required=required)
        if value is None or (isinstance(value, str) and value and "\0" not in value):
            return value
        remedy = "put it in quotes" if not isinstance(value, str) else ""
        self.fault(key, f"{self.full(key)} must be text, not {in_yaml(value)}", remedy)
        return None

    def unreplaced(self, key: str, by: str) -> str | None:
        """Text that is kept as it is written: its ``${NAME}`` are for `by`, because the values may be passwords."""
        value = self.text(key)
        if value is None:
            return None
        if (secret := secret_in(value)) is not None:
            what = f"{self.full(key)} would be kept in the box, and shown: {secret}"
            self.fault(key, what, f"write $${{NAME}} in place of the secret: it is replaced by {by}")
        elif _REPLACED.search(self.written(key)):
            what = "the value of ${NAME} would be stored in the box"
            self.fault(key, what, f"write $${{NAME}}: it is replaced by {by}")
        else:
            return value
        return None

    def written(self, key: str) -> str:
        """The text of a single value in the file, before ``${NAME}`` is replaced; empty if there is none."""
        value = self._table.entries.get(key)
        return value.written if isinstance(value, Scalar) else ""

    def choice(self, key: str, allowed: Collection[str], *, required: bool = False) -> str | None:
        value = self.text(key, required=required)
        if value is None or value in allowed:
            return value
        self.fault(key, f"{self.full(key)} can't be {value!r}", likely(value, allowed))
        return None

    def whole(self, key: str, least: int, most: int) -> int | None:
        value = self.plain(key)
        if value is None:
            return None
        if not is_whole(value, least, most):
            self.fault(key, f"{self.full(key)} must be a whole number from {least} to {most}, not {in_yaml(value)}")
            return None
        return value

    def flag(self, key: str) -> bool | None:
        value = self.plain(key)
        if value is None or isinstance(value, bool):
            return value
        self.fault(key, f"{self.full(key)} must be true or false, not {in_yaml(value)}")
        return None

    def texts(self, key: str) -> tuple[str, ...] | None:
        """A list of texts, each once and at least one; a single text counts as a list."""
        value = self.tree(key)
        if value is None or isinstance(value, Scalar):
            one = self.text(key) if value is not None else None
            return (one,) if one is not None else None
        found = [item.value for item in value.items if isinstance(item, Scalar)] if isinstance(value, Items) else []
        texts = tuple(one for one in found if isinstance(one, str) and one and "\0" not in one)
        if not isinstance(value, Items) or not texts or len(set(texts)) != len(value.items):
            self.fault(key, f"{self.full(key)} must be a text or a list of different texts")
            return None
        return texts

    def duration_s(self, key: str) -> float | None:
        """Seconds, not negative."""
        value = self.plain(key)
        if value is None:
            return None
        try:
            period = micros(value)
        except UsageError as error:
            if isinstance(value, str):
                self.named_fault(key, error.what, error.remedy)
                return None
            period = -1
        if period >= 0:
            self.remark_unit(key)
            return seconds(period)
        self.named_fault(key, f"{in_yaml(value)} is not a duration", 'write "100s", "5m", "1.5h" or "250ms"')
        return None

    def remark_unit(self, key: str) -> None:
        """Remark on a duration without a unit: it counts as seconds."""
        value = self._table.entries.get(key)
        if isinstance(value, Scalar) and isinstance(value.value, int | float) and value.value:
            written = in_yaml(value.value)
            what = f"{self.full(key)}: {written} has no unit and counts as seconds: write {written}s"
            self.problems.remark(value.place, what)

    def section(self, key: str, *, required: bool = False, such: str = "") -> Section | None:
        """The mapping under a key; None if there is none, or something else, which is reported; `such`: an example."""
        value = self.tree(key, required=required)
        if value is None or isinstance(value, Table):
            return Section(value, self.problems, self.full(key)) if value else None
        self.fault(key, f"{self.full(key)} must be a mapping, not {_kind(value)}", such and f"such as {such}")
        return None

    def sections(self, key: str) -> Iterator[Section]:
        value = self.tree(key, required=True)
        if value is None:
            return
        if not isinstance(value, Items):
            self.fault(key, f"{self.full(key)} must be a list", "begin each entry with '- '")
            return
        if not value.items:
            self.fault(key, f"{self.full(key)} is an empty list")
        for number, item in enumerate(value.items):
            title = f"{self.full(key)}[{number}]"
            if isinstance(item, Table):
                yield Section(item, self.problems, title)
            else:
                self.problems.add(item.place, f"{title} must be a mapping, not {_kind(item)}")

    def options(self, key: str) -> Mapping[str, str]:
        """A mapping of free names to single values, as text for Spark."""
        section = self.section(key)
        if section is None:
            return {}
        given: dict[str, str] = {}
        for name in section.names():
            value = section.plain(name, required=True)
            if isinstance(value, bool):
                given[name] = "true" if value else "false"
            elif value is not None:
                given[name] = str(value)
        return given

    def finish(self, later: Mapping[str, str] | None = None, elsewhere: Mapping[str, str] | None = None) -> None:
        """Report the keys that weren't read."""
        for key in self._table.keys:
            if key in self._asked:
                continue
            if later and key in later:
                what = f"{self.full(key)} ({later[key]}) is not available in this version"
                self.key_fault(key, what, "leave it out")
            else:
                here = f" in {self.title}" if self.title else ""
                remedy = (elsewhere or {}).get(key) or likely(key, self._asked)
                self.key_fault(key, f"unknown key {key!r}{here}", remedy)


def _kind(value: Tree) -> str:
    match value:
        case Table():
            return "a mapping"
        case Items():
            return "a list"
        case Scalar():
            return in_yaml(value.value)


def in_yaml(value: object) -> str:
    """A single value as a file has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)
