"""`ReceivePort`: take messages from a source, publish them into the box, commit, and only then acknowledge them.

A partition of the source is read by the process that holds its row in the box. Each commit changes that row by the holder's token and the
position that it knows, so a process that has lost either, perhaps without knowing, commits nothing more.
"""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from seriatim.box.box import MessageBox
from seriatim.box.definitions.definition import Definitions
from seriatim.box.measures import MEASURES, Measure
from seriatim.box.postgres.translate import is_forbidden
from seriatim.box.workers.own_session import own_session
from seriatim.errors import EnvironmentProblem, QueueFull, SeriatimError, Unavailable, UsageError, is_whole, shown
from seriatim.kernel.groups.policy import Fifo
from seriatim.kernel.values.time import micros, seconds
from seriatim.pipeline.declared.location import checked_location
from seriatim.pipeline.text.counted import counted
from seriatim.pipeline.text.event_log import LOG
from seriatim.pipeline.types.box_properties import OWN
from seriatim.pipeline.types.message import Message, with_context
from seriatim.runtime.ports.port_text import source_of
from seriatim.runtime.ports.source import Outcome, Source, SourceAway, Taken
from seriatim.runtime.stop_signal import Stop

#: Seconds: between claims of partitions that another process holds; the longest wait for a message; the first and the longest pause
#: after a failure; how long what was taken is held while a queue is full.
_CLAIM_S, _WAIT_S, _PAUSE_S, _LONGEST_PAUSE_S, _HELD_S = 1.0, 0.25, 0.25, 10.0, 30.0
#: Bytes of bodies in one transaction, unless one message has more.
_MOST_BYTES = 16 * 2**20
_SHORTEST_LEASE_S, _LONGEST_LEASE_S = 2.0, 3600.0
#: A port that hasn't got through a round for so long isn't ready, seconds.
_LATE_S = 15.0


class _Lost(Exception):
    """The box has a partition for another process, or at another position; the transaction is rolled back."""


@dataclass(slots=True)
class _Held:
    token: int
    kept_at: float
    #: Where the box is, as far as this process knows.
    position: Any


@dataclass(slots=True)
class _Full:
    """A partition for whose next message a queue has no room."""

    since: float
    #: What was taken of it, in order.
    pending: list[Taken]
    tried_at: float
    #: The message for which there is no room, while its source has it back; None: it is pending.
    probe: Message | None = None


