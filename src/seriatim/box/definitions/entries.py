"""`Entries`: what a batch of messages becomes in the queues, as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Entries:
    """Entries of queues, as columns: a value for each. `places` are the rows of their messages. `keys`: the unique keys of their messages,
    None for one without; None where no message of the batch has any. `meanings`: what their numbers mean, as they are stored
    (``meaning.py``); likewise. Nobody changes them: the router gives the same to many.
    """

    places: Sequence[int]
    queue_ids: Sequence[int]
    groups: Sequence[str | None]
    sequences: Sequence[int | None]
    sizes: Sequence[int | None]
    priorities: Sequence[int]
    problems: Sequence[str | None]
    subscriptions: Sequence[str]
    keys: Sequence[str | None] | None = None
    meanings: Sequence[str | None] | None = None

    def take(self, kept: Sequence[int]) -> Entries:
        """Some of them: those at these positions, in this order."""
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        taken: dict[str, Any] = {
            name: None if column is None else [column[at] for at in kept] for name, column in columns.items()
        }
        return Entries(**taken)
