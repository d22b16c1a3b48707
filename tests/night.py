"""The page that says what to do when, as an operator uses it: from what is seen to the command."""

from __future__ import annotations

import re
import shlex

from seriatim.operations.doctor import Advice, advice

__all__ = ["command", "leads"]

#: Names that stand for others on the page.
_NAMES = ("c1", "Q", "S", "FILE", "ID", "PID", "N", "TEXT", "MODULE:FUNCTION")


def leads(name: str, output: str) -> Advice:
    """What the page has on a fault: a part in code of what is seen, or its name, is in the output."""
    found = advice(name)
    seen = [*re.findall(r"`([^`]+)`", found.seen), found.name]
    assert any(re.sub(r"\bN\b.*", "", one) in output for one in seen), (seen, output)
    return found


def command(on: Advice, begins: str, **names: str) -> list[str]:
    """The words of one of its commands, from its program on, with names in place of those that stand for others.

    Args:
        on: what the page has.
        begins: how the command begins.
        names: by what stands for them on the page.
    """
    (found,) = [one for one in re.findall(r"`([^`]+)`", on.remedy) if one.startswith(begins)][:1]
    words = [names.get(word.replace(":", "_"), word) for word in shlex.split(found)]
    assert not set(_NAMES) & set(words), words
    return words
