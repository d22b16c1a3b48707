"""Publish and subscribe by monolog: one ordered stream of prices to several services, each at its own pace.

python -m examples.dialogs.monolog [DSN]
"""

from __future__ import annotations

import sys

import seriatim as sq

READERS = ("Web", "Mobile", "Archive")


def main(box: sq.MessageBox, prices: int = 10) -> dict[str, list[bytes]]:
    """Publish prices; what each reader got, in order."""
    box.define(
        sq.Contract("Prices", {"Price": "initiator"}),
        sq.Service("Exchange", queue="exchange"),
        *(sq.Service(name, queue=name.lower(), contracts=["Prices"]) for name in READERS),
    )
    with box.session() as tx:
        handle = tx.begin_monolog("Exchange", READERS, contract="Prices")
    found: dict[str, list[bytes]] = {name: [] for name in READERS}
    for number in range(prices):
        with box.session() as tx:
            tx.send(handle, "Price", b"%d" % number)
        take(box, "Web", found, limit=1)  # which is never behind; the others are
    with box.session() as tx:
        tx.end(handle)
    for name in READERS:
        while take(box, name, found, limit=4):
            pass
    return found


def take(box: sq.MessageBox, name: str, found: dict[str, list[bytes]], limit: int) -> bool:
    """Receive some of what has come to a reader; whether there was any."""
    with box.session() as tx:
        delivery = tx.receive(name.lower(), limit=limit)
        for message in delivery or ():
            if message.type == "EndDialog":
                tx.end(message.dialog.handle)
            else:
                found[name].append(message.body)
        return delivery is not None


if __name__ == "__main__":
    with sq.MessageBox.open(*sys.argv[1:]) as opened:
        print({name: len(found) for name, found in main(opened).items()})
