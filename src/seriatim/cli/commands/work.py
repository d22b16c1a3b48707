"""``seriatim work``: run worker processes on queues until they are stopped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

from seriatim.box.box import MessageBox
from seriatim.box.views.not_done import NotDone
from seriatim.cli.options.option import flag, option
from seriatim.cli.options.which import opened_patiently, which_box
from seriatim.cli.options.worker_options import worker_options
from seriatim.cli.shown.table import tell
from seriatim.cli.shown.telling import telling_work
from seriatim.errors import EnvironmentProblem, UsageError
from seriatim.operations.queues import not_done
from seriatim.pipeline.declared.error_class import FaultKinds
from seriatim.pipeline.declared.work_limits import Lease, Limits, Pace
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.moment import local
from seriatim.regions.regions import Regions
from seriatim.runtime.processes.log import log_to_stderr
from seriatim.runtime.processes.supervisor import Supervisor
from seriatim.runtime.regional.place import RegionalPlace, box_patiently
from seriatim.runtime.stop_signal import Stop


@click.command()
@click.argument("queues", metavar="QUEUE…", nargs=-1, required=True)
@option(
    "--handler", "handlers",
    "The function to call with messages; TYPE=MODULE:FUNCTION for one type (default: the handlers of starting subscriptions).",
    multiple=True, metavar="MODULE:FUNCTION",
)  # fmt: skip
@option(
    "--port", "Deliver messages to this port in place of a handler, such as 'http: {url: https://…}'.", metavar="PORT"
)
@option("--workers", "Threads per queue in each process.", default=8)
@option("--processes", "Number of worker processes.", default=1)
@option("--run-length", "Messages in one transaction, at most.", default=50)
@option("--rate", "Messages per second from each queue, at most; or such as 30/m or 500/h.", metavar="RATE")
@option("--run-as", "Run the handler with this database role.", metavar="ROLE")
@option("--turn-limit", "Time limit of one transaction (default: 60s), or of a handler under leases (default: none).")
@option(
    "--mode", "How a group is claimed while its handler runs: by an open transaction or by a lease.",
    type=click.Choice(["transactional", "leased"]), default="transactional",
)  # fmt: skip
@option(
    "--lease", "Under leases: time after which another worker takes over the group of a lost worker.", default="30s"
)
@option("--heartbeat", "Under leases: time between renewals (default: a fifth of the lease).")
@option(
    "--regions", "regions_file",
    "Work on queues of two regions, which this file declares: under leases of 10s, in the transactions of their journal.",
    type=click.Path(dir_okay=False), metavar="FILE",
)  # fmt: skip
@option("--region", "With --regions: the region whose box is worked on.", type=click.Choice(["a", "b"]))
@option(
    "--claims", "With --regions: claim all messages that follow in a session, or one; another region may then do the next.",
    type=click.Choice(["session", "message"]), default="session",
)  # fmt: skip
@option(
    "--recheck", "With --regions: ask again after this time about a session that is worked on elsewhere.", default="1s"
)
@flag("--batch", "Call the handler once with all messages of a turn.")
@flag("--once", "End when nothing can be handed out, and say how many messages still wait, and why.")
@worker_options
@which_box
def work(
    *,
    queues: tuple[str, ...],
    handlers: tuple[str, ...],
    port: str | None,
    workers: int,
    processes: int,
    run_length: int,
    rate: str | None,
    turn_limit: str | None,
    run_as: str | None,
    batch: bool,
    mode: str,
    lease: str,
    heartbeat: str | None,
    once: bool,
    transient: tuple[str, ...],
    business: tuple[str, ...],
    log_level: str,
    log_format: str,
    metrics: str | None,
    no_wait: bool,
    dsn: str | None,
    schema: str,
    **regional: str | None,
) -> None:
    """Work on queues: call the handler with the messages of each group, in order, in transactions.

    Ctrl-C (or SIGTERM) stops it after the current turns; a second one stops it at once. Nothing is lost either way. A
    worker process that dies is replaced, and the message at which it died has used up an attempt. Failures of handlers
    are in the log, on standard error. A setting of a queue (`seriatim queue set`) counts before --workers, --rate and
    --run-length.
    """
    log_to_stderr(log_level, log_format)
    if port is not None and handlers:
        raise UsageError("--port and --handler can't be combined", remedy="give one of them")
    place = _place(regional, {"--port": port, "--run-as": run_as, "--dsn": dsn})
    if place is not None:
        mode, lease = "leased", "10s" if _is_default("lease") else lease
    pace = Pace(run_length, rate=rate, turn_limit=turn_limit)
    limits = Limits(workers, batch, pace, mode, Lease(lease, heartbeat=heartbeat))
    opened = opened_patiently(dsn, schema, waits=not no_wait) if place is None else _of_region(place, waits=not no_wait)
    with opened as box:
        if box is None:
            return
        supervisor = Supervisor(
            box, queues, _handler(handlers), processes=processes, limits=limits, run_as=run_as, port=port,
            faults=FaultKinds(transient, business), log_level=log_level.upper(), log_format=log_format, until_idle=once,
            regional=place,
        )  # fmt: skip
        many = f"{counted(processes, 'process')} of {counted(workers, 'thread')}"
        click.echo(f"working on {', '.join(queues)}: {many} a queue; Ctrl-C stops it", err=True)
        with telling_work(metrics, box, queues, supervisor):
            supervisor.run()
        if once:
            click.echo(f"handlers got {counted(supervisor.counted, 'message')} (each attempt counts)")
            tell(*_still_there(box, queues))


def _place(given: Mapping[str, Any], others: Mapping[str, str | None]) -> RegionalPlace | None:
    """Where to work on queues of two regions; None: on those of one box."""
    file, region = given["regions_file"], given["region"]
    if file is None:
        if region is not None:
            raise UsageError("--region needs --regions", remedy="name the file that declares the regions")
        return None
    if region is None:
        raise UsageError("--regions needs --region", remedy="say whose box is worked on: --region a, or b")
    for name, other in others.items():
        if other is not None:
            raise UsageError(f"{name} and --regions can't be combined", remedy="leave one of them out")
    if not _is_default("mode"):
        raise UsageError("--mode and --regions can't be combined", remedy="in two regions work is leased always")

    return RegionalPlace(file, region, given["claims"], given["recheck"])


def _is_default(option: str) -> bool:
    return click.get_current_context().get_parameter_source(option) is click.core.ParameterSource.DEFAULT


@contextmanager
def _of_region(place: RegionalPlace, *, waits: bool) -> Iterator[MessageBox | None]:
    """The box of a region; None if SIGTERM or SIGINT came before it was there."""
    stop = Stop()
    with Regions.from_file(place.file) as regions:
        with stop.listening():
            box = box_patiently(regions, place.region, stop, waits=waits)
        yield box


def _still_there(box: MessageBox, queues: Sequence[str]) -> Iterator[str]:
    """Which messages aren't done, and why: a line for each reason."""
    try:
        left = not_done(box, *queues)
    except EnvironmentProblem as error:  # the role may work on the queue, and not look into it
        yield f"which messages still wait can't be seen: {error}"
        return
    if not left:
        yield "no message waits"
    for one in left:
        yield f"{one.queue}: {one.messages:,} not done: {one.reason}{_when(one)}"


def _when(left: NotDone) -> str:
    at = None if left.until is None else local(left.until)
    if left.why == "held":
        if at is None:
            return "; no time-out ends that: seriatim groups says what is missing"
        return f"; the first time-out ends at {at}, and the next run obeys it"
    return "" if at is None else f" (from {at} on)"


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
