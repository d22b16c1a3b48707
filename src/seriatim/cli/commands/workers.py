"""``seriatim workers``: list the processes that work on queues."""

from __future__ import annotations

from seriatim.box.box import MessageBox
from seriatim.cli.options.listing import list_command
from seriatim.operations import workers as operations
from seriatim.operations.tables.workers import WORKER


def _judges(box: MessageBox) -> str:
    told = [f"{one.pid} on {one.host}" for one in operations.judges(box) if one.is_there]
    return f"judging for receivers in SQL: {', '.join(told)}" if told else ""


workers = list_command("workers", operations.workers, WORKER, beside=_judges)
