"""The service: a name for one end of dialogs, and the queue where their messages come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seriatim.errors import Argument, UsageError
from seriatim.kernel.arguments import refusing
from seriatim.kernel.fields import Declaration, Flagged, Plain, Texts, takes
from seriatim.kernel.groups.policy import Fifo
from seriatim.pipeline.declared.kinds import Name, OwnName
from seriatim.pipeline.declared.queue import CONVERSATION_GROUP, Queue

__all__ = ["Service", "queue_of"]


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class Service(Declaration):
    """A name for one end of dialogs.

    Args:
        name: its name, compared byte for byte.
        queue: the queue of its messages, with the policy `Fifo`. Several services may share a queue. A missing queue
            is defined with the service.
        contracts: the contracts under which others may begin dialogs with it.
        retention: whether the messages of a dialog, in both directions, are kept until this service ends the dialog.

    Raises:
        UsageError: a value is invalid.
    """

    name: str = takes(OwnName("a service's name"))
    queue: str = takes(Name("a queue"))
    contracts: Plain[tuple[str, ...], Sequence[str]] = takes(
        Texts(Name("a contract"), "a list of names of contracts", once=True), ()
    )
    retention: bool = takes(Flagged(), False)

    def _wrong(self, argument: Argument, what: str, remedy: str) -> UsageError:
        return UsageError(what, where=f"service {self.name!r}", remedy=remedy, argument=argument)


def queue_of(service: Service) -> Queue:
    """The queue that is defined with a service whose queue is missing. Its groups are conversation groups."""
    return Queue(service.queue, policy=Fifo(), group=CONVERSATION_GROUP)