class ReceivePort:
    """A port through which messages come into a box.

    Args:
        box: the box.
        port: the source, as text (``mllp: {listen: …}``) or as a `Source`.
        name: its name, under which processes share its partitions; it is the location of its messages. Default: the text's ``name``, or
            one made of the kind and the source.
        batch: the most messages in one transaction.
        lease: seconds, or ``"15s"``: after that another process takes over the partitions of a lost one.

    Raises:
        UsageError: the text or a parameter is wrong.
        MissingExtra: the extra of the port isn't installed.
    """

    def __init__(
        self,
        box: MessageBox,
        port: str | Source,
        *,
        name: str | None = None,
        batch: int = 500,
        lease: float | str = "15s",
    ) -> None:
        self._box = box
        if not isinstance(port, str | Source):
            raise UsageError(
                f"port can't be {shown(port, 80)}", remedy="text such as 'mllp: {listen: 127.0.0.1:2575}', or a source"
            )
        self._source = source_of(port) if isinstance(port, str) else port
        if not is_whole(batch, 1, 100_000):
            raise UsageError(f"batch can't be {shown(batch)}", remedy="a number of messages from 1 to 100,000")
        self._lease_s = seconds(micros(lease))
        if not _SHORTEST_LEASE_S <= self._lease_s <= _LONGEST_LEASE_S:
            raise UsageError(f"lease can't be {shown(lease)}", remedy="from 2s to 1h")
        self.name = self._source.name = checked_location(name or self._source.name)
        self._batch = self._size = batch
        self._holder = f"{socket.gethostname()[:200]}/{os.getpid()}/{uuid.uuid4().hex[:8]}"
        self._held: dict[str, _Held] = {}
        self._pending: list[Taken] = []
        self._claim_at = 0.0
        self._problem: str | None = None
        #: The partitions for whose next message there is no room.
        self._full: dict[str, _Full] = {}
        self._stop = Stop()
        self._told: set[str] = set()
        #: The time of the last round that came through, on the monotonic clock.
        self.looked = time.monotonic()

    @property
    def source(self) -> Source:
        """The source."""
        return self._source

    def run(self) -> None:
        """Take messages until `stop` is called, or SIGTERM or SIGINT comes: then what is in hand is committed and acknowledged.

        While the source or the box is away, it is tried again.

        Raises:
            DeploymentError: the box can't be used: its schema, its rights.
        """
        for text in self.remarks():
            LOG.warning("port_order", port=self.name, error=text)
        pause_s = _PAUSE_S
        with self._stop.listening():
            try:
                while not self._stop.requested:
                    try:
                        self._round()
                        self._is_well()
                        pause_s = _PAUSE_S
                        continue
                    except SourceAway as error:
                        self._tell(error)
                        self._let_go()
                        self._stop.wait(pause_s)
                    except (Unavailable, EnvironmentProblem) as error:  # as while the server takes no writes
                        if is_forbidden(error):
                            raise
                        self._tell(error)
                        self._stop.wait(pause_s)
                    pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            finally:
                self._end()

    def stop(self) -> None:
        """End `run`. Thread-safe."""
        if not self._stop.requested:
            self._stop.request()

    def late(self) -> list[str]:
        """Return why it stands still, in words; empty if it doesn't. Thread-safe."""
        silent_s = time.monotonic() - self.looked
        if self._problem is not None:
            return [f"port {self.name!r}: {self._problem}"]
        return [f"port {self.name!r} has taken nothing in for {silent_s:.0f} s"] if silent_s > _LATE_S else []

    def remarks(self) -> list[str]:
        """The queues of the box whose policy inherits the disorder of the source, in words; and what the source can't promise."""
        found = (
            [] if self._source.promise.is_once else ["messages without an id come in at least once, all others once"]
        )
        with self._box.access.transaction() as transaction:
            definitions = transaction.definitions()
        return found + disordered(self._source, definitions)

    def _round(self) -> None:
        """Claim, take, publish, acknowledge."""
        now = time.monotonic()
        if now >= self._claim_at:
            self._claim()
            self._claim_at = now + _CLAIM_S
        if not self._held:
            self.looked = time.monotonic()
            self._stop.wait(_WAIT_S)
            return
        try:
            for partition, full in list(self._full.items()):
                if now - full.tried_at >= _WAIT_S:
                    self._try_again(partition, full)
            self._pending = self._awaited(self._pending)
            if not self._pending:
                self._pending = [one for one in self._source.take(self._batch, _WAIT_S) if not self._is_held_up(one)]
            if self._pending:
                self._publish_some(self._pending)
            self._keep()
        except _Lost as lost:
            self._lose(str(lost))
        self.looked = time.monotonic()

    def _claim(self) -> None:
        present = self._source.partitions()
        for partition in self._held.keys() - set(present):
            self._leave(partition)
        for partition in present:
            if partition in self._held:
                continue
            with self._box.access.transaction() as transaction:
                transaction.check_enabled()
                claimed = transaction.maybe(
                    "claim_port", of_port=self.name, of_partition=partition, of_kind=self._source.kind, by_holder=self._holder,
                    period=f"{self._lease_s} s",
                )  # fmt: skip
                if claimed is None:
                    continue
                position = claimed.position
                if position is None and (starts := self._source.starts()):
                    position = transaction.value(
                        "start_port", of_port=self.name, of_partition=partition, of_kind=self._source.kind, starts=json.dumps(starts)
                    )  # fmt: skip
            self._held[partition] = _Held(claimed.token, time.monotonic(), position)
            self._source.begin(partition, position)
            LOG.info("port_began", port=self.name, partition=partition, _source=partition or self._source.kind)

    def _publish_some(self, pending: list[Taken]) -> bool:
        """Publish the first of the pending messages, as many as the box takes at once; return False if there is no room for one."""
        portion = self._portion(pending)
        try:
            outcomes = self._commit(portion)
        except QueueFull as error:
            if len(portion) > 1:
                self._size = len(portion) // 2
                return True
            self._stop_partition(portion[0], error)
            return False
        except UsageError as error:
            if len(portion) > 1:
                self._size = 1  # one by one: one of them is it
                return True
            why = str(error)
            LOG.warning("port_message_refused", port=self.name, message_id=portion[0].message.message_id, error=why)
            outcomes = self._commit([portion[0].refused(why)])
        del pending[: len(portion)]
        self._source.acknowledge(outcomes)
        self._size = min(2 * self._size, self._batch)
        return True

    def _awaited(self, pending: list[Taken]) -> list[Taken]:
        """Leave out messages that their senders send again, so that copies don't gather while the box can't commit any."""
        return [one for one in pending if not self._source.comes_again(one)]

    def _is_held_up(self, taken: Taken) -> bool:
        """Put a message behind those of its partition that there is no room for."""
        full = self._full.get(taken.partition)
        if full is None:
            return False
        if full.probe is None:
            full.pending.append(taken)
        return True

    def _stop_partition(self, first: Taken, error: QueueFull) -> None:
        """Publish no more of a partition until there is room."""
        if first.partition in self._full:
            return
        held = [one for one in self._pending if one.partition == first.partition]
        self._pending = [one for one in self._pending if one.partition != first.partition]
        now = time.monotonic()
        self._full[first.partition], self._problem = _Full(now, held, now), str(error)
        self._source.hold(first.partition)
        for partition in self._held:
            self._held[partition].kept_at = 0.0  # so that the box knows the problem at once
        LOG.warning("port_full", port=self.name, error=error)

    def _try_again(self, partition: str, full: _Full) -> None:
        """Publish what there may be room for now. What there has been no room for for long goes back to a source that can have it."""
        full.tried_at, full.pending = time.monotonic(), self._awaited(full.pending)
        while full.probe is None and full.pending:
            if not self._publish_some(full.pending):
                if full.tried_at - full.since > _HELD_S and self._source.give_back():
                    full.probe, full.pending = full.pending[0].message, []
                return
        if full.probe is not None and not self._has_room(full.probe):
            return
        del self._full[partition]
        self._source.go_on(partition)

    def _portion(self, pending: Sequence[Taken]) -> list[Taken]:
        size, count = 0, 0
        for one in pending[: self._size]:
            size += one.size
            if count and size > _MOST_BYTES:
                break
            count += 1
        return list(pending[:count])

    def _commit(self, portion: Sequence[Taken]) -> list[Outcome]:
        """Publish messages, and commit that together with their positions."""
        with own_session(self._box) as tx:
            transaction = tx.transaction
            senders = list(dict.fromkeys(one.sender for one in portion if one.sender is not None))
            seen = set(transaction.value("claim_sender_ids", ids=senders)) if senders else set[str]()
            definitions = transaction.definitions()
            messages = []
            for one in portion:
                message = one.message
                if one.sender is not None:
                    if one.sender in seen:  # if the body is the same, too, the message is left out
                        message = with_context(message, {**message.context, "id_reused": True})
                    seen.add(one.sender)
                messages.append(self._fitting(message, definitions))
            published = tx.publish(messages, wait=0, unrouted="keep")
            left = Counter(published.left_out)  # of an id that came several times the last ones
            outcomes = []
            for one in reversed(portion):
                left[one.message.message_id] -= 1
                outcomes.append(Outcome(one, left[one.message.message_id] >= 0))
            outcomes.reverse()
            positions = {}
            counts: dict[str, list[int]] = {one.partition: [0, 0, 0, 0] for one in portion}
            for outcome, message in zip(outcomes, messages, strict=True):
                count = counts[outcome.taken.partition]
                count[1 if outcome.is_left_out else 0] += 1
                count[2] += bool(message.context.get("id_reused")) and not outcome.is_left_out
                count[3] += "refused" in message.context and not outcome.is_left_out
            for partition, count in counts.items():
                position = self._source.position([one for one in portion if one.partition == partition])
                self._fence(transaction, partition, position, count)
                positions[partition] = self._held[partition].position if position is None else position
        for partition, count in counts.items():
            self._held[partition].kept_at = time.monotonic()
            self._held[partition].position = positions[partition]
            for outcome_name, number in zip(("taken", "left_out", "id_reused", "refused"), count, strict=True):
                MEASURES.count(Measure.PORT_MESSAGES, self.name, outcome_name, number)
        return outcomes

    def _fitting(self, message: Message, definitions: Definitions) -> Message:
        """A message at this port's location; of its properties those that its type declares, if that is known."""
        context = {"location": self.name, **message.context, "source_port": self.name}
        declared = definitions.types.get(message.type)
        if declared is not None:
            known = declared.types().keys() | OWN.keys()
            context = {name: value for name, value in context.items() if name in known}
        return with_context(message, context)

    def _fence(self, transaction: Any, partition: str, position: Any, count: Sequence[int] = (0, 0, 0, 0)) -> None:
        held = self._held[partition]
        former, new = (None if one is None else json.dumps(one) for one in (held.position, position))
        is_kept = transaction.value(
            "keep_port", of_port=self.name, of_partition=partition, of_token=held.token, period=f"{self._lease_s} s",
            former_position=former, new_position=new, more_taken=count[0], more_left_out=count[1], more_reused=count[2],
            more_refused=count[3], present_problem=self._problem,
        )  # fmt: skip
        if not is_kept:
            raise _Lost(partition)

    def _keep(self) -> None:
        """Renew the claims that nothing was committed under lately."""
        due = time.monotonic() - self._lease_s / 3
        stale = [partition for partition, held in self._held.items() if held.kept_at < due]
        if not stale:
            return
        with self._box.access.transaction() as transaction:
            for partition in stale:
                self._fence(transaction, partition, None)
        for partition in stale:
            self._held[partition].kept_at = time.monotonic()

    def _has_room(self, probe: Message) -> bool:
        """Whether a message fits; it isn't published."""
        try:
            with own_session(self._box) as tx:
                definitions = tx.transaction.definitions()
                tx.publish(self._fitting(probe, definitions), wait=0, unrouted="keep")
                tx.connection.rollback()
        except QueueFull:
            return False
        return True

    def _is_well(self) -> None:
        """Forget a problem that is over, and let the box know at once."""
        if self._problem is not None and not self._full:
            self._problem = None
            for held in self._held.values():
                held.kept_at = 0.0

    def _tell(self, error: SeriatimError) -> None:
        self._problem = text = str(error)
        if text not in self._told:
            self._told = {text}
            LOG.warning("port_interrupted", port=self.name, error=text)

    def _let_go(self) -> None:
        """Forget what was taken and isn't acknowledged: the source gives it again."""
        self._pending, self._claim_at = [], 0.0
        self._full.clear()
        self._source.close()
        for partition in list(self._held):
            self._leave(partition)

    def _lose(self, partition: str) -> None:
        LOG.warning("port_lost", port=self.name, partition=partition, _source=partition or self._source.kind)
        self._drop(partition)

    def _drop(self, partition: str) -> None:
        self._held.pop(partition, None)
        self._full.pop(partition, None)
        self._pending = [one for one in self._pending if one.partition != partition]
        self._source.end(partition)

    def _leave(self, partition: str) -> None:
        """Give a partition back, as far as the box can be reached: otherwise the claim runs out."""
        token = self._held[partition].token
        self._drop(partition)
        try:
            with self._box.access.transaction() as transaction:
                transaction.do("leave_port", of_port=self.name, of_partition=partition, of_token=token)
        except SeriatimError:
            pass

    def _end(self) -> None:
        for partition in list(self._held):
            try:
                self._leave(partition)
            except SourceAway:
                continue
        self._source.close()


def disordered(source: Source, definitions: Definitions) -> list[str]:
    """The queues whose policy inherits the disorder of a source, in words."""
    if source.promise.keeps_order_over_a_crash:
        return []
    fifo = sorted(name for name, one in definitions.queues.items() if isinstance(one.declared.policy, Fifo))
    if not fifo:
        return []
    which = f"{counted(len(fifo), 'queue')} with Fifo ({', '.join(fifo[:5])}{', …' if fifo[5:] else ''})"
    return [f"{which} would inherit the disorder of {source.kind} if its messages go there: {source.promise.advice}"]
