"""How large the long tests are, and by which seed they take chances: the two settings of every soak, model and fuzzer.

``SERIATIM_SOAK=full`` takes them at full size, as `make soak` does; otherwise they are as small as proves each of their points.
``SERIATIM_SEED=…`` repeats a run: the head of every run says which seed it has taken.
"""

from __future__ import annotations

import os
import random

__all__ = ["SEED", "full", "seed", "sized"]

SEED = "SERIATIM_SEED"


def full() -> bool:
    """Whether this is a run at full size."""
    return os.environ.get("SERIATIM_SOAK", "") == "full"


def sized(whole: int, small: int) -> int:
    """How many of something this run takes: `whole` at full size."""
    return whole if full() else small


def seed() -> int:
    """The seed of this run, the same for all of its processes."""
    return int(os.environ.setdefault(SEED, str(random.SystemRandom().randrange(2**32))))
