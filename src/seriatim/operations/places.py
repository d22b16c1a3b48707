"""Where operators act on groups: a message box, or a pipeline (`pipelines/groups.py`). Commands and pages see one protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from seriatim.box.box import MessageBox
from seriatim.errors import UsageError
from seriatim.kernel.groups.verbs import VERBS, Action
from seriatim.operations import bulk, groups
from seriatim.operations.tables import acted
from seriatim.operations.tables.groups import GROUP
from seriatim.operations.tables.table import Table


class InGroup(Protocol):
    """What stands for a group: its view, or its names."""

    @property
    def queue(self) -> str:
        """The queue's name."""

    @property
    def group(self) -> str:
        """The group's key."""


class Groups(Protocol):
    """The groups of a place, on which operators act."""

    #: The tables of what came of an action, of what came of it on many, and of groups.
    operation: ClassVar[Table[Any]]
    acted: ClassVar[Table[Any]]
    view: ClassVar[Table[Any]]
    #: Whether an action on one group can be tried without effect.
    tries: ClassVar[bool]

    def act(self, action: Action, queue: str | None, group: str, *, actor: str, reason: str, **given: Any) -> Any:
        """Perform an action on a group; without a queue it is that of the only one with this key."""

    def chosen(self, action: Action, *, actor: str, **filters: Any) -> Sequence[InGroup]:
        """List the groups that match filters and whose state allows the action."""

    def named(self, action: Action, keys: Sequence[str], queue: str | None) -> Sequence[InGroup]:
        """The groups with these keys, on which is to be acted."""

    def each(self, action: Action, found: Sequence[Any], *, at_once: bool, actor: str, reason: str) -> Iterator[Any]:
        """Perform an action on each of several groups; yields a result or a `Refused` for each."""


@dataclass(frozen=True, slots=True)
class BoxGroups:
    """The groups of a message box."""

    box: MessageBox
    operation: ClassVar[Table[Any]] = acted.OPERATION
    acted: ClassVar[Table[Any]] = acted.ACTED
    view: ClassVar[Table[Any]] = GROUP
    tries: ClassVar[bool] = False

    def act(self, action: Action, queue: str | None, group: str, **given: Any) -> groups.Operation:
        """As `groups.act`."""
        return groups.act(self.box, action, queue or self._queue_of(action, group), group, **given)

    def _queue_of(self, action: Action, group: str) -> str:
        """The only queue that has the group; or, if it begins with the action, the only one with groups."""
        try:
            return groups.only_group(self.box, group)
        except UsageError:
            having = [name for name, one in self.box.definitions().queues.items() if one.has_groups]
            if not VERBS[action].begins or len(having) != 1:
                raise
            return having[0]

    def chosen(self, action: Action, *, actor: str, **filters: Any) -> Sequence[groups.GroupView]:
        """As `bulk.chosen`; an unknown queue is refused."""
        where = groups.GroupFilter(**filters)
        if where.queue is not None:
            self.box.definitions().queue(where.queue)
        return bulk.chosen(self.box, action, where)

    def named(self, action: Action, keys: Sequence[str], queue: str | None) -> Sequence[groups.GroupView]:
        """As `groups.named`."""
        return groups.named(self.box, keys, queue, begins=VERBS[action].begins)

    def each(self, action: Action, found: Sequence[Any], **given: Any) -> Iterator[groups.Operation | bulk.Refused]:
        """As `bulk.each`."""
        return bulk.each(self.box, action, found, **given)
