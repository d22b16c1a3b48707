"""Views of two regions: how far each is behind the other, waiting messages, and differing definitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.change import Definition, changed_fields, kind_of
from seriatim.box.definitions.definition import Definitions
from seriatim.errors import Unavailable, UsageError
from seriatim.kernel.groups.policy import Standard
from seriatim.kernel.values.time import micros
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.subscription import Subscription
from seriatim.pipeline.types.message_type import MessageType
from seriatim.regions.box_role import role_of
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.values import QueueRules
from seriatim.regions.journal.views import SessionCounts, SessionView
from seriatim.regions.pair import LOOK_S, Pair

_US = 1_000_000
_NO_RULES: Mapping[str, QueueRules] = {}


@dataclass(frozen=True, slots=True)
class RegionStatus:
    """A region.

    Args:
        region: ``a`` or ``b``.
        state: ``votes``, ``learning`` (its box was restored, and hasn't learned from the others yet) or ``away``.
        place: where its box is; None: it is away.
        incarnation: of the region, higher after each restore; None: it is away.
        outbox: how many of its messages the other box lacks; None: it is away, or they weren't counted in time.
        lag_s: for how many seconds the oldest of them waits; None: there is none, or as for `outbox`.
        beside: how many messages lie beside its queues, because another one has their number.
        reported_at: when somebody has tended it last: `regions run`, or `serve --regions`; by the clock of the journal. None: nobody has,
            or the journal is away.
        why: why it is away, or not defined, or its messages weren't counted.
    """

    region: str
    state: str
    place: str | None = None
    incarnation: int | None = None
    outbox: int | None = None
    lag_s: float | None = None
    beside: int | None = None
    reported_at: datetime | None = None
    why: str | None = None


@dataclass(frozen=True, slots=True)
class RegionsStatus:
    """Two regions and their journal.

    Args:
        name: the name of the regions.
        regions: both regions.
        sessions: the sessions of the journal in numbers; None: it is away.
        standing: sessions that wait for something that isn't at work, with what that is.
        why: why the journal is away.
    """

    name: str
    regions: tuple[RegionStatus, ...]
    sessions: SessionCounts | None
    standing: tuple[SessionView, ...] = ()
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that isn't defined alike.

    Args:
        kind: ``type``, ``queue`` or ``subscription``.
        name: its name.
        what: how it differs, for people.
    """

    kind: str
    name: str
    what: str


def status_of(pair: Pair, limit: int) -> RegionsStatus:
    """Return the state of two regions; it names a party that is away."""
    regions = tuple(_region(pair, region) for region in pair.boxes)

    def read(journal: Journal) -> tuple[SessionCounts, tuple[SessionView, ...], dict[str, datetime | None]]:
        reports = {region.region: region.reported_at for region in journal.regions(pair.name)}
        return journal.counts(pair.name), tuple(journal.sessions(name=pair.name, stands=True, limit=limit)), reports

    try:
        sessions, standing, reports = pair.journal.call(read)
    except Unavailable as error:
        return RegionsStatus(pair.name, regions, None, why=str(error))
    regions = tuple(replace(view, reported_at=reports.get(view.region)) for view in regions)
    return RegionsStatus(pair.name, regions, sessions, standing)


def differences(
    pair: Pair, declared: Iterable[object] = (), declared_rules: Mapping[str, QueueRules] = _NO_RULES
) -> list[Difference]:
    """Return the differences of definitions: between the boxes, from the declarations, and from the journal."""
    definitions = {
        region: pair.in_box(region, partial(_defined, name=pair.name, region=region)) for region in pair.boxes
    }
    lines = {
        (kind_of(definition).value, definition.name): definition
        for definition in declared
        if isinstance(definition, MessageType | Queue | Subscription)
    }
    (first, own), (second, theirs) = definitions.items()
    differing = [
        Difference(kind, name, line)
        for kind, name in sorted(own.keys() | theirs.keys() | lines.keys())
        for line in _compared(
            (f"region {first}", own.get((kind, name))), (f"region {second}", theirs.get((kind, name))),
            lines.get((kind, name)), is_said=bool(lines),
        )
    ]  # fmt: skip
    queues = {
        name: definition
        for (kind, name), definition in own.items()
        if kind == "queue" and isinstance(definition, Queue)
    }

    def rules(journal: Journal) -> dict[str, QueueRules | None]:
        return {name: _rules_or_none(journal, pair.name, name) for name in sorted(queues)}

    for name, known in pair.journal.call(rules).items():
        policy = queues[name].policy
        if known is None:
            differing.append(Difference("queue", name, "the journal doesn't know it"))
        elif not isinstance(policy, Standard) or (known.start, known.increment) != (policy.start, policy.increment):
            differing.append(Difference("queue", name, "it begins otherwise in the journal"))
        elif changed := _changed_rules(known, declared_rules.get(name, known)):
            differing.append(Difference("queue", name, f"{', '.join(changed)} differ in the journal"))
    return differing


def _region(pair: Pair, region: str) -> RegionStatus:
    def read(transaction: Transaction) -> RegionStatus:
        role = role_of(transaction, pair.name, region)
        return RegionStatus(region, "votes" if role.votes else "learning", transaction.access.place, role.incarnation)

    try:
        seen = pair.in_box(region, read)
    except (Unavailable, UsageError) as error:
        return RegionStatus(region, "away", why=str(error))
    try:
        ages = pair.in_box(region, lambda one: one.one("region_ages", of_name=pair.name), patience_s=LOOK_S)
    except Unavailable as error:
        return replace(seen, why=str(error))
    lag_s = ages.outbox_age / _US if ages.outbox else None
    return replace(seen, outbox=ages.outbox, lag_s=lag_s, beside=ages.beside)


def _defined(transaction: Transaction, name: str, region: str) -> dict[tuple[str, str], Definition]:
    """Return a box's definitions for the regions: their queues, the subscriptions that lead to these, and all message types."""
    role = role_of(transaction, name, region)
    known: Definitions = transaction.definitions()
    queues = {
        queue.declared.name: queue.declared for queue in known.queues.values() if queue.queue_id in role.queue_ids
    }
    subscriptions = [
        subscription.declared for subscription in known.subscriptions.values() if subscription.declared.to in queues
    ]
    every: list[Definition] = [*known.types.values(), *queues.values(), *subscriptions]
    return {(kind_of(definition).value, definition.name): definition for definition in every}


def _compared(
    first: tuple[str, Definition | None],
    second: tuple[str, Definition | None],
    known: Definition | None,
    *,
    is_said: bool,
) -> Iterator[str]:
    """Yield the differences of a definition between two boxes, and from its declaration."""
    (here, definition), (there, other) = first, second
    if is_said and known is not None:
        for place, declared in (first, second):
            if declared is None:
                yield f"it isn't in {place}"
            elif changed := changed_fields(declared, _kept(known, declared)):
                yield f"{', '.join(changed)} differ in {place}"
    elif definition is None or other is None:
        yield f"it is in {here if other is None else there} only"
    elif changed := changed_fields(definition, other):
        yield f"{', '.join(changed)} differ between {here} and {there}"


def _kept(said: Definition, declared: Definition) -> Definition:
    """Return a declaration, with the values that a box chooses where it has none."""
    if isinstance(said, Queue) and isinstance(declared, Queue) and said.keep.done is None:
        return replace(said, keep=replace(said.keep, done=declared.keep.done))
    return said


def _changed_rules(known: QueueRules, rules: QueueRules) -> list[str]:
    """Return the rules in which the journal differs from the declaration, by their names in `RegionalQueue`."""
    return [
        named
        for named, own, other in (
            ("attempts", known.attempts, rules.attempts),
            ("errors", known.errors, rules.errors),
            ("retry_delay", micros(known.retry_delay), micros(rules.retry_delay)),
            ("hole_timeout", micros(known.hole_timeout or 0), micros(rules.hole_timeout or 0)),
        )
        if own != other
    ]


def _rules_or_none(journal: Journal, name: str, queue: str) -> QueueRules | None:
    try:
        return journal.rules(name, queue)
    except UsageError:
        return None
