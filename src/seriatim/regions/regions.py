"""`Regions`: the boxes of two regions and the journal that both share: define their queues, and publish to both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any, Literal, Self, TypeVar

import psycopg

from seriatim.box.box import MessageBox
from seriatim.box.connection.connections import DEFAULT_SCHEMA, Closing
from seriatim.box.definitions.change import Change
from seriatim.box.definitions.define import define
from seriatim.box.operators.operator_log import Operator
from seriatim.box.publishing.batch import distinct, listed
from seriatim.errors import NotFound, Unavailable, UsageError, shown
from seriatim.kernel.values.time import micros
from seriatim.pipeline.text.event_log import LOG
from seriatim.pipeline.text.name import checked_name
from seriatim.pipeline.types.message import Message
from seriatim.regions.box_role import begin, take_bounds, take_queues
from seriatim.regions.box_votes import LedElsewhere
from seriatim.regions.closing import ForgottenSessions, forget_before
from seriatim.regions.conflicts import settle
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.operators import Recovery
from seriatim.regions.journal.schema import DEFAULT_SCHEMA as JOURNAL_SCHEMA
from seriatim.regions.journal.values import QueueRules
from seriatim.regions.outbox import Copied, copy_outbox, noted, report
from seriatim.regions.pair import REGIONS, Pair
from seriatim.regions.party import Party
from seriatim.regions.recovering import Progress, recover
from seriatim.regions.regional_queue import declared_of
from seriatim.regions.reserving import Reserving
from seriatim.regions.restoring import restore
from seriatim.regions.resubmitting import Resubmitted, resubmit
from seriatim.regions.seeing import Difference, RegionsStatus, differences, status_of
from seriatim.regions.sending import Sending, Sent, send_in
from seriatim.regions.waiting import send_waiting, wait_in

#: The portions of one outbox that are copied before other work between the regions gets its turn.
_TURN = 4
#: A report counts all waiting messages, so other work gets this many times the duration of a report before the next one.
_REST = 10
#: Definitions may wait for publishers, and a schema is made at first use.
_DEFINING_S = 60.0
_Given = TypeVar("_Given", bound=Closing)


class Regions(Closing):
    """Two message boxes in two regions, and the journal that both share. Senders go on while any two of the three are there.

    The boxes and the journal are opened at first use; the journal's schema is made then. Threads may share the object.

    Args:
        primary: the box of region ``a``: a DSN as for `MessageBox.open`, or an open `MessageBox`.
        secondary: the box of region ``b``.
        journal: the DSN of the journal's database, which both regions reach, or an open `Journal`.
        name: the name of the regions; a journal can serve several, and a box can be in several.
        prefer: seconds (or ``"15s"``) for which region ``a`` has a message alone: the copy in the other box is handed out after that. None:
            both regions are active, and each session has its home in one.
        patience: seconds (or ``"1s"``) for which a box or the journal may take for one step, before it counts as away.
        retry_after: seconds for which a party that was away isn't asked again.
        numbers: None: messages bring their numbers, or one sender of a session at a time gets the next ones. ``"journal"``: the journal
            gives them out, to several senders of a session.
        confirm: ``"two"``: `publish` returns when two of the three know a number; ``"one"``: when one box does, with numbers of the
            sender's own.
        spread: without `prefer`: seconds (or ``"1s"``) for which the home of a session has a message alone.
        schema: the schema of the boxes that are opened here.
        journal_schema: the schema of the journal that is opened here.

    Raises:
        UsageError: an argument is invalid.
    """

    def __init__(
        self,
        primary: str | MessageBox,
        secondary: str | MessageBox,
        journal: str | Journal,
        *,
        name: str = "regions",
        prefer: float | str | None = "15s",
        patience: float | str = "1s",
        retry_after: float | str = "5s",
        numbers: Literal["journal"] | None = None,
        confirm: Literal["two", "one"] = "two",
        spread: float | str = "1s",
        schema: str = DEFAULT_SCHEMA,
        journal_schema: str = JOURNAL_SCHEMA,
    ) -> None:
        self._name = checked_name(name, "the name of regions")
        if numbers not in (None, "journal"):
            raise UsageError(f"numbers can't be {shown(numbers, 80)}", remedy='None or "journal"')
        if confirm not in ("two", "one"):
            raise UsageError(f"confirm can't be {shown(confirm, 80)}", remedy='"two" or "one"')
        if numbers == "journal" and confirm == "one":
            raise UsageError('confirm="one" needs numbers of the sender\'s own', remedy="leave out one of them")
        self._numbers, self._confirm = numbers, confirm
        prefer_us = None if prefer is None else _period("prefer", prefer)
        spread_us = _period("spread", spread)
        patience_s = _period("patience", patience) / 1_000_000
        retry_after_s = _period("retry_after", retry_after) / 1_000_000
        if patience_s <= 0:
            raise UsageError("patience can't be 0: no party would be there", remedy="such as 1 second")
        for noun, party in (("primary", primary), ("secondary", secondary)):
            if not isinstance(party, str | MessageBox):
                raise UsageError(f"{noun} is {type(party).__name__}", remedy="give a DSN, or a MessageBox")
        if not isinstance(journal, str | Journal):
            raise UsageError(f"journal is {type(journal).__name__}", remedy="give a DSN, or a Journal")
        self._boxes = {
            region: _party(
                f"region {region}", party, partial(MessageBox.open, schema=schema), patience_s, retry_after_s
            )
            for region, party in zip(REGIONS, (primary, secondary), strict=True)
        }
        opened = partial(Journal.open, schema=journal_schema, patience=patience_s)
        self._journal = _party("the journal", journal, opened, patience_s, retry_after_s)
        self._pair = Pair(name, self._boxes, self._journal, prefer_us, spread_us)
        #: The copies that waited in the last pass, so that they are logged once.
        self._waiting: dict[str, set[str]] = {}

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """The regions that a file declares; see ``docs/reference/regions.md``. Nothing is opened or defined.

        Raises:
            DeclarationError: the file is wrong; the error names the lines.
        """
        from seriatim.regions.regions_file import load  # noqa: PLC0415 -- the readers of YAML, where there is a file

        return cls(**load(path).arguments)

    @property
    def name(self) -> str:
        """The name of the regions."""
        return self._name

    def box(self, region: str) -> MessageBox:
        """The box of a region, ``"a"`` or ``"b"``.

        Raises:
            UsageError: there is no such region.
            EnvironmentProblem, Unavailable: it can't be opened now.
        """
        return self._party(region).resource

    @property
    def journal(self) -> Journal:
        """The journal.

        Raises:
            Unavailable: it can't be opened now.
        """
        return self._journal.resource

    def region_of(self, box: MessageBox) -> str | None:
        """The region whose box this is, ``"a"`` or ``"b"``; None: that can't be said now, because a box is away.

        Raises:
            UsageError: it is neither.
        """
        is_unsure = False
        for region, party in self._boxes.items():
            try:
                if party.call(lambda box: box.id, anyway=True) == box.id:
                    return region
            except Unavailable:
                is_unsure = True
        if is_unsure:
            return None
        raise UsageError(
            f"the box is neither of the regions {self._name!r}",
            where=box.access.place,
            remedy="name the box of one of the regions, or other regions",
        )

    def rules(self, queue: str) -> QueueRules:
        """Return both regions' reports on a queue, as the journal has them.

        Raises:
            UsageError: the journal doesn't know it.
            Unavailable: the journal is away.
        """
        return self._journal.call(lambda journal: journal.rules(self._name, queue), anyway=True)

    def define(self, *things: object) -> dict[str, list[Change]]:
        """Define the same in both boxes, and the rules of queues in the journal. A repeated call changes nothing. All three have to be
        there.

        Args:
            things: `RegionalQueue`, `Subscription`, `MessageType`, `Location` and `BoxSettings`; a `Queue` that decides nothing is one,
                too.

        Returns:
            the changes in each box, by region.

        Raises:
            UsageError: something can't be defined in two regions; a queue would decide in one box; both regions are one box; or a queue
                begins otherwise in the journal.
            Unavailable: a box or the journal is away.
        """
        declared = declared_of(things)
        self._check_different()

        def in_journal(journal: Journal) -> dict[str, int]:
            for queue, rules in declared.rules.items():
                journal.define(self._name, queue, rules)
            return {region.region: region.incarnation for region in journal.regions(self._name)}

        known = self._journal.call(in_journal, patience_s=_DEFINING_S, anyway=True)
        over = self._journal.call(lambda journal: journal.over_before(self._name))
        defined = {}
        for region, party in self._boxes.items():
            changes, incarnation = party.call(
                partial(
                    self._define_in, region, declared.definitions, list(declared.rules), known.get(region, 0), over
                ),
                patience_s=_DEFINING_S,
                anyway=True,
            )
            defined[region] = changes
            if region not in known:
                self._journal.call(partial(Journal.fence, name=self._name, region=region, incarnation=incarnation))
        self._pair.forget()  # this process's definitions are old
        return defined

    def publish(
        self, messages: Message | Iterable[Message], *, connection: psycopg.Connection | None = None
    ) -> list[Sent]:
        """Publish messages to both regions. It returns when two of the three know the number of each: box a, box b, the journal.

        The messages of a session are sent together or not at all. After `Unavailable` some may be sent: publish the same again, under the
        same ids.

        Args:
            messages: a message, or messages in the order of their sessions. Either all of a session have their numbers, or none; then they
                get the next ones.
            connection: the caller's psycopg connection to the database of one of the boxes. The messages, with numbers of their own or of
                the journal, are then a part of the caller's transaction, and come to the other box after its commit; nothing is promised
                before. A number of the journal is kept for 10 s: a message whose transaction commits later gets another one, and all of
                them are handed out when somebody has tended the regions.

        Returns:
            for each message its number, and who knows it, in the order of the messages.

        Raises:
            UsageError: a message isn't one, or goes to no queue of the regions or to another one; a session is null; a session has a number
                twice; a message id has another number.
            NumberRefused: another message has the number, or a higher one: is another sender at work on the session?
            Unavailable: two of the three are away.
        """
        fresh = distinct(listed(messages))
        if connection is not None:
            return self._publish_in(fresh, connection)
        parties: tuple[Party[Any], ...] = (*self._boxes.values(), self._journal)
        believed_away = [party for party in parties if party.is_away]
        try:
            published = self._publish(fresh)
        except Unavailable:
            if not believed_away:
                raise
            for party in believed_away:  # they may be back; messages have ids, so none is sent twice
                party.ask_again()
            published = self._publish(fresh)
        self._journal.keep_warm(Journal.touch)
        return published

    def _publish(self, messages: Sequence[Message]) -> list[Sent]:
        try:
            return self._sending().send(messages)
        except LedElsewhere:
            self._pair.routing(anew=True)  # the definitions have changed since this process read them
            return self._sending().send(messages)

    def _publish_in(self, messages: Sequence[Message], connection: psycopg.Connection) -> list[Sent]:
        if not messages:
            return []
        region = self._region_of(connection)
        with self._boxes[region].resource.session(connection=connection) as session:
            send = wait_in if self._numbers == "journal" else send_in
            return send(session.transaction, self._pair, region, messages)

    def _region_of(self, connection: psycopg.Connection) -> str:
        whys = []
        for region, party in self._boxes.items():
            try:
                access = party.call(lambda box: box.access, anyway=True)
                access.identity.check(connection, access.connect)
            except (UsageError, Unavailable) as error:
                whys.append(str(error))
            else:
                return region
        raise UsageError(
            f"the connection leads to no box of these regions: {'; '.join(whys)}",
            remedy="give a connection to the database of one of the boxes",
        )

    def tend(self, *, progress: Callable[[], object] | None = None) -> list[Copied]:
        """Do once what is to be done between the regions: let a restored box learn, copy what the other box lacks, settle which of two
        messages with one number goes on, and report to the journal.

        ``seriatim regions run`` and ``seriatim serve --regions`` do it each second. Any number of processes may. A party that is away is
        tried the next time.

        Args:
            progress: is called after each portion that was copied.

        Returns:
            for each region what became of its outbox.
        """
        for region in REGIONS:
            restore(self._pair, region, patience_s=_DEFINING_S, progress=progress)
        copied = [Copied(region) for region in REGIONS]
        outboxes = [copy_outbox(self._pair, part) for part in copied]
        report_at = monotonic()
        while outboxes:
            for part in copied:
                with noted(part):
                    send_waiting(self._pair, part.region, part)
            outboxes = [one for one in outboxes if _has_more(one, progress)]
            begun = monotonic()
            is_due = not outboxes or begun >= report_at
            for part in copied:
                with noted(part):
                    settle(self._pair, part.region)
                    if is_due:
                        report(self._pair, part.region)
            if is_due:
                report_at = monotonic() + _REST * (monotonic() - begun)
        for part in copied:
            self._log_waiting(part)
        return copied

    def recover(
        self,
        *,
        actor: str,
        reason: str,
        without: Sequence[str] = (),
        known: Mapping[str, Mapping[str, int]] | None = None,
        progress: Progress | None = None,
    ) -> Recovery:
        """Recover the journal after a restore, or a failover that lost something: before workers go on.

        All claims end, a new incarnation begins, and the journal learns from both boxes which numbers are known, and which are over. A
        recovery that was interrupted is repeated. For many sessions give the regions a `patience` of some seconds.

        Args:
            actor: who does it, for the operator log.
            reason: why.
            without: regions whose boxes are gone, or away, and aren't asked. Numbers that only such a box knows to be over may be handed
                out once more.
            known: numbers that are known to be over besides: for each queue, through which number of each session.
            progress: is called after each portion: how many sessions were read so far, and how many there are.

        Raises:
            UsageError: there is no such region; a box isn't one of these regions; or the journal doesn't know a queue.
            Unavailable: the journal is away, or the box of a region that isn't in `without`.
        """
        return recover(self._pair, actor=actor, reason=reason, without=without, known=known, progress=progress)

    def forget(self, queue: str, before: str, *, actor: str, reason: str) -> ForgottenSessions:
        """Forget all sessions of a queue whose keys come before one, in both boxes and in the journal.

        From the call on they take no messages: `publish` refuses those, for ever. Both regions work off the messages that they have
        of them; when none is left the rows of these sessions are deleted, and the one key stays in their place. Use it for keys that
        ascend with time, such as dates, UUIDs of version 7 or ULIDs, of sessions that are used once. Keys are compared by their UTF-8
        bytes. Both boxes and the journal have to be there. A call that was interrupted, or found something left, is repeated.

        Args:
            queue: the queue.
            before: the first key whose session stays.
            actor: who does it, for the operator log of the journal.
            reason: why.

        Returns:
            how many sessions were forgotten where, and what is left of them.

        Raises:
            UsageError: the regions have no such queue; or `before`, `actor` or `reason` is empty.
            Unavailable: a box or the journal is away.
        """
        return forget_before(self._pair, queue, before, Operator(actor, reason))

    def resubmit(
        self, message_id: str, *, actor: str, reason: str, queue: str | None = None, number: int | None = None
    ) -> Resubmitted:
        """Publish the content of a dead letter again, under another id and another number, and delete the dead letter in both boxes.

        The other id is the same at each attempt, so a call that was interrupted is repeated.

        Args:
            message_id: the id of the dead letter.
            actor: who does it, for the operator logs of the journal and the boxes.
            reason: why.
            queue: its queue; None: the only one in which it is a dead letter.
            number: the number that it gets; None: the next one of its session. A sender that numbers the session itself goes on behind it.

        Raises:
            UsageError: neither box has such a dead letter, or several queues have it; or as for `publish`.
            NumberRefused: another message has the number, or a higher one.
            Unavailable: two of the three are away.
        """
        return resubmit(self._pair, self.publish, message_id, queue, number, Operator(actor, reason))

    def status(self, *, limit: int = 100) -> RegionsStatus:
        """See both regions and the journal: the messages that wait for the other region, and their age; sessions by state; and what
        sessions that stand wait for.

        Args:
            limit: the largest number of standing sessions to return.
        """
        return status_of(self._pair, limit)

    def check(self, *things: object) -> list[Difference]:
        """Compare the message types, queues and subscriptions of both boxes, and the rules of queues in the journal.

        Args:
            things: the definitions of both, as for `define`; none: only what is there is compared.

        Returns:
            the differences.

        Raises:
            Unavailable: a box or the journal is away.
        """
        declared = declared_of(things)
        return differences(self._pair, declared.definitions, declared.rules)

    def _log_waiting(self, copied: Copied) -> None:
        if copied.waiting and copied.waiting.keys() != self._waiting.get(copied.region):
            LOG.warning(
                "region_copies_wait",
                region=copied.region,
                messages=len(copied.waiting),
                _why=next(iter(copied.waiting.values())),
            )
        self._waiting[copied.region] = set(copied.waiting)

    def _sending(self) -> Sending | Reserving:
        if self._numbers == "journal":
            return Reserving(self._pair)
        return Sending(self._pair, 1 if self._confirm == "one" else 2)

    def close(self) -> None:
        """Close the boxes and the journal that were opened here."""
        for box in self._boxes.values():
            box.close()
        self._journal.close()

    def _define_in(
        self,
        region: str,
        definitions: Iterable[object],
        queues: list[str],
        known: int,
        over: Mapping[str, str],
        box: MessageBox,
    ) -> tuple[list[Change], int]:
        with box.access.transaction() as transaction:
            transaction.check_enabled()
            changes = define(transaction, definitions)  # type: ignore[arg-type]  # checked by `declared_of`
            role = begin(transaction, self._name, region, known)
            take_queues(transaction, self._name, queues)
            if over:  # also where a queue is made anew whose name the journal knows
                take_bounds(transaction, self._name, over)
            return changes, role.incarnation

    def _check_different(self) -> None:
        first, second = (
            party.call(lambda box: (box.id, box.access.place), patience_s=_DEFINING_S, anyway=True)
            for party in self._boxes.values()
        )
        if first[0] == second[0]:
            raise UsageError(
                f"both regions are one box: {first[1]} and {second[1]}",
                remedy="give two boxes; a copy of a box needs an id of its own: seriatim box new-id",
            )

    def _party(self, region: str) -> Party[MessageBox]:
        if region not in self._boxes:
            raise NotFound(f"there is no region {shown(region, 80)}", remedy='"a" (the primary) or "b"')
        return self._boxes[region]

    def __repr__(self) -> str:
        return f"<Regions {self._name!r}>"


def _has_more(outbox: Iterator[None], progress: Callable[[], object] | None) -> bool:
    """Copy some portions; return whether more may be left."""
    for _ in range(_TURN):
        if next(outbox, False) is False:
            return False
        if progress is not None:
            progress()
    return True


def _period(noun: str, value: float | str) -> int:
    period = micros(value)
    if period < 0:
        raise UsageError(f"{noun} can't be negative", remedy='seconds, or such as "1s"')
    return period


def _party(
    name: str, given: _Given | str, opened: Callable[[str], _Given], patience_s: float, retry_after_s: float
) -> Party[_Given]:
    if not isinstance(given, str):
        return Party(name, lambda: given, lambda _: None, patience_s, retry_after_s)
    return Party(name, lambda: opened(given), lambda resource: resource.close(), patience_s, retry_after_s)
