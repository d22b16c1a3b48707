"""``seriatim receive``: take messages in through ports."""

from __future__ import annotations

import click

from seriatim.cli.options.option import option
from seriatim.cli.options.receive_ports import ports_of, receive_ports
from seriatim.cli.options.which import opened_patiently, which_box
from seriatim.cli.options.worker_options import log_format, log_level, metrics, no_wait
from seriatim.cli.shown.telling import telling_work
from seriatim.errors import UsageError
from seriatim.runtime.processes.log import log_to_stderr
from seriatim.runtime.processes.receiving import Receiving


@click.command()
@receive_ports
@option("--lease", "Time after which another process takes over from one that is lost.", default="15s")
@log_level
@log_format
@metrics
@no_wait
@which_box
def receive(
    *,
    ports: tuple[str, ...],
    lease: str,
    log_level: str,
    log_format: str,
    metrics: str | None,
    no_wait: bool,
    dsn: str | None,
    schema: str,
) -> None:
    """Take messages in through ports: publish them, commit, and then acknowledge them to their source.

    Ctrl-C (or SIGTERM) stops it after the messages in hand; a message that isn't acknowledged then comes again. Of several
    processes with a port of one name one reads a partition at a time; the others wait to take over.
    """
    if not ports:
        raise UsageError("there is no port to receive from", remedy="--port 'mllp: {listen: 127.0.0.1:2575}'")
    log_to_stderr(log_level, log_format)
    with opened_patiently(dsn, schema, waits=not no_wait) as box:
        if box is None:
            return
        receiving = Receiving(ports_of(box, ports, lease=lease))
        names = ", ".join(one.name for one in receiving.ports)
        click.echo(f"receiving through {names}; Ctrl-C stops it", err=True)
        with telling_work(metrics, box, None, receiving):
            receiving.run()
