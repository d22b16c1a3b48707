"""``seriatim serve``: start and stop readers for queues with an activation, as the load requires."""

from __future__ import annotations

import logging

import click

from seriatim.cli.which import opened, which_box

__all__ = ["serve"]


@click.command()
@click.option("--queue", "queues", multiple=True, metavar="QUEUE", help="Serve only this queue; may be repeated.")
@click.option("--run-length", default=50, show_default=True, help="Messages in one transaction, at most.")
@click.option("--turn-limit", default="60s", show_default=True, help="Time limit of one transaction.")
@which_box
def serve(*, queues: tuple[str, ...], run_length: int, turn_limit: str, dsn: str | None, schema: str) -> None:
    """Serve the queues that have an activation: start and stop their readers as the load requires.

    Ctrl-C (or SIGTERM) stops it after the current turns; a second one stops it at once. Nothing is lost either way.
    Queues that are defined, or turned on or off, in the meantime are followed within seconds.
    """
    from seriatim.operations.queues import activations  # noqa: PLC0415 -- the driver, when it is needed
    from seriatim.runtime.processes.serve import Serve  # noqa: PLC0415 -- needs a driver of PostgreSQL
    from seriatim.runtime.workers.worker import Limits  # noqa: PLC0415

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    limits = Limits(1, run_length, None, turn_limit)
    with opened(dsn, schema) as box:
        serving = Serve(box, queues, limits=limits)
        found = queues or [one.queue for one in activations(box)]
        what = (
            f"serving {', '.join(found)}"
            if found
            else "no queue has an activation yet; queues that get one will be served"
        )
        click.echo(f"{what}; Ctrl-C stops it", err=True)
        serving.run()
