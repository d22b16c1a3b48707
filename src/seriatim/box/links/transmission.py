"""One exchange over a link: messages that wait here are sent and acknowledged, and messages that wait there are fetched.

Both boxes decide in SQL, by the rules of `kernel/streams.py`; an exchange carries frames between them. Each step is a transaction of its
own that is committed before the next one begins: what leaves is noted before, what is acknowledged is on disk before. So a process that
ends between any two steps leaves nothing that the next exchange doesn't repair.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from psycopg import sql

from seriatim.box.connection.access import Access
from seriatim.box.connection.round_trip import OwnConnection
from seriatim.box.links.answers import AnswerSet, FrameRefusal
from seriatim.box.links.carrier import Carrier
from seriatim.box.links.frame import Frame, Head
from seriatim.box.links.https_carrier import HttpsCarrier
from seriatim.box.links.layout import FrameKind
from seriatim.box.publishing.sql_arrivals import is_unrouted, route_pending
from seriatim.errors import DeploymentError, EnvironmentProblem, LinkProtocolError, SeriatimError, UsageError, shown
from seriatim.kernel.streams import StreamAnswer
from seriatim.pipeline.declared.link import Link
from seriatim.pipeline.files.json_form import from_json
from seriatim.pipeline.text.event_log import LOG
from seriatim.pipeline.text.section import likely

_SILENT_S = 60.0
#: The sides of dialogs that obey their inboxes before an exchange.
_DIALOGS = 1000
#: A link that fails again and again is tried that often at least.
_LONGEST_REST_S = 60.0


@dataclass(frozen=True, slots=True)
class LinkExchange:
    """The outcome of an exchange over a link.

    Args:
        link: the name of the link.
        sent: messages that left this box.
        acknowledged: messages that the other box has on disk now.
        received: messages that came from it, and are on disk here.
        more: whether another exchange would do something now.
        error: why the exchange failed, for people; None: it didn't. Messages that weren't acknowledged are sent again.
    """

    link: str
    sent: int = 0
    acknowledged: int = 0
    received: int = 0
    more: bool = False
    error: str | None = None


class Roads:
    """Open connections to other boxes, by link; closed where one fails. Not for several threads."""

    def __init__(self) -> None:
        self._carriers: dict[Link, Carrier | HttpsCarrier] = {}
        #: When the last batch left over a link, on the monotonic clock.
        self.left: dict[Link, float] = {}
        #: How often in a row a link has failed, and when it is tried again.
        self._failed: dict[Link, tuple[int, float]] = {}

    def to(self, link: Link) -> Carrier | HttpsCarrier:
        if (carrier := self._carriers.get(link)) is None:
            for other in [carrier for carrier in self._carriers if carrier.name == link.name]:
                self.drop(other)  # it was defined anew
            carrier = self._carriers[link] = Carrier(link) if link.url is None else HttpsCarrier(link)
        return carrier

    def is_silent(self, link: Link) -> bool:
        """Return whether nothing has left over a link for a while: then an empty batch tells each box of the other's state."""
        return link not in self._carriers or time.monotonic() - self.left.get(link, 0.0) > _SILENT_S

    def rests(self, link: Link) -> bool:
        """Whether a link has failed, and isn't tried again yet."""
        return time.monotonic() < self._failed.get(link, (0, 0.0))[1]

    def note(self, link: Link, *, failed: bool) -> None:
        times = self._failed.pop(link, (0, 0.0))[0]
        if failed:
            self._failed[link] = (times + 1, time.monotonic() + min(2.0**times, _LONGEST_REST_S))

    def drop(self, link: Link) -> None:
        if (carrier := self._carriers.pop(link, None)) is not None:
            carrier.close()

    def close(self) -> None:
        for link in list(self._carriers):
            self.drop(link)


