"""``seriatim work``: processes that work on queues, until they are stopped."""

from __future__ import annotations

import logging

import click

from seriatim.cli.which import opened, which_box
from seriatim.errors import UsageError

__all__ = ["work"]


@click.command()
@click.argument("queues", metavar="QUEUE…", nargs=-1, required=True)
@click.option(
    "--handler", "handlers", multiple=True, metavar="MODULE:FUNCTION",
    help="What is called with messages; TYPE=MODULE:FUNCTION for those of a type. Default: what starting subscriptions name.",
)  # fmt: skip
@click.option("--port", metavar="PORT", help="What messages are handed to instead, such as 'http: {url: https://…}'.")
@click.option("--workers", default=8, show_default=True, help="Threads for each queue in each process.")
@click.option("--processes", default=1, show_default=True, help="Worker processes.")
@click.option("--run-length", default=50, show_default=True, help="At most so many messages in a transaction.")
@click.option("--rate", type=float, help="At most so many messages a second, from each queue.")
@click.option("--run-as", metavar="ROLE", help="The role of the database that the handler has.")
@click.option("--turn-limit", help="How long a transaction may take (60s), or in leases a handler (no limit).")
@click.option(
    "--mode", type=click.Choice(["transactional", "leased"]), default="transactional", show_default=True,
    help="Whether a transaction is open while a handler works, or its group is claimed by a lease.",
)  # fmt: skip
@click.option("--lease", default="30s", show_default=True, help="After that a group goes on whose worker is gone.")
@click.option("--heartbeat", help="How often leases are renewed. Default: a fifth of the lease.")
@click.option("--batch", is_flag=True, help="Give the handler all messages of a run at once.")
@which_box
def work(
    *,
    queues: tuple[str, ...],
    handlers: tuple[str, ...],
    port: str | None,
    workers: int,
    processes: int,
    run_length: int,
    rate: float | None,
    turn_limit: str | None,
    run_as: str | None,
    batch: bool,
    mode: str,
    lease: str,
    heartbeat: str | None,
    dsn: str | None,
    schema: str,
) -> None:
    """Work on queues: give the messages of each group to the handler, in order, each in a transaction.

    Ctrl-C (or SIGTERM) ends it after the turns in hand; a second one at once. Nothing is lost either way. A process
    that dies is replaced, and what it died of is counted as an attempt.
    """
    from seriatim.runtime.processes.supervisor import Supervisor  # noqa: PLC0415 -- needs a driver of PostgreSQL
    from seriatim.runtime.workers.worker import Limits  # noqa: PLC0415

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    if port is not None and handlers:
        raise UsageError("--port and --handler exclude each other", remedy="give one of them")
    limits = Limits(workers, run_length, rate, turn_limit, batch, mode, lease, heartbeat)
    with opened(dsn, schema) as box:
        supervisor = Supervisor(
            box, queues, _handler(handlers), processes=processes, limits=limits, run_as=run_as, port=port
        )
        many = (
            f"{processes:,} process{'' if processes == 1 else 'es'} of {workers:,} thread{'' if workers == 1 else 's'}"
        )
        click.echo(f"working on {', '.join(queues)}: {many} a queue; Ctrl-C ends it", err=True)
        supervisor.run()


def _handler(given: tuple[str, ...]) -> str | dict[str, str] | None:
    """The names of handlers, by types if there are any."""
    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        return given[0]
    found: dict[str, str] = {}
    for one in given:
        kind, _, name = one.rpartition("=")
        if found.setdefault(kind or "*", name) != name:
            raise UsageError(f"{kind or 'all other types'} has two handlers", where="--handler")
    return found
