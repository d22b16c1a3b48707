"""`Published`, the result of publishing: the ids of the messages, and where they went."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from seriatim.box.definitions.definition import Definitions
from seriatim.box.definitions.entries import Entries
from seriatim.box.definitions.route import router_of

#: The destinations of some messages of a call: the ids of the messages, their entries, and the definitions of the queues. A plain
#: tuple, since one is made for each call, and few are read.
Destinations = tuple[Sequence[str], Entries, Definitions]


def _queues_of(
    ids: Sequence[str], entries: Entries, definitions: Definitions, *, own: bool = False
) -> dict[str, tuple[str, ...]]:
    """The names of the queues of each message, sorted. `own`: without those to which only subscriptions of roles lead."""
    queues_by_id: dict[str, list[str]] = {id_: [] for id_ in ids}
    for id_, queue, problem, is_roles_own in _entered(ids, entries, definitions):
        if problem is None and not (own and is_roles_own):
            queues_by_id[id_].append(queue)
    return {id_: tuple(sorted(queues)) for id_, queues in queues_by_id.items()}


def _invalid_of(ids: Sequence[str], entries: Entries, definitions: Definitions) -> dict[str, dict[str, str]]:
    """Return the messages that are invalid in queues: the reason, by queue. The publisher doesn't see subscriptions of roles."""
    invalid: dict[str, dict[str, str]] = {}
    for id_, queue, problem, is_roles_own in _entered(ids, entries, definitions):
        if problem is not None and not is_roles_own:
            invalid.setdefault(id_, {})[queue] = problem
    return invalid


def _entered(
    ids: Sequence[str], entries: Entries, definitions: Definitions
) -> Iterator[tuple[str, str, str | None, bool]]:
    """Yield for each entry the id of its message, its queue, its problem, and whether only subscriptions of roles have led there."""
    router = router_of(definitions)
    names = {queue.queue_id: name for name, queue in definitions.queues.items()}
    for place, queue_id, problem, by in zip(
        entries.places, entries.queue_ids, entries.problems, entries.subscriptions, strict=True
    ):
        if place < len(ids):
            yield ids[place], names[queue_id], problem, router.is_roles_own(by)


class Published(list[str]):
    """The ids of the published messages, in the order of the call. For a message with a ``unique_key`` that waits already, the list has the
    id of the message that waits.
    """

    __slots__ = ("_destinations", "_invalid", "_queues", "left_out", "waiting")

    def __init__(
        self,
        ids: Iterable[str] = (),
        left_out: Iterable[str] = (),
        destinations: Sequence[Destinations] = (),
        waiting: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(ids)
        #: The ids of messages that were left out, in order. Their ids were published before in the publisher's id space, or are repeated
        #: in the call; or a message with their ``unique_key`` waits.
        self.left_out = list(left_out)
        #: For each message that was left out because one with its ``unique_key`` waits, by its own id, the id of the one that waits;
        #: empty if all were taken in.
        self.waiting: Mapping[str, str] = waiting or {}
        self._destinations = destinations
        self._queues: dict[str, tuple[str, ...]] | None = None
        self._invalid: dict[str, dict[str, str]] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled without the definitions of the queues, and with the queues."""
        state = {"_queues": dict(self.queues), "_invalid": dict(self.invalid)}
        return (Published, (list(self), self.left_out, (), self.waiting), (None, state))

    @property
    def queues(self) -> Mapping[str, tuple[str, ...]]:
        """The names of the queues that each message goes to, by the message's own id; ``()`` if it is unrouted or invalid. A message that
        was left out has the queues to which the present definitions lead it.
        """
        if self._queues is None:
            self._queues = {
                id_: queues for destination in self._destinations for id_, queues in _queues_of(*destination).items()
            }
        return self._queues

    def directed(self) -> set[str]:
        """The names of the queues to which the publisher needs a right: not those to which only subscriptions of roles lead."""
        return {
            queue
            for destination in self._destinations
            for queues in _queues_of(*destination, own=True).values()
            for queue in queues
        }

    @property
    def invalid(self) -> Mapping[str, Mapping[str, str]]:
        """The messages that are invalid in a queue, by their own ids: the reason, by the name of the queue."""
        if self._invalid is None:
            self._invalid = {
                id_: why for destination in self._destinations for id_, why in _invalid_of(*destination).items()
            }
        return self._invalid
