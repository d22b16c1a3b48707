"""The service: a name for one end of dialogs, and the queue where their messages come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from seriatim.errors import UsageError
from seriatim.kernel.arguments import refusing
from seriatim.kernel.fields import Declaration, Flagged, Plain, Texts, takes
from seriatim.kernel.groups.policy import Fifo
from seriatim.pipeline.declared.kinds import Name, OwnName
from seriatim.pipeline.declared.queue import CONVERSATION_GROUP, Queue


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class Service(Declaration):
    """A name for one end of dialogs.

    Args:
        name: its name, compared byte for byte.
        queue: the queue of its messages, with the policy `Fifo`. Several services may share a queue. A missing queue
            is defined with the service. None for a service of another box.
        contracts: the contracts under which others may begin dialogs with it.
        retention: whether the messages of a dialog, in both directions, are kept until this service ends the dialog.
        at: the name of a `Link`, or a list of names: the service is one of the boxes there. Each dialog gets one of them when it is
            begun, by turns, of those whose link isn't known to be down; it stays there for good. Such a service has a name only: its
            box has the rest.

    Raises:
        UsageError: a value is invalid.
    """

    _noun = "service"
    name: str = takes(OwnName("a service's name"))
    queue: str | None = takes(Name("a queue"), None)
    contracts: Plain[tuple[str, ...], Sequence[str]] = takes(
        Texts(Name("a contract"), "a list of names of contracts", once=True), ()
    )
    retention: bool = takes(Flagged(), False)
    at: Plain[tuple[str, ...], str | Sequence[str]] = takes(
        Texts(Name("a link"), "the name of a link, or a list of names", one=True, once=True), ()
    )

    def __post_init__(self) -> None:
        self._check_fields()
        if self.at and (self.queue is not None or self.contracts or self.retention):
            given = "queue" if self.queue is not None else "contracts" if self.contracts else "retention"
            raise self._wrong(given, f"it is a service of another box, which has its {given}", f"leave out {given}")
        if not self.at and self.queue is None:
            raise self._wrong(
                "queue", "it has no queue", 'name one; or at="…", the link to the box that has the service'
            )


def queue_of(service: Service) -> Queue:
    """The queue that is defined with a service whose queue is missing. Its groups are conversation groups."""
    return Queue(str(service.queue), policy=Fifo(), group=CONVERSATION_GROUP)
