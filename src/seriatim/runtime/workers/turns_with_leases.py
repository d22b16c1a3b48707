"""The common part of turns with leases and turns in one transaction."""

from __future__ import annotations

from dataclasses import dataclass

from seriatim.runtime.workers.turn import TransactionalTurns


@dataclass(frozen=True, slots=True)
class TurnsWithLeases:
    """The limits of turns, and the watch over their handlers, as `TransactionalTurns` has them."""

    turns: TransactionalTurns

    @property
    def worker(self) -> str:
        return self.turns.worker

    @property
    def queue(self) -> str:
        return self.turns.queue

    @property
    def run_length(self) -> int:
        return self.turns.run_length

    @property
    def turn_limit_s(self) -> float:
        """The longest time of a handler, seconds."""
        return self.turns.turn_limit_s

    def ending(self) -> bool:
        return self.turns.ending()

    def give_up(self, thread: int | None) -> None:
        self.turns.give_up(thread)
