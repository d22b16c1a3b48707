"""What an activation names."""

from __future__ import annotations

import os


def step(message, tx):
    tx.instance.state.setdefault("versions", []).append(message.context["version"])


def one(message):
    return None


def write(message, tx):
    tx.connection.execute(
        f"INSERT INTO {tx.access.schema}_seen (customer, version) VALUES (%s, %s)",
        [message.context["customer"], message.context["version"]],
    )


async def write_awaited(message, tx):
    await tx.run(lambda session: write(message, session))


def refused(message, tx):
    tx.connection.execute(f"INSERT INTO {tx.access.schema}_lines VALUES (%s)", [message.sequence])


class OutOfStockError(Exception):
    """What a user names as business."""


def moody(message, tx):
    write(message, tx)
    match message.context["customer"]:
        case "bad" | "bad2":
            raise RuntimeError("no room")
        case "empty":
            raise OutOfStockError("none left")


def deadly(message, tx):
    moody(message, tx)
    if message.context == {"customer": "deadly", "version": 1}:
        os.kill(os.getpid(), 9)
