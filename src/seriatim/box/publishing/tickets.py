"""`Tickets`: a run of ticket numbers that a transaction took from a location."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from seriatim.kernel.groups.sequence import LAST_NUMBER
from seriatim.pipeline.types.message import Ticket


@dataclass(frozen=True, slots=True)
class Tickets:
    """A run of tickets without a gap. Iterate over it to get each `Ticket`.

    All tickets have one epoch, unless the location's numbers reached `last_number` and began again at 1. Then `last_epoch`
    is a later epoch, and `last` is a number in it.

    Args:
        location: the location's name.
        epoch: the epoch of the first ticket.
        first: the number of the first ticket.
        last: the number of the last ticket.
        last_epoch: the epoch of the last ticket; -1: the same as `epoch`.
        last_number: the location's highest number; the next number is 1, in the next epoch.
    """

    location: str
    epoch: int
    first: int
    last: int
    last_epoch: int = field(default=-1)
    last_number: int = field(default=LAST_NUMBER, compare=False)

    def __post_init__(self) -> None:
        if self.last_epoch == -1:
            object.__setattr__(self, "last_epoch", self.epoch)

    @classmethod
    def run(cls, location: str, epoch: int, first: int, count: int, last_number: int) -> Tickets:
        """The `count` tickets from (`epoch`, `first`) on, in a location that turns over after `last_number`."""
        turns, place = divmod(first - 1 + count - 1, last_number)
        return cls(location, epoch, first, place + 1, epoch + turns, last_number)

    def __len__(self) -> int:
        return (self.last_epoch - self.epoch) * self.last_number + self.last - self.first + 1

    def __iter__(self) -> Iterator[Ticket]:
        for run in self.ranges:
            for number in range(run.first, run.last + 1):
                yield Ticket(self.location, run.epoch, number)

    @property
    def ranges(self) -> tuple[Tickets, ...]:
        """The same tickets as runs of one epoch each; usually one run."""
        epochs = range(self.epoch, self.last_epoch + 1)
        return tuple(
            Tickets(
                self.location,
                epoch,
                self.first if epoch == self.epoch else 1,
                self.last if epoch == self.last_epoch else self.last_number,
                last_number=self.last_number,
            )
            for epoch in epochs
        )
