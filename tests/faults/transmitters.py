"""A process that transmits over the links of a box until it is killed."""

from __future__ import annotations

import sys

import seriatim as sq
from tests.faults.crew import ends_without_server

__all__ = ["words"]


def words(name: str, dsn: str) -> list[str]:
    """The words of its command."""
    return [sys.executable, "-m", "tests.faults.transmitters", name, dsn]


@ends_without_server
def main(name: str, dsn: str) -> None:
    """Transmit."""
    del name
    with sq.MessageBox.open(dsn, connections=2) as box:
        sq.Transmitter(box).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
