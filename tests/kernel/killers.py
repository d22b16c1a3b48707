"""Which check of the corpus catches a mutation: the first one, when `python -m tests.kernel.killers` noted it.

What is noted only saves time. Where it is out of date the whole corpus is played; write it anew when the time of these tests grows.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.kernel.corpus import CAUGHT
from tests.kernel.mutants import Mutants
from tests.kernel.mutations import MUTATIONS

__all__ = ["known"]

_FILE = Path(__file__).with_name("killers.json")


def known() -> dict[str, str]:
    """By rule the name of the check that catches its mutation."""
    found: dict[str, str] = json.loads(_FILE.read_bytes())
    return found


def main() -> None:
    """Play the corpus against every mutation and note the first check that fails."""
    killers = {}
    with Mutants() as mutants:
        for mutation in MUTATIONS:
            code, told = mutants.play(*mutation.made())
            if code == CAUGHT:
                killers[mutation.rule] = told.splitlines()[-1]
    _FILE.write_text(json.dumps(killers, indent=0, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
