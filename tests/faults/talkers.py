"""Processes that talk in dialogs until they are killed: some send, some receive, each with its own table in one transaction.

A sender takes a dialog out of a plan, sends some of its messages and notes how far it is; a receiver writes down what it got.
"""

from __future__ import annotations

import random
import sys
import time

import psycopg
from psycopg.sql import SQL

import seriatim as sq
from tests.faults.crew import ends_without_server, tells_when_unavailable

MESSAGES = 10
WAIT_S = 0.5
_MAKE = SQL(
    """CREATE TABLE plan (dialog int PRIMARY KEY, handle uuid, sent int NOT NULL DEFAULT 0);
    INSERT INTO plan (dialog) SELECT generate_series(1, {dialogs});
    CREATE TABLE heard (id bigint GENERATED ALWAYS AS IDENTITY, handle uuid, type text, body text);"""
)


def make(connection: psycopg.Connection, dialogs: int) -> None:
    """Make the plan, of so many dialogs, and the empty log."""
    connection.execute(_MAKE.format(dialogs=dialogs))


def words(role: str, name: str, dsn: str) -> list[str]:
    """The words of a process: ``sender`` or ``receiver``."""
    return [sys.executable, "-m", __name__, role, name, dsn]


def speak(tx: sq.Session, chance: random.Random) -> bool:
    """Send some messages of some dialogs that nobody else has; False where there are none."""
    rows = tx.connection.execute(
        "SELECT dialog, handle, sent FROM plan WHERE sent <= %s LIMIT %s FOR UPDATE SKIP LOCKED",
        [MESSAGES, chance.randint(1, 20)],
    ).fetchall()
    for dialog, known, sent in rows:
        handle = known or tx.begin_dialog("Orders", "Inventory")
        now = min(sent + chance.randint(1, 6), MESSAGES)
        if sent < MESSAGES:
            tx.send_many([(handle, "DEFAULT", b"%d %d" % (dialog, number)) for number in range(sent, now)])
        else:
            tx.end(handle)
            now = MESSAGES + 1
        tx.connection.execute("UPDATE plan SET handle = %s, sent = %s WHERE dialog = %s", [handle, now, dialog])
    return bool(rows)


def listen(tx: sq.Session, chance: random.Random) -> None:
    """Write down what one conversation group has, and end what has ended."""
    for message in tx.receive("inventory", limit=chance.randint(1, 12), wait=WAIT_S) or ():
        assert message.dialog is not None
        tx.connection.execute(
            "INSERT INTO heard (handle, type, body) VALUES (%s, %s, %s)",
            [message.dialog.handle, message.type, message.body.decode()],
        )
        if message.type == "EndDialog":
            tx.end(message.dialog.handle)


@ends_without_server
def main(role: str, name: str, dsn: str) -> None:
    """Talk until killed; a sender ends when all is sent."""
    chance = random.Random(name)
    with sq.MessageBox.open(dsn, connections=2) as box:
        while True:
            with tells_when_unavailable(), box.session() as tx:
                if role == "receiver":
                    listen(tx, chance)
                elif not speak(tx, chance):
                    with psycopg.connect(dsn) as look:
                        left = look.execute("SELECT count(*) FROM plan WHERE sent <= %s", [MESSAGES]).fetchone()
                    if left == (0,):
                        return
                    time.sleep(0.05)  # others have them


if __name__ == "__main__":
    main(*sys.argv[1:])
