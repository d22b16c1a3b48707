"""``seriatim subscriptions`` and ``seriatim subscription``: list subscriptions; start, stop and unenlist subscriptions."""

from __future__ import annotations

from seriatim.box.box import MessageBox
from seriatim.box.definitions.change import Change
from seriatim.cli.options.changes import changes
from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.listing import list_command
from seriatim.cli.options.why import Why, may_say_why
from seriatim.operations import subscriptions as operations
from seriatim.operations.tables.subscriptions import SUBSCRIPTIONS

subscriptions = list_command("subscriptions", operations.subscriptions, SUBSCRIPTIONS)

subscription = Commands(
    "subscription", help="Start, stop or unenlist subscriptions of a message box while messages come in."
)


@subscription.command("start")
@may_say_why
@changes
def start(box: MessageBox, *names: str, why: Why) -> list[Change]:
    """Start subscriptions: they collect messages and hand them out, in order, beginning with those collected before."""
    return operations.start(box, *names, **why())


@subscription.command("stop")
@may_say_why
@changes
def stop(box: MessageBox, *names: str, why: Why) -> list[Change]:
    """Stop subscriptions: they go on collecting messages, but hand none out."""
    return operations.stop(box, *names, **why())


@subscription.command("unenlist")
@changes
def unenlist(box: MessageBox, *names: str) -> list[Change]:
    """Unenlist subscriptions: they collect no more messages, and those collected before are kept back."""
    return operations.unenlist(box, *names)
