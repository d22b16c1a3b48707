"""Publishes the sample updates in `inbox` to the message box, scrambled as they are."""

from __future__ import annotations

from pathlib import Path

import seriatim as sq
from orders import TABLE

HERE = Path(__file__).parent


def define(box: sq.MessageBox) -> None:
    """Apply `box.yaml`, and make the handler's table."""
    box.apply(HERE / "box.yaml")
    with box.session() as tx:
        tx.connection.execute(TABLE)


def updates() -> list[bytes]:
    """The lines of the files, in order of arrival."""
    return [line for file in sorted(HERE.glob("inbox/*.json")) for line in file.read_bytes().splitlines()]


def publish(box: sq.MessageBox) -> int:
    """Publish each update, in one transaction."""
    return len(box.publish([sq.Message(type="order", body=line) for line in updates()]))


if __name__ == "__main__":
    with sq.MessageBox.open() as box:  # SERIATIM_DSN, or a private PostgreSQL in this folder
        define(box)
        print(f"published {publish(box)} updates")
