"""The fast paths of a message box: when a shorter way than the general one applies, in one table.

Each path has the effect of the general way; a test for each condition compares them. Decision 58 says what each path
gains; `make bench ARGS=fast-paths` measures that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar
from uuid import UUID

import psycopg

from seriatim.box.connection.round_trip import OwnConnection, can_flush, is_between, is_idle
from seriatim.box.definitions.definition import BoxQueue, Definitions
from seriatim.kernel.groups.policy import Policy, Standard
from seriatim.pipeline.types.message import Message

_Facts = TypeVar("_Facts")
#: The shortest look that is worth passing over messages, where messages wait for others, microseconds.
_LONG_US = 1_000


#: All of them.
FAST_PATHS: list[FastPath[Any]] = []


class FastPath(Generic[_Facts]):
    def __init__(
        self,
        name: str,
        conditions: Mapping[str, Callable[[_Facts], bool]],
        decision: int | None = None,
        further: str | None = None,
    ) -> None:
        self.name = name
        #: Their names and functions, in the order of the checks; each may rely on those before it.
        self.conditions = conditions
        #: The number of its record in ``docs/decisions``; None: there is none.
        self.decision = decision
        #: The function that checks further conditions, which only it can see, and leaves the work to the general way; None: there are
        #: none.
        self.further = further
        self._holds = tuple(conditions.values())
        FAST_PATHS.append(self)

    def applies(self, facts: _Facts) -> bool:
        for holds in self._holds:  # noqa: SIM110 -- what calls them from C takes longer
            if not holds(facts):
                return False
        return True

    def unmet(self, facts: _Facts) -> str | None:
        """The name of the first condition that doesn't hold; None where all do."""
        return next((name for name, holds in self.conditions.items() if not holds(facts)), None)


class EndedDelivery(NamedTuple):
    """A delivery that `Session.commit_and_receive` ends. `queue`: as the process knows it; None: it doesn't know it any more."""

    queue: BoxQueue | None
    connection: psycopg.Connection
    is_open: bool
    has_instance: bool


class PublishCall(NamedTuple):
    """A call of publish. `own`: the connection, if it is the box's own. `portions`: how many statements take its messages in."""

    own: OwnConnection | None
    is_transaction: bool
    portions: int
    tells_failures: bool


class RoutedPart(NamedTuple):
    """Messages that one statement takes in. `first`: the first one. `problem`: of its entry. `means`: not all numbers are plain."""

    messages: int
    first: Message
    entries: int
    problem: str | None
    has_keys: bool
    is_numbered: bool = False
    means: bool = False
    may_be_reply: bool = False


class GroupTurn(NamedTuple):
    """A turn of one group that begins. `row`: as the statement returns it that begins it. `at_most`: how many are handed out."""

    queue: BoxQueue
    policy: Policy
    row: Any
    at_most: int
    now_us: int

    def has_simply_arrived(self) -> bool:
        """Return whether all messages have arrived and may be seen, and nothing else was requested."""
        row = self.row
        if any(row.codes) or any(row.late) or any(row.waits) or row.request_ids or None in row.sequences:
            return False
        if self.queue.origin_id is not None and row.late_numbers:  # put back on the way to this gate
            return False
        return not any(visible is not None and visible > self.now_us for visible in row.visible)

    def holds_nothing(self) -> bool:
        """Whether the group holds no messages, and has skipped no numbers that it remembers."""
        row = self.row
        return not row.group_keys or (row.skipped[0] == "{}" and row.group_arrivals[0] == sum(row.decided[0]))


class EndedMessages(NamedTuple):
    """Messages of a delivery that are done. `keep`: what is kept of them. `lates`: whether each is late."""

    messages: int
    keep: str
    lates: Sequence[bool]


class SentMessages(NamedTuple):
    """Messages that are sent in dialogs, by one call. `handles`: the dialog of each. `types`: the type of each."""

    handles: Sequence[UUID]
    types: Sequence[str]


class HeadOfQueue(NamedTuple):
    """The beginning of a queue, and the microseconds that it took to find it."""

    queue: BoxQueue
    took_us: int


