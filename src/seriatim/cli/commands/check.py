"""``seriatim check``: validate a pipeline file, or a port through which messages come in."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import click

from seriatim.box.connection.connections import VARIABLE
from seriatim.cli.options.option import option
from seriatim.cli.options.which import opened, which_box
from seriatim.cli.options.why import exit_if
from seriatim.cli.shown.table import Column, Table, json_only, json_option
from seriatim.errors import CheckpointMismatch, SeriatimError, UsageError
from seriatim.operations.box_here import is_here
from seriatim.operations.unreadable_queues import unreadable_queues
from seriatim.pipeline.declared.pipeline import BOX, DROP, TABLE, Deliver, Pipeline, Source
from seriatim.pipeline.files import pipeline_file
from seriatim.pipeline.files.paths import PORT_FORMATS, obstacle
from seriatim.pipeline.text.counted import counted
from seriatim.runtime.pipelines.start_changes import Change
from seriatim.runtime.pipelines.unread_files import InputFiles

_FAULT: Table[SeriatimError] = Table(
    "A fault of a file",
    *json_only(
        where="its place: file, line and column",
        what="what is wrong",
        remedy="what to do",
        code="the code of the error",
    ),
)
_PORT: Table[dict[str, str | None]] = Table(
    "The port of a destination",
    *json_only(
        destination="the destination",
        format="its format",
        path="its folder or file; null: it has none",
        guarantee="`exactly once` or `at least once`",
        obstacle="why it can't be written now; null: nothing is known",
    ),
)
_CHANGE: Table[Change] = Table(
    "What a start would change",
    *json_only(
        where="the destination or the location; empty: the pipeline",
        what="the entry of the file",
        before="its value in the checkpoint",
        after="its value in the file",
        effect="`refused`: the pipeline doesn't start; `from the next batch on`",
        reason="why it is refused; empty if it isn't",
        remedy="what helps where it is refused; empty: a checkpoint of its own, or to change it back",
    ),
)
CHECKED: Table[dict[str, object]] = Table(
    "A checked file",
    Column("file", None, kind="str", meaning="the file"),
    Column("ok", None, kind="bool", meaning="false: it has faults"),
    Column("faults", None, rows=_FAULT, meaning="its faults"),
    Column("ports", None, rows=_PORT, meaning="of a file without faults: the port of each destination"),
    Column("changes", None, rows=_CHANGE, meaning="of a file without faults: what differs from its checkpoint"),
    Column("warnings", None, kind="list[str]", meaning="what is no fault, but needs somebody"),
)

PORT_CHECKED: Table[dict[str, object]] = Table(
    "A checked port",
    Column("kind", None, kind="str", meaning="`mllp`, `rabbitmq` or `kafka`"),
    Column("name", None, kind="str", meaning="its name"),
    Column("order", None, kind="str", meaning="in which order the source gives its messages"),
    Column(
        "keeps_order_over_a_crash",
        None,
        kind="bool",
        meaning="whether that holds when the port, the source or PostgreSQL dies",
    ),
    Column("once", None, kind="bool", meaning="whether each message has an id; false: one without is at least once"),
    Column("advice", None, kind="str", meaning="which policy fits"),
    Column(
        "warnings",
        None,
        kind="list[str]",
        meaning="of a box: the queues whose policy inherits the disorder of the source",
    ),
)

_EXACTLY_ONCE = "exactly once"
_AT_LEAST_ONCE = "at least once"


@click.command()
@click.argument("file_", metavar="[FILE]", type=click.Path(path_type=Path), required=False)
@option(
    "--port", "port", "Say in which order this port takes messages in, and which policies fit, in place of a file's faults.",
    metavar="PORT",
)  # fmt: skip
@which_box
@json_option("Print one JSON object instead of lines.", CHECKED, PORT_CHECKED)
def check(file_: Path | None, *, port: str | None, dsn: str | None, schema: str, json_: bool) -> None:
    """Validate a pipeline file, or a port through which messages come in.

    Reports all faults of FILE at once, each with its line, and starts nothing. Exits with 2 if there are faults. Warns of
    folders that can't be written now, because messages for them would wait, of durations without a unit, and of input files
    that have changed since they were read, or are hidden. Where the
    message box can be reached, queues that a pipeline can't read are faults. If the pipeline has a checkpoint, what a start
    would change is listed, and a change that it would refuse is a fault. With --port and a box (--dsn), the queues whose
    policy inherits the disorder of the source are named.
    """
    if (port is None) == (file_ is None):
        raise UsageError("check takes a FILE or a --port", remedy="give one of them")
    if port is not None:
        _check_port(port, dsn, schema, json_=json_)
    elif file_ is not None:
        _check_file(file_, json_=json_)


def _check_file(file_: Path, *, json_: bool) -> None:
    pipeline, found_faults = pipeline_file.examine(file_)
    faults: list[SeriatimError] = [*found_faults]
    if pipeline is not None and not faults and any(one.source.format == BOX for one in pipeline.receive):
        faults = [*unreadable_queues(pipeline, file_)]
    changes: list[Change] = []
    if pipeline is not None and not faults:
        changes, faults = _compared(pipeline)
    if json_:
        ports = [] if faults or pipeline is None else _ports(pipeline)
        warnings = [] if faults or pipeline is None else list(_warnings(pipeline))
        found = {
            "file": str(file_),
            "ok": not faults,
            "faults": faults,
            "ports": ports,
            "changes": changes,
            "warnings": warnings,
        }
        click.echo(json.dumps(CHECKED.object_of(found), indent=2))
    elif faults:
        for fault in faults:
            click.echo(str(fault), err=True)
        click.echo(f"{file_}: {counted(len(faults), 'fault')}", err=True)
    elif pipeline is not None:
        _describe(file_, pipeline)
        for change in changes:
            click.echo(f"  changes  {change}")
        for line in _warnings(pipeline):
            click.echo(f"{click.style('warning', fg='yellow', bold=True)}: {line}", err=True)
    exit_if(faults, 2)


def _check_port(text: str, dsn: str | None, schema: str, *, json_: bool) -> None:
    """Say what a port promises, and which queues of the box don't fit."""
    from seriatim.runtime.ports.port_text import source_of  # noqa: PLC0415 -- pipelines have none
    from seriatim.runtime.ports.receive_port import disordered  # noqa: PLC0415

    source = source_of(text)
    warnings: list[str] = []
    if dsn is not None or VARIABLE in os.environ or is_here(None):
        with opened(dsn, schema) as box, box.access.transaction() as transaction:
            warnings = disordered(source, transaction.definitions())
    promise = source.promise
    if json_:
        found = {
            "kind": source.kind, "name": source.name, "order": promise.order, "once": promise.is_once, "advice": promise.advice,
            "keeps_order_over_a_crash": promise.keeps_order_over_a_crash, "warnings": warnings,
        }  # fmt: skip
        click.echo(json.dumps(PORT_CHECKED.object_of(found), indent=2))
        return
    click.echo(f"port {source.name}: ok")
    click.echo(f"  order    {promise.order}")
    kept = "kept" if promise.keeps_order_over_a_crash else "not kept"
    click.echo(f"  crash    order is {kept} when the port, the source or PostgreSQL dies")
    once = "each message comes into the box once"
    click.echo(
        f"  once     {once if promise.is_once else 'a message with an id comes into the box once, one without at least once'}"
    )
    click.echo(f"  policy   {promise.advice}")
    for line in warnings:
        click.echo(f"{click.style('warning', fg='yellow', bold=True)}: {line}", err=True)


