"""``seriatim serve``: readers for the queues that have an activation, started and stopped with the load."""

from __future__ import annotations

import logging

import click

from seriatim.cli.which import opened, which_box

__all__ = ["serve"]


@click.command()
@click.option("--queue", "queues", multiple=True, metavar="QUEUE", help="Only this one; may be given several times.")
@click.option("--run-length", default=50, show_default=True, help="At most so many messages in a transaction.")
@click.option("--turn-limit", default="60s", show_default=True, help="How long a transaction may take.")
@which_box
def serve(*, queues: tuple[str, ...], run_length: int, turn_limit: str, dsn: str | None, schema: str) -> None:
    """Start and stop readers of the queues that have an activation, as the load wants them.

    Ctrl-C (or SIGTERM) ends it after the turns in hand; a second one at once. Nothing is lost either way. What is
    defined, and turned on or off, while it runs is obeyed within seconds.
    """
    from seriatim.runtime.processes.serve import Serve  # noqa: PLC0415 -- needs a driver of PostgreSQL
    from seriatim.runtime.workers.worker import Limits  # noqa: PLC0415

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    limits = Limits(1, run_length, None, turn_limit)
    with opened(dsn, schema) as box:
        serving = Serve(box, queues, limits=limits)
        found = queues or [one.queue for one in box.activations()]
        what = (
            f"serving {', '.join(found)}"
            if found
            else "no queue has an activation yet, and those that get one are served"
        )
        click.echo(f"{what}; Ctrl-C ends it", err=True)
        serving.run()
