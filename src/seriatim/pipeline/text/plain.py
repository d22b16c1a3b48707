"""Plain text: text of messages is shown so that it can't affect a terminal, or the line around it."""

from __future__ import annotations


def in_line(text: str) -> str:
    r"""The text in one line: unprintable characters become escapes, such as ``\n`` or ``\x1b``."""
    return text if text.isprintable() else "".join(map(_plain, text))


def in_lines(text: str) -> str:
    """As `in_line`, but lines and tabs stay, as in a body or a traceback."""
    return "\n".join("\t".join(map(in_line, line.split("\t"))) for line in text.split("\n"))


def _plain(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()
