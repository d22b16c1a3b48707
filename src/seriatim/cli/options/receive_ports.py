"""The option by which ports are named through which messages come in, and what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from seriatim.box.box import MessageBox
from seriatim.cli.options.option import repeated
from seriatim.errors import UsageError

if TYPE_CHECKING:
    from seriatim.runtime.ports.receive_port import ReceivePort

receive_ports = repeated(
    "--port", "ports", "Take messages in through this port, such as 'mllp: {listen: 127.0.0.1:2575}'.", metavar="PORT"
)


def ports_of(box: MessageBox, texts: Sequence[str], *, lease: str = "15s") -> list[ReceivePort]:
    """The ports of a command, with different names."""
    from seriatim.runtime.ports.receive_port import ReceivePort  # noqa: PLC0415 -- most commands have none

    found = [ReceivePort(box, text, lease=lease) for text in texts]
    names = [one.name for one in found]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"two ports are named {repeated[0]!r}", remedy="give one of them another name: name: …")
    return found
