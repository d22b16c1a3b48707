"""The marks of an entry: the fingerprint of its content, and whether it opens or closes its group.

They stand in the column `size` of the entry, which has the size of a set where the queue is a `UnitOfWork`; queues with marks have
no such sizes. So everything that takes messages in, puts them back, sets them aside or reads a turn carries them along.

The two lowest bits are those of the message (``kernel/policies/stays.py``), the others are the fingerprint, without its two lowest bits.
An entry of a `Standard` queue has both, of a `Fifo` queue only the bits. Without a fingerprint the upper bits are 0; with one
they aren't. An entry with neither has NULL.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np

from seriatim.kernel.groups.arrivals import NOT_SAID
from seriatim.kernel.policies.stays import CLOSES, OPENS
from seriatim.kernel.values.columns import Ints
from seriatim.kernel.values.fingerprint import of_bytes
from seriatim.pipeline.types.message import Message

_BITS = OPENS | CLOSES
#: What fingerprints become whose upper bits would look as if there were none.
_TAKEN = dict.fromkeys((0, NOT_SAID), _BITS + 1)


def written(fingerprints: Sequence[int] | None, bits: Sequence[int] | None) -> list[int | None]:
    if fingerprints is None:
        return [one or None for one in bits or ()]
    upper = [_TAKEN.get(one & ~_BITS, one & ~_BITS) if one else 0 for one in fingerprints]
    return [one or None for one in upper] if bits is None else [a | b or None for a, b in zip(upper, bits, strict=True)]


def fingerprints(marks: Ints) -> Ints:
    """The fingerprints in stored marks; 0: unknown."""
    return np.where(marks == NOT_SAID, 0, marks & ~_BITS)


def fingerprint(mark: int | None) -> int:
    return 0 if mark is None else mark & ~_BITS


def bits(marks: Ints) -> Ints:
    return np.where(marks == NOT_SAID, 0, marks & _BITS)


def of_content(message: Message) -> int:
    return of_bytes((message.body,)) if not message.parts else of_bytes(_pieces(message))


def _pieces(message: Message) -> Iterator[bytes]:
    """The body and the parts, each part with its name and length, so that no two messages run together."""
    yield message.body
    for part in message.parts:
        yield f"\0{len(part.body)} {part.name} {part.content_type}\0".encode()
        yield part.body


def plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat() if value.tzinfo else value.isoformat()
    return str(value) if isinstance(value, Decimal) else value
