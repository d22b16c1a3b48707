"""What a session has of its box: how to reach it, and what its process knows of it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import psycopg

from seriatim.box.definitions import Known
from seriatim.box.heads import Heads
from seriatim.box.identity import Identity
from seriatim.box.room import Room

__all__ = ["Access", "Transaction"]

#: Gives a transaction.
Transaction = Callable[[], AbstractContextManager[psycopg.Connection]]


@dataclass(frozen=True, slots=True)
class Access:
    """A box, for what works in it.

    Args:
        schema: its schema.
        place: host, database and schema, for errors.
        known: its definitions.
        identity: which box it is.
        transaction: a transaction of its own, for whoever has no connection.
        spare: one for whoever has a connection and needs another transaction, if that is free now; None where it isn't.
        room: what is known of the room in its queues.
        heads: where these begin, as far as that is known.
    """

    schema: str
    place: str
    known: Known
    identity: Identity
    transaction: Transaction
    spare: Callable[[], AbstractContextManager[psycopg.Connection | None]]
    room: Room = field(default_factory=Room)
    heads: Heads = field(default_factory=Heads)
