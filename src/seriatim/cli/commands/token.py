"""``seriatim token``: the tokens of callers over HTTP."""

from __future__ import annotations

from typing import Any

import click

from seriatim.box.box import MessageBox
from seriatim.box.operators.tokens import Token
from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.option import option, repeated
from seriatim.cli.options.which import on_box
from seriatim.cli.shown.table import Column, Table, json_option, print_rows
from seriatim.operations import tokens as operations

TOKENS: Table[Token] = Table(
    "A token of callers over HTTP",
    Column("name", "TOKEN"),
    Column("role", "ROLE"),
    Column("publish", "PUBLISH"),
    Column("receive", "RECEIVE"),
    Column("server", "SERVER"),
    Column("expires_at", "EXPIRES"),
    Column("created_at", "CREATED"),
    Column("created_by", "BY"),
    row=Token,
    nothing="there are no tokens",
)

token = Commands("token")


@token.command("create")
@click.argument("name")
@option("--role", "Run requests as this role of the database, which isn't the box's owner.", required=True)
@repeated("--publish", "Publish to this queue.", metavar="QUEUE")
@repeated("--receive", "Receive from this queue.", metavar="QUEUE")
@option("--expires", "Make it invalid after a time such as 90d (default: never).", metavar="TIME")
@option("--server", "Role with which serve --http connects (default: the role of this command).", metavar="ROLE")
@on_box
def create(box: MessageBox, *, name: str, **given: Any) -> None:
    """Create a token, and print it. It isn't kept, so it can't be printed again."""
    click.echo(operations.create_token(box, name, **given))


@token.command("list")
@on_box
@json_option("Print a JSON list.", TOKENS)
def list_(box: MessageBox, *, json_: bool) -> None:
    """List the tokens, with their roles and rights."""
    print_rows(TOKENS, operations.tokens(box), json_=json_)


@token.command("revoke")
@click.argument("name")
@on_box
def revoke(box: MessageBox, *, name: str) -> None:
    """Make a token invalid, also for callers that wait."""
    operations.revoke_token(box, name)
