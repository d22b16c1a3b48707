"""The handler at both ends of a link, which writes its own log in the transaction that it is given."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from typing import Any

import psycopg

import seriatim as sq
from tests.faults.history import Handled

__all__ = ["handle", "handled", "make_log"]


def make_log(dsn: str) -> None:
    """Make the log of a box, empty."""
    with psycopg.connect(dsn) as connection:
        connection.execute(
            """CREATE TABLE public.handled (
                log_id bigint GENERATED ALWAYS AS IDENTITY, receiver text NOT NULL, "group" text, ordinal bigint,
                message_id text NOT NULL, began bigint NOT NULL, ended bigint NOT NULL, body text NOT NULL, replayed boolean NOT NULL
            )"""
        )


def handle(messages: Sequence[sq.Message], tx: Any) -> None:
    """Write a row for each message, in order."""
    began = time.monotonic_ns()
    tx.connection.execute(
        """INSERT INTO public.handled (receiver, "group", ordinal, message_id, began, ended, body, replayed)
        SELECT %s, one."group", one.ordinal, one.message_id, %s, %s, one.body, one.replayed
        FROM unnest(%s::text[], %s::bigint[], %s::text[], %s::text[], %s::boolean[]) WITH ORDINALITY
            AS one ("group", ordinal, message_id, body, replayed, place) ORDER BY place""",
        [
            f"{os.getpid()}.{threading.get_ident()}", began, time.monotonic_ns(), [one.context["customer"] for one in messages],
            [one.ordinal for one in messages], [one.message_id for one in messages], [one.body.decode() for one in messages],
            [one.replayed for one in messages],
        ],
    )  # fmt: skip


def handled(dsn: str, prefix: str) -> tuple[list[Handled], list[Handled]]:
    """What was handled of the messages whose ids begin so: what wasn't marked as replayed, and what was."""
    found: tuple[list[Handled], list[Handled]] = ([], [])
    with psycopg.connect(dsn) as connection:
        for replayed, *row in connection.execute(
            'SELECT replayed, log_id, receiver, "group", NULL::bigint, ordinal, message_id, began, ended, body FROM public.handled'
            " WHERE message_id ^@ %s",
            [prefix],
        ):
            found[replayed].append(Handled(*row))
    return found
