"""Writes "Where is what" in ARCHITECTURE.md from the first lines of the modules; with words, lists the modules that have them.

A test holds the table against what this would write; after a new package run ``python scripts/rooms.py``. ``python scripts/rooms.py lease
worker`` prints each module whose path or first line has these words.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "ARCHITECTURE.md"
_SOURCE = ROOT / "src" / "seriatim"
_BEGIN, _END = "<!-- made by scripts/rooms.py -->\n", "<!-- end -->\n"
#: Few modules are rooms of their own.
_MODULES = ("box", "")


def first_line(path: Path) -> str:
    """The first line of a module's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def modules() -> Iterator[tuple[str, str]]:
    """All modules: the path below the package, and the first line; a package before what is in it."""
    for path in sorted(_SOURCE.rglob("*.py"), key=lambda one: (one.parent.parts, one.name != "__init__.py", one.name)):
        name = path.relative_to(_SOURCE).as_posix()
        yield name.removesuffix("__init__.py") or "", first_line(path)


def table() -> str:
    """The table of packages, and of the modules that lie beside them."""
    rows = ["| | |", "|---|---|"]
    for name, line in modules():
        room = name.rpartition("/")[0]
        if name.endswith("/") or (name and room in _MODULES and not name.startswith("__")):
            rows.append(f"| `{name}` | {line} |")
    return "\n".join(rows) + "\n"


def page() -> str:
    """The whole page, with the present table."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEGIN)
    return f"{before}{_BEGIN}{table()}{_END}{rest.partition(_END)[2]}"


if __name__ == "__main__":
    words = [word.lower() for word in sys.argv[1:]]
    if words:
        for name, line in modules():
            if all(word in f"{name} {line}".lower() for word in words):
                print(f"src/seriatim/{name or '__init__.py'}: {line}")  # noqa: T201 -- a command
    else:
        PAGE.write_text(page(), encoding="utf-8")
