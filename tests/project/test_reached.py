"""What stands in the package is run by it: no module is reached by tests and scripts only."""

from __future__ import annotations

import ast
from pathlib import Path

_SOURCE = Path(__file__).parents[2] / "src"
_FILES = {
    ".".join(file.relative_to(_SOURCE).with_suffix("").parts).removesuffix(".__init__"): file
    for file in _SOURCE.rglob("*.py")
}
#: What applications import and run by its name, and rooms whose modules are opened by name: commands, pages, what operators call.
_ROOMS = ("seriatim.cli", "seriatim.console", "seriatim.operations", "seriatim.testing", "pyspark_seriatim")
_ROOMS += ("seriatim.runtime.box_format", "seriatim.runtime.serve", "seriatim.runtime.supervisor", "seriatim.tracing")
#: The alerts and the board are part of the documentation, and stand beside the metrics that they are made of.
_WRITTEN = {"seriatim.metrics.alerts", "seriatim.metrics.board"}


def test_each_module_is_reached_from_what_users_import_and_run() -> None:
    reached, left = set[str](), {"seriatim", "seriatim.__main__"} | {one for one in _FILES if one.startswith(_ROOMS)}
    while left:
        reached.add(module := left.pop())
        left |= _imported(module) - reached
    assert _FILES.keys() - reached == _WRITTEN, "a rule that only tests run is a model: it stands in tests/models"


def _imported(module: str) -> set[str]:
    """The modules that a module imports, at once or later, or names in a text; and their packages."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(_FILES[module].read_bytes())):
        match node:
            case ast.Import():
                names |= {one.name for one in node.names}
            case ast.ImportFrom(module=str(base)):
                names |= {base, *(f"{base}.{one.name}" for one in node.names)}
            case ast.Constant(value=str(text)):
                names.add(text)
    found = names & _FILES.keys()
    return found | {one.rsplit(".", depth)[0] for one in found for depth in range(1, one.count(".") + 1)}
