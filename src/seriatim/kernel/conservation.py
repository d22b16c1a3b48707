"""The law of conservation: every received message is accounted for. Executable, for tests and for ``doctor``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from seriatim.errors import InvariantBroken
from seriatim.kernel.values.outcome import Disposition


@dataclass(frozen=True, slots=True)
class Counts(Mapping[str, int]):
    """The number of messages that a queue took in, and their dispositions; a mapping by the glossary's words, ``in`` first."""

    in_: int = 0
    released: int = 0
    held: int = 0
    late: int = 0
    duplicate: int = 0
    invalid: int = 0
    rejected: int = 0
    dead: int = 0
    void: int = 0
    copy: int = 0

    def __getitem__(self, word: str) -> int:
        if word == "in":
            return self.in_
        if word not in _WORDS:
            raise KeyError(word)
        return int(getattr(self, word))

    def __iter__(self) -> Iterator[str]:
        return iter(("in", *_WORDS))

    def __len__(self) -> int:
        return 1 + len(_WORDS)

    def check(self, where: str = "") -> None:
        """Check that the numbers obey the law of conservation.

        Raises:
            InvariantBroken: they don't add up.
        """
        total = sum(self[word] for word in _WORDS)
        if total != self.in_:
            raise InvariantBroken(
                f"{self.in_} messages came in, but {total} are accounted for: {dict(self)}", where=where
            )


_WORDS = tuple(disposition.word for disposition in Disposition)
