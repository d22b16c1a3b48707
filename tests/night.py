"""The page that says what to do when, as an operator uses it: from what is seen to the command."""

from __future__ import annotations

import re
import shlex

from seriatim.operations.what_to_do import Advice, advice

__all__ = ["command", "leads"]

#: Names that stand for others on the page.
_NAMES = ("c1", "Q", "S", "FILE", "ID", "PID", "N", "TEXT", "MODULE:FUNCTION")


def leads(name: str, output: str) -> Advice:
    """The row of a fault, whose first cell says what was seen: a part of it in code, or its name, is in the output."""
    row = advice(name)
    seen = [*re.findall(r"`([^`]+)`", row.seen), name.replace("-", " ")]
    assert any(re.sub(r"\bN\b.*", "", one) in output for one in seen), (seen, output)
    return row


def command(row: Advice, begins: str, **names: str) -> list[str]:
    """The words of a row's command, from its program on, with names in place of those that stand for others.

    Args:
        row: the row.
        begins: how the command begins.
        names: by what stands for them on the page.
    """
    (found,) = [one for one in re.findall(r"`([^`]+)`", row.remedy) if one.startswith(begins)][:1]
    words = [names.get(word.replace(":", "_"), word) for word in shlex.split(found)]
    assert not set(_NAMES) & set(words), words
    return words
