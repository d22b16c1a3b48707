"""`Publisher`: route the messages of a call, find room in their queues, and store all or none."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from seriatim.box.connection.access import Access, Transaction
from seriatim.box.connection.fast_paths import EARLY_COMMIT, SINGLE_ROUND_TRIP, PublishCall
from seriatim.box.connection.round_trip import OwnConnection, is_idle, transact
from seriatim.box.connection.wait_time import patience
from seriatim.box.definitions.correlation import looking
from seriatim.box.definitions.definition import BoxQueue, Definitions
from seriatim.box.definitions.route import Routed, router_of
from seriatim.box.definitions.unique import check_keys
from seriatim.box.notice import KeptOut
from seriatim.box.postgres.array_text import written
from seriatim.box.postgres.statements import statement
from seriatim.box.publishing.batch import (
    check_all,
    distinct,
    gate_places_of,
    keys_of,
    listed,
    parameters_of,
    parameters_of_one,
    portions,
)
from seriatim.box.publishing.publish_result import Destinations, Published
from seriatim.box.publishing.queue_room import NO_ROOM, FullQueue, full
from seriatim.box.publishing.slips import has_slips, log_slips, refuse_slips, with_awaited
from seriatim.box.traces import TRACES
from seriatim.errors import UsageError, shown
from seriatim.kernel.values.time import micros
from seriatim.pipeline.declared.box_settings import checked_unrouted
from seriatim.pipeline.text.event_log import LOG
from seriatim.pipeline.types.box_properties import TRACE, UNIQUE_KEY
from seriatim.pipeline.types.message import Message

_LONGEST_DELAY_US = 10_000 * 86_400 * 10**6
#: In some time zones the first moments of the year 1 are none that can be shown.
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
#: How long publishers wait for room, and the shortest and longest pause between two checks. They aren't notified, because each
#: receiver that completes messages would have to check whether publishers wait.
PATIENCE_S, _SHORT_NAP_S, _LONG_NAP_S = 30.0, 0.01, 0.25
#: A publisher that waits longer logs it, seconds.
_PATIENT_S = 1.0


class _TakenIn(NamedTuple):
    """The messages that were left out, by their places from 1."""

    known: Sequence[int]
    #: The messages in whose place another one waits, with its id.
    waiting: Mapping[int, str]

    @classmethod
    def of_unique(cls, answer: Sequence[str | None]) -> _TakenIn:
        known = [place for place, reply in enumerate(answer, 1) if reply == ""]
        return cls(known, {place: reply for place, reply in enumerate(answer, 1) if reply})


_ALL_TAKEN_IN = _TakenIn((), {})


class Publisher:
    def __init__(
        self,
        access: Access,
        messages: Message | Iterable[Message],
        *,
        delay: float | str | None,
        visible_at: datetime | None,
        wait: float | str,
        own: bool,
        once: bool = False,
        unique: str | None = None,
        unrouted: str | None = None,
        carried: bool = False,
        in_hand: Sequence[int] = (),
        here: bool = False,
        is_request: bool = False,
    ) -> None:
        self._access = access
        self._schema = access.schema
        self._given: Sequence[Message] = listed(messages) if unique is None else _with_key(listed(messages), unique)
        self._given = traced(self._given)
        self._fresh = distinct(self._given)
        self._moment = _seen_from(delay, visible_at)
        self._wait_s = patience(wait)
        #: Whether the transaction is ours; False: the caller began it.
        self._own = own
        self._once = once
        #: Whether the messages may carry the origin that a session has given them.
        self._carried = carried
        #: The entries whose results the messages are, if they are on the way to a gate.
        self._in_hand = in_hand
        #: Whether an application gives them to this box: a queue of two regions refuses that.
        self._here = here
        self._is_request = is_request
        self._unrouted = access.unrouted if unrouted is None else checked_unrouted(unrouted)

    def publish(self, transaction: Transaction) -> Published:
        transaction.check_enabled()
        fresh, until = self._fresh, time.monotonic() + self._wait_s
        routed = self._admitted(transaction, fresh, until, read=False)
        runs = portions(fresh)
        if len(runs) > 1:
            check_all(routed)  # before the first of them is sent: the call takes in all or nothing
        if self._once or len(runs) <= 1:
            return self._taken_in(transaction, routed, runs, until)
        if is_idle(transaction.connection):
            transaction.value("version")  # begins the transaction: without one this would be more than a savepoint
        with transaction.connection.transaction():
            return self._taken_in(transaction, routed, runs, until)

    def _taken_in(
        self, transaction: Transaction, routed: Routed, runs: Sequence[tuple[int, int]], until: float
    ) -> Published:
        fresh, begun = self._fresh, 0
        ids = [message.message_id for message in self._given]
        own_ids = ids if len(ids) == len(fresh) else [message.message_id for message in fresh]
        known: set[str] = set()
        waiting: dict[str, str] = {}
        earlier: list[Destinations] = []
        definitions = self._access.known.definitions
        for begin, end in runs:
            while (result := self._take_in(transaction, routed, begin - begun, end - begun, len(runs))) is None:
                # The definitions have changed: the rest is routed by the new ones.
                earlier.append((own_ids[begun:begin], routed.entries, definitions))
                routed, begun = self._admitted(transaction, fresh[begin:], until, read=True), begin
                definitions = self._access.known.definitions
            if result is not _ALL_TAKEN_IN:
                known.update(own_ids[begin + place - 1] for place in result.known)
                waiting.update({own_ids[begin + place - 1]: waiting_id for place, waiting_id in result.waiting.items()})
        if begun or has_slips(routed):
            transaction.notice(KeptOut(own_ids))
            log_slips(self._access, routed, definitions)
        destinations = (*earlier, (own_ids[begun:] if begun else own_ids, routed.entries, definitions))
        if not (known or waiting or len(ids) > len(fresh)):
            return Published(ids, (), destinations)
        left_out = _left_out(ids, known | waiting.keys())
        return Published([waiting.get(id_, id_) for id_ in ids], left_out, destinations, waiting)

    def _take_in(self, transaction: Transaction, routed: Routed, begin: int, end: int, runs: int) -> _TakenIn | None:
        """Take some messages of a batch in; None: the definitions have changed. `runs`: how many such statements the call takes."""
        name, parameters = "take_in_one", parameters_of_one(routed, begin, end)
        if parameters is None:
            name, parameters = "take_in", parameters_of(routed, begin, end)
            if (keys := keys_of(routed, begin, end)) is not None:
                name, parameters = "take_in_unique", parameters | {"entry_keys": keys}
            else:
                parameters |= gate_places_of(routed, begin, end)
            parameters = written(parameters)
        tells = router_of(self._access.known.definitions).wants_failures
        own = transaction.connection if isinstance(transaction.connection, OwnConnection) else None
        call = PublishCall(own, self._once, runs, tells)
        alone = SINGLE_ROUND_TRIP.applies(call)
        flush = alone and EARLY_COMMIT.applies(call)
        parameters.update(self._moment, by_itself=alone, flushed=flush)
        if own is not None and alone:
            answer = transact(own, (statement(name, self._schema, *parameters), parameters), flush=flush)
        else:
            answer = transaction.value(name, **parameters)
        if answer is None:
            return None
        if isinstance(answer, bool):  # of one message: whether it is taken in
            return _ALL_TAKEN_IN if answer else _TakenIn((1,), {})
        if not answer:  # as nearly always
            return _ALL_TAKEN_IN
        return _TakenIn.of_unique(answer) if name == "take_in_unique" else _TakenIn(answer, {})

    def _admitted(self, transaction: Transaction, messages: Sequence[Message], until: float, *, read: bool) -> Routed:
        """Messages with their entries, after waiting until all their queues have room."""
        known = self._access.known
        nothing_done = self._own and is_idle(transaction.connection)
        definitions = known.definitions
        if read or definitions.version < 0:
            definitions = known.read(transaction)
            if nothing_done:
                transaction.connection.commit()  # only looked
        definitions, routed = self._routed_by_now(transaction, messages, definitions, nothing_done=nothing_done)
        nap_s, says_at = _SHORT_NAP_S, time.monotonic() + _PATIENT_S
        while definitions.limited:
            without = full(transaction, definitions, routed, self._in_hand)
            if not without:
                break
            if (now := transaction.definitions()).version != definitions.version:
                definitions, routed = now, self._routed(transaction, messages, now)
                continue
            if not isinstance(without, FullQueue):
                return routed.refusing(without, NO_ROOM)
            left_s = until - time.monotonic()
            if left_s <= 0 or not without.may_wait:
                raise without.error()
            if time.monotonic() >= says_at:
                says_at = math.inf
                LOG.warning("publish_awaits_room", seconds=left_s, _error=without.error())
            if nothing_done:
                transaction.connection.rollback()  # so that nothing waits for a transaction that naps
            time.sleep(min(nap_s, left_s))
            nap_s = min(2 * nap_s, _LONG_NAP_S)
        return routed

    def _routed_by_now(
        self, transaction: Transaction, messages: Sequence[Message], definitions: Definitions, *, nothing_done: bool
    ) -> tuple[Definitions, Routed]:
        """Route messages; if the definitions refuse a message and are outdated, route by the present definitions."""
        try:
            return definitions, self._routed(transaction, messages, definitions)
        except UsageError:
            now = transaction.definitions()
            if nothing_done:
                transaction.connection.commit()  # only looked
            if now.version == definitions.version:
                raise
            # The process's definitions were old: it may route again, and refuses nothing.
            return now, self._routed(transaction, messages, now)

    def _routed(self, transaction: Transaction, messages: Sequence[Message], definitions: Definitions) -> Routed:
        router = router_of(definitions)
        moment = transaction.value("moment") if router.needs_time else None
        routed = router.route(messages, moment, looking(transaction), carried=self._carried)
        if routed.entries.keys is not None:
            check_keys(routed.entries, routed.typed.messages)
        if self._here and definitions.regional:
            _refuse_here(transaction, definitions.regional, set(routed.entries.queue_ids))
        if has_slips(routed):
            routed = with_awaited(transaction, routed)
            # By the call, or the opening of the box; or by the settings of the box.
            refuses = definitions.refuses if self._unrouted is None else self._unrouted == "refuse"
            if refuses and has_slips(routed):
                refuse_slips(routed, definitions)
        if self._is_request:
            _refuse_regions(routed, definitions)
        return routed


def _refuse_here(transaction: Transaction, regional: Mapping[int, BoxQueue], reached: set[int]) -> None:
    """Refuse messages for queues of two regions, which one box alone can't number; a role that lacks the right is told that."""
    queue_ids = sorted(reached & regional.keys())
    if queue_ids:
        transaction.value("room_in", of_queues=queue_ids, mosts=[0] * len(queue_ids))
        error = regional[queue_ids[0]].published_here()
        error.queues = frozenset(regional[queue_id].declared.name for queue_id in queue_ids)
        raise error


