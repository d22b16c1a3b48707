"""A number with its noun."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import seriatim
from seriatim.pipeline.text.counted import counted

ROOT = Path(seriatim.__file__).parent
#: A number in a text (`{count:,}`), and behind it a noun in the plural.
PLURAL = re.compile(
    r"\{,\} (?:more )?(?:dead )?(?:message|group|batch|queue|dialog|letter|process|thread|fault|day)e?s\b"
)


@pytest.mark.parametrize(
    ("number", "nouns", "text"),
    [
        (1, ("group",), "1 group"),
        (0, ("group",), "0 groups"),
        (2000, ("batch",), "2,000 batches"),
        (2, ("process",), "2 processes"),
        (2, ("property",), "2 properties"),
        (2, ("day",), "2 days"),
        (1, ("entry of the history", "entries of the history"), "1 entry of the history"),
        (2, ("entry of the history", "entries of the history"), "2 entries of the history"),
    ],
)
def test_the_noun_goes_with_the_number(number, nouns, text):
    assert counted(number, *nouns) == text


def written(part):
    """A part of a text that is put together: as it is, or how it is formatted."""
    if isinstance(part, ast.Constant):
        return str(part.value)
    return "{" + ("" if part.format_spec is None else ast.unparse(part.format_spec)[2:-1]) + "}"


@pytest.mark.parametrize("room", ["cli", "operations"])
def test_what_commands_print_has_no_plural_of_its_own(room):
    """``{…} groups`` in a text is ``1 groups`` at times."""
    found = []
    for path in sorted((ROOT / room).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                text = "".join(map(written, node.values))
                found += [f"{path.name}:{node.lineno}: {text}"] * bool(PLURAL.search(text))
    assert found == []
