"""Writes the pictures of the console's pages into docs/pictures: ``python scripts/console_pictures.py``.

It needs Chromium (``scripts/chromium``). The box is made for it, with the story of the tests in it, and is gone afterwards.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

sys.path.insert(0, str(Path(__file__).parents[1]))

from seriatim.box.box import MessageBox
from seriatim.operations import bulk_operations, groups
from tests.console.browser import CHROMIUM, chromium, served
from tests.console.of_pipelines import report, unpacked
from tests.console.story import PAYMENT, orders, shop, stop
from tests.upgrade.filled import filled

FOLDER = Path(__file__).parents[1] / "docs" / "pictures"
#: The pictures: name, address, and whether it is dark, and narrow.
PICTURES = (
    ("console-overview", "/", False, False),
    ("console-groups", "/groups", False, False),
    ("console-group", "/groups/fulfilment/c1", False, False),
    ("console-group-dark", "/groups/fulfilment/hole", True, False),
    ("console-group-narrow", "/groups/fulfilment/c1", False, True),
    ("console-bulk", "/bulk?what=groups&action=retry&error_class=ValueError", False, False),
    ("console-bulk-operation", "/bulk-operations/1", False, False),
    ("console-pipeline", "/pipelines/stored", False, False),
    ("console-pipeline-group", "/pipelines/stored/groups/standard/hole", False, False),
    ("console-messages", "/messages", False, False),
    ("console-faults", "/faults", False, False),
    ("console-fault", "/faults/1", False, False),
    ("console-dead-letters", "/dead-letters", False, False),
    ("console-unrouted", "/unrouted", False, False),
    ("console-workers", "/workers", False, False),
    ("console-log", "/log", False, False),
    ("console-search", "/search?text=C1", False, False),
    ("console-refused", "/groups?queue=fulfillment", False, False),
)
#: Pages of which the story has no rows; the box that upgrades are tested with has some of everything.
OTHERS = (
    ("console-queue", "/queues/standard", False, False),
    ("console-set-aside", "/set-aside", False, False),
    ("console-dialogs", "/dialogs", False, False),
    ("console-instances", "/instances", False, False),
    ("console-schedules", "/schedules", False, False),
    ("console-subscriptions", "/subscriptions", False, False),
    ("console-links", "/links", False, False),
    ("console-transmission", "/transmission", True, False),
    ("console-events", "/events", False, False),
    ("console-dialogs-narrow", "/dialogs", True, True),
)


def main() -> None:
    """Write all pictures."""
    if CHROMIUM is None:
        sys.exit("there is no Chromium: scripts/chromium installs it")
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ.pop("SERIATIM_DSN", None)
        with MessageBox.open() as box:
            shop(box)
            _act_on_many(box)
            pipeline = unpacked(Path(folder))
            report(Path(folder), round((time.time() - 2700) * 1_000_000))
            _draw(box, PICTURES, pipelines=[pipeline])
            with psycopg.connect(box.dsn, autocommit=True) as connection:
                connection.execute("CREATE DATABASE others")
            with filled(make_conninfo(box.dsn, dbname="others")) as others:
                _draw(others, OTHERS)
        os.chdir(FOLDER)


def _draw(box: MessageBox, pictures: Iterable[tuple[str, str, bool, bool]], **options: Any) -> None:
    with served(box, **options) as address, chromium() as browser:
        for name, path, is_dark, is_narrow in pictures:
            size = {"width": 420 if is_narrow else 1180, "height": 760}
            page = browser.new_page(viewport=size, color_scheme="dark" if is_dark else "light")
            page.goto(address + path)
            page.screenshot(path=FOLDER / f"{name}.png")
            page.close()


def _act_on_many(box: MessageBox) -> None:
    """A bulk operation that was done, but for two groups that had changed."""
    for number in range(1, 41):
        orders(box, f"b{number:02}", 1, 2)
        stop(box, f"b{number:02}", PAYMENT)
    where = groups.GroupFilter("fulfilment", key="b*")
    by = {"actor": "ann", "reason": "the bank has mended its side"}
    found = bulk_operations.gather_chosen(
        box, groups.Action.RETRY, where, chosen_by={"key": "b*", "error_class": "PaymentRefused"}, **by
    )
    for number in (3, 11):
        groups.skip_message(box, "fulfilment", f"b{number:02}", actor="bob", reason="the customer has cancelled")
    bulk_operations.begin(box, found.bulk_id)
    for _ in bulk_operations.follow(box, found.bulk_id):
        pass


if __name__ == "__main__":
    main()
