"""The queue: a named, ordered destination."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from typing import Final, Literal

from seriatim.errors import Argument, UsageError
from seriatim.kernel.arguments import refusing
from seriatim.kernel.fields import Choice, Declaration, Flagged, For, Plain, Text, Texts, Value, leaves, takes
from seriatim.kernel.groups import numbers
from seriatim.kernel.groups.numbers import with_numbers
from seriatim.kernel.groups.policy import (
    BestEffortNumbers,
    Fifo,
    Policy,
    Standard,
    StandardNumbers,
    UnitOfWork,
    Unordered,
    with_stays,
)
from seriatim.kernel.operators.fault import Retry
from seriatim.kernel.operators.recover import Recover
from seriatim.pipeline.declared.activation import Activation, OfActivation
from seriatim.pipeline.declared.kinds import OfPolicy, OfSequence, OwnName
from seriatim.pipeline.declared.queue_level import type_of
from seriatim.pipeline.declared.queue_parts import WHOLE_QUEUE, Gate, Group, Keep, Limit, Remote

#: As the group of a queue: its groups are conversation groups, because it is for the messages of dialogs alone.
CONVERSATION_GROUP: Final = "conversation_group"


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class Queue(Declaration):
    """A named, ordered destination.

    Args:
        name: its name; a routed message carries it in the column ``destination``.
        policy: how its groups are ordered.
        group: the property (column) with the key of a message's group, the unit of order, or a `Group`; `WHOLE_QUEUE`: the queue is one
            order. For `Unordered` only with a `gate`.
        sequence: the property (column) with a message's position in its group, or a `Sequence`: what the numbers mean. Not for
            `Unordered` and `Fifo`, which take only its `void`.
        compare: with `Standard`: the properties by which two messages with one number are compared, a name or several; None:
            body and parts. If they differ, the later message conflicts. With ``UnitOfWork(once=False)`` it has to be given.
        errors: what happens when a handler fails permanently: ``"suspend"`` (the group stops, other groups go on),
            ``"continue"`` (the message becomes a dead letter, its group goes on) or ``"stop"`` (the queue stops).
        retry: how often a handler is called with a message, and after which delays.
        recover: the automatic retries of a faulted group, or their number.
        priority: the property with a message's priority, a long from 1 to 10 (highest); a message without it has 5.
        keep: which done messages are kept, and for how long: a `Keep`, or its first word.
        max_messages: the largest number of messages in the queue, or a `Limit`; None: no limit.
        enabled: whether messages are handed out. The queue accepts messages in either case.
        activation: the readers that ``seriatim serve`` starts; None: it starts no readers.
        gate: a `Gate`, or the name of the queue that results of its messages leave in the order in which these messages came, by group;
            None: no order is kept through the work on them.
        at: a `Remote`, or the name of a `Link`: the queue is one of the box there. Its policy is `Fifo` (the order of each group) or
            `Unordered`; what else happens to its messages is declared in the other box.

    From `errors` on, and but for `max_messages`, the arguments are for queues of a message box; pipelines ignore them.

    Raises:
        UsageError: a value is invalid, or the policy needs a group or a sequence that is missing.
    """

    name: str = takes(OwnName("a queue's name"), engines=For.EVERY)
    policy: Policy = takes(OfPolicy(), factory=Fifo, engines=For.EVERY)
    group: Plain[Group, str | None] = takes(
        Value(Group, "'customer', or Group('customer', default='unknown')"), factory=Group, engines=For.EVERY
    )
    sequence: str | numbers.Sequence | None = takes(OfSequence(), None, engines=For.PIPELINE | For.BOX | For.REGIONAL)
    _: KW_ONLY
    compare: Plain[tuple[str, ...] | None, str | Sequence[str]] = takes(
        Texts(remedy="the name of a property, or a list of names", one=True, least=1),
        None,
        engines=For.PIPELINE | For.BOX,
    )
    errors: Literal["suspend", "continue", "stop"] = takes(Choice(("suspend", "continue", "stop")), "suspend")
    retry: Retry = takes(Value(Retry, "Retry(attempts=3, delay='5s')", plain=False), factory=Retry)
    recover: Plain[Recover, int] = takes(Value(Recover, "3, or Recover(3, delay='5m')"), factory=Recover)
    priority: str | None = takes(Text(), None, engines=For.BOX | For.REGIONAL)
    keep: Plain[Keep, Literal["nothing", "faults", "everything"] | None] = takes(
        Value(Keep, "'faults', or Keep('everything', done_for='7d')"), factory=Keep
    )
    max_messages: Plain[Limit | None, int] = takes(Value(Limit, "1000, or Limit(1000, when_full='refuse')"), None)
    enabled: bool = takes(Flagged(), True, engines=For.BOX | For.REMOTE | For.REGIONAL)
    activation: Activation | None = takes(OfActivation(), None)
    gate: Plain[Gate | None, str] = takes(Value(Gate, "'out', or Gate('out', through=['work'])"), None)
    at: Plain[Remote | None, str] = takes(Value(Remote, "'south', or Remote('south', queue='orders')"), None)

    def __post_init__(self) -> None:
        self._check_fields()
        self._check_policies()
        self._check_order()
        self._check_stays()
        self._check_gate()
        self._check_remote()

    def _wrong(self, argument: Argument, what: str, remedy: str) -> UsageError:
        return UsageError(f"queue {self.name!r}: {what}", remedy=remedy, argument=argument)

    def _check_policies(self) -> None:
        for policy in self.all_policies():
            try:
                judged = with_numbers(policy, self.says)
            except UsageError as error:
                raise self._wrong(self._of_sequence(error.arguments), error.what, error.remedy) from None
            self._check_numbers(judged)
        if self.group.by_type is None:
            return
        if any(isinstance(one, Unordered) for one in self.all_policies()):
            raise self._wrong(
                ("group.by_type", "policy"),
                "by_type: what is unordered has no groups",
                "let it go to a queue of its own",
            )
        if len({isinstance(one, UnitOfWork) for one in self.all_policies()}) > 1:
            raise self._wrong(
                ("group.by_type", "policy"),
                "by_type: sets come whole, so all of its types have sets or none",
                "let them go to a queue of their own",
            )
        if self.max_messages is not None:
            raise self._wrong(
                ("max_messages", "group.by_type"),
                "max_messages: a queue by types can't be full",
                "leave it out, or let types have queues",
            )

    def _of_sequence(self, arguments: tuple[str, ...]) -> tuple[str, ...]:
        """The arguments of an error: fields of a `Sequence` stand in it."""
        return tuple(f"sequence.{one}" if one in self.says.given() else one for one in arguments)

    def _check_numbers(self, policy: Policy) -> None:
        """Refuse what can't be said together with what numbers mean."""
        if not isinstance(policy, StandardNumbers | BestEffortNumbers):
            return
        for argument, other in (
            ("group.opens", self.group.opens),
            ("group.closes", self.group.closes),
            ("gate", self.gate),
        ):
            if other is not None:
                raise self._wrong(
                    ("sequence", argument),
                    f"what numbers mean, and how a first number is found, can't be said together with {argument.removeprefix('group.')}",
                    "leave one of them out",
                )
        if self.numbered_by == "ticket":
            raise self._wrong(
                "sequence", "tickets turn over, and have epochs, by themselves", "name the property alone"
            )

    def _check_order(self) -> None:
        if isinstance(self.policy, Unordered):
            if self.group.by == WHOLE_QUEUE:
                raise self._wrong(
                    ("group", "policy"),
                    "the whole queue can't be one order, because unordered keeps none",
                    "let its policy be fifo",
                )
            if self.group.expire_after is not None and self.gate is None:
                raise self._wrong(
                    ("group.expire_after", "policy"),
                    "expire_after is for groups, and unordered has none without a gate",
                    "leave it out",
                )
        elif self.group.by is None:
            raise self._wrong(
                ("group", "policy"),
                f"{self.policy.name} needs a group{'' if self.sequence or isinstance(self.policy, Fifo) else ' and a sequence'}",
                "name the property of its key; or, for one order of the whole queue, WHOLE_QUEUE (in YAML {whole_queue: true}); or let the "
                "policy be unordered",
            )
        for policy in self.all_policies():
            if (
                self.numbered_by is None
                and not isinstance(policy, Fifo | Unordered)
                and not isinstance(self.says.by, tuple)
            ):
                raise self._wrong(
                    ("sequence", "policy"), f"{policy.name} needs a sequence", "name the column of the number"
                )
        again = any(isinstance(policy, UnitOfWork) and not policy.once for policy in self.all_policies())
        if again and self.compare is None:
            raise self._wrong(
                ("compare", "policy"),
                "UnitOfWork(once=False) tells parts that come again by their content",
                "add compare",
            )
        if self.compare is not None and not (again or any(isinstance(one, Standard) for one in self.all_policies())):
            raise self._wrong(
                ("compare", "policy"),
                "compare is for the policy standard, and for sets with once=False",
                "leave it out: no other policy compares messages",
            )

    def _check_stays(self) -> None:
        for policy in self.all_policies():
            try:
                self._with_stays(policy)
            except UsageError as error:
                arguments = tuple("policy" if one == "policy" else f"group.{one}" for one in error.arguments)
                raise self._wrong(arguments, error.what, error.remedy or "leave them out") from None

    def _check_gate(self) -> None:
        if self.gate is None:
            return
        if self.gate.queue == self.name:
            raise self._wrong("gate", "its gate leads to itself", "name another queue")
        if self.name in self.gate.through:
            raise self._wrong(
                "gate.through", f"through can't have {self.name!r}", "name the queues between it and its gate"
            )
        if self.group.by is None:
            raise self._wrong(("gate", "group"), "a gate keeps the order of groups, and it has no group", "add group")

    def _check_remote(self) -> None:
        if self.at is None:
            return
        elsewhere = "is for the box where messages are handed out, and it is a queue of another one"
        if not isinstance(self.policy, Fifo | Unordered):
            raise self._wrong(
                ("policy", "at"),
                f"{self.policy.name} {elsewhere}",
                "declare it there; here fifo keeps the order of each group, unordered keeps none",
            )
        if isinstance(self.policy, Unordered) and self.group.by is not None:
            raise self._wrong(
                ("group", "policy"), "an unordered queue of another box has no group", "leave out group, or policy"
            )
        if self.keep.done not in {None, "nothing"}:
            raise self._wrong(
                ("keep", "at"),
                f"keep can't be {self.keep.done!r}: the other box works on its messages",
                "declare it there",
            )
        for leaf in leaves(self):
            if leaf.is_given and not leaf.row.engines & For.REMOTE:
                raise self._wrong((leaf.path, "at"), f"{leaf.path} {elsewhere}", "declare it there")
            if leaf.is_given and leaf.path == "at.lanes" and isinstance(self.policy, Fifo):
                raise self._wrong(
                    ("at.lanes", "policy"),
                    "lanes are for unordered: in order, each group has a stream",
                    "leave out lanes",
                )

    def _with_stays(self, policy: Policy) -> Policy:
        group = self.group
        if group.opens is None and group.closes is None and group.unopened_timeout is None:
            return policy
        opens, closes = group.opens is not None, group.closes is not None
        return with_stays(policy, opens=opens, closes=closes, unopened_timeout=group.unopened_timeout)

    @property
    def says(self) -> numbers.Sequence:
        """What its numbers mean."""
        return self.sequence if isinstance(self.sequence, numbers.Sequence) else _plain(self.sequence)

    @property
    def means(self) -> bool:
        """Whether its numbers aren't plain: a `Sequence` says what they mean, they are positions, the first number of a group is found out,
        or sets may leave that aren't complete.
        """
        return bool(self.says.says()) or any(
            (isinstance(one, Standard) and one.gathers)
            or numbers.by_position(one)
            or (isinstance(one, UnitOfWork) and (one.on_timeout == "deliver" or not one.once))
            for one in self.all_policies()
        )

    @property
    def numbered_by(self) -> str | None:
        """The property with a message's own number: where a message names the one before, the last that it covers."""
        if isinstance(self.sequence, str):
            return self.sequence
        says = self.says
        own = says.by if says.previous is None else says.through
        return own if isinstance(own, str) else None

    @property
    def has_stays(self) -> bool:
        """Whether messages open or close its groups."""
        return self.group.opens is not None or self.group.closes is not None

    @property
    def keeps(self) -> Literal["nothing", "faults", "everything"]:
        """Which done messages it keeps as a new queue."""
        return self.keep.done or ("faults" if self.at is None else "nothing")

    @property
    def gate_name(self) -> str | None:
        """The name of its gate."""
        return None if self.gate is None else self.gate.queue

    @property
    def through(self) -> tuple[str, ...]:
        """The names of the queues on the way to its gate."""
        return () if self.gate is None else self.gate.through

    @property
    def policies(self) -> Mapping[str, Policy]:
        """The policies of single types."""
        return self.group.by_type or {}

    def all_policies(self) -> tuple[Policy, ...]:
        """The queue's policy, and its policies by type."""
        return (self.policy, *self.policies.values())

    def policy_of(self, group: str | None) -> Policy:
        """The policy of a group, by the group's key; where messages open or close groups, and what numbers mean, it says so."""
        policy = self.policy if not self.policies or group is None else self.policies.get(type_of(group), self.policy)
        policy = self._with_stays(policy)
        # It is asked in each turn, and numbers are mostly plain.
        has_rules = isinstance(self.sequence, numbers.Sequence) or (isinstance(policy, Standard) and policy.gathers)
        return with_numbers(policy, self.says) if has_rules else policy


@lru_cache
def _plain(by: str | None) -> numbers.Sequence:
    return numbers.Sequence(by)
