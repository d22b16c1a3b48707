"""A worker of the first region that gets a message, says so, and never ends it: `python -m benchmarks.regions_holder A B JOURNAL LEASE`."""

from __future__ import annotations

import sys
import time

import seriatim as sq


def _hold(message: sq.Received, tx: sq.HandlerTransaction) -> None:
    del tx
    sys.stdout.write(f"{message.sequence}\n")
    sys.stdout.flush()
    time.sleep(600)


def main() -> None:
    """Work until the process is killed."""
    *dsns, lease = sys.argv[1:]
    regions = sq.Regions(*dsns, prefer=0)
    sq.RegionalWorker(regions, "status", _hold, region="a", workers=1, lease=float(lease)).run()


if __name__ == "__main__":
    main()