def _compared(pipeline: Pipeline) -> tuple[list[Change], list[SeriatimError]]:
    """What differs from the pipeline's checkpoint, and of that what a start would refuse."""
    if not (pipeline.checkpoint / "pipeline.json").exists():
        return [], []
    from seriatim.runtime.pipelines.checkpoint import Checkpoint  # noqa: PLC0415 -- what reads Spark's files, when it is needed

    try:
        changes = Checkpoint(pipeline.checkpoint.absolute()).changes(pipeline)
    except SeriatimError as error:
        return [], [error]
    refused: list[SeriatimError] = [
        CheckpointMismatch(
            f"a start would be refused: {one.reason}",
            where=f"{pipeline.checkpoint}: {one.where}" if one.where else str(pipeline.checkpoint),
            remedy=one.remedy or "give the pipeline a checkpoint of its own, or change it back",
        )
        for one in changes
        if one.effect == "refused"
    ]
    return changes, refused


def _describe(path: Path, pipeline: Pipeline) -> None:
    click.echo(f"{path}: ok")
    click.echo(f"  pipeline {pipeline.name}, checkpoint {pipeline.checkpoint}")
    for received in pipeline.receive:
        origin = received.source
        place = f" files in {origin.path}" if origin.path is not None else ""
        click.echo(f"  receive  {received.title}: {_named(origin.format, origin)}{place}")
    if pipeline.claims is not None:
        lease = f"lease {pipeline.claims.lease_s:g} s"
        click.echo(f"  claims   journal: this run is in region {pipeline.claims.region}, {lease}")
    if pipeline.process is not None:
        click.echo(f"  process  {pipeline.process.function}")
    for destination, port in zip(pipeline.route, _ports(pipeline), strict=True):
        if port["format"] == DROP:
            click.echo(f"  deliver  {port['destination']}: {destination.queue.policy.name}, dropped")
            continue
        what = (
            f"{port['format']} files in"
            if port["format"] in PORT_FORMATS
            else _named(port["format"], destination.deliver)
        )
        place = f" {port['path']}" if port["path"] else ""
        policy = destination.queue.policy.name
        if destination.process is not None:
            click.echo(f"  process  {port['destination']}: {destination.process.function}")
        click.echo(f"  deliver  {port['destination']}: {policy}, {what}{place}, {port['guarantee']}")


