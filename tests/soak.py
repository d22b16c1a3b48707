"""How large the long tests are, and by which seed they take chances: the two settings of every soak, model and fuzzer.

``SERIATIM_SIZE`` is one of three: ``full``, as `make soak` has it; ``usual``, without it, as small as proves each of their points;
``small``, as `make test` has it, where a law is tried by chance and fewer examples try it, too.
``SERIATIM_SEED=…`` repeats a run: the head of every run says which seed it has taken.
"""

from __future__ import annotations

import os
import random
from typing import TypeVar

__all__ = ["SEED", "SIZE", "full", "seed", "size", "sized"]

SEED, SIZE = "SERIATIM_SEED", "SERIATIM_SIZE"
_SIZES = ("small", "usual", "full")
Number = TypeVar("Number", int, float)


def size() -> str:
    """Which of the three this run has.

    Raises:
        ValueError: it names none of them.
    """
    found = os.environ.get(SIZE) or "usual"
    if found not in _SIZES:
        raise ValueError(f"{SIZE} is {found!r}, which is none of {', '.join(_SIZES)}")
    return found


def full() -> bool:
    """Whether this is a run at full size."""
    return size() == "full"


def sized(whole: Number, usual: Number, small: Number | None = None) -> Number:
    """How many of something this run takes: `whole` at full size; `usual` at the small one, too, if nothing else is said."""
    return {"full": whole, "usual": usual, "small": usual if small is None else small}[size()]


def seed() -> int:
    """The seed of this run, the same for all of its processes."""
    return int(os.environ.setdefault(SEED, str(random.SystemRandom().randrange(2**32))))
