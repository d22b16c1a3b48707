"""The service: a name for one end of dialogs, and the queue where their messages come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seriatim.errors import UsageError, shown
from seriatim.kernel.arguments import refusing
from seriatim.kernel.groups.policy import Fifo
from seriatim.pipeline.declared.queue import CONVERSATION_GROUP, Queue
from seriatim.pipeline.text.name import checked_name

__all__ = ["Service", "queue_of"]


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class Service:
    """A name for one end of dialogs.

    Args:
        name: its name, compared byte for byte.
        queue: the queue of its messages, with the policy `Fifo`. Several services may share a queue. A missing queue
            is defined with the service.
        contracts: the contracts under which others may begin dialogs with it.
        retention: whether the messages of a dialog, in both directions, are kept until this service ends the dialog.

    Raises:
        UsageError: an invalid name, or a contract named twice.
    """

    name: str
    queue: str
    contracts: Sequence[str] = ()
    retention: bool = False

    def __post_init__(self) -> None:
        checked_name(self.name, "a service's name", "name")
        checked_name(self.queue, f"a queue (service {self.name!r})", "queue")
        names = self.contracts
        if isinstance(names, str) or not isinstance(names, Sequence):
            raise self._wrong("contracts", f"contracts can't be {shown(names, 80)}", "a list of names of contracts")
        for name in names:
            checked_name(name, f"a contract (service {self.name!r})", "contracts")
        if len(set(names)) != len(names):
            raise self._wrong("contracts", "contracts names one twice", "name each once")
        if not isinstance(self.retention, bool):
            raise self._wrong("retention", f"retention can't be {shown(self.retention)}", "True or False")
        object.__setattr__(self, "contracts", tuple(names))

    def _wrong(self, argument: str, what: str, remedy: str) -> UsageError:
        return UsageError(what, where=f"service {self.name!r}", remedy=remedy, argument=argument)


def queue_of(service: Service) -> Queue:
    """The queue that is defined with a service whose queue is missing. Its groups are conversation groups."""
    return Queue(service.queue, policy=Fifo(), group=CONVERSATION_GROUP)