def transmit(access: Access, roads: Roads, *, only: str | None = None, at_once: bool = False) -> list[LinkExchange]:
    """Exchange messages once over each link whose address this box has."""
    with access.transaction() as transaction:
        transaction.check_enabled()
        if (owner := transaction.maybe("owner", schema=access.schema)) is not None and not owner.is_owner:
            raise EnvironmentProblem(
                "only the owner of the box may transmit", where=access.place, remedy="use a DSN of the owner"
            )
        rows = transaction.rows("link_addresses", name=None)
        unrouted = is_unrouted(transaction)
        transaction.value("obey_waiting", at_most=_DIALOGS)
    if unrouted:
        route_pending(access)
    if only is not None and not any(row.name == only for row in rows):
        raise UsageError(
            f"this box has no link {shown(only)} with an address",
            remedy=likely(only, [row.name for row in rows]) or "seriatim link status",
        )
    exchanges = []
    for row in rows:
        link = from_json(Link, json.loads(row.definition))
        if only in (None, link.name) and (at_once or not roads.rests(link)):
            exchanges.append(_exchange(access, roads, link, row, at_once=at_once))
    return exchanges


def _exchange(access: Access, roads: Roads, link: Link, place: Any, *, at_once: bool) -> LinkExchange:
    """Exchange messages once over one link; a failure is noted at the link."""
    try:
        done = _Exchange(access, roads, link, place).run(at_once=at_once)
        if place.has_failed:
            with access.transaction() as transaction:
                transaction.do("note_link_failed", name=link.name, error=None)
    except SeriatimError as error:
        roads.drop(link)
        roads.note(link, failed=True)
        LOG.warning("link_failed", link=link.name, _error=error)
        with access.transaction() as transaction:
            transaction.do("note_link_failed", name=link.name, error=str(error)[:2000])
        return LinkExchange(link.name, error=str(error))
    roads.note(link, failed=False)
    return done


