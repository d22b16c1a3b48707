"""Publishes the sample updates in `inbox` to the message box, scrambled as they are."""

from __future__ import annotations

from pathlib import Path

import seriatim as sq
from orders import TABLE

HERE = Path(__file__).parent


def publish(box: sq.MessageBox) -> int:
    """Apply `box.yaml`, and publish each line of the files in one transaction."""
    box.apply(HERE / "box.yaml")
    lines = [line for file in sorted(HERE.glob("inbox/*.json")) for line in file.read_bytes().splitlines()]
    with box.session() as tx:
        tx.connection.execute(TABLE)
        tx.publish([sq.Message(type="order", body=line) for line in lines])
    return len(lines)


if __name__ == "__main__":
    with sq.MessageBox.open() as box:  # SERIATIM_DSN, or a private PostgreSQL in this folder
        print(f"published {publish(box)} updates")
