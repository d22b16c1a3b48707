"""``seriatim link``: pair two boxes, and see the road between them."""

from __future__ import annotations

from pathlib import Path

import click

from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.which import opened, which_box
from seriatim.cli.options.why import confirmed, said, says_why
from seriatim.cli.shown.plain import in_line
from seriatim.cli.shown.table import Column, Table, json_option
from seriatim.operations import links
from seriatim.operations.tables import links as declared
from seriatim.pipeline.declared.link import Link

__all__ = ["EXCHANGES", "LINKS", "REMOVED", "link"]

LINKS, EXCHANGES = Table.of(declared.LINKS), Table.of(declared.EXCHANGES)
REMOVED: Table[dict[str, object]] = Table(
    "A link that was removed",
    Column("link", None, kind="str", meaning="its name"),
    Column("messages", None, kind="int", meaning="messages that were on their way, and are gone"),
)
_QUEUES = "A queue of this box into which the other one may send; may be repeated."


@click.group("link", cls=Commands)
def link() -> None:
    """Pair message boxes, so that queues of one can be published to in the other."""


@link.command("add")
@click.argument("name")
@click.option(
    "--to",
    "there",
    metavar="DSN",
    help="The PostgreSQL of the other box, without a secret: ${NAME}, file: or service=.",
)
@click.option("--url", metavar="URL", help="Where the other box listens: https://host:port; in place of --to.")
@click.option("--certificate", metavar="FILE", help="The certificate of this box, PEM; with --url.")
@click.option("--key", metavar="FILE", help="Its private key, PEM, readable only for its owner; with --url.")
@click.option("--authority", metavar="FILE", help="Who signs the certificate of the other side, PEM; with --url.")
@click.option(
    "--box", "other", default=None, metavar="ID", help="The id of the other box (default: the one that answers)."
)
@click.option("--queue", "queues", multiple=True, metavar="QUEUE", help=_QUEUES)
@click.option("--schema-there", default="seriatim", show_default=True, help="The schema of the box there.")
@click.option(
    "--keep-sent",
    default="0s",
    show_default=True,
    help="How long acknowledged messages are kept, to be sent again after a restore there.",
)
@click.option("--insecure", is_flag=True, help="Connect to another host without a proof of which one answers.")
@which_box
@json_option("Print one JSON object.", LINKS)
def _add(
    name: str,
    *,
    there: str | None,
    url: str | None,
    certificate: str | None,
    key: str | None,
    authority: str | None,
    other: str | None,
    queues: tuple[str, ...],
    schema_there: str,
    keep_sent: str,
    insecure: bool,
    dsn: str | None,
    schema: str,
    json_: bool,
) -> None:
    """Define a link to another box, and ask that box for its id.

    There, the role of the DSN or the certificate has to be accepted before: seriatim link accept.
    """
    new = Link(
        name,
        dsn=there,
        url=url,
        certificate=_absolute(certificate),
        key=_absolute(key),
        authority=_absolute(authority),
        box=other,
        queues=queues,
        schema=schema_there,
        keep_sent=keep_sent,
        insecure=insecure,
    )
    with opened(dsn, schema) as box:
        _print(links.add(box, new), json_=json_)


@link.command("accept")
@click.argument("name")
@click.option("--role", help="The role of PostgreSQL by which the other box logs in.")
@click.option("--certificate", metavar="FILE", help="The certificate by which the other box calls over HTTPS, PEM.")
@click.option(
    "--box", "other", required=True, metavar="ID", help="The id of the other box; there: seriatim box status."
)
@click.option("--queue", "queues", multiple=True, metavar="QUEUE", help=_QUEUES)
@click.option(
    "--trace", is_flag=True, help="It may also ask what became of its messages here (default: it may not any more)."
)
@click.option("--replace", is_flag=True, help="The box has another role or key until now.")
@says_why
@which_box
@json_option("Print one JSON object.", LINKS)
def _accept(
    name: str,
    *,
    role: str | None,
    certificate: str | None,
    other: str,
    queues: tuple[str, ...],
    trace: bool,
    replace: bool,
    actor: str | None,
    reason: str | None,
    dsn: str | None,
    schema: str,
    json_: bool,
) -> None:
    """Let a role, or the key of a certificate, speak as another box, into the queues that are named. It may do nothing else here."""
    with opened(dsn, schema) as box:
        found = links.accept(
            box,
            name,
            role=role,
            certificate=certificate,
            other=other,
            queues=queues,
            trace=trace,
            replace=replace,
            **said(actor, reason),
        )
    _print(found, json_=json_)


@link.command("status")
@click.argument("name", required=False)
@which_box
@json_option("Print a JSON list.", LINKS)
def _status(name: str | None, *, dsn: str | None, schema: str, json_: bool) -> None:
    """List links: the box at the other end, what waits, and why."""
    with opened(dsn, schema) as box:
        found = links.status(box, name)
    LINKS.print(found, json_=json_)


@link.command("transmit")
@click.argument("name", required=False)
@click.option("--at-once", is_flag=True, help="Also send what is to be tried again later.")
@which_box
@json_option("Print a JSON list.", EXCHANGES)
def _transmit(name: str | None, *, at_once: bool, dsn: str | None, schema: str, json_: bool) -> None:
    """Exchange messages once over the links whose address this box has; seriatim serve does it again and again."""
    with opened(dsn, schema) as box:
        done = box.transmit(name, at_once=at_once)
    EXCHANGES.print(done, json_=json_)
    if any(one.error is not None for one in done):
        click.get_current_context().exit(1)


@link.command("remove")
@click.argument("name")
@click.option("--force", is_flag=True, help="Also if messages are on their way; they are gone.")
@click.option("--yes", is_flag=True, help="Don't ask for confirmation.")
@says_why
@which_box
@json_option("Print one JSON object.", REMOVED)
def _remove(
    name: str,
    *,
    force: bool,
    yes: bool,
    actor: str | None,
    reason: str | None,
    dsn: str | None,
    schema: str,
    json_: bool,
) -> None:
    """Forget a link with its streams. Queues that lead over it have to be dropped before."""
    with opened(dsn, schema) as box:
        links.status(box, name)
        confirmed(f"remove link {name}? both boxes forget what they have sent each other", yes=yes)
        gone = links.remove(box, name, force=force, **said(actor, reason))
    if json_:
        REMOVED.print_object({"link": name, "messages": gone})
    else:
        click.echo(in_line(f"removed link {name}"))


def _absolute(path: str | None) -> str | None:
    """A path as processes in other folders read it."""
    return path if path is None or path.startswith("${") else str(Path(path).absolute())


def _print(found: object, *, json_: bool) -> None:
    if json_:
        LINKS.print_object(found)  # type: ignore[arg-type]
    else:
        LINKS.print([found])  # type: ignore[list-item]
