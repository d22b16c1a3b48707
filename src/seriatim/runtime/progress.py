"""What a run tells of itself, while it runs and at its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from seriatim.errors import InvariantBroken

__all__ = ["Account", "Ending", "Progress", "Report", "RunSummary"]

#: Why a run ended: a signal; nothing more was there; time ran out after that.
Ending = Literal["stopped", "once", "finished"]


@dataclass(frozen=True, slots=True)
class Account:
    """The law of conservation for one destination and one run, in messages.

    Args:
        destination: its name.
        held_before: held when the run began.
        arrived: taken in during the run.
        released: left in order, or late and delivered; and so on for the other dispositions.
        held: held now.
    """

    destination: str
    held_before: int = 0
    arrived: int = 0
    released: int = 0
    held: int = 0
    late: int = 0
    duplicate: int = 0
    invalid: int = 0
    rejected: int = 0
    dead: int = 0

    @property
    def set_aside(self) -> int:
        """Decided and not released."""
        return self.late + self.duplicate + self.invalid + self.rejected + self.dead

    @property
    def missing(self) -> int:
        """What the law lacks: 0, unless seriatim lost (above) or invented (below) messages."""
        return self.held_before + self.arrived - self.released - self.held - self.set_aside


@dataclass(frozen=True, slots=True)
class Progress:
    """The state of a run after a micro-batch.

    Args:
        batch: its id.
        seconds: how long it took.
        rows: rows read in it.
        rows_per_s: rows read in a second, of this batch.
        accounts: each destination since the run began.
        holes: holes that are open.
    """

    batch: int
    seconds: float
    rows: int
    rows_per_s: float
    accounts: tuple[Account, ...]
    holes: int

    @property
    def held(self) -> int:
        """Messages held, over all destinations."""
        return sum(account.held for account in self.accounts)


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run that ended well.

    Args:
        pipeline: its name.
        ending: why it ended.
        seconds: from the start of the query to its end.
        batches: micro-batches that brought or decided something.
        accounts: each destination.
        holes: holes that are open at the end.
    """

    pipeline: str
    ending: Ending
    seconds: float
    batches: int
    accounts: tuple[Account, ...]
    holes: int

    @property
    def invalid(self) -> int:
        """Invalid messages, over all destinations."""
        return sum(account.invalid for account in self.accounts)

    def check(self) -> None:
        """See that the law of conservation holds.

        Raises:
            InvariantBroken: it doesn't.
        """
        for account in self.accounts:
            if account.missing:
                raise InvariantBroken(
                    f"the law of conservation is broken by {account.missing}: {account}",
                    where=f"destination {account.destination}",
                )


#: Called after each micro-batch.
Report = Callable[[Progress], None]
