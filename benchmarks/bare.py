"""The ceilings: PostgreSQL with nothing around it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from benchmarks.race import Parcel, Seat

__all__ = ["Notice", "PlainTable"]

_TABLE = """
CREATE TABLE message (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name text NOT NULL, body bytea NOT NULL);
CREATE INDEX ON message (name, id)
"""
# Parameters as binary: as text, arrays of bytea cost three times as much.
_INSERT = "INSERT INTO message (name, body) SELECT * FROM unnest(%(names)b::text[], %(bodies)b::bytea[])"
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended(%(name)s, 0))"
_TAKE = """
DELETE FROM message
WHERE id = ANY (ARRAY(SELECT id FROM message WHERE name = %(name)s ORDER BY id LIMIT %(limit)s))
RETURNING body
"""


@dataclass(frozen=True, slots=True)
class PlainTable:
    """Lock a group, take its first messages, delete them, commit.

    It doesn't look for a group that has something: each worker goes through all of them from a place of its own. It
    knows no order but arrival, nothing of faults, and never waits for a message. The lock and the messages come with
    one round trip, the commit is another, as it has to be where something is done with the messages.
    """

    name: str = "bare table"

    def prepare(self, dsn: str) -> None:
        """One table, one index."""
        with psycopg.connect(dsn) as connection:
            connection.execute(_TABLE)

    @contextmanager
    def publishing(self, dsn: str) -> Iterator[Callable[[Sequence[Parcel]], None]]:
        """One statement inserts all, and is the transaction."""
        with psycopg.connect(dsn, autocommit=True) as connection:

            def publish(parcels: Sequence[Parcel]) -> None:
                connection.execute(_INSERT, {"names": [p.group for p in parcels], "bodies": [p.body for p in parcels]})

            yield publish

    def work(self, dsn: str, limit: int, seat: Seat) -> None:
        """Go round, until told to stop."""
        with psycopg.connect(dsn) as connection:
            names = [name for (name,) in connection.execute("SELECT DISTINCT name FROM message ORDER BY 1")]
            connection.commit()
            first = seat.place * len(names) // seat.track.places
            seat.begin()
            for name in itertools.cycle(names[first:] + names[:first]):
                if seat.stopped:
                    return
                with connection.pipeline():
                    connection.execute(_LOCK, {"name": name})
                    taken = connection.execute(_TAKE, {"name": name, "limit": limit})
                bodies = taken.fetchall()
                for (body,) in bodies:
                    seat.handle(body)
                connection.commit()
                seat.done(len(bodies))


@dataclass(frozen=True, slots=True)
class Notice:
    """LISTEN and NOTIFY alone: the least that a message to a waiting process can take. It keeps nothing."""

    name: str = "bare LISTEN/NOTIFY"

    def prepare(self, dsn: str) -> None:
        """Nothing to make."""

    @contextmanager
    def publishing(self, dsn: str) -> Iterator[Callable[[Sequence[Parcel]], None]]:
        """A transaction with nothing but the notice."""
        with psycopg.connect(dsn, autocommit=True) as connection:

            def publish(parcels: Sequence[Parcel]) -> None:
                for parcel in parcels:
                    connection.execute("SELECT pg_notify('message', %(body)s)", {"body": parcel.body.decode()})

            yield publish

    def work(self, dsn: str, limit: int, seat: Seat) -> None:
        """Listen, until told to stop."""
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("LISTEN message")
            seat.begin()
            while not seat.stopped:
                for notice in connection.notifies(timeout=1.0, stop_after=1):
                    seat.handle(notice.payload.encode())
                    seat.done(1)
