"""The queue: a named, ordered destination."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, Field, dataclass, field, fields
from typing import Any, Final, Literal

from seriatim.errors import Argument, UsageError, entry_of, shown
from seriatim.kernel.arguments import refusing
from seriatim.kernel.groups.policy import Fifo, Policy, Standard, UnitOfWork, Unordered, with_stays
from seriatim.kernel.operators.fault import Retry
from seriatim.kernel.operators.recover import Recover
from seriatim.kernel.values.time import micros, seconds
from seriatim.pipeline.declared.activation import Activation
from seriatim.pipeline.declared.queue_level import LEVELS, TYPE, UNFIT, type_of
from seriatim.pipeline.text.name import checked_name

__all__ = [
    "CONVERSATION_GROUP",
    "ERRORS",
    "EVENTS",
    "KEEP",
    "LONGEST_DAYS",
    "MOST_ATTEMPTS",
    "MOST_LANES",
    "MOST_MESSAGES",
    "MOST_OPEN",
    "WHEN_FULL",
    "WHOLE_QUEUE",
    "Queue",
]

#: As the group of a queue: its groups are conversation groups, because it is for the messages of dialogs alone.
CONVERSATION_GROUP = "conversation_group"
#: As the group of a queue: all its messages are one group. No property can be called so.
WHOLE_QUEUE: Final = "*"
#: The key of that group.
_WHOLE_KEY = "all"
ERRORS = ("suspend", "continue", "stop")
KEEP = ("nothing", "faults", "everything")
EVENTS = ("usual", "all")
WHEN_FULL = ("wait", "refuse")
EXPIRE_TO = ("tombstone", "nothing")
#: A queue's `max_messages` is at most that.
MOST_MESSAGES = 2**53
#: A queue's `open_at_most` is at most that.
MOST_OPEN = 10_000_000
#: The longest period that the box takes: twice that, seconds as floats would still be exact to the microsecond.
LONGEST_DAYS = 10_000

#: A queue's `lanes` are at most that.
MOST_LANES = 1_000
_DEFAULT_LANES = 16
#: What may be said of a queue of another box.
_OF_REMOTE = frozenset(
    {
        "name",
        "policy",
        "group",
        "default_group",
        "max_messages",
        "when_full",
        "enabled",
        "keep",
        "at",
        "remote",
        "lanes",
    }
)

#: A queue's `attempts` are at most that.
MOST_ATTEMPTS = 1_000
_MOST_FACTOR = 100


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class Queue:
    """A named, ordered destination.

    Args:
        name: its name; a routed message carries it in the column ``destination``.
        policy: how its groups are ordered.
        group: the property (column) with the key of a message's group, the unit of order; or `WHOLE_QUEUE`: the queue is one order, and all
            its messages are the group ``all``. For `Unordered` only with a `gate`.
        sequence: the property (column) with a message's position in its group. Not for `Unordered` and `Fifo`.
        default_group: the group of messages whose key is null, empty, too long or has a NUL; None: such messages are invalid.

    The following arguments are for queues of a message box; pipelines ignore them, but not `expire_after`.

    Args:
        errors: what happens when a handler fails permanently: ``"suspend"`` (the group stops, other groups go on),
            ``"continue"`` (the message becomes a dead letter, its group goes on) or ``"stop"`` (the queue stops).
        priority: the property with a message's priority, a long from 1 to 10 (highest); a message without it has 5.
        keep: which done messages are kept: ``"nothing"``, ``"faults"`` (messages that failed before, so that they can be found
            and traced) or ``"everything"``. None: a new queue keeps ``"faults"``, and a queue that a box has already keeps
            what it kept.
        keep_for: seconds (or ``"7d"``) for which done messages are kept, at most 10,000 days; None: with ``"faults"`` as long
            as the box keeps faults (30 days, unless `retention.keep_faults` says otherwise), with ``"everything"`` until they
            are purged.
        events: which events of its groups are on record: ``"usual"`` (among them overdue and skipped holes, suspended and closed
            groups) or ``"all"`` (each hole that opens or is filled, too).
        max_messages: the largest number of messages in the queue; None: no limit.
        when_full: whether a publisher to a full queue waits (``"wait"``) or gets `QueueFull` at once (``"refuse"``).
        enabled: whether messages are handed out. The queue accepts messages in either case.
        expire_after: seconds (or ``"90d"``) after which an idle group has expired. In a message box its state (next number, ordinal,
            skipped numbers) stays until a clean-up with `forget_expired`, and that of its gate with it; in a pipeline see `expire_to`.
            None: groups don't expire.
        expire_to: of a pipeline's destination: ``"tombstone"``: that state stays, apart from the groups that are at work; ``"nothing"``:
            the group is forgotten, and begins as a new incarnation when it gets a message. A message box ignores it.
        attempts: the number of calls of a handler, the first call included, after which a message has failed permanently;
            1 to 1,000.
        retry_delay: seconds (or ``"5s"``) before the second attempt; its group waits. With the defaults a failing message
            keeps its group for 15 seconds at most.
        retry_factor: the factor by which the delay grows with each attempt; 1 to 100.
        retry_ceiling: the longest delay, in seconds (or ``"5m"``).
        retry_jitter: the share of a delay by which it is shorter at random, 0 to 1.
        recoveries: the number of automatic retries of a faulted group, before it waits for an operator; 0 to 1,000.
        recover_delay: seconds (or ``"5m"``) from the fault to the first recovery.
        recover_factor: the factor by which this delay grows with each recovery; 1 to 100.
        activation: the readers that ``seriatim serve`` starts; None: it starts no readers.
        rollbacks: for the queue of a service: the number of rollbacks in a row, with the same message in hand, after which
            the conversation group is suspended; 1 to 1,000, None (or 0): never.
        level: ``"queue"``: a group has messages of all types; ``"type"``: each message type is ordered separately, and a
            group is the type and the key, ``"order/c1"``.
        policies: with ``level="type"``, policies by message type; `policy` is the policy of all other types.
        compare: with `Standard`: the properties by which two messages with one number are compared, a name or several; None:
            body and parts. If they differ, the later message conflicts.
        opens: for `Fifo` and `Standard`: the filter that matches messages that open their group, such as ``"type = 'check-in'"``. A
            group that isn't open holds its messages, and no clock runs. None: groups are open from their first message on.
        closes: likewise: the filter that matches messages that close their group, when they are released.
        unopened_timeout: with `opens`: seconds (or ``"1h"``) after which messages that wait for the opening of their group are late;
            None: they wait for ever.
        gate: the name of the queue that results of its messages leave in the order in which these messages came, by group; None:
            no order is kept through the work on them.
        through: with `gate`: the names of the queues that messages pass on their way from this queue to the gate.
        open_at_most: with `gate`: a message isn't handed out while it is by so many places, or more, behind the next one at the
            gate; 1 to 10,000,000.
        at: the name of a `Link`: the queue is one of the box there. Messages are published into it here, and wait until they are sent. Its
            policy is `Fifo` (the order of each group) or `Unordered`; what else happens to them is declared in the other box.
        remote: with `at`: the name of the queue there; None: the same name.
        lanes: with `at` and `Unordered`: the number of streams on which its messages travel; 1 to 1,000.

    Raises:
        UsageError: a value is invalid, or the policy needs a group or a sequence that is missing.
    """

    name: str
    policy: Policy = field(default_factory=Fifo)
    group: str | None = None
    sequence: str | None = None
    default_group: str | None = None
    _: KW_ONLY
    errors: Literal["suspend", "continue", "stop"] = "suspend"
    priority: str | None = None
    keep: Literal["nothing", "faults", "everything"] | None = None
    keep_for: float | str | None = None
    events: Literal["usual", "all"] = "usual"
    max_messages: int | None = None
    when_full: Literal["wait", "refuse"] = "wait"
    enabled: bool = True
    expire_after: float | str | None = None
    expire_to: Literal["tombstone", "nothing"] = "tombstone"
    attempts: int = 5
    retry_delay: float | str = 1.0
    retry_factor: float = 2.0
    retry_ceiling: float | str = 300.0
    retry_jitter: float = 0.2
    recoveries: int = 0
    recover_delay: float | str = 60.0
    recover_factor: float = 2.0
    activation: Activation | None = None
    rollbacks: int | None = 5
    level: Literal["queue", "type"] = "queue"
    policies: Mapping[str, Policy] = field(default_factory=dict, hash=False)
    compare: str | Sequence[str] | None = None
    opens: str | None = None
    closes: str | None = None
    unopened_timeout: float | str | None = None
    gate: str | None = None
    through: Sequence[str] = ()
    open_at_most: int = 100_000
    at: str | None = None
    remote: str | None = None
    lanes: int = 16

    def __post_init__(self) -> None:
        checked_name(self.name, "a queue's name", "name")
        if not isinstance(self.policy, Policy):
            raise self._wrong(
                "policy", f"{shown(self.policy)} is not a policy", "such as Fifo() or Standard(hole_timeout=100)"
            )
        for what in ("group", "sequence", "default_group", "priority"):
            value = getattr(self, what)
            if value is not None and (not isinstance(value, str) or not value):
                raise self._wrong(what, f"{what} can't be {shown(value)}", "text, not empty")
        self._check_whole()
        self._check_choice("level", LEVELS)
        self._check_policies()
        self._check_order()
        self._check_compare()
        self._check_stays()
        self._check_gate()
        self._check_remote()
        self._check_choice("errors", ERRORS)
        if self.keep is not None:
            self._check_choice("keep", KEEP)
        self._check_choice("events", EVENTS)
        self._check_choice("when_full", WHEN_FULL)
        object.__setattr__(self, "keep_for", self._period("keep_for"))
        if self.keep_for is not None and self.keep == "nothing":
            raise self._wrong(
                ("keep_for", "keep"),
                "keep_for says for how long, and keep is nothing",
                'add keep="everything" or "faults"',
            )
        object.__setattr__(self, "expire_after", self._period("expire_after"))
        if self.expire_after is not None and isinstance(self.policy, Unordered) and self.gate is None:
            raise self._wrong(
                ("expire_after", "policy"),
                "expire_after is for groups, and Unordered has none without a gate",
                "leave it out",
            )
        self._check_choice("expire_to", EXPIRE_TO)
        if self.expire_to != "tombstone" and self.expire_after is None:
            raise self._wrong(
                ("expire_to", "expire_after"),
                "expire_to says what expired groups leave, and none expires",
                "add expire_after, or leave it out",
            )
        self._check_limit()
        if not isinstance(self.enabled, bool):
            raise self._wrong("enabled", f"enabled can't be {shown(self.enabled)}", "True or False")
        self._check_retry()
        if not isinstance(self.activation, Activation | None):
            raise self._wrong(
                "activation",
                f"activation can't be {shown(self.activation)}",
                "such as Activation('orders:handle', maximum=4)",
            )

    def _check_gate(self) -> None:
        through = self.through
        if isinstance(through, str) or not isinstance(through, Sequence):
            raise self._wrong("through", f"through can't be {shown(through)}", "a list of names of queues")
        for one in through:
            checked_name(one, f"a queue's name (through of queue {self.name!r})", "through")
        object.__setattr__(self, "through", tuple(dict.fromkeys(through)))
        if self.gate is None:
            if self.through:
                raise self._wrong(
                    ("through", "gate"), "through is the way to a gate, and it has none", "add gate, or leave it out"
                )
            return
        checked_name(self.gate, f"a queue's name (gate of queue {self.name!r})", "gate")
        if self.gate == self.name:
            raise self._wrong("gate", "its gate leads to itself", "name another queue")
        if wrong := {self.name, self.gate} & set(self.through):
            raise self._wrong(
                "through", f"through can't have {min(wrong)!r}", "name the queues between it and its gate"
            )
        if self.group is None:
            raise self._wrong(("gate", "group"), "a gate keeps the order of groups, and it has no group", "add group")
        most = self.open_at_most
        if isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST_OPEN:
            raise self._wrong(
                "open_at_most", f"open_at_most can't be {shown(most)}", f"a whole number from 1 to {MOST_OPEN:,}"
            )

    def _check_remote(self) -> None:
        lanes = self.lanes
        if isinstance(lanes, bool) or not isinstance(lanes, int) or not 1 <= lanes <= MOST_LANES:
            raise self._wrong("lanes", f"lanes can't be {shown(lanes)}", f"a whole number from 1 to {MOST_LANES:,}")
        if self.at is None:
            for what, value, plain in (("remote", self.remote, None), ("lanes", lanes, _DEFAULT_LANES)):
                if value != plain:
                    raise self._wrong(
                        (what, "at"),
                        f"{what} is for a queue of another box, and it is in this one",
                        "add at, or leave it out",
                    )
            return
        checked_name(self.at, f"a link's name (at of queue {self.name!r})", "at")
        if self.remote is not None:
            checked_name(self.remote, f"a queue's name (remote of queue {self.name!r})", "remote")
        self._check_remote_order()
        if self.keep not in {None, "nothing"}:
            raise self._wrong(
                ("keep", "at"),
                f"keep can't be {shown(self.keep)}: the other box works on its messages",
                "declare it there",
            )
        for one in fields(self):
            if one.name not in _OF_REMOTE and getattr(self, one.name) != _default(one):
                raise self._wrong(
                    (one.name, "at"),
                    f"{one.name} is for the box where messages are handed out, and it is a queue of another one",
                    "declare it there",
                )

    def _check_remote_order(self) -> None:
        if not isinstance(self.policy, Fifo | Unordered):
            raise self._wrong(
                ("policy", "at"),
                f"{self.policy.name} is for the box where messages are handed out, and it is a queue of another one",
                "declare it there; here Fifo() keeps the order of each group, Unordered() keeps none",
            )
        if isinstance(self.policy, Unordered) and self.group is not None:
            raise self._wrong(
                ("group", "policy"), "an unordered queue of another box has no group", "leave out group, or policy"
            )
        if isinstance(self.policy, Fifo) and self.lanes != _DEFAULT_LANES:
            raise self._wrong(
                ("lanes", "policy"), "lanes are for Unordered: in order, each group has a stream", "leave out lanes"
            )

    def _wrong(self, argument: Argument, what: str, remedy: str) -> UsageError:
        return UsageError(f"queue {self.name!r}: {what}", remedy=remedy, argument=argument)

    def _check_whole(self) -> None:
        if self.group != WHOLE_QUEUE:
            return
        if isinstance(self.policy, Unordered):
            raise self._wrong(
                ("group", "policy"),
                "the whole queue can't be one order, because unordered keeps none",
                "such as Fifo()",
            )
        if self.default_group not in {None, _WHOLE_KEY}:
            raise self._wrong(
                "default_group",
                "default_group is for messages without a key, and the whole queue is one group",
                "leave it out",
            )
        # No message has the property, so each comes into this group.
        object.__setattr__(self, "default_group", _WHOLE_KEY)

    def _check_order(self) -> None:
        if isinstance(self.policy, Unordered):
            return
        if self.group is None:
            raise self._wrong(
                ("group", "policy"),
                f"{self.policy.name} needs a group{'' if self.sequence or isinstance(self.policy, Fifo) else ' and a sequence'}",
                "name the property of its key; or, for one order of the whole queue, WHOLE_QUEUE (in YAML {whole_queue: true}); or let the "
                "policy be unordered",
            )
        for policy in self.all_policies():
            if self.sequence is None and not isinstance(policy, Fifo):
                raise self._wrong(
                    ("sequence", "policy"), f"{policy.name} needs a sequence", "name the column of the number"
                )

    def _check_compare(self) -> None:
        if self.compare is None:
            return
        names = (self.compare,) if isinstance(self.compare, str) else self.compare
        if not isinstance(names, Sequence) or not names or not all(isinstance(one, str) and one for one in names):
            raise self._wrong(
                "compare", f"compare can't be {shown(self.compare)}", "the name of a property, or a list of names"
            )
        if not any(isinstance(policy, Standard) for policy in self.all_policies()):
            raise self._wrong(
                ("compare", "policy"),
                "compare is for the policy standard",
                "leave it out: no other policy compares messages",
            )
        object.__setattr__(self, "compare", tuple(dict.fromkeys(names)))

    def _check_policies(self) -> None:
        if not isinstance(self.policies, Mapping):
            raise self._wrong("policies", f"policies can't be {shown(self.policies)}", 'such as {"order": Standard()}')
        object.__setattr__(self, "policies", dict(self.policies))
        if self.level != TYPE:
            if self.policies:
                raise self._wrong(
                    ("policies", "level"), "policies are by type, and its level is queue", 'add level="type"'
                )
            return
        for kind, policy in self.policies.items():
            checked_name(kind, f"a message type (policies of queue {self.name!r})", entry_of("policies", kind))
            if any(one in kind for one in UNFIT):
                raise self._wrong(
                    entry_of("policies", kind),
                    f"policies: {kind!r} has {' or '.join(UNFIT)}",
                    "such a type has the queue's policy",
                )
            if not isinstance(policy, Policy):
                raise self._wrong(
                    entry_of("policies", kind),
                    f"policies: {shown(policy)} is not a policy",
                    "such as Fifo() or Standard()",
                )
        if any(isinstance(one, Unordered) for one in self.all_policies()):
            raise self._wrong(
                ("policies", "policy"), "policies: what is unordered has no groups", "let it go to a queue of its own"
            )
        if len({isinstance(one, UnitOfWork) for one in self.all_policies()}) > 1:
            raise self._wrong(
                ("policies", "policy"),
                "policies: sets come whole, so all of its types have sets or none",
                "let them go to a queue of their own",
            )
        if self.max_messages is not None:
            raise self._wrong(
                ("max_messages", "level"),
                "max_messages: a queue by types can't be full",
                "leave it out, or let types have queues",
            )

    def _check_stays(self) -> None:
        for what in ("opens", "closes"):
            value = getattr(self, what)
            if value is not None and (not isinstance(value, str) or not value.strip()):
                raise self._wrong(what, f"{what} can't be {shown(value)}", "a filter, such as \"type = 'check-in'\"")
        object.__setattr__(self, "unopened_timeout", self._period("unopened_timeout"))
        for policy in self.all_policies():
            try:
                self._with_stays(policy)
            except UsageError as error:
                raise self._wrong(error.arguments, error.what, error.remedy or "leave them out") from None

    def _with_stays(self, policy: Policy) -> Policy:
        if self.opens is None and self.closes is None and self.unopened_timeout is None:
            return policy
        opens, closes = self.opens is not None, self.closes is not None
        return with_stays(policy, opens=opens, closes=closes, unopened_timeout=self.unopened_timeout)

    @property
    def has_stays(self) -> bool:
        """Whether messages open or close its groups."""
        return self.opens is not None or self.closes is not None

    @property
    def keeps(self) -> Literal["nothing", "faults", "everything"]:
        """Which done messages it keeps as a new queue."""
        return self.keep or ("faults" if self.at is None else "nothing")

    def all_policies(self) -> tuple[Policy, ...]:
        """The queue's policy, and its policies by type."""
        return (self.policy, *self.policies.values())

    def policy_of(self, group: str | None) -> Policy:
        """The policy of a group, by the group's key; where messages open or close groups it says so."""
        if not self.policies or group is None:
            return self._with_stays(self.policy)
        return self._with_stays(self.policies.get(type_of(group), self.policy))

    def _check_choice(self, what: str, allowed: Collection[str]) -> None:
        if (value := getattr(self, what)) not in allowed:
            raise self._wrong(what, f"{what} can't be {shown(value)}", f"one of {', '.join(allowed)}")

    def _period(self, what: str) -> float | None:
        given = getattr(self, what)
        if given is None:
            return None
        try:
            period = micros(given)
        except UsageError as error:
            raise self._wrong(what, f"{what}: {error.what}", error.remedy) from error
        if not 0 < period <= LONGEST_DAYS * micros("1d"):
            raise self._wrong(what, f"{what} can't be {shown(given)}", f"more than 0 and at most {LONGEST_DAYS:,} days")
        return seconds(period)

    def _check_limit(self) -> None:
        most = self.max_messages
        if most is None:
            if self.when_full != "wait":
                raise self._wrong(
                    ("when_full", "max_messages"),
                    f"when_full is {self.when_full}, and nothing makes it full",
                    "add max_messages",
                )
        elif isinstance(most, bool) or not isinstance(most, int) or not 1 <= most <= MOST_MESSAGES:
            raise self._wrong(
                "max_messages", f"max_messages can't be {shown(most)}", f"a whole number from 1 to {MOST_MESSAGES:,}"
            )

    def _check_retry(self) -> None:
        if self.rollbacks == 0 and not isinstance(self.rollbacks, bool):
            object.__setattr__(self, "rollbacks", None)
        counts = [("attempts", 1), ("recoveries", 0)] + [("rollbacks", 0)] * (self.rollbacks is not None)
        for what, least in counts:
            count = getattr(self, what)
            if isinstance(count, bool) or not isinstance(count, int) or not least <= count <= MOST_ATTEMPTS:
                raise self._wrong(
                    what, f"{what} can't be {shown(count)}", f"a whole number from {least} to {MOST_ATTEMPTS:,}"
                )
        for what in ("retry_delay", "retry_ceiling", "recover_delay"):
            object.__setattr__(self, what, self._delay(what))
        ranges = (("retry_factor", 1, _MOST_FACTOR), ("retry_jitter", 0, 1), ("recover_factor", 1, _MOST_FACTOR))
        for what, least, most in ranges:
            value = getattr(self, what)
            if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
                raise self._wrong(what, f"{what} can't be {shown(value)}", f"a number from {least} to {most}")
            object.__setattr__(self, what, float(value))

    def _delay(self, what: str) -> float:
        value = getattr(self, what)
        try:
            period = micros(value)
        except UsageError as error:
            raise self._wrong(what, f"{what}: {error.what}", error.remedy) from error
        if not 0 <= period <= LONGEST_DAYS * micros("1d"):
            raise self._wrong(what, f"{what} can't be {shown(value)}", f"from 0 to {LONGEST_DAYS:,} days")
        return seconds(period)

    def retry(self) -> Retry:
        """The rules for retries of a failed handler, for the kernel."""
        return Retry(
            self.attempts, micros(self.retry_delay), self.retry_factor, micros(self.retry_ceiling), self.retry_jitter
        )

    def recover(self) -> Recover:
        """The rules for automatic retries of faulted groups, for the kernel."""
        return Recover(self.recoveries, micros(self.recover_delay), self.recover_factor)


def _default(one: Field[Any]) -> object:
    """The value of a field that nobody has given."""
    return one.default_factory() if callable(one.default_factory) else one.default
