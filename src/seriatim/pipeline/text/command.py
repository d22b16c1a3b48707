"""Commands in advice, ready to be pasted."""

from __future__ import annotations

import shlex


def command(*words: str, of: str | None = None, **options: str | int | None) -> str:
    given = [word for name, value in options.items() if value is not None for word in (f"--{name}", str(value))]
    if of is None:
        return shlex.join(("seriatim", *words, *given))
    if of.startswith("-"):  # it would be read as an option
        return shlex.join(("seriatim", *words, *given, "--", of))
    return shlex.join(("seriatim", *words, of, *given))
