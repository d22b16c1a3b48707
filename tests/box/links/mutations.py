"""Frames in which something was changed by chance, for fuzzers of both carriers."""

from __future__ import annotations

import random

from tests.box.links import recorder

__all__ = ["mutated"]


def mutated(frame: bytes, chance: random.Random) -> bytes:
    """A frame with a few changes; half of them with a length that is right, all with a checksum."""
    data = bytearray(frame[:-32])
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(data))
        match chance.randrange(3):
            case 0:
                data[at] = chance.randrange(256)
            case 1:
                del data[at : at + chance.choice((1, 4, 32))]
            case _:
                data[at:at] = bytes(chance.randrange(256) for _ in range(chance.choice((1, 4))))
    if chance.randrange(2) and len(data) > 8:
        data[4:8] = (len(data) + 32).to_bytes(4, "big")
    return recorder.sealed(bytes(data))
