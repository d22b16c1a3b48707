"""A test that kills a process or starts a JVM of its own is dear: it says what it alone proves."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
#: Makes the archive of classes with which each JVM starts, once for all tests.
ALL_TESTS = "tests.classes"
#: What kills; what starts a JVM in another process than the tests', or a session beside theirs.
DEAR = re.compile(
    r"""os\.killpg?\(.*(?:SIGKILL|\b9\b)|\.kill\(|signal\.SIG(?:KILL|SEGV)\)"""
    r"""|command\("run"|called\([^)]*"run"|run\(\["seriatim", "run"|open_session\(|spark-submit|SparkSession\.builder\.config"""
    r"""|"-m", "pytest"|import move, run\b"""
)
Name = tuple[str, str]


@cache
def source(name: str) -> str:
    """The text of a module; a folder of them has none."""
    file = ROOT / f"{name.replace('.', '/')}.py"
    return file.read_text(encoding="utf-8") if file.exists() else ""


@cache
def can_be(name: str) -> bool:
    """Whether anything in a module, or in one that it has something from, is dear: few are, and the others needn't be parsed."""
    others = re.findall(r"^\s*from (tests\.[\w.]+) import", source(name), re.MULTILINE)
    return name != ALL_TESTS and (any(map(DEAR.search, source(name).splitlines())) or any(map(can_be, others)))


@cache
def module(name: str) -> ast.Module:
    return ast.parse(source(name))


@cache
def named(name: str) -> dict[str, ast.stmt]:
    """The functions, classes and values of a module of the tests."""
    found: dict[str, ast.stmt] = {}
    for one in module(name).body:
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found[one.name] = one
        elif isinstance(one, ast.Assign):
            found |= {target.id: one for target in one.targets if isinstance(target, ast.Name)}
    return found


@cache
def imported(name: str) -> dict[str, Name]:
    """What it has from other modules of the tests."""
    return {
        alias.asname or alias.name: (one.module, alias.name)
        for one in ast.walk(module(name))
        if isinstance(one, ast.ImportFrom) and one.module and one.module.startswith("tests.")
        for alias in one.names
    }


@cache
def is_dear_itself(where: str, name: str) -> bool:
    node = named(where)[name]
    return any(map(DEAR.search, source(where).splitlines()[node.lineno - 1 : node.end_lineno]))


@cache
def used(where: str, name: str) -> frozenset[Name]:
    """What a function names of the tests' own, fixtures of its module included."""
    return frozenset(_used(where, named(where)[name]))


def _used(where: str, node: ast.stmt) -> Iterator[Name]:
    for one in ast.walk(node):
        name = one.id if isinstance(one, ast.Name) else one.arg if isinstance(one, ast.arg) else ""
        owner, name = (where, name) if name in named(where) else imported(where).get(name, ("", ""))
        if owner not in ("", ALL_TESTS) and name in named(owner):
            yield owner, name


def is_dear(one: Name) -> bool:
    """Whether it, or what it uses, does so."""
    seen, open_ = {one}, [one]
    while open_:
        found = open_.pop()
        if is_dear_itself(*found):
            return True
        more = used(*found) - seen
        seen |= more
        open_ += more
    return False


def proved(where: str, node: ast.FunctionDef) -> list[str]:
    """The texts of its marks, or of its module's."""
    mark = re.compile(r"pytest\.mark\.proves\((?P<text>.+)\)")
    own = [found["text"] for one in node.decorator_list if (found := mark.fullmatch(ast.unparse(one)))]
    for one in module(where).body:
        if not own and isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "pytestmark":
            marks = one.value.elts if isinstance(one.value, ast.List) else [one.value]
            return [found["text"] for one in marks if (found := mark.fullmatch(ast.unparse(one)))]
    return own


def dear() -> Iterator[tuple[str, ast.FunctionDef]]:
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        where = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for name, node in named(where).items() if can_be(where) else ():
            if (
                file != Path(__file__)
                and name.startswith("test_")
                and isinstance(node, ast.FunctionDef)
                and is_dear((where, name))
            ):
                yield where, node


def test_each_says_what_it_alone_proves():
    found = {f"{where}::{node.name}": proved(where, node) for where, node in dear()}
    assert len(found) > 60
    assert [name for name, texts in found.items() if len(texts) != 1] == []
    texts = [text for (text,) in found.values()]
    assert [text for text in texts if texts.count(text) > 1] == []
