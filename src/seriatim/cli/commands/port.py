"""``seriatim ports`` and ``seriatim port``: list ports; forget ports."""

from __future__ import annotations

from seriatim.box.box import MessageBox
from seriatim.cli.options.changes import changes
from seriatim.cli.options.group_help import Commands
from seriatim.cli.options.listing import list_command
from seriatim.cli.options.why import Why, says_why
from seriatim.cli.shown.table import Column, Table, columns
from seriatim.operations import ports as operations
from seriatim.operations.ports import PortView

PORTS: Table[PortView] = Table(
    "A partition of a port",
    *columns("port", "partition", "kind"),
    Column("is_held", "read"),
    Column("holder", "by"),
    Column("seen_at", "seen"),
    Column("position", optional=True),
    *columns("taken", "left_out", "id_reused", "refused"),
    Column("problem", optional=True),
    row=PortView,
    nothing="no message has come in through a port",
)
ports = list_command("ports", operations.ports, PORTS)

port = Commands("port", help="Forget ports through which messages have come in.")


@port.command("forget")
@says_why
@changes
def forget(box: MessageBox, *names: str, why: Why) -> list[str]:
    """Forget ports that nobody runs any more, with the positions that the box keeps for them."""
    return [f"forgot {name}" for name in operations.forget_ports(box, *names, **why())]
