"""A handler that writes its own log, in the transaction that it is given, and fails now and then."""

from __future__ import annotations

import os
import threading
import time
import zlib

import seriatim as sq


def fails(message_id, attempt):
    """How a message fails at an attempt: the same for everybody who asks."""
    chance = zlib.crc32(message_id.encode()) % 1000
    if chance < 10:
        return sq.Business
    if chance < 40 and zlib.crc32(f"{message_id} {attempt}".encode()) % 2:
        return sq.Transient
    return None


def handle(message, tx):
    """One row a message."""
    began = time.monotonic_ns()
    receiver = f"{os.getpid()}.{threading.get_ident()}"
    tx.connection.execute(
        f'INSERT INTO public.{tx.access.schema}_handled (receiver, queue, "group", sequence, ordinal, message_id, began,'
        " ended, body) VALUES (%s, 'events', %s, %s, %s, %s, %s, %s, %s)",
        [
            receiver, message.context["key"], message.sequence, message.ordinal, message.message_id, began,
            time.monotonic_ns(), message.body.decode(),
        ],
    )  # fmt: skip
    if (error := fails(message.message_id, message.attempt)) is not None:
        raise error("by chance")