def _refuse_regions(routed: Routed, definitions: Definitions) -> None:
    """Refuse a request to a queue of two regions: its reply may come in either of them."""
    reached = set(routed.entries.queue_ids)
    for name, queue in definitions.queues.items():
        if queue.queue_id in reached and queue.regions is not None:
            raise UsageError(
                f"queue {name!r} is one of the regions {queue.regions!r}, and takes no requests",
                remedy="request from a queue of this box alone",
            )


def _with_key(messages: Sequence[Message], unique: str) -> list[Message]:
    if len(messages) != 1 or not isinstance(messages[0], Message):
        raise UsageError(
            f"unique is the key of one message, and there are {len(messages):,}",
            remedy=f"give each message its own, as the property {UNIQUE_KEY!r}",
        )
    if not isinstance(unique, str):
        raise UsageError(f"unique can't be {shown(unique, 80)}", remedy="text", argument="unique")
    context = messages[0].context
    if context.get(UNIQUE_KEY, unique) != unique:
        raise UsageError(
            f"the message has another {UNIQUE_KEY}: {shown(context[UNIQUE_KEY], 80)}", remedy="give one of them"
        )
    return [replace(messages[0], context={**context, UNIQUE_KEY: unique})]


def _left_out(ids: Sequence[str], known: Collection[str]) -> list[str]:
    """The ids to leave out: all messages with a known id, and repetitions of an id within the call."""
    seen: set[str] = set()
    left = []
    for id_ in ids:
        if id_ in known or id_ in seen:
            left.append(id_)
        seen.add(id_)
    return left


