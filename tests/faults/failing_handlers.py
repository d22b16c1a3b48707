"""A handler that writes its own log, in the transaction that it is given, and fails now and then."""

from __future__ import annotations

import hashlib
import os
import threading
import time

import seriatim as sq

#: What an operator writes behind a body so that its handler takes it.
MENDED = b" (mended)"


def is_bad(message_id):
    """Whether a message fails for good, for as long as nobody mends it: 0.5% do."""
    return _chance(message_id) < 5


def is_skipped(message_id):
    """Whether the operator gives up a bad message, instead of mending it."""
    return _chance(f"{message_id} skip", 2) == 0


def fails(message_id, attempt, body=b""):
    """How a message fails at an attempt: the same for everybody who asks. 2% do that for some attempts."""
    if is_bad(message_id) and not body.endswith(MENDED):
        return sq.Business
    if 5 <= _chance(message_id) < 25 and _chance(f"{message_id} {attempt}", 2):
        return sq.Transient
    return None


def _chance(text, of=1000):
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) % of


def handle(given, tx):
    """One row a message; of a set they have one beginning."""
    began = time.monotonic_ns()
    messages = [given] if isinstance(given, sq.Message) else given.messages
    receiver = f"{os.getpid()}.{threading.get_ident()}"
    tx.connection.cursor().executemany(
        f'INSERT INTO public.{tx.access.schema}_handled (receiver, queue, "group", sequence, ordinal, message_id, began,'
        " ended, body) VALUES (%s, 'events', %s, %s, %s, %s, %s, %s, %s)",
        [
            [
                receiver, one.context["key"], one.sequence, one.ordinal, one.message_id, began, time.monotonic_ns(),
                one.body.removesuffix(MENDED).decode(),
            ]
            for one in messages
        ],
    )  # fmt: skip
    for one in messages:
        if (error := fails(one.message_id, one.attempt, one.body)) is not None:
            raise error("by chance")
