"""Ports through which messages come in: what each has taken in, who reads it, and why it stands still."""

from __future__ import annotations

from seriatim.box.box import MessageBox
from seriatim.box.operators.operator_log import Operator, log
from seriatim.box.views.ports import PortView
from seriatim.errors import ActionRefused, NotFound, shown
from seriatim.pipeline.text.section import likely

__all__ = ["PortView", "forget_ports", "ports"]


def ports(box: MessageBox) -> list[PortView]:
    """List the ports through which messages come in: who reads each partition, what it has taken in, and why it stands still."""
    return box.access.within(lambda transaction: transaction.rows("ports_known", PortView))


def forget_ports(box: MessageBox, *names: str, actor: str, reason: str) -> list[str]:
    """Forget ports that nobody runs any more, all or none, with the positions that the box keeps for them.

    A port of Kafka that is forgotten begins anew; messages that are remembered by their ids don't come in again.

    Args:
        box: the message box.
        names: the ports.
        actor: the operator's name.
        reason: why; both are written to the operator log.

    Returns:
        the names.

    Raises:
        NotFound: there is no such port.
        ActionRefused: a process reads it.
    """
    by = Operator(actor, reason)
    with box.access.transaction() as transaction:
        known = {one.port for one in transaction.rows("ports_known", PortView)}
        for name in names:
            if name not in known:
                raise NotFound(f"there is no port {shown(name)}", remedy=likely(name, known))
            if transaction.value("forget_port", of_port=name) is None:
                raise ActionRefused(f"cannot forget port {name!r}: a process reads it", remedy="stop the process first")
            log(transaction, by, "forget port", queue=None, group=None, details={"port": name})
    return list(names)
