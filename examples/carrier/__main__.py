"""A carrier's shipments in two regions, of which the first dies in the middle; and a table that is kept by its changes.

python -m examples.carrier [DSN]
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

import seriatim as sq

DATABASES = ("carrier_a", "carrier_b", "carrier_journal")
DEFINITIONS = (
    sq.MessageType("status", {"shipment": "string", "number": "long"}),
    sq.MessageType("change", {"parcel": "string", "number": "long", "op": "string"}),
    sq.RegionalQueue("status", "shipment", "number"),
    sq.RegionalQueue("changes", "parcel", "number"),
    sq.Subscription("statuses", where="type = 'status'", to="status"),
    sq.Subscription("all-changes", where="type = 'change'", to="changes"),
)
SHIPMENTS = ("1Z001", "1Z002", "1Z003")
STATUSES = ("picked up", "sorted", "on its way", "delivered")
#: The changes of a row: it is made, changed, taken away, and made again.
CHANGES = (("insert", "5 kg"), ("update", "6 kg"), ("delete", ""), ("insert", "7 kg"))
TABLES = (
    "CREATE TABLE history (place bigint GENERATED ALWAYS AS IDENTITY, shipment text, status text, region text)",
    "CREATE TABLE parcels (parcel text PRIMARY KEY, weight text)",
)
LEASE = "1s"


def note(region: str, message: sq.Received, tx: sq.HandlerTransaction) -> None:
    """Write down what has become of a shipment: it commits with the end of the message, once."""
    tx.connection.execute(
        "INSERT INTO history (shipment, status, region) VALUES (%s, %s, %s)",
        [message.group, message.body.decode(), region],
    )


def apply(message: sq.Received, tx: sq.HandlerTransaction) -> None:
    """Do to the table what was done to the original: in order, or the row would be another one."""
    parcel, weight = message.group, message.body.decode()
    match message.context["op"]:
        case "insert":
            tx.connection.execute("INSERT INTO parcels VALUES (%s, %s)", [parcel, weight])
        case "update":
            tx.connection.execute("UPDATE parcels SET weight = %s WHERE parcel = %s", [weight, parcel])
        case "delete":
            tx.connection.execute("DELETE FROM parcels WHERE parcel = %s", [parcel])


def messages(numbers: range) -> list[sq.Message]:
    """The statuses and changes with these numbers, from 1 on, of all shipments."""
    return [
        one
        for number in numbers
        for key in SHIPMENTS
        for one in (
            sq.Message(
                type="status", message_id=f"{key}-{number}", body=STATUSES[number - 1].encode(),
                context={"shipment": key, "number": number},
            ),
            sq.Message(
                type="change", message_id=f"{key}-change-{number}", body=CHANGES[number - 1][1].encode(),
                context={"parcel": key, "number": number, "op": CHANGES[number - 1][0]},
            ),
        )
    ]  # fmt: skip


def regions_of(dsns: list[str]) -> sq.Regions:
    """Both regions; each is active, and what one sends is handed out in the other at once."""
    return sq.Regions(*dsns, name="carrier", prefer=0, patience="2s", retry_after="1s")


def work(region: str, dsns: list[str]) -> None:
    """Work on the statuses in a region until the process ends."""
    with regions_of(dsns) as regions:
        print("begins", flush=True)
        sq.RegionalWorker(
            regions, "status", lambda message, tx: note(region, message, tx), region=region, lease=LEASE
        ).run()


def main(server: str) -> dict[str, list[str]]:
    """Send and handle; the statuses of each shipment, in the order in which they were handled, and what its parcel weighs in the end.

    The databases of the boxes and the journal are made for it, and dropped in the end.
    """
    dsns = [make_conninfo(server, dbname=name) for name in DATABASES]
    with (
        psycopg.connect(server, autocommit=True) as admin,
        databases(admin),
        regions_of(dsns) as regions,
        psycopg.connect(dsns[2], autocommit=True) as journal,
    ):
        for table in TABLES:
            journal.execute(table.encode())
        regions.define(*DEFINITIONS)
        regions.publish(messages(range(1, 3)))
        with dead_in_the_middle(admin, dsns, journal):
            # The box of region a and its worker are gone: the sender goes on, and region b takes over.
            regions.publish(messages(range(3, 5)))
            while count(journal) < len(SHIPMENTS) * len(STATUSES):
                work_once(regions, "b")
        regions.tend()  # region a is back, and gets what it lacks
        work_once(regions, "a")  # of which nothing is left to handle
        rows = journal.execute("SELECT shipment, status FROM history ORDER BY place").fetchall()
        weights = dict(journal.execute("SELECT parcel, weight FROM parcels").fetchall())
    return {key: [*(status for its, status in rows if its == key), weights[key]] for key in SHIPMENTS}


@contextmanager
def databases(admin: psycopg.Connection) -> Iterator[None]:
    """Databases that are there within the block."""
    for name in DATABASES:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    try:
        yield
    finally:
        for name in DATABASES:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def dead_in_the_middle(admin: psycopg.Connection, dsns: list[str], journal: psycopg.Connection) -> Iterator[None]:
    """Within the block the first region is dead: a worker process that had begun, and its database."""
    with subprocess.Popen(
        [sys.executable, "-m", "examples.carrier", "work", "a", *dsns], stdout=subprocess.DEVNULL
    ) as worker:
        while not count(journal):
            time.sleep(0.01)
        worker.kill()
    name = sql.Identifier(DATABASES[0])
    admin.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(name))
    admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [DATABASES[0]])
    try:
        yield
    finally:
        admin.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(name))


def work_once(regions: sq.Regions, region: str) -> None:
    """Work in a region until nothing can be handed out."""
    sq.RegionalWorker(regions, "changes", apply, region=region, lease=LEASE).run(until_idle=True)
    sq.RegionalWorker(regions, "status", lambda message, tx: note(region, message, tx), region=region, lease=LEASE).run(
        until_idle=True
    )


def count(journal: psycopg.Connection) -> int:
    """How many statuses were handled."""
    (found,) = journal.execute("SELECT count(*) FROM history").fetchone() or (0,)
    return int(found)


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(sys.argv[2], sys.argv[3:])
    else:
        given = sys.argv[1] if len(sys.argv) > 1 else sq.MessageBox.open().dsn
        for key, told in main(given).items():
            print(f"{key}: {', '.join(told[:-1])}; its parcel weighs {told[-1]}")
