"""`RegionalQueue`: a queue of sessions in the boxes of two regions; the journal decides on them, the boxes decide nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, NamedTuple, cast

from seriatim.box.definitions.change import Definition
from seriatim.errors import UsageError
from seriatim.kernel.arguments import refusing
from seriatim.kernel.fields import Choice, Declaration, Period, Plain, Text, Value, Whole, Wrong, takes
from seriatim.kernel.groups.policy import Standard
from seriatim.kernel.operators.fault import MOST_ATTEMPTS, Retry
from seriatim.pipeline.declared.box_settings import BoxSettings
from seriatim.pipeline.declared.kinds import OwnName
from seriatim.pipeline.declared.location import Location
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.queue_parts import Group, Keep
from seriatim.pipeline.declared.regional import check_decides_nothing
from seriatim.pipeline.declared.subscription import Subscription
from seriatim.pipeline.types.message_type import MessageType
from seriatim.regions.journal.values import QueueRules

#: Numbers are kept so far from the ends of their range that no step of a queue gets there.
_SMALL = 2**62
#: No number of workers that died is the last in one box.
_ENDLESS = Retry(MOST_ATTEMPTS)


@dataclass(frozen=True)
class _Errors(Choice):
    """What happens when a handler fails permanently."""

    def check(self, value: Any) -> Any:
        try:
            return super().check(value)
        except Wrong:
            raise Wrong('"suspend" or "continue": a queue that stops would stop in one region only') from None


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class RegionalQueue(Declaration):
    """A queue of sessions that are sent to the boxes of two regions. Its rules lie in the journal, so that both regions have the same.

    Args:
        name: its name, in both boxes and in the journal.
        group: the property with the key of a message's session.
        sequence: the property with a message's number in its session.
        start: the first number of each session.
        increment: from one number to the next, at least 1.
        attempts: how often a message is handed to a handler, in both regions together, before it has failed for good.
        errors: what happens then: ``"suspend"`` (the session stands in both regions) or ``"continue"`` (its number is over, and the session
            goes on).
        retry_delay: seconds (or ``"30s"``) before the next attempt.
        hole_timeout: seconds (or ``"5m"``) after which a number is skipped that no region has; None: never.
        priority: as of `Queue`: the property with a message's priority.
        keep: as of `Queue`: which done messages the boxes keep, and for how long.
        expire_after: as of `Group`: seconds (or ``"90d"``) after which a clean-up of a box forgets the row of an idle session's
            group. The numbers that are over or known stay.

    Raises:
        UsageError: a value is out of its range.
    """

    _noun = "queue"
    name: str = takes(OwnName("a queue's name"))
    group: str = takes(Text())
    sequence: str = takes(Text())
    _: KW_ONLY
    start: int = takes(Whole(-_SMALL, _SMALL), 1)
    increment: int = takes(Whole(1, _SMALL), 1)
    attempts: int = takes(Whole(1, MOST_ATTEMPTS), 5)
    errors: Literal["suspend", "continue"] = takes(_Errors(("suspend", "continue")), "suspend")
    retry_delay: Plain[float, str] = takes(Period(), 1.0)
    hole_timeout: Plain[float | None, str] = takes(Period.above_0(), None)
    priority: str | None = takes(Text(), None)
    keep: Plain[Keep, Literal["nothing", "faults", "everything"] | None] = takes(
        Value(Keep, "'faults', or Keep('everything', done_for='7d')"), factory=Keep
    )
    expire_after: Plain[float | None, str] = takes(Period.above_0(), None)

    def __post_init__(self) -> None:
        self._check_fields()
        self.queue()

    def rules(self) -> QueueRules:
        """Return the part that the journal keeps."""
        return QueueRules(
            start=self.start, increment=self.increment, attempts=self.attempts, errors=self.errors,
            retry_delay=self.retry_delay, hole_timeout=self.hole_timeout,
        )  # fmt: skip

    def queue(self) -> Queue:
        """Return the part that the boxes keep: an order, without rules that decide what is over.

        A late message is over, and is handed out to be completed; and no number of workers that died is the last.
        """
        return Queue(
            self.name, Standard(start=self.start, increment=self.increment, late="deliver", restart_after=0),
            Group(self.group, expire_after=self.expire_after), self.sequence, priority=self.priority, keep=self.keep, retry=_ENDLESS,
        )  # fmt: skip


class Declared(NamedTuple):
    """The definitions of both boxes, and the rules of their queues by name, for the journal."""

    definitions: tuple[Definition, ...]
    rules: dict[str, QueueRules]


def declared_of(things: Iterable[object]) -> Declared:
    """Split a user's declarations into the parts for the boxes and the journal."""
    definitions: list[Definition] = []
    rules: dict[str, QueueRules] = {}
    for definition in things:
        if isinstance(definition, RegionalQueue):
            definitions.append(definition.queue())
            rules[definition.name] = definition.rules()
        elif isinstance(definition, Queue):
            regional = _plain(definition)
            # As of `RegionalQueue.queue`.
            definitions.append(
                replace(definition, policy=replace(cast("Standard", definition.policy), late="deliver"), retry=_ENDLESS)
            )
            rules[definition.name] = regional.rules()
        elif isinstance(definition, Subscription):
            if definition.starts is not None:
                raise UsageError(
                    "starts can't be used in two regions: instances live in one box",
                    where=f"subscription {definition.name!r}",
                    remedy="leave it out",
                )
            definitions.append(definition)
        elif isinstance(definition, Location | MessageType | BoxSettings):
            definitions.append(definition)
        else:
            raise UsageError(
                f"{type(definition).__name__} can't be defined in two regions",
                remedy="locations, message types, queues (RegionalQueue), subscriptions and BoxSettings can",
            )
    return Declared(tuple(definitions), rules)


def _plain(queue: Queue) -> RegionalQueue:
    check_decides_nothing(queue)
    policy = cast("Standard", queue.policy)  # checked before
    return RegionalQueue(
        queue.name, str(queue.group.by), str(queue.sequence), start=int(policy.start), increment=policy.increment,
        priority=queue.priority, keep=queue.keep, expire_after=queue.group.expire_after,
    )  # fmt: skip
