"""``seriatim queues``: count the messages of each queue, its stopped groups, and those that wait."""

from __future__ import annotations

import click

from seriatim.cli.options.which import opened, which_box
from seriatim.cli.shown.table import Table, json_option
from seriatim.operations import queues as queue_operations
from seriatim.operations.tables import queues as declared

__all__ = ["COUNTS", "queues"]

COUNTS = Table.of(declared.COUNTS)


@click.command()
@which_box
@json_option("Print a JSON list.", COUNTS)
def queues(*, dsn: str | None, schema: str, json_: bool) -> None:
    """Count the messages in each queue of a message box, the groups that stand still, and the messages set aside.

    A message in a worker's open transaction counts as it did before the transaction. A stopped group is suspended or
    faulted, a waiting group waits for a missing number: `seriatim groups` lists both. Of a gate, the places are counted that are open
    because a message of theirs is still on its way.
    """
    with opened(dsn, schema) as box:
        found = queue_operations.queues(box)
    COUNTS.print(found, json_=json_)
