"""Handlers of worker processes that are killed and frozen; what they did is in tables beside the box."""

from __future__ import annotations

import os
import sys
import time

import psycopg

import seriatim
from seriatim.runtime.workers import turn

#: The last attempt of a message that `poison_beside` gets.
LAST = 3


def _seen(tx):
    return f"{tx.access.schema}_seen"


def _began(message, tx):
    """Tell at once, in another transaction, who has begun."""
    with psycopg.connect(os.environ["TEST_DSN"], autocommit=True) as connection:
        connection.execute(
            f"INSERT INTO {tx.access.schema}_began (pid, customer, version) VALUES (%s, %s, %s)",
            [os.getpid(), message.context["customer"], message.context["version"]],
        )


def note(message, tx):
    """Write it down in the transaction."""
    tx.connection.execute(
        f"INSERT INTO {_seen(tx)} (customer, version) VALUES (%s, %s)",
        [message.context["customer"], message.context["version"]],
    )


def slow_first(message, tx):
    """The first attempt of a message of the customer `slow` takes a long time."""
    note(message, tx)
    _began(message, tx)
    if message.context["customer"] == "slow" and _first(message, tx):
        time.sleep(600)


def tell(message, tx):
    """Returns what is to be published; at the fourth message, the first time, it takes a long time."""
    turn.LONG_S = 600.0  # all of them in one turn, however busy the machine is
    _began(message, tx)
    with psycopg.connect(os.environ["TEST_DSN"], autocommit=True) as connection:
        began = f"SELECT FROM {tx.access.schema}_began WHERE version = 4"
        if message.context["version"] == 4 and connection.execute(began).rowcount == 1:
            time.sleep(600)
    return seriatim.Message(type="told", body=b"%d" % message.context["version"])


def not_now(message, tx):
    """As long as no row says that it may go on, it isn't the time for it."""
    note(message, tx)
    _began(message, tx)
    if not tx.connection.execute(f"SELECT FROM {tx.access.schema}_go").rowcount:
        raise seriatim.Postpone("1h")


def _first(message, tx):
    with psycopg.connect(os.environ["TEST_DSN"], autocommit=True) as connection:
        (count,) = connection.execute(
            f"SELECT count(*) FROM {tx.access.schema}_began WHERE customer = %s", [message.context["customer"]]
        ).fetchone()
    return count == 1


def poison(message, tx):
    """The second message of the customer `bad` kills its process."""
    note(message, tx)
    _began(message, tx)
    if message.context["customer"] == "bad" and message.context["version"] == 2:
        os.kill(os.getpid(), 9)


def prints(message, tx):
    """Print 10 MB, to both outputs."""
    note(message, tx)
    for stream in (sys.stdout, sys.stderr):
        stream.write("x" * 10_000_000 + "\n")


def poison_beside(message, tx):
    """The message of `bad` kills its process as soon as `good` has its own in hand, which keeps that until then."""
    note(message, tx)
    _began(message, tx)
    bad = message.context["customer"] == "bad"
    patience_s = 60.0 if message.attempt < LAST else 0.5
    _other_begins("good" if bad else "bad", message.attempt + (not bad), patience_s, tx)
    if bad:
        os.kill(os.getpid(), 9)


def _other_begins(customer, times, patience_s, tx):
    """Wait until the other has begun so often; who is alone, as at its last attempt, waits in vain."""
    deadline = time.monotonic() + patience_s
    with psycopg.connect(os.environ["TEST_DSN"], autocommit=True) as connection:
        while time.monotonic() < deadline:
            query = f"SELECT count(*) FROM {tx.access.schema}_began WHERE customer = %s"
            if connection.execute(query, [customer]).fetchone()[0] >= times:
                return
            time.sleep(0.01)
