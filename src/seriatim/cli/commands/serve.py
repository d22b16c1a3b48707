"""``seriatim serve``: start and stop readers for queues with an activation, as the load requires."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from seriatim.box.box import MessageBox
from seriatim.cli.options.option import flag, option, repeated
from seriatim.cli.options.receive_ports import ports_of, receive_ports
from seriatim.cli.options.which import opened_patiently, which_box
from seriatim.cli.options.worker_options import worker_options
from seriatim.cli.shown.table import tell
from seriatim.cli.shown.telling import telling_work
from seriatim.errors import EnvironmentProblem, UsageError
from seriatim.operations import links
from seriatim.operations.queues import activations
from seriatim.pipeline.declared.error_class import FaultKinds
from seriatim.pipeline.declared.work_limits import Limits, Pace
from seriatim.regions.regions import Regions
from seriatim.runtime.processes.link_server import LinkServer
from seriatim.runtime.processes.log import log_to_stderr
from seriatim.runtime.processes.serve import Serve


@click.command()
@repeated("--queue", "queues", "Serve only this queue.", metavar="QUEUE")
@option("--run-length", "Messages in one transaction, at most.", default=50)
@option("--turn-limit", "Time limit of one transaction.", default="60s")
@option("--listen", "Listen for other boxes over HTTPS at this address, such as 0.0.0.0:8471.", metavar="HOST:PORT")
@option("--certificate", "The certificate of this side, PEM; with --listen.", metavar="FILE")
@option("--key", "Its private key, PEM, readable only for its owner; with --listen.", metavar="FILE")
@option("--authority", "Who signs the certificates of other boxes, PEM; with --listen.", metavar="FILE")
@option(
    "--regions", "regions_file",
    "Tend the two regions that this file declares: copy what one has and the other lacks, and report to their journal.",
    type=click.Path(exists=True, dir_okay=False), metavar="FILE",
)  # fmt: skip
@receive_ports
@option("--http", "Answer callers over HTTP at this address, such as 127.0.0.1:8472.", metavar="HOST:PORT")
@option("--http-prefix", "Path below which a proxy shows it, such as /seriatim.", default="", metavar="PATH")
@option("--http-certificate", "Certificate for --http and its chain, PEM; without it a proxy does TLS.", metavar="FILE")
@option("--http-key", "Its private key, PEM.", metavar="FILE")
@option(
    "--http-connections",
    "Most requests that are answered at once, each on a connection to PostgreSQL; callers that wait need none.",
    default=1,
    type=click.IntRange(1, 100),
    metavar="N",
)
@flag("--no-readers", "Start no readers: only answer callers over HTTP, and judge for receivers in SQL.")
@worker_options
@which_box
def serve(
    *,
    queues: tuple[str, ...],
    run_length: int,
    turn_limit: str,
    listen: str | None,
    certificate: str | None,
    key: str | None,
    authority: str | None,
    regions_file: str | None,
    ports: tuple[str, ...],
    http: str | None,
    http_prefix: str,
    http_certificate: str | None,
    http_key: str | None,
    http_connections: int,
    no_readers: bool,
    transient: tuple[str, ...],
    business: tuple[str, ...],
    log_level: str,
    log_format: str,
    metrics: str | None,
    no_wait: bool,
    dsn: str | None,
    schema: str,
) -> None:
    """Serve the queues that have an activation: start and stop their readers as the load requires.

    With --http it also answers callers with tokens, in any language: `seriatim docs http`.
    Ctrl-C (or SIGTERM) stops it after the current turns; a second one stops it at once. Nothing is lost either way.
    Queues that are defined, or turned on or off, in the meantime are followed within seconds.
    """
    files = {"--certificate": certificate, "--key": key, "--authority": authority}
    over_http = {"prefix": http_prefix, "certificate": http_certificate, "key": http_key}
    _check(files, listen, http, alone=no_readers, is_given=any(over_http.values()), more=bool(queues or listen))
    log_to_stderr(log_level, log_format)
    limits = Limits(1, pace=Pace(run_length, turn_limit=turn_limit))
    with opened_patiently(dsn, schema, waits=not no_wait) as box, _regions(regions_file, box) as regions:
        if box is None:
            return
        doors: list[Any] = []
        told: list[str] = []
        if listen is not None:
            doors.append(LinkServer(box, listen, certificate=str(certificate), key=str(key), authority=str(authority)))
            told.append(f"other boxes find this one at {doors[-1].address}")
        if http is not None:
            # The faces don't import each other: this one starts the other by its name, as it would start a program.
            server = import_module("seriatim.http.serving").HttpServer
            doors.append(server(box, http, connections=http_connections, regions=regions, **over_http))
            told.append(f"callers over HTTP find it at {doors[-1].address}")
        serving = Serve(
            box,
            queues,
            limits=limits,
            faults=FaultKinds(transient, business),
            log_level=log_level.upper(),
            log_format=log_format,
            doors=doors,
            regions=regions,
            ports=ports_of(box, ports),
            reads=not no_readers,
        )
        told.append(f"{_what(box, queues, alone=no_readers)}; Ctrl-C stops it")
        if (over := _links_called(box)) and not no_readers:
            told.append(f"transmitting over {', '.join(over)}")
        if serving.ports:
            told.append(f"receiving through {', '.join(one.name for one in serving.ports)}")
        if regions is not None:
            told.append(f"tending the regions {regions.name}")
        tell(*told, err=True)
        with telling_work(metrics, box, None, serving):
            serving.run()


def _check(
    files: dict[str, str | None], listen: str | None, http: str | None, *, alone: bool, is_given: bool, more: bool
) -> None:
    missing = [name for name, path in files.items() if path is None]
    if listen is None and len(missing) < len(files):
        raise UsageError("certificates are for --listen", remedy="add --listen HOST:PORT, or leave them out")
    if listen is not None and missing:
        raise UsageError(f"--listen needs {', '.join(missing)}", remedy="paths of PEM files")
    if http is None and (alone or is_given):
        raise UsageError("there would be nothing to serve over HTTP", remedy="add --http HOST:PORT")
    if alone and more:
        raise UsageError("--no-readers serves callers over HTTP only", remedy="leave --queue and --listen out")


def _what(box: MessageBox, queues: tuple[str, ...], *, alone: bool) -> str:
    if alone:
        return "answering callers over HTTP"
    if found := queues or [one.queue for one in activations(box)]:
        return f"serving {', '.join(found)}"
    return "no queue has an activation yet; queues that get one will be served"


def _links_called(box: MessageBox) -> list[str]:
    """The links whose address this box has; none for a role that may not transmit: only the owner of the box may."""
    try:
        return [one.link for one in links.status(box) if one.has_address]
    except EnvironmentProblem:
        return []


@contextmanager
def _regions(file: str | None, box: MessageBox | None) -> Iterator[Regions | None]:
    """The regions of a file; None: none are named, or there is no box."""
    if file is None or box is None:
        yield None
        return

    with Regions.from_file(file) as found:
        found.region_of(box)
        yield found
