"""Processes of two firms that talk about purchase orders until they are killed: buyers in one box, sellers in another.

Each writes down what it sends and gets, in the transaction that does it. What becomes of an order is planned, and stands in its messages.
"""

from __future__ import annotations

import json
import random
import sys
from contextlib import suppress

import psycopg

import seriatim as sq
from tests.faults.crew import ends_without_server, tells_when_unavailable

__all__ = ["ANSWERS", "CODES", "CONTRACT", "KINDS", "make", "words"]

CONTRACT = sq.Contract(
    "PurchaseOrder", {"Header": "initiator", "Line": "initiator", "Footer": "initiator", "Answer": "target"}
)
KINDS = ("Header", "Line", "Line", "Line", "Footer")
ANSWERS = 2
#: The codes with which orders are ended: by their buyer, by their seller, and by the end of their lifetime.
CODES = {"buyer fails": 11, "seller fails": 12, "expires": -1}
_WAIT_S = 0.5
_LOG = """
CREATE TABLE public.heard (
    id bigint GENERATED ALWAYS AS IDENTITY, conversation uuid, type text, sequence bigint, body text, replayed boolean
)
"""
_PLAN = """
CREATE TABLE public.plan (
    purchase integer PRIMARY KEY, fate text NOT NULL, handle uuid, conversation uuid, sent integer NOT NULL DEFAULT 0,
    over boolean NOT NULL DEFAULT FALSE, answers integer NOT NULL DEFAULT 0
)
"""


def make(buyer_dsn: str, seller_dsn: str, orders: int) -> None:
    """Make the plan, and the empty logs: 10 % of the orders end with an error, of which each side says a half, and 10 % expire."""
    for dsn in (buyer_dsn, seller_dsn):
        with psycopg.connect(dsn) as connection:
            connection.execute(_LOG)
    with psycopg.connect(buyer_dsn) as connection:
        connection.execute(_PLAN)
        fates = ["buyer fails", "expires", "seller fails", "expires"]
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO plan (purchase, fate) VALUES (%s, %s)",
                [(one, fates[one % 20 // 5] if one % 5 == 0 else "completes") for one in range(orders)],
            )


def words(role: str, name: str, dsn: str, lifetime_s: float = 0) -> list[str]:
    """The words of a process: ``buyer`` or ``seller``. `lifetime_s`: of orders that expire."""
    return [sys.executable, "-m", __name__, role, name, dsn, str(lifetime_s)]


def buy(tx: sq.Session, chance: random.Random, lifetime_s: float) -> None:
    """Send some messages of some orders that nobody else has."""
    rows = tx.connection.execute(
        "SELECT purchase, fate, handle, sent FROM plan WHERE NOT over AND sent < %s ORDER BY purchase LIMIT %s FOR UPDATE SKIP LOCKED",
        [len(KINDS), chance.randint(1, 20)],
    ).fetchall()
    for purchase, fate, known, sent in rows:
        lifetime = lifetime_s if fate == "expires" else None
        handle = known or tx.begin_dialog("Buyer", "Seller", contract="PurchaseOrder", lifetime=lifetime)
        now = min(sent + chance.randint(1, 3), len(KINDS))
        over = False
        try:
            tx.send_many([
                (handle, KINDS[nth], json.dumps([purchase, fate, nth]).encode()) for nth in range(sent, now)
            ])  # fmt: skip
            if fate == "buyer fails" and now >= 3:
                tx.end(handle, error=(CODES[fate], "no money"))
                over = True
        except sq.ActionRefused:  # it is over, and a message says why
            now, over = sent, True
        tx.connection.execute(
            "UPDATE plan SET handle = %s, sent = %s, over = %s, conversation = (SELECT conversation_id FROM seriatim.endpoints"
            " WHERE handle = %s) WHERE purchase = %s",
            [handle, now, over, handle, purchase],
        )


def listen(tx: sq.Session, queue: str, chance: random.Random) -> None:
    """Write down what one conversation group has; answer a footer; end what has ended, and what has its answers."""
    for message in tx.receive(queue, limit=chance.randint(1, 8), wait=_WAIT_S) or ():
        dialog = message.dialog
        assert dialog is not None
        tx.connection.execute(
            "INSERT INTO heard (conversation, type, sequence, body, replayed) VALUES (%s, %s, %s, %s, %s)",
            [dialog.conversation_id, message.type, dialog.sequence, message.body.decode(), message.replayed],
        )
        with suppress(sq.ActionRefused):  # its error is on the way
            if message.type in ("EndDialog", "Error"):
                tx.end(dialog.handle)
            elif message.type == "Footer":
                _, fate, _ = json.loads(message.body)
                if fate == "seller fails":
                    tx.end(dialog.handle, error=(CODES[fate], "sold out"))
                elif fate == "completes":
                    tx.send_many([(dialog.handle, "Answer", b"%d" % nth) for nth in range(ANSWERS)])
            elif message.type == "Answer" and message.body == b"%d" % (ANSWERS - 1):
                tx.end(dialog.handle)


@ends_without_server
def main(role: str, name: str, dsn: str, lifetime_s: str) -> None:
    """Talk until killed."""
    chance = random.Random(name)
    with sq.MessageBox.open(dsn, connections=2) as box:
        while True:
            with tells_when_unavailable(), box.session() as tx:
                if role == "seller":
                    listen(tx, "sales", chance)
                elif chance.random() < 0.5:
                    listen(tx, "bought", chance)
                else:
                    buy(tx, chance, float(lifetime_s))


if __name__ == "__main__":
    main(*sys.argv[1:])
