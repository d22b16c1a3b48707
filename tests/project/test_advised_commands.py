"""Each command that a text of the source names for people is one, with all that it needs. `tests/cli/test_advice.py` runs those that views advise."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from seriatim.operations import pages
from tests.advice import advised, incomplete

SOURCE = Path(__file__).parents[2] / "src" / "seriatim"


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The texts of a module without its docstrings, and the commands that it makes; what isn't known is an X."""
    inside = {id(part) for one in ast.walk(tree) if isinstance(one, ast.JoinedStr) for part in one.values}
    inside |= {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Expr)}
    for one in ast.walk(tree):
        if isinstance(one, ast.JoinedStr):
            yield one.lineno, "".join(_word(part, "X") for part in one.values)
        elif isinstance(one, ast.Constant) and isinstance(one.value, str) and id(one) not in inside:
            yield one.lineno, one.value
        elif isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == "command" and one.args:
            own = [_word(word, "X") for word in one.args]
            of = ["X" for key in one.keywords if key.arg == "of"]
            options = [f"--{key.arg} X" for key in one.keywords if key.arg not in ("of", None)]
            yield one.lineno, " ".join(("seriatim", *own, *of, *options))


def _word(node: ast.expr, unknown: str) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else unknown


def test_each_command_in_a_text_is_one():
    wrong, count = [], 0
    for path in sorted(SOURCE.rglob("*.py")):
        for line, text in _texts(ast.parse(path.read_text(encoding="utf-8"))):
            for one in advised(text):
                count += 1
                if (why := incomplete(one)) is not None:
                    wrong.append(f"{path.relative_to(SOURCE)}:{line}: {one}: {why}")
    assert not wrong, "\n".join(wrong)
    assert count > 150


def test_each_page_that_a_text_advises_is_there():
    named = {
        name
        for path in SOURCE.rglob("*")
        if path.suffix in (".py", ".html", ".md")
        for name in re.findall(r"seriatim docs ([a-z][a-z0-9/-]*)", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 10
    for name in named:
        pages.page(name)
