"""Messages that arrive, as columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from seriatim.kernel.groups.state import NOTHING, Held
from seriatim.kernel.values.columns import Bools, Ints, Numbered, by_group, empty_ints, first_per_group
from seriatim.kernel.values.outcome import Disposition, Reason
from seriatim.kernel.values.time import FOREVER

#: The size of a message that doesn't give the size of its set.
NOT_SAID = NOTHING
_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Arrivals(Numbered):
    """Messages with a valid key and sequence, sorted by group, within a group in order of arrival.

    * `group`: the row of its group.
    * `sequence`: its number, the first of those that it covers (microseconds if a `BestEffort` orders by time; for `Fifo` its `ref`).
    * `ref`: the engine's name for it; ascends in order of arrival, over all batches.
    * `time`: when it arrived, microseconds. Within a group an earlier time counts as the latest one before it.
    * `size`: the size of its set, if the message contains it, or `NOT_SAID`; if a filter says that it is the last of its set, its number,
      from which `take` finds the size. For `UnitOfWork`. For `Standard` and `Fifo` bits, or
      `NOT_SAID`: whether it opens and closes its group (``stays.py``), and which of two regions has sent it (``copies.py``).
    * `weight`: how many messages leave with it: 1; or 0, a *void*, which lets the next number pass and leaves nothing.
    * `fingerprint`: a number for its content; 0: it isn't known, and can't be compared. For `Standard`. Where two regions
      send messages, of its id; for `FifoMerged`, too.
    * `through`: the last number that it covers; None: each covers its own alone.
    * `epoch`: its epoch, see ``numbers.py``.
    """

    group: Ints
    sequence: Ints
    ref: Ints
    time: Ints
    size: Ints
    weight: Ints
    fingerprint: Ints
    through: Ints | None = None
    epoch: Ints | None = None

    @property
    def bits(self) -> Ints:
        return np.where(self.size == NOT_SAID, 0, self.size)

    def overflow(self, step: int) -> Bools:
        """The messages behind which there is no number, or which cover more numbers than 64 bits can count."""
        return self.ends > _MAX - step + np.minimum(self.sequence, 0)

    def in_time(self, due: Ints, period: int) -> Bools:
        """The arrivals before which no timer can fire, and the first of each group, which may start a clock of that period. `due`: when the
        timers of the groups fire that run already.
        """
        first = first_per_group(self.group)
        fresh = by_group(len(due), FOREVER, self.group[first], np.minimum(self.time[first] + period, FOREVER))
        return (self.time <= np.minimum(due, fresh)[self.group]) | first

    def held(self, bits: Ints | int, late: Bools | None = None, waits: Bools | None = None) -> Held:
        no = np.zeros(len(self), np.bool_)
        late, waits = no if late is None else late, no if waits is None else waits
        bits = np.broadcast_to(np.asarray(bits, np.int64), (len(self),))
        return Held(
            self.group, self.sequence, self.ref, late, waits, self.time, self.weight, self.fingerprint, bits, self.through, self.epoch
        )  # fmt: skip

    @classmethod
    def empty(cls) -> Arrivals:
        none = empty_ints()
        return cls(none, none, none, none, none, none, none)


def undecided(arrivals: Arrivals) -> tuple[Ints, Ints, Callable[[Bools, Disposition, Reason | Ints], None]]:
    """The disposition and reason of each, all HELD; and a function that marks those that nothing has marked before."""
    disposition, reason = np.full(len(arrivals), int(Disposition.HELD), np.int64), empty_ints(len(arrivals))

    def mark(where: Bools, fate: Disposition, why: Reason | Ints) -> None:
        where = where & (disposition == Disposition.HELD)
        disposition[where] = fate
        reason[where] = why[where] if isinstance(why, np.ndarray) else int(why)

    return disposition, reason, mark
