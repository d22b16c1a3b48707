"""Due times: when each bucket has something to do again. They go from the operator to the control source.

For each bucket of a batch, the operator's output has the moment when the bucket's next clock ends. Spark collects these
moments as observed metrics of the batch. The driver keeps them (`clock.py`), and the control source, which is another
process, reads them in a small file.

Buckets are told apart by their *slots*: a slot is one bucket, or a range of buckets if there are more than `MOST_SLOTS`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from seriatim.kernel.values.time import FOREVER
from seriatim.spark.state.buckets import bucket_ids
from seriatim.spark.state.checkpoint_files import write_unsynced

#: The most observed metrics of a kind.
MOST_SLOTS = 64
#: The columns of the operator's output: for each bucket of a batch its slot, the bucket's bit among those of the slot, and the
#: moment (microseconds, or `FOREVER`).
SLOT, BIT, DUE = "slot", "bit", "due"
_BITS = (1 << 64) - 1


def width(buckets: int) -> int:
    return -(-buckets // MOST_SLOTS)


@cache
def _places(buckets: int) -> dict[int, tuple[int, int]]:
    return {bucket: divmod(number, width(buckets)) for number, bucket in enumerate(bucket_ids(buckets))}


def place_of(bucket: int, buckets: int) -> tuple[int, int]:
    """The slot of the bucket with that id, and the bucket's place in it; of a bucket that isn't one of them (0, 0)."""
    return _places(buckets).get(bucket, (0, 0))


def bit_at(place: int) -> int:
    """The bit of a place in a slot, as a signed number of 64 bits."""
    bit = 1 << place
    return bit - (1 << 64) if bit >> 63 else bit


def buckets_of(slots: Sequence[int], buckets: int) -> list[int]:
    ids, wide = bucket_ids(buckets), width(buckets)
    return [bucket for slot in slots for bucket in ids[slot * wide : (slot + 1) * wide]]


def metrics(buckets: int) -> list[Column]:
    """Return the metrics to observe: the earliest moment of each slot, and for ranges the buckets that took part. A user's sink may run a
    batch twice, and then Spark observes it twice. So nothing is counted.
    """
    slots = range(-(-buckets // width(buckets)))
    aggregates = [F.min(F.when(F.col(SLOT) == slot, F.col(DUE))).alias(f"due_{slot}") for slot in slots]
    if width(buckets) > 1:
        aggregates += [F.bit_or(F.when(F.col(SLOT) == slot, F.col(BIT))).alias(f"buckets_{slot}") for slot in slots]
    return aggregates


def told_by(observed: Mapping[str, Any], buckets: int, before: Sequence[int]) -> list[int]:
    """The moments by slot after a batch."""
    wide = width(buckets)
    after = []
    for slot, known in enumerate(before):
        moment = observed.get(f"due_{slot}")  # Spark's JSON leaves nulls out
        if moment is None:
            after.append(known)
        elif wide > 1 and (observed[f"buckets_{slot}"] & _BITS).bit_count() < len(buckets_of([slot], buckets)):
            # The earliest may be of a bucket that took no part.
            after.append(min(known, moment))
        else:
            after.append(moment)
    return after


@dataclass(frozen=True, slots=True)
class Due:
    #: The position of the source's offset through which the operator has worked.
    at: int
    #: By slot, when something is due (microseconds since the epoch, or `FOREVER`).
    moments: tuple[int, ...]

    @classmethod
    def unknown(cls, buckets: int) -> Due:
        return cls(-1, (FOREVER,) * -(-buckets // width(buckets)))

    def slots_until(self, now: int) -> list[int]:
        return [slot for slot, moment in enumerate(self.moments) if moment <= now]

    def to_json(self) -> str:
        return json.dumps({"at": self.at, "moments": self.moments})

    @classmethod
    def from_json(cls, text: str) -> Due:
        content = json.loads(text)
        return cls(content["at"], tuple(content["moments"]))

    def write(self, file: Path) -> None:
        write_unsynced(file, self.to_json())