def _warnings(pipeline: Pipeline) -> Iterator[str]:
    """The warnings: remarks on the file, and the folders to deliver to that can't be written now."""
    yield from pipeline.remarks
    yield from _unread(pipeline)
    ports = [(f"destination {port['destination']}", port["obstacle"]) for port in _ports(pipeline)]
    folders = (("set_aside", pipeline.set_aside), ("unrouted", pipeline.unrouted))
    ports += [(name, obstacle(folder)) for name, folder in folders if folder is not None]
    for name, found in ports:
        if found:
            yield f"{name}: {found}; until that is mended, its messages wait in the checkpoint"


def _unread(pipeline: Pipeline) -> Iterator[str]:
    """The input files that a run wouldn't read, or not as they are now."""
    found = InputFiles(pipeline, pipeline.checkpoint.absolute() / "query").look()
    yield from map(str, found.first)
    more = found.changed + found.hidden - len(found.first)
    if more:
        yield f"{counted(more, 'more input file')} of these kinds"


def _named(kind: str | None, end: Source | Deliver) -> str:
    """The format, or the part of the message box, in words for people."""
    if kind == TABLE:
        return f"table {end.options.get('table')} of the journal's database"
    if kind != BOX:
        return str(kind)
    if service := end.options.get("service"):
        return f"{'dialogs with ' if isinstance(end, Deliver) else ''}the service {service} of the message box"
    queue = end.options.get("queue")
    return f"queue {queue} of the message box" if queue else "the subscriptions of the message box"


def _ports(pipeline: Pipeline) -> list[dict[str, str | None]]:
    """The port of each destination, with its guarantee, and the obstacle to writing there now, if any."""
    found = []
    for destination in pipeline.route:
        port = destination.deliver
        path = str(port.path) if port.path is not None else port.options.get("path")
        ours = port.format in ((TABLE, DROP) if pipeline.claims is not None else (*PORT_FORMATS, BOX, DROP))
        found.append(
            {
                "destination": destination.queue.name,
                "format": port.format,
                "path": path,
                "guarantee": _EXACTLY_ONCE if ours else _AT_LEAST_ONCE,
                "obstacle": obstacle(port.path) if ours and port.path is not None else None,
            }
        )
    return found
