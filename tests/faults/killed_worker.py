"""A program of its own that works on a queue until nothing is left, without a supervisor; its handler ends the whole process group."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import seriatim as sq


def main(dsn: str, schema: str, deadly: str, options: str = "") -> None:
    """Work; at a message of the customer ``bad`` with the number `deadly` kill everything, at one of ``slow`` wait to be killed."""

    def handle(given, tx):
        for message in [given] if isinstance(given, sq.Received) else given:
            customer, version = message.context["customer"], message.context["version"]
            tx.connection.execute(f"INSERT INTO {schema}_seen (customer, version) VALUES (%s, %s)", [customer, version])
            if (customer, str(version)) == ("bad", deadly):
                os.killpg(0, signal.SIGKILL)
            if customer == "slow" and deadly == "slow":
                Path(options).touch()
                time.sleep(600)

    box = sq.MessageBox.open(dsn, schema=schema)
    sq.Worker(box, "shop", handle, workers=1).run(until_idle=True)


def wait(message, tx):
    """Tell that it has begun, and wait to be killed."""
    Path(os.environ["TEST_BEGAN"]).touch()
    time.sleep(600)


if __name__ == "__main__":
    main(*sys.argv[1:])
