"""The layers of design: import-linter checks them in `make check`; here the suite holds what can be told without it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "seriatim"

#: From the bottom up; those of one line don't know each other.
LAYERS = [
    {"errors"},
    {"kernel"},
    {"pipeline", "testing"},
    {"spark", "box", "endpoints"},
    {"runtime", "operations"},
    {"cli", "console"},
    {"__main__"},
]
ONLY_UNDER = {"pyspark": {"spark"}, "psycopg": {"box", "endpoints"}, "click": {"cli"}, "rich": {"cli"}}


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def layer_of(name: str) -> int:
    return next(number for number, layer in enumerate(LAYERS) if name in layer)


MODULES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_down_only(path):
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    for name in imports(path):
        package, *rest = name.split(".")
        if package == "seriatim" and rest and rest[0] != own:
            assert layer_of(rest[0]) < layer_of(own), f"{own} imports {name}"
        assert own in ONLY_UNDER.get(package, {own}), f"{own} imports {name}"


@pytest.mark.parametrize("path", sorted((SOURCE / "kernel").glob("*.py")), ids=lambda path: path.name)
def test_the_kernel_needs_numpy_only(path):
    foreign = {name.split(".")[0] for name in imports(path)} - set(sys.stdlib_module_names) - {"numpy", "seriatim"}
    assert not foreign


def exported(path: Path) -> list[str] | None:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == ["__all__"]:
            return [ast.literal_eval(element) for element in node.value.elts]
    return None


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_exported_members_are_sorted(path):  # constants, then classes, then functions
    names = exported(path)
    if names is None:
        assert path.name in ("__init__.py", "__main__.py"), "a module says what it exports"
    else:
        assert names == sorted(set(names), key=lambda name: (not name.isupper(), name[0].islower(), name))
