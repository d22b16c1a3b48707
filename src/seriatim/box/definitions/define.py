"""The work of `MessageBox.define` and `drop`: write declarations into the box; repeating it changes nothing.

Only one transaction at a time defines. Definitions that it reads stay private, because it may be rolled back and nobody
else may route by them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from seriatim.box.definitions import drop, links, schedules, services
from seriatim.box.definitions.change import Change, Definition, Kind, changed_fields, kind_of
from seriatim.box.definitions.compatibility import Redefinition, check_fit, check_lost, check_types
from seriatim.box.definitions.definition import BoxQueue, Definitions
from seriatim.box.definitions.gate_checks import begin_at_gates, check_gates, check_unused_gate, other_way
from seriatim.box.definitions.known import read_definitions
from seriatim.box.definitions.live_changes import frozen, judged_by, moves_timers, retyped
from seriatim.box.postgres.statements import Statements
from seriatim.errors import ActionRefused, NotFound, Unavailable, UsageError
from seriatim.pipeline.declared.box_settings import BoxSettings
from seriatim.pipeline.declared.contract import Contract
from seriatim.pipeline.declared.link import Link
from seriatim.pipeline.declared.location import Location
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.declared.regional import check_decides_nothing
from seriatim.pipeline.declared.service import Service
from seriatim.pipeline.declared.subscription import Subscription
from seriatim.pipeline.files.json_form import to_json
from seriatim.pipeline.text.secret import secret_in
from seriatim.pipeline.text.section import likely
from seriatim.pipeline.types.message_type import MessageType
from seriatim.pipeline.types.schedule import Schedule

#: Subscriptions name queues, and these name properties of types; services name queues and contracts.
_ORDER = (
    *(Kind.LOCATION, Kind.LINK, Kind.TYPE, Kind.QUEUE, Kind.SUBSCRIPTION, Kind.CONTRACT, Kind.SERVICE),
    *(Kind.SETTINGS, Kind.SCHEDULE),
)
#: What nobody routes by: a change of these makes no new version of the definitions.
_APART = (Kind.LOCATION, Kind.SCHEDULE, Kind.LINK)
#: While publishers are waited for, others can't begin: briefly, then, and again after they had their turn.
_BRIEFLY_MS, _PAUSE_S, _PATIENCE_S = 200, 0.05, 10.0
_LONGEST_NOTE = 10_000


def define(
    statements: Statements, definitions: Iterable[Definition] = (), drops: Iterable[tuple[Kind, str]] = ()
) -> list[Change]:
    given, gone = _checked(definitions), list(dict.fromkeys(drops))
    statements.do("lock_definitions")
    return _Defining(statements).change(given, gone)


def record(statements: Statements, changes: Sequence[Change]) -> None:
    """Record a new version of the definitions, so that all processes read them again."""
    note = "; ".join(map(str, changes))[:_LONGEST_NOTE]
    statements.do("record_change", changed=note)


def _checked(definitions: Iterable[Definition]) -> list[Definition]:
    found: dict[tuple[Kind, str], Definition] = {}
    for one in definitions:
        if not isinstance(one, Definition):
            raise UsageError(
                f"{type(one).__name__} can't be defined in a message box",
                remedy="give MessageType(…), Queue(…), Subscription(…) and their like; of a list define(*list); of a file apply(FILE)",
            )
        if isinstance(one, Queue) and one.says.says() and one.gate is not None:
            raise UsageError(
                f"queue {one.name!r}: in a message box a Sequence can't be said together with a gate",
                remedy="leave one of them out",
                argument=("sequence", "gate"),
            )
        if found.setdefault((kind_of(one), one.name), one) is not one:
            raise UsageError(f"{kind_of(one)} {one.name!r} is given twice", remedy="give it once")
    return sorted(found.values(), key=lambda one: _ORDER.index(kind_of(one)))


class _Defining:
    """One call of `define`, under the lock of the definitions."""

    def __init__(self, statements: Statements) -> None:
        self._statements = statements
        self._before = read_definitions(statements)
        self._held_publishers = False
        self._gone: set[tuple[Kind, str]] = set()

    def change(self, given: Sequence[Definition], gone: Sequence[tuple[Kind, str]]) -> list[Change]:
        self._gone = set(gone)
        for kind, name in gone:
            drop.check_there(self._statements, self._before, kind, name)
        given = [self._as_kept(one) for one in (*given, *services.queues_for(given, self._before))]
        given.sort(key=lambda one: _ORDER.index(kind_of(one)))
        self._check_destinations(given, {name for kind, name in gone if kind is Kind.QUEUE})
        self._check_schedules(given)
        kept = [one for one in given if (kind_of(one), one.name) not in set(gone)]
        # Subscriptions and services first and last: others can't go while they are there, or come before what they name.
        changes = [self._drop(kind, name) for kind, name in gone if kind in (Kind.SUBSCRIPTION, Kind.SERVICE)]
        changes += [change for one in kept if (change := self._put(one)) is not None]
        for kind in (Kind.CONTRACT, Kind.QUEUE, Kind.TYPE, Kind.LOCATION, Kind.SETTINGS, Kind.SCHEDULE, Kind.LINK):
            changes += [self._drop(kind, name) for one, name in gone if one is kind]
        if any(one.kind not in _APART or _limits(one) for one in changes):
            record(self._statements, changes)
            after = read_definitions(self._statements)
            check_lost(self._before, after)
            redefined = Redefinition(self._before, after, {(kind_of(one).value, one.name) for one in kept})
            check_fit(redefined)
            check_types(redefined)
            services.check_services(self._before, after, {one.name for one in kept})
            links.check_remote(self._statements, after, {one.name for one in kept if isinstance(one, Queue)})
            links.check_far(self._statements, [one for one in kept if isinstance(one, Service)])
            self._check_regional([one for one in kept if isinstance(one, Queue)])
            if after.ways:
                served = {one.queue for one in kept if isinstance(one, Service) and one.queue is not None}
                check_gates(after, served | {one.name for one in changes if one.kind is Kind.QUEUE})
            if self._before.ways or after.ways:
                begin_at_gates(self._statements)
                self._statements.do("note_ways")
        return changes

    def _check_destinations(self, given: Sequence[Definition], gone: Collection[str]) -> None:
        queues = {*self._before.queues, *(one.name for one in given if isinstance(one, Queue))} - set(gone)
        for one in given:
            if isinstance(one, Subscription) and one.to not in queues:
                raise NotFound(
                    f"there is no queue {one.to!r}",
                    where=f"subscription {one.name!r}",
                    remedy=likely(one.to, queues) or "define the queue",
                )

    def _check_schedules(self, given: Sequence[Definition]) -> None:
        """Refuse a schedule of an unknown type, whose messages nobody would get, and to drop the type of a schedule."""
        gone = {name for kind, name in self._gone if kind is Kind.TYPE}
        types = {*self._before.types, *(one.name for one in given if isinstance(one, MessageType))} - gone
        told = {one.name: one for one in given if isinstance(one, Schedule)}
        for name, one in told.items():
            if one.type not in types:
                raise NotFound(
                    f"there is no message type {one.type!r}",
                    where=f"schedule {name!r}",
                    remedy=likely(one.type, types) or "define the type",
                )
        for name, kept in schedules.scheduled(self._statements).items() if gone else ():
            if kept is not None and kept.type in gone and name not in told and (Kind.SCHEDULE, name) not in self._gone:
                raise ActionRefused(
                    f"type {kept.type!r} can't be dropped: schedule {name!r} publishes it",
                    remedy="drop the schedule with it",
                )

    def _as_kept(self, one: Definition) -> Definition:
        """A queue that doesn't say what it keeps: as the box has it, so that a new default changes no queue that is there."""
        if not isinstance(one, Queue) or one.keep.done is not None:
            return one
        old = None if (Kind.QUEUE, one.name) in self._gone else self._before.queues.get(one.name)
        keep = one.keeps if old is None else old.declared.keeps
        if keep == "nothing" and one.keep.done_for is not None:  # which says for how long something is kept
            keep = one.keeps
        return replace(one, keep=replace(one.keep, done=keep))

    # ---- adding and changing

    def _put(self, one: Definition) -> Change | None:
        """Write a declaration, if it is new or changed."""
        if isinstance(one, Location | Schedule | Link):
            return self._put_apart(one)
        old = _declared(self._before, one)
        fields = () if old is None else changed_fields(old, one)
        if old is not None and not fields:
            return None
        is_there = old is not None or (kind_of(one).value, one.name) in self._before.unreadable
        match one:
            case MessageType():
                self._check_type(old, one)
                self._write("define_type", one)
            case Queue():
                self._put_queue(one)
            case Subscription():
                self._put_subscription(one)
            case Contract():
                services.check_contract(old, one, broken=is_there and old is None)
                self._write("define_contract", one)
            case Service():
                # What is sent to it meanwhile would be left in the transmission queue.
                self._hold_publishers()
                if isinstance(old, Service) and old.queue != one.queue:
                    services.check_unused_service(self._statements, one.name, "have another queue")
                self._write("define_service", one, queue=one.queue)
            case BoxSettings():
                self._statements.do("define_settings", definition=json.dumps(to_json(one)))
        return Change("changed" if is_there else "added", kind_of(one), one.name, fields)

    def _put_apart(self, one: Location | Schedule | Link) -> Change | None:
        match one:
            case Location():
                return self._put_location(one)
            case Schedule():
                return schedules.put(self._statements, one)
            case Link():
                return links.put(self._statements, one)

    def _put_location(self, location: Location) -> Change | None:
        known = {one.name: one for one, _ in drop.locations(self._statements)}
        old = known.get(location.name)
        if old == location:
            return None
        parameters = {"location": location.name, "last_number": location.last_number}
        self._statements.do("lock_location", location=location.name)
        done = self._statements.maybe("define_location", **parameters)
        if done is None:
            raise ActionRefused(
                f"the last number of location {location.name} can't become {location.last_number:,}: "
                "it has given numbers under another one",
                remedy="tickets are compared by it; begin a new location instead",
            )
        return Change(
            "added" if old is None else "changed", Kind.LOCATION, location.name, ("last_number",) if old else ()
        )

    def _put_queue(self, new: Queue) -> None:
        port = None if new.activation is None else new.activation.port
        if port is not None and (secret := secret_in(port)) is not None:
            raise UsageError(
                f"its activation would be kept in the box, and shown: {secret}",
                where=f"queue {new.name!r}",
                remedy="write ${NAME} in place of the secret: a reader takes it from its environment",
            )
        old = self._before.queues.get(new.name)
        old = None if old is None or old.problem is not None else old  # by what it judged nobody can tell
        enabled = new.enabled
        activated: bool | None = new.activation is None or new.activation.enabled
        links.check_place(self._statements, old, new)
        if old is not None:
            if fields := frozen(old.declared, new):
                self._hold_publishers()
                # What a queue without order counts for its gate goes by its key, whatever group that is of.
                self._check_unused(old.queue_id, f"queue {new.name!r}", fields, "it", numbers="policy" in fields)
            if fields := other_way(old.declared, new):
                self._hold_publishers()
                check_unused_gate(self._statements, self._before, new.name, fields)
            if moves_timers(old.declared, new):
                self._statements.do("look_held", queue_id=old.queue_id)
                self._statements.do("call_all_waiters", of_queues=[old.queue_id])
            if old.declared.enabled == new.enabled:  # so what an operator did stays
                enabled = old.enabled
            before = old.declared.activation is None or old.declared.activation.enabled
            if before == activated:  # likewise
                activated = None
        self._write("define_queue", new, enabled=enabled, activated=activated)

    def _put_subscription(self, new: Subscription) -> None:
        old = self._before.subscriptions.get(new.name)
        state = new.state
        if old is not None:
            if old.declared.state == new.state:  # so what an operator did stays
                state = old.state  # type: ignore[assignment]
            if old.declared.to != new.to or new.starts is None:
                drop.check_running(self._statements, self._before, new.name, "lead elsewhere, or start nothing")
            for gone in dict.fromkeys(old.declared.correlate):
                if gone not in new.correlate:
                    doing = f"correlate by {gone!r} no longer"
                    drop.check_running(self._statements, self._before, new.name, doing, having=gone)
            if old.declared.to != new.to and old.state != "started":
                self._hold_publishers()
                drop.check_collected(self._statements, self._before, new.name, "lead elsewhere")
        declared = json.dumps(to_json(new))
        self._statements.do("subscribe", named=new.name, to_queue=new.to, declared=declared, its_state=state)
        if old is not None and old.state != "started" == state and old.declared.to == new.to:
            queue_id = self._before.queues[new.to].queue_id
            self._statements.do("look_collected", queue_id=queue_id, subscription_id=old.subscription_id)
            self._statements.do("call_all_waiters", of_queues=[queue_id])

    def _check_type(self, old: Definition | None, new: MessageType) -> None:
        """Refuse another type for a property by which a queue has judged messages."""
        changed = retyped(old, new) if isinstance(old, MessageType) else set()
        for name, subscription in self._before.subscriptions.items():
            if wrong := sorted(changed & set(subscription.declared.correlate)):
                doing = f"go by another type of property {wrong[0]!r}"
                drop.check_running(self._statements, self._before, name, doing)
        for queue in self._before.queues.values():
            if queue.problem is None and (wrong := sorted(changed & judged_by(queue.declared))):
                self._hold_publishers()
                what = [f"property {name!r}" for name in wrong]
                self._check_unused(queue.queue_id, f"type {new.name!r}", what, f"queue {queue.declared.name!r}")

    def _check_unused(
        self, queue_id: int, where: str, fields: Sequence[str], whose: str, *, numbers: bool = True
    ) -> None:
        if self._statements.value("queue_in_use", queue_id=queue_id, numbers=numbers):
            raise ActionRefused(
                f"{', '.join(fields)} can't change: {whose} has groups, which were judged by it",
                where=where,
                remedy="define another queue, and let the subscriptions lead there",
            )

    def _write(self, name: str, one: Definition, /, **parameters: object) -> None:
        self._statements.do(name, name=one.name, definition=json.dumps(to_json(one)), **parameters)

    def _check_regional(self, queues: Sequence[Queue]) -> None:
        """Refuse queues of two regions that would decide something in one of them."""
        if queues and (regional := self._statements.value("region_queue_names")):
            for one in queues:
                if one.name in regional:
                    check_decides_nothing(one)

    # ---- dropping

    def _drop(self, kind: Kind, name: str) -> Change:
        statements, before = self._statements, self._before
        match kind:
            case Kind.SUBSCRIPTION:
                drop.check_running(statements, before, name, "be dropped")
                if drop.state_of(before, name) != "started":
                    self._hold_publishers()
                    drop.check_collected(statements, before, name, "be dropped")
                statements.do("drop_subscription", name=name)
            case Kind.QUEUE:
                self._drop_queue(before.queues[name])
            case Kind.TYPE:
                statements.do("drop_type", name=name)
            case Kind.CONTRACT:
                services.check_unused_contract(statements, before, name, gone=self._gone)
                statements.do("drop_contract", name=name)
            case Kind.SERVICE:
                self._hold_publishers()
                services.check_unused_service(statements, name, "be dropped")
                statements.do("drop_service", name=name)
            case Kind.LOCATION:
                drop.drop_location(statements, name)
            case Kind.SETTINGS:
                statements.do("drop_settings")
            case Kind.SCHEDULE | Kind.LINK:
                self._drop_apart(kind, name)
        return Change("dropped", kind, name)

    def _drop_apart(self, kind: Kind, name: str) -> None:
        if kind is Kind.LINK:
            links.drop(self._statements, name)
        else:
            self._statements.do("drop_schedule", name=name)

    def _drop_queue(self, queue: BoxQueue) -> None:
        name = queue.declared.name
        services.check_unused_queue(self._before, name, gone=self._gone)
        drop.check_queue(self._statements, queue)
        self._statements.do("drop_groups", queue_id=queue.queue_id)
        self._hold_publishers()
        drop.check_queue(self._statements, queue)
        if queue.has_gate:
            check_unused_gate(self._statements, self._before, name, other_way(queue.declared, None))
        self._statements.do("drop_queue", queue_id=queue.queue_id)

    def _hold_publishers(self) -> None:
        """Wait until no open transaction has published by the definitions to be dropped, and keep it so until this transaction ends."""
        deadline = time.monotonic() + _PATIENCE_S
        while not self._held_publishers:
            held = self._statements.value("hold_publishers", patience_ms=_BRIEFLY_MS)
            self._held_publishers = held
            if not held and time.monotonic() > deadline:
                holders = self._statements.value("publishing_now")
                raise Unavailable(
                    f"transactions that publish didn't end within {_PATIENCE_S:.0f} s"
                    + ("" if holders is None else f": {holders}"),
                    remedy="define it again when they have ended",
                )
            if not held:
                time.sleep(_PAUSE_S)


def _limits(change: Change) -> bool:
    """Whether a change of a link may change how many messages wait: publishers have to know that."""
    return change.kind is Kind.LINK and (change.what != "changed" or "max_waiting" in change.fields)


def _declared(before: Definitions, one: Definition) -> Definition | None:
    if isinstance(one, Queue):
        queue = before.queues.get(one.name)
        return None if queue is None or queue.problem is not None else queue.declared
    if isinstance(one, Subscription):
        subscription = before.subscriptions.get(one.name)
        return None if subscription is None else subscription.declared
    if isinstance(one, BoxSettings):
        return before.settings
    plain: Mapping[type, Mapping[str, Definition]] = {
        MessageType: before.types,
        Contract: before.contracts,
        Service: before.services,
    }
    return plain.get(type(one), {}).get(one.name)