def _seen_from(delay: float | str | None, visible_at: datetime | None) -> dict[str, str | None]:
    """The parameters for the time from which messages are handed out."""
    if delay is not None and visible_at is not None:
        raise UsageError("delay and visible_at can't be combined", remedy="give one of them")
    if visible_at is not None:
        visible_at = _moment(visible_at)
    period_us = 0 if delay is None else micros(delay)
    if not 0 <= period_us <= _LONGEST_DELAY_US:
        raise UsageError(f"a delay can't be {shown(delay)}", remedy="from 0 to 10,000 days")
    return {
        "visible_at": None if visible_at is None else visible_at.isoformat(),
        "delay": f"{period_us} microseconds" if period_us else None,
    }


def _moment(value: object) -> datetime:
    """Return the time before which messages aren't handed out, in UTC; 1970 for a time in the past."""
    if not isinstance(value, datetime):
        raise UsageError(f"{shown(value)} is not a time", remedy="give a datetime")
    try:
        moment = value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
        if moment <= datetime.now(UTC) + timedelta(microseconds=_LONGEST_DELAY_US):
            return max(moment, _LONG_AGO)
    except OverflowError:  # UTC has no such moment
        pass
    raise UsageError(f"visible_at can't be {value}", remedy="at most 10,000 days from now")


def traced(messages: Sequence[Message]) -> Sequence[Message]:
    """Return messages with the present trace, where they have none."""
    if TRACES.tracing is None or not (trace := TRACES.tracing.published()):
        return messages
    return [
        message
        if not isinstance(message, Message) or message.context.keys() & TRACE.keys()
        else replace(message, context={**message.context, **trace})
        for message in messages
    ]
