"""The values of a queue's declaration: what belongs together is one value, in Python, in files and in the stored form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Final, Literal

from seriatim.errors import UsageError
from seriatim.kernel.arguments import refusing
from seriatim.kernel.fields import Choice, Declaration, For, Period, Plain, Text, Texts, Whole, takes
from seriatim.pipeline.declared.kinds import FILTER, ByType, Name

if TYPE_CHECKING:
    from seriatim.kernel.groups.policy import Policy

#: As the group of a queue: all its messages are one group. No property can be called so.
WHOLE_QUEUE: Final = "*"
#: The key of that group.
_WHOLE_KEY = "all"
#: The largest `max_messages` of a queue.
MOST_MESSAGES = 2**53
#: The most streams of an unordered queue of another box.
MOST_LANES = 1_000
KEEP = ("nothing", "faults", "everything")
_BOTH = For.BOX | For.PIPELINE


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class Group(Declaration):
    """The groups of a queue: how a message finds its group, and how long a group lives.

    Args:
        by: the property (column) with the key of a message's group, the unit of order; or `WHOLE_QUEUE`: the queue is one order,
            and all its messages are the group ``all``. None: the queue has no groups.
        default: the group of messages whose key is null, empty, too long or has a NUL; None: such messages are invalid.
        by_type: True: each message type is ordered separately, and a group is the type and the key, ``"order/c1"``. A mapping: so, too,
            and these are the policies of single types; all others have the queue's policy.
        opens: for `Fifo` and `Standard`: the filter that matches messages that open their group, such as ``"type = 'check-in'"``. A
            group that isn't open holds its messages, and no clock runs. None: groups are open from their first message on.
        closes: likewise: the filter that matches messages that close their group, when they are released.
        unopened_timeout: with `opens`: seconds (or ``"1h"``) after which messages that wait for the opening of their group are late;
            None: they wait for ever.
        expire_after: seconds (or ``"90d"``) after which an idle group has expired. In a message box its state (next number,
            ordinal, skipped numbers) stays until a clean-up with `forget_expired`, and that of its gate with it; in a pipeline see
            `expire_to`. None: groups don't expire.
        expire_to: of a pipeline's destination: ``"tombstone"``: that state stays, apart from the groups that are at work;
            ``"nothing"``: the group is forgotten, and begins as a new incarnation when it gets a message. A message box ignores it.

    Raises:
        UsageError: a value is invalid.
    """

    by: str | None = takes(Text(), None, key="group", engines=For.EVERY)
    _: KW_ONLY
    default: str | None = takes(Text(), None, key="default_group", engines=_BOTH | For.REMOTE)
    by_type: Plain[Mapping[str, Policy] | None, bool] = takes(ByType(), None, hash=False)
    opens: str | None = takes(Text(FILTER, blank=False), None, engines=_BOTH)
    closes: str | None = takes(Text(FILTER, blank=False), None, engines=_BOTH)
    unopened_timeout: Plain[float | None, str] = takes(Period.above_0(), None, engines=_BOTH)
    expire_after: Plain[float | None, str] = takes(Period.above_0(), None, engines=_BOTH | For.REGIONAL)
    expire_to: Literal["tombstone", "nothing"] = takes(
        Choice(("tombstone", "nothing")), "tombstone", engines=For.PIPELINE
    )

    def __post_init__(self) -> None:
        self._check_fields()
        if self.expire_to != "tombstone" and self.expire_after is None:
            raise self._wrong(
                ("expire_to", "expire_after"),
                "expire_to says what expired groups leave, and none expires",
                "add expire_after, or leave it out",
            )
        if self.by == WHOLE_QUEUE:
            if self.default not in {None, _WHOLE_KEY}:
                raise self._wrong(
                    "default", "default is for messages without a key, and the whole queue is one group", "leave it out"
                )
            # No message has the property, so each comes into this group.
            object.__setattr__(self, "default", _WHOLE_KEY)


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class Keep(Declaration):
    """What is kept of a queue's messages when they are done, and told of them when they fail.

    Args:
        done: which done messages are kept: ``"nothing"``, ``"faults"`` (messages that failed before, so that they can be found
            and traced) or ``"everything"``. None: a new queue keeps ``"faults"``, and a queue that a box has already keeps
            what it kept.
        done_for: seconds (or ``"7d"``) for which done messages are kept, at most 10,000 days; None: with ``"faults"`` as long
            as the box keeps faults (30 days, unless `retention.keep_faults` says otherwise), with ``"everything"`` until they
            are purged.
        events: which events of its groups are on record: ``"usual"`` (among them overdue and skipped holes, suspended and closed
            groups) or ``"all"`` (each hole that opens or is filled, too).
        failures: the body of a message ``seriatim.failure``: ``"without_body"``, JSON that says what failed; ``"with_body"``, the body of
            the failed message.

    Raises:
        UsageError: a value is invalid.
    """

    done: Literal["nothing", "faults", "everything"] | None = takes(
        Choice(KEEP), None, key="keep", engines=For.BOX | For.REMOTE | For.REGIONAL
    )
    done_for: Plain[float | None, str] = takes(Period.above_0(), None, key="keep_for", engines=For.BOX | For.REGIONAL)
    events: Literal["usual", "all"] = takes(Choice(("usual", "all")), "usual", engines=For.BOX | For.REGIONAL)
    failures: Literal["without_body", "with_body"] = takes(
        Choice(("without_body", "with_body")), "without_body", engines=For.BOX
    )

    def __post_init__(self) -> None:
        self._check_fields()
        if self.done_for is not None and self.done == "nothing":
            raise self._wrong(
                ("done_for", "done"), "done_for says for how long, and nothing is kept", "keep everything, or faults"
            )


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class Limit(Declaration):
    """The largest number of messages in a queue.

    Args:
        messages: the largest number of messages in the queue, from 1.
        when_full: whether a publisher to a full queue waits (``"wait"``) or gets `QueueFull` at once (``"refuse"``).

    Raises:
        UsageError: a value is invalid.
    """

    messages: int = takes(Whole(1, MOST_MESSAGES), key="max_messages", engines=For.BOX | For.REMOTE)
    when_full: Literal["wait", "refuse"] = takes(Choice(("wait", "refuse")), "wait", engines=For.BOX | For.REMOTE)


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class Gate(Declaration):
    """The way of results: they leave another queue in the order in which the messages came from which they were made, by group.

    Args:
        queue: the name of the queue in which results have that order: the gate.
        through: the names of the queues that messages pass on their way to the gate.
        open_at_most: a message isn't handed out while it is by so many places, or more, behind the next one at the
            gate; 1 to 10,000,000.

    Raises:
        UsageError: a value is invalid.
    """

    queue: str = takes(Name("a queue's name"), key="gate")
    _: KW_ONLY
    through: Plain[tuple[str, ...], Sequence[str]] = takes(
        Texts(Name("a queue's name"), "a list of names of queues"), ()
    )
    open_at_most: int = takes(Whole(1, 10_000_000), 100_000)

    def __post_init__(self) -> None:
        self._check_fields()
        if self.queue in self.through:
            raise self._wrong(
                "through", f"through can't have {self.queue!r}", "name the queues between the queue and its gate"
            )


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class Remote(Declaration):
    """A queue of another box. Messages are published into it here, and wait until they are sent.

    Args:
        link: the name of the `Link` to the box of the queue.
        queue: the name of the queue there; None: the same name.
        lanes: with `Unordered`: the number of streams on which its messages travel; 1 to 1,000.

    Raises:
        UsageError: a value is invalid.
    """

    link: str = takes(Name("a link's name"), key="at", engines=For.REMOTE)
    _: KW_ONLY
    queue: str | None = takes(Name("a queue's name"), None, key="remote", engines=For.REMOTE)
    lanes: int = takes(Whole(1, MOST_LANES), 16, engines=For.REMOTE)