class _Exchange:
    """An exchange. A message that waits for its acknowledgement waits for each transaction and each call in it."""

    def __init__(self, access: Access, roads: Roads, link: Link, place: Any) -> None:
        self._access, self._link = access, link
        self._roads = roads
        self._is_silent = roads.is_silent(link)
        self._carrier = roads.to(link)
        self._link_id, self._peer, self._heard = place.link_id, place.peer, (place.peer_incarnation, place.version)

    def run(self, *, at_once: bool) -> LinkExchange:
        if self._peer is None:
            self._meet()
        sent, acknowledged, more_here = self._push(at_once=at_once)
        received, more_there = self._fetch()
        return LinkExchange(self._link.name, sent, acknowledged, received, more_here or more_there)

    def _meet(self) -> None:
        """Make the first contact: the other box returns its id."""
        with self._access.transaction() as transaction:
            request = transaction.value("link_request", of_link=self._link_id, largest=0)
        head = Frame.read(self._carrier.fetch(request)).head
        peer = head.sender
        if peer == self._access.identity.box_id:
            raise DeploymentError(
                "its other end is this box itself",
                where=f"link {self._link.name!r}",
                remedy="give the address of the other box",
            )
        with self._access.transaction() as transaction:
            transaction.do("link_met", of_link=self._link_id, peer=peer)
        self._peer = peer
        self._hear(head)

    def _push(self, *, at_once: bool) -> tuple[int, int, bool]:
        """Send waiting messages; return how many left, how many are acknowledged, and whether more can be sent."""
        with self._access.transaction() as transaction:
            batch = transaction.one("link_next", of_link=self._link_id, largest=0, at_once=at_once)
            self._request = transaction.value("link_request", of_link=self._link_id, largest=0)
        if batch.frame is None:  # another process is sending
            return 0, 0, False
        if not (self._is_silent or Frame.read(batch.frame).counts[1]):
            return 0, 0, False
        self._roads.left[self._link] = time.monotonic()
        answers = self._carrier.push(batch.frame)
        self._check(answers, FrameKind.ANSWERS)
        with self._access.transaction() as transaction:
            acknowledged = transaction.value(
                "link_answered", of_link=self._link_id, frame=answers, of_token=batch.of_token
            )
        read = AnswerSet.read(Frame.read(answers))
        if any(
            text
            for text, answer in zip(read.reasons, read.answers["answer"], strict=True)
            if answer == StreamAnswer.THROUGH
        ):
            self._warn()
        lacks = read.answers["answer"] == StreamAnswer.MISSING
        return batch.messages, acknowledged or 0, (batch.more and bool(acknowledged)) or bool(lacks.any())

    def _warn(self) -> None:
        """Log what new streams report of the other box's queues, each once."""
        with self._access.transaction() as transaction:
            warnings = transaction.value("link_warnings", of_link=self._link_id)
        for text in warnings:
            if self._access.told.is_first((self._link.name, text)):
                LOG.warning("link_groups", link=self._link.name, _text=text)

    def _fetch(self) -> tuple[int, bool]:
        """Fetch the messages that wait there; return how many came, and whether there may be more."""
        batch = self._carrier.fetch(self._request)
        frame = self._check(batch, FrameKind.BATCH)
        if not (self._is_silent or frame.counts[1]):
            return 0, False
        with self._access.transaction() as transaction:
            taken_frame = transaction.one("link_take", of_link=self._link_id, frame=batch)
        self._check(self._carrier.push(taken_frame.answers), FrameKind.ANSWERS)
        lacks = AnswerSet.read(Frame.read(taken_frame.answers)).answers["answer"] == StreamAnswer.MISSING
        return taken_frame.messages, taken_frame.messages > 0 or bool(lacks.any())

    def _check(self, data: bytes, kind: FrameKind) -> Frame:
        """Return a frame of the other box, if it is of this kind and from the box of this link."""
        frame = Frame.read(data)
        if frame.kind == FrameKind.REFUSAL:
            raise self._wrong(f"the other box refuses: {FrameRefusal.read(frame).reason}", "what waits is sent again")
        if frame.head.sender != self._peer:
            raise self._wrong(
                f"the box {frame.head.sender} answers in place of {self._peer}",
                "is the address right? a copy with a new id is another box: make another link to it",
            )
        self._hear(frame.head)
        if frame.kind != kind:
            raise self._wrong("the other box answers something else than was asked", "look at its version")
        return frame

    def _hear(self, head: Head) -> None:
        """Note the incarnation of the other box, and the highest version that it reads."""
        told = head.incarnation, head.versions[1]
        if told == self._heard:
            return
        with self._access.transaction() as transaction:
            refused = transaction.value("link_heard", of_link=self._link_id, incarnation=told[0], highest=told[1])
        if refused is not None:
            raise self._wrong(f"this box refuses the other one: {refused}", "seriatim doctor")
        self._heard = told

    def _wrong(self, problem: str, remedy: str) -> LinkProtocolError:
        return LinkProtocolError(problem, where=f"link {self._link.name!r}", remedy=remedy)


_NOTICE_END_S = 0.1


def await_work(access: Access, most_s: float, ends: Callable[[], bool], *, looks: bool) -> None:
    """Wait until something may be sent, for `most_s` seconds at most. `looks`: also look for what came since the last exchange."""
    until = time.monotonic() + most_s
    with access.transaction() as transaction:
        connection = transaction.connection
        if isinstance(connection, OwnConnection) and connection.is_pooled:
            while not ends() and (left_s := until - time.monotonic()) > 0:
                time.sleep(min(left_s, _NOTICE_END_S))
            return
        channel = sql.Identifier(f"seriatim_{connection.info.backend_pid}")
        connection.execute(sql.SQL("LISTEN {}").format(channel))
        transaction.do("register_transmitter")
        transaction.commit()
        # A message from before the registration notifies nobody.
        due_s = transaction.value("link_due") if looks else None
        transaction.commit()
        until = min(until, time.monotonic() + (most_s if due_s is None else max(due_s, 0.0)))
        while not ends() and (left_s := until - time.monotonic()) > 0:
            if any(True for _ in connection.notifies(timeout=min(left_s, _NOTICE_END_S), stop_after=1)):
                break
        connection.execute(sql.SQL("UNLISTEN {}").format(channel))
        transaction.do("unregister_transmitter")
