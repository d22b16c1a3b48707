"""``seriatim link``: pair two boxes, and see the road between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from seriatim.box.box import MessageBox
from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.option import flag, option, repeated
from seriatim.cli.options.which import acts_on_box, looks_at_box, on_box
from seriatim.cli.options.why import Why, confirmed, exit_if
from seriatim.cli.shown.table import Column, Table, json_option, print_row, print_rows
from seriatim.operations import links
from seriatim.operations.tables.links import EXCHANGES, LINKS
from seriatim.pipeline.declared.link import Link

REMOVED: Table[dict[str, object]] = Table(
    "A link that was removed",
    Column("link", None, kind="str", meaning="its name"),
    Column("messages", None, kind="int", meaning="messages that were on their way, and are gone"),
)
_QUEUES = "A queue of this box into which the other one may send; may be repeated."

link = Commands("link")


@link.command("add")
@click.argument("name")
@option(
    "--to", "there", "The PostgreSQL of the other box, without a secret: ${NAME}, file: or service=.", metavar="DSN"
)
@option("--url", "Where the other box listens: https://host:port; in place of --to.", metavar="URL")
@option("--certificate", "The certificate of this box, PEM; with --url.", metavar="FILE")
@option("--key", "Its private key, PEM, readable only for its owner; with --url.", metavar="FILE")
@option("--authority", "Who signs the certificate of the other side, PEM; with --url.", metavar="FILE")
@option("--box", "other", "The id of the other box (default: the one that answers).", metavar="ID")
@option("--queue", "queues", _QUEUES, multiple=True, metavar="QUEUE")
@option("--schema-there", "The schema of the box there.", default="seriatim")
@option("--keep-sent", "How long acknowledged messages are kept, to be sent again after a restore there.", default="0s")
@flag("--insecure", "Connect to another host without a proof of which one answers.")
@on_box
@json_option("Print one JSON object.", LINKS)
def add(
    box: MessageBox, name: str, *, there: str | None, other: str | None, schema_there: str, json_: bool, **given: Any
) -> None:
    """Define a link to another box, and ask that box for its id.

    There, the role of the DSN or the certificate has to be accepted before: seriatim link accept.
    """
    given |= {one: _absolute(given[one]) for one in ("certificate", "key", "authority")}
    print_row(LINKS, links.add(box, Link(name, dsn=there, box=other, schema=schema_there, **given)), json_=json_)


@link.command("accept")
@click.argument("name")
@option("--role", "The role of PostgreSQL by which the other box logs in.")
@option("--certificate", "The certificate by which the other box calls over HTTPS, PEM.", metavar="FILE")
@option("--box", "other", "The id of the other box; there: seriatim box status.", required=True, metavar="ID")
@option("--queue", "queues", _QUEUES, multiple=True, metavar="QUEUE")
@repeated("--service", "services", "A service of the other box, as which it may speak in dialogs.", metavar="SERVICE")
@flag("--trace", "It may also ask what became of its messages here (default: it may not any more).")
@flag("--replace", "The box has another role or key until now.")
@acts_on_box(LINKS)
def accept(box: MessageBox, name: str, *, why: Why, json_: bool, **given: Any) -> None:
    """Let a role, or the key of a certificate, speak as another box, into the queues and as the services that are named.

    It may do nothing else here.
    """
    print_row(LINKS, links.accept(box, name, **given, **why()), json_=json_)


@link.command("status")
@click.argument("name", required=False)
@looks_at_box(LINKS, told="Print a JSON list.")
def _status(box: MessageBox, name: str | None, *, json_: bool) -> None:
    """List links: the box at the other end, what waits, and why."""
    print_rows(LINKS, links.status(box, name), json_=json_)


@link.command("transmit")
@click.argument("name", required=False)
@flag("--at-once", "Also send what is to be tried again later.")
@looks_at_box(EXCHANGES, told="Print a JSON list.")
def _transmit(box: MessageBox, name: str | None, *, at_once: bool, json_: bool) -> None:
    """Exchange messages once over the links whose address this box has; seriatim serve does it again and again."""
    exchanges = links.transmit(box, name, at_once=at_once)
    print_rows(EXCHANGES, exchanges, json_=json_)
    exit_if(any(one.error is not None for one in exchanges))


@link.command("remove")
@click.argument("name")
@flag("--force", "Also if messages are on their way, which are gone, or dialogs are open, which fail.")
@flag("--yes", "Don't ask for confirmation.")
@acts_on_box(REMOVED)
def remove(box: MessageBox, name: str, *, force: bool, yes: bool, why: Why, json_: bool) -> None:
    """Forget a link with its streams. Queues that lead over it have to be dropped before."""
    links.status(box, name)
    confirmed(f"remove link {name}? both boxes forget what they have sent each other", yes=yes)
    gone = links.remove(box, name, force=force, **why())
    print_row(REMOVED, {"link": name, "messages": gone}, f"removed link {name}", json_=json_)


def _absolute(path: str | None) -> str | None:
    """A path as processes in other folders read it."""
    return path if path is None or path.startswith("${") else str(Path(path).absolute())
