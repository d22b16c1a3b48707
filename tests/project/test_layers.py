"""The layers of design: import-linter checks them in `make check`; here the suite holds what can be told without it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "seriatim"

#: From the bottom up; those of one line don't know each other.
LAYERS = [
    {"errors"},
    {"certificates", "extras", "network", "rested"},
    {"kernel"},
    {"pipeline"},
    {"spark", "box", "endpoints", "listening"},
    {"aio", "regions"},
    {"tracing"},
    {"runtime", "operations"},
    {"metrics"},
    {"cli", "console", "http", "testing"},
    {"__main__"},
]
ONLY_UNDER = {
    "pyspark": {"spark"},
    "pandas": {"spark"},
    "psycopg": {"box", "endpoints", "regions", "rested", "testing"},
    "uvicorn": {"listening"},
    "click": {"cli"},
    "rich": {"cli"},
    "prometheus_client": {"metrics"},
    "opentelemetry": {"tracing"},
}


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


#: What `seriatim init` writes: scripts of a user's, which are no modules of ours.
WRITTEN = SOURCE / "cli" / "project"
MODULES = sorted(
    path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py" and not path.is_relative_to(WRITTEN)
)


def against_the_layers(path: Path) -> list[str]:
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    found = []
    for name in imports(path):
        package, *rest = name.split(".")
        if package == "seriatim" and rest and rest[0] != own and layer_of(rest[0]) >= layer_of(own):
            found.append(f"{path} imports {name}")
        if own not in ONLY_UNDER.get(package, {own}):
            found.append(f"{path} imports {name}")
    return found


@pytest.mark.dear
def test_imports_point_down_only():
    assert MODULES
    assert [told for path in MODULES for told in against_the_layers(path)] == []


def test_the_kernel_needs_numpy_only():
    allowed = set(sys.stdlib_module_names) | {"numpy", "seriatim"}
    kernel = [path for path in MODULES if path.parent.name == "kernel"]
    assert kernel
    assert {
        path: foreign for path in kernel if (foreign := {name.split(".")[0] for name in imports(path)} - allowed)
    } == {}


def exported(path: Path) -> list[str] | None:
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == ["__all__"]:
            return [ast.literal_eval(element) for element in node.value.elts]
    return None


def well_exported(path: Path) -> bool:
    """Whether the names that a module exports are sorted: constants before classes before functions."""
    names = exported(path) or []
    return names == sorted(set(names), key=lambda name: (not name.isupper(), name[0].islower(), name))


def test_exported_members_are_sorted():
    assert [path for path in MODULES if not well_exported(path)] == []


def test_a_worker_begins_without_what_reads_files_or_runs_spark():
    libraries = ("click", "jsonschema", "pyarrow", "pyspark", "ruamel")
    modules = "from seriatim import MessageBox, Worker; import sys; print(*sys.modules)"
    imported = subprocess.run(
        [sys.executable, "-c", modules], capture_output=True, text=True, check=True
    ).stdout.split()
    assert "seriatim.runtime.workers.worker" in imported
    assert [
        one for one in imported if one.partition(".")[0] in libraries or one == "seriatim.pipeline.files.box_file"
    ] == []
