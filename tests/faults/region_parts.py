"""Senders and workers of two regions as processes, and the log that handlers write in the journal's database.

python -m tests.faults.region_parts send FILE OUT PREFIX SESSIONS NUMBERS
python -m tests.faults.region_parts work FILE REGION
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import psycopg

import seriatim as sq
from tests.faults.crew import ends_without_server

__all__ = ["DEFINITIONS", "NAME", "handle", "handled", "make_log"]

NAME = "shop"
DEFINITIONS = (
    sq.MessageType("status", properties={"session": "string", "number": "long"}),
    sq.RegionalQueue("status", "session", "number", attempts=1_000),
    sq.Subscription("to-status", where="type = 'status'", to="status"),
)
_TOGETHER = 25


def make_log(dsn: str) -> None:
    """Make the log, empty."""
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "CREATE TABLE public.handled (place bigint GENERATED ALWAYS AS IDENTITY, session text NOT NULL, number bigint NOT NULL,"
            " message_id text NOT NULL, worker bigint NOT NULL)"
        )


def handle(received: Any, tx: Any) -> None:
    """Write down what is handled, in the transaction of the completion."""
    tx.connection.execute(
        "INSERT INTO public.handled (session, number, message_id, worker) VALUES (%s, %s, %s, %s)",
        [received.group, received.sequence, received.message_id, os.getpid()],
    )


def handled(dsn: str) -> list[tuple[str, int, str, int]]:
    """What was handled: session, number, id and worker, in the order of the writes."""
    with psycopg.connect(dsn) as connection:
        return connection.execute(
            "SELECT session, number, message_id, worker FROM public.handled ORDER BY place"
        ).fetchall()


@ends_without_server
def _send(file: str, out: str, prefix: str, sessions: int, numbers: int) -> None:
    """Send messages under their own numbers, each until it is answered; what was answered is noted, with the longest wait for it.

    It goes on, number by number, until there are enough and a file beside says so. Another process of the same prefix begins where one was killed,
    and ends no earlier: what that one has sent last may not be noted.
    """
    longest, number = 0.0, 0
    noted, enough, begun = Path(out), Path(out).with_suffix(".enough"), Path(out).with_suffix(".begun")
    answered = set(noted.read_text().split())
    least = max(numbers, int(begun.read_text() or "0") if begun.exists() else 0)
    with sq.Regions.from_file(file) as regions, noted.open("a", encoding="utf-8") as notes:
        while number < least or not enough.exists():
            number += 1
            if number > least:
                (written := begun.with_suffix(".new")).write_text(str(number))
                written.replace(begun)
            ids = [one for at in range(sessions) if (one := f"{prefix}{at}-{number}") not in answered]
            for first in range(0, len(ids), _TOGETHER):
                messages = [
                    sq.Message(
                        type="status", message_id=one, context={"session": one.rpartition("-")[0], "number": number}
                    )
                    for one in ids[first : first + _TOGETHER]
                ]
                began = time.monotonic()
                while not _is_sent(regions, messages):
                    time.sleep(0.02)
                longest = max(longest, time.monotonic() - began)
                notes.writelines(f"{one.message_id}\n" for one in messages)
                notes.flush()
            if number > numbers:  # as long as others break something
                time.sleep(0.1)
    print(f"longest {longest:.1f}")  # noqa: T201


def _is_sent(regions: sq.Regions, messages: list[sq.Message]) -> bool:
    try:
        regions.publish(messages)
    except (sq.Unavailable, sq.EnvironmentProblem) as error:
        print(error, file=sys.stderr, flush=True)  # noqa: T201
        return False
    return True


@ends_without_server
def _work(file: str, region: str) -> None:
    with sq.Regions.from_file(file) as regions:
        sq.RegionalWorker(
            regions, "status", handle, region=region, lease=sq.Lease(2.0, heartbeat=0.3), recheck=0.2, workers=4
        ).run()


def main() -> None:
    """Send, or work."""
    import logging

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    match sys.argv[1:]:
        case ["send", file, out, prefix, sessions, numbers]:
            _send(file, out, prefix, int(sessions), int(numbers))
        case ["work", file, region]:
            _work(file, region)


if __name__ == "__main__":
    main()