NEXT_DELIVERY = FastPath[EndedDelivery](
    "a commit brings the next delivery along",
    {
        "the queue hands out": lambda case: case.queue is not None and case.queue.is_open,
        "the queue serves no dialogs": lambda case: case.queue is not None and not case.queue.serves,
        "the queue has groups": lambda case: case.queue is not None and case.queue.has_groups,
        "the queue has no gate": lambda case: case.queue is not None and case.queue.gate_id is None,
        "the delivery has no instance": lambda case: not case.has_instance,
        "the delivery is open": lambda case: case.is_open,
        "the box's own connection, in a transaction": lambda case: is_between(case.connection),
    },
    28,
)
FIFO_IN_SQL = FastPath[tuple[BoxQueue, Definitions]](
    "PostgreSQL hands out first in, first out, by the stored order",
    {
        "all groups of the queue are Fifo": lambda case: case[0].is_fifo,
        "all its subscriptions are started": lambda case: case[0].declared.name not in case[1].collecting,
    },
    30,
)
SINGLE_ROUND_TRIP = FastPath[PublishCall](
    "a publish is a transaction in one round trip",
    {
        "the publish is a transaction by itself": lambda case: case.is_transaction,
        "one statement takes all messages in": lambda case: case.portions == 1,
        "the box's own connection, without a transaction": lambda case: case.own is not None and is_idle(case.own),
        "its transactions begin without settings": lambda case: (
            case.own is not None and not case.own.begins_with_settings
        ),
        "no subscription wants failures": lambda case: not case.tells_failures,
    },
)
#: Of a publish that is a transaction in one round trip.
EARLY_COMMIT = FastPath[PublishCall](
    "a publish commits before it is on disk, and waits for the disk afterwards",
    {"the server can flush, and the role may": lambda case: case.own is not None and can_flush(case.own)},
    31,
)
SINGLE_MESSAGE = FastPath[RoutedPart](
    "one message is taken in by a function of its own",
    {
        "one message": lambda case: case.messages == 1,
        "no parts": lambda case: not case.first.parts,
        "one entry in one queue": lambda case: case.entries == 1,
        "the entry is valid": lambda case: case.problem is None,
        "no unique key": lambda case: not case.has_keys,
        "no number of a place": lambda case: not case.is_numbered,
        "a plain number": lambda case: not case.means,
        "no reply to a request": lambda case: not case.may_be_reply,
    },
)
NEXT_NUMBERS = FastPath[GroupTurn](
    "a turn of the next numbers is judged without columns",
    {
        "the group is Standard": lambda case: isinstance(case.policy, Standard),
        "its numbers are plain": lambda case: not case.queue.means,
        "the queue has no gate": lambda case: case.queue.gate_id is None,
        "messages have come, and all may leave at once": lambda case: (
            case.row.sequences is not None and 0 < len(case.row.sequences) <= case.at_most
        ),
        "nothing else is to be done with them": GroupTurn.has_simply_arrived,
        "a gate, or no message waits to be routed": lambda case: (
            case.queue.origin_id is not None or not case.row.unrouted
        ),
        "the group holds nothing": GroupTurn.holds_nothing,
    },
    136,
    "seriatim.kernel.policies.next_numbers.after_next_numbers",
)
SINGLE_COMPLETION = FastPath[EndedMessages](
    "one message is completed by a function of its own",
    {
        "one message": lambda case: case.messages == 1,
        "nothing is kept of it": lambda case: case.keep == "nothing",
        "it isn't late": lambda case: not case.lates[0],
    },
)
STRAIGHT_SEND = FastPath[SentMessages](
    "messages of one dialog are sent without a look at each of them",
    {"one dialog": lambda case: len(set(case.handles)) == 1, "one type": lambda case: len(set(case.types)) == 1},
    further="send_straight",
)
QUEUE_HEAD = FastPath[HeadOfQueue](
    "a process remembers where a queue begins",
    {
        "messages wait for no others, or the look took long": lambda case: (
            not case.queue.holds or case.took_us > _LONG_US
        )
    },
    32,
)
