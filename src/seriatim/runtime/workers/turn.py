"""One turn of a worker: a run of messages of one group, each given to its handler, in one transaction.

The handlers' writes, their published messages and the completion of their messages are committed together. At a fault
the earlier messages are completed in the same commit, and the later messages are handed out again. If the database
refuses the commit, or one of the returned messages can't be published, the guilty message is unknown: all messages are handed out again
one by one, each with its own commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass

from seriatim.box.box import MessageBox
from seriatim.box.connection.access import Transaction
from seriatim.box.connection.misuse import Misuse
from seriatim.box.faults.failure_log import FAILURES
from seriatim.box.faults.faults import Fault, FaultResult, LostTurn, fail, note_lost
from seriatim.box.faults.lease import fence, give_back, untried
from seriatim.box.faults.postpone import postpone
from seriatim.box.measures import MEASURES, Measure
from seriatim.box.postgres.translate import migrated, translated
from seriatim.box.session import Session
from seriatim.box.traces import TRACES, TurnTrace
from seriatim.box.turns.delivery import Delivery
from seriatim.box.workers.steps import Steps, TurnEnded, end_backend, ending_setting, refusal
from seriatim.errors import BoxMigrated, SeriatimError, Unavailable
from seriatim.kernel.operators.fault import ErrorClasses, FaultKind
from seriatim.pipeline.types.message import Message
from seriatim.runtime.workers.answers import Answers, AnswersRefused
from seriatim.runtime.workers.coroutines import HandlerStopped
from seriatim.runtime.workers.dialog_ends import end_sides
from seriatim.runtime.workers.exclusion import EXCLUSION
from seriatim.runtime.workers.handler_time import HandlerTime
from seriatim.runtime.workers.handlers import Handler, Handlers, answered, called
from seriatim.runtime.workers.late_turn import LateTurn
from seriatim.runtime.workers.raised import delay_or_fault, fault_of
from seriatim.runtime.workers.scoreboard import Slot
from seriatim.runtime.workers.tuning import Tuning
from seriatim.runtime.workers.turn_size import TurnSize

#: After this time a turn begins no further message: its transaction holds back vacuum, seconds.
LONG_S = 1.0
#: How long a turn waits for a group whose turn was ended by its handler, seconds.
PATIENCE_S = 10.0
#: The share of a turn's time after which a lost connection counts as a time-out.
_NEARLY = 0.9


@dataclass(frozen=True, slots=True)
class TransactionalTurns:
    box: MessageBox
    queue: str
    handlers: Handlers
    worker: str
    tuning: Tuning
    #: Whether a handler gets all of them at once.
    batch: bool
    #: Whether the queue's messages are sets, which are processed all or none.
    whole: bool
    classes: ErrorClasses
    turn_limit_s: float
    #: Returns whether no further message is to be begun.
    ending: Callable[[], bool]
    #: How many messages are taken from a queue without groups.
    turn_size: TurnSize
    #: The groups in which one of several answers was refused, for all threads: each message of such a group is checked, until the
    #: failing one is found.
    suspects: set[str | None]
    #: The role of the database that handlers have; None: that of the worker.
    run_as: str | None = None

    @property
    def run_length(self) -> int:
        most = self.tuning.now.run_length
        return most if self.handlers.run_length is None else min(most, self.handlers.run_length)

    def take(self, slot: Slot, wait_s: float, limit: int | None) -> int | None:
        """Do a turn, if there is work in time; without a limit also further turns, if there is more work."""
        begun: list[_Turn] = []
        try:
            if self._is_refused(begun, slot, wait_s, limit):
                self._repeat(begun, slot)
        finally:
            slot.end()
        return sum(turn.tried for turn in begun) if begun else None

    def _is_refused(self, begun: list[_Turn], slot: Slot, wait_s: float, limit: int | None) -> bool:
        """Do turns, and return whether the last one's writes were refused. Arguments as for `_take`."""
        try:
            self._take(begun, slot, wait_s, limit)
        except SeriatimError as error:
            if not begun:
                raise
            if _refused(error, begun[-1]) is not None:
                return True
            self._note_ended(begun[-1], error, slot)
        return False

    def _take(
        self, begun: list[_Turn], slot: Slot, wait_s: float, limit: int | None, refused: _Turn | None = None
    ) -> None:
        """Do turns, one after another; each is added to `begun` before it begins. After a refused turn only turns of its group."""
        already = len(begun)
        try:
            self._do(begun, slot, wait_s, limit, refused)
        except BaseException as error:
            self._end_attempt(begun[already:], error)  # of a turn that the commit refused
            raise
        for turn in begun[already:]:
            if turn.checks and refused is None:
                self.suspects.discard(turn.delivery.group)
            if turn.failed is not None:  # and that is committed
                FAILURES.tell(self.queue, turn.delivery.group, *turn.failed)

    def _do(self, begun: list[_Turn], slot: Slot, wait_s: float, limit: int | None, refused: _Turn | None) -> None:
        group = None if refused is None else refused.delivery.group
        until = time.monotonic() + LONG_S
        traces = TRACES.turn(self.queue)  # around the transaction: settling ends with its commit
        with traces, self.box.sessions() as sessions, translated(sessions.session.access.place):
            sessions.session.ends_wait, sessions.session.tries = self.ending, True
            delivery = sessions.session.receive(self.queue, limit=self.most(limit), group=group, wait=wait_s or None)
            while delivery is not None:
                self.turn_size.without_groups = delivery.group is None
                measure(self.queue, delivery)
                traces.received(delivery.messages)
                checks = refused is not None or delivery.group in self.suspects
                turn = _Turn(self, sessions.session, delivery, slot, traces, checks=checks)
                begun.append(turn)
                has_ended_worker = self.has_ended_worker(delivery, sessions.session)
                with self.exclusion(delivery, has_ended_worker=has_ended_worker):
                    if delivery.on_trial or has_ended_worker:
                        turn.checks = True  # the record would outlive the lock, if the commit were refused
                        turn.token = self._begin_attempt(delivery, sessions.session)
                    slot.begin(self.queue, delivery.group, turn.steps.backend_pid, turn.token)
                    try:
                        turn.run()
                    except BaseException as error:
                        if isinstance(error, AnswersRefused):
                            self.suspects.add(delivery.group)  # before another thread has the group
                        self._end_attempt([turn], error)  # before the rollback unlocks the group
                        raise
                traces.settles()
                if (
                    turn.token is not None
                    or limit is not None
                    or not turn.is_whole
                    or time.monotonic() > until
                    or self.ending()
                ):
                    turn.end()
                    return
                ended = time.monotonic()
                delivery = sessions.next(limit=self.most(limit))
                self.turn_size.note_between(time.monotonic() - ended)

    def _repeat(self, begun: list[_Turn], slot: Slot) -> None:
        """Repeat the last turn, which was rolled back: one message at a time, to find the message that fails."""
        refused, left = begun[-1], begun[-1].tried
        while left > 0 and not self.ending():
            before = len(begun)
            try:
                self._take(begun, slot, 0, 1, refused)
            except SeriatimError as error:
                if len(begun) == before:
                    raise
                text = _refused(error, begun[-1])
                if text is None:
                    self._note_ended(begun[-1], error, slot)
                else:
                    self._note(begun[-1], fault_of(text, self.worker, self.classes))
                break
            if len(begun) == before:  # another worker has the group, and checks each message of it
                return
            left -= begun[-1].tried
        self.suspects.discard(refused.delivery.group)

    def _note_ended(self, turn: _Turn, error: SeriatimError, slot: Slot) -> None:
        """Record that a handler has ended its transaction, or took too long; raise other errors."""
        work = slot.read()
        if isinstance(error, TurnEnded):
            # Messages that were processed earlier in the turn are processed again, unless the handler has committed them.
            self._note(turn, fault_of(error, self.worker), turn.delivery)
        elif (
            isinstance(error, Unavailable)
            and work is not None
            and turn.steps.is_lost
            and work.since >= _NEARLY * self.turn_limit_s
        ):
            late = LateTurn.claim(slot, work)
            if late is not None:  # PostgreSQL has ended it, before this process did
                self.time_out(late)
        else:
            raise error

    def _note(self, turn: _Turn, fault: Fault, delivery: Delivery | None = None) -> None:
        """Record the fault that ended a turn, at the message whose handler is suspected, or otherwise at the present message."""
        entry_id = turn.steps.suspect or turn.at_hand
        attempt = dict(zip(turn.delivery.entry_ids, turn.delivery.messages, strict=True))[entry_id].attempt
        lost = LostTurn(self.queue, turn.delivery.group, entry_id, attempt=attempt)
        self.note_lost(lost, fault, delivery)

    def note_lost(self, lost: LostTurn, fault: Fault, delivery: Delivery | None = None) -> None:
        """Record an attempt whose turn is rolled back, and log it; arguments and errors as of `note_lost` of the box."""
        with self.box.access.transaction() as transaction:
            result = note_lost(transaction, lost, fault, PATIENCE_S, delivery)
        if result is not None:
            FAILURES.tell(lost.queue, lost.group, fault, result)

    def end_early(
        self, transaction: Transaction, delivery: Delivery, done: int, size: int, error: BaseException, handler: object
    ) -> tuple[Fault, FaultResult] | None:
        """Postpone the messages that a handler had, if it has asked for that; otherwise record its failure, and return it."""
        cause = delay_or_fault(error)
        if isinstance(cause, int):
            postpone(transaction, delivery, done, cause, size)
            return None
        fault = fault_of(cause, self.worker, self.classes, handler)
        return fault, fail(transaction, delivery, done, size, fault, alone=size == 1 or self.whole)

    def take_away(self, transaction: Transaction, token: int, done: int) -> None:
        """Remove the record of a turn on trial, with the number of its finished messages."""
        queue = transaction.access.known.definitions.queue(self.queue)
        transaction.do("end_attempt", of_queue=queue.queue_id, of_token=token, done=done)

    def most(self, limit: int | None) -> int:
        """The number of messages of a turn, by the number that may be begun; None: all present messages."""
        return self.turn_size.of(self.run_length if limit is None else min(limit, self.run_length))

    def exclusion(self, delivery: Delivery, *, has_ended_worker: bool) -> AbstractContextManager[None]:
        """Return a block for the handlers of a turn: after an attempt of its first message that ended its process, or took too long, the
        last attempt is made alone in the process.
        """
        attempts = self.box.access.known.definitions.queue(self.queue).declared.retry.attempts
        alone = has_ended_worker and delivery.messages[0].attempt >= attempts
        return EXCLUSION.at_work(alone=alone, patience_s=min(PATIENCE_S, self.turn_limit_s / 2))

    def has_ended_worker(self, delivery: Delivery, session: Session) -> bool:
        """Whether an attempt of the first message has ended its process, or took too long."""
        if delivery.messages[0].attempt == 1:
            return False
        queue = session.access.known.definitions.queue(self.queue)
        named = {"of_queue": queue.queue_id, "of_entry": delivery.entry_ids[0]}
        return bool(session.transaction.value("has_ended_its_worker", **named))

    def _begin_attempt(self, delivery: Delivery, session: Session) -> int:
        """Record, and commit, that this worker begins a delivery; return the token that removes the record."""
        queue = session.access.known.definitions.queue(self.queue)
        named = {"of_queue": queue.queue_id, "of_group": delivery.group, "of_entry": delivery.entry_ids[0]}
        with self.box.access.transaction() as apart:
            return int(apart.value("begin_attempt", **named, of_worker=self.worker))

    def _end_attempt(self, turns: Sequence[_Turn], error: BaseException) -> None:
        """Remove the record of a turn on trial that is rolled back: it isn't an attempt. A lost connection is one, as the end of a process
        is. If the server has said which setting ended it, the fault says so; other ends are counted by the next receiver that finds the
        turn begun, unless the server itself was restarted.
        """
        for turn in turns:
            token, turn.token = turn.token, None
            if token is None:
                continue
            setting = ending_setting(error)
            with suppress(SeriatimError):  # then it is found later
                if setting is not None:
                    remedy = f"set it to 0 for this role, or above the turn limit of {self.turn_limit_s:g} s"
                    text = f"PostgreSQL ended the turn by {setting}: {remedy}"
                    lost = LostTurn(self.queue, turn.delivery.group, turn.at_hand, token)
                    self.note_lost(lost, Fault(FaultKind.TIMEOUT, "TurnEndedBySetting", text, self.worker))
                elif not turn.steps.is_lost:
                    with self.box.access.transaction() as transaction:
                        self.take_away(transaction, token, 0)

    def time_out(self, late: LateTurn) -> None:
        """End a turn that takes too long, and record that, unless it ends by itself before; only for the caller that has claimed it."""
        work = late.work
        if not (late.is_cut_off or self._cut_off(late)) or work.entry_id is None:
            return
        error = f"the turn took longer than {self.turn_limit_s:g} s"
        lost = LostTurn(work.queue, work.group, work.entry_id, late.token or work.token)
        self.note_lost(lost, Fault(FaultKind.TIMEOUT, "TurnLimit", error, self.worker))

    def _cut_off(self, late: LateTurn) -> bool:
        """End the connection of a turn; return False if the turn has ended before."""
        work = late.work
        if late.goes_on and late.token is None and work.entry_id is not None and work.group is not None:
            # Until the attempt is counted no other worker gets the group.
            with self.box.access.transaction() as transaction:
                token = fence(transaction, work.queue, work.group, work.entry_id, self.worker)
            late.token = token
        if late.goes_on:
            with self.box.access.transaction() as transaction:
                end_backend(transaction, work.backend_pid, late.since)
            late.is_cut_off = True
        elif late.token is not None:
            with self.box.access.transaction() as transaction:
                give_back(transaction, work.queue, late.token)
            late.token = None
        return late.is_cut_off


class _Turn:
    def __init__(
        self,
        turns: TransactionalTurns,
        session: Session,
        delivery: Delivery,
        slot: Slot,
        traces: TurnTrace,
        *,
        checks: bool,
    ) -> None:
        self.delivery = delivery
        self._answers = Answers(session, slot, time.monotonic() + turns.turn_limit_s)
        self.steps = Steps(session, turns.run_as, self._answers.publish)
        self.tried = 0
        #: Whether each message is checked for errors that would refuse the whole turn.
        self.checks = checks
        #: The token of the record that a turn on trial was begun; see `lost_turns.py`.
        self.token: int | None = None
        #: The failure of a handler, and its effect; committed with the turn.
        self.failed: tuple[Fault, FaultResult] | None = None
        self._handler: Handler | None = None
        self._turns = turns
        self._session = session
        self._slot = slot
        self._traces = traces
        self._done = 0
        #: How long the messages that the last handler left wait; None: they don't.
        self._delay_us: int | None = None
        #: A handler with a role of its own publishes its results as that role, while it has it.
        self._publishes_as_handler = turns.run_as is not None
        #: The number of messages to process.
        self._last = len(delivery) if turns.whole else untried(delivery.messages)
        #: A single message is published alone: a refusal concerns it.
        self._collects = not (turns.batch or turns.whole or checks or self._publishes_as_handler) and self._last > 1

    @property
    def is_whole(self) -> bool:
        """Whether all delivered messages have been processed."""
        return self._done == len(self.delivery)

    @property
    def at_hand(self) -> int:
        """The entry of the message that is being processed, or is next."""
        return self.delivery.entry_ids[min(self._done, len(self.delivery) - 1)]

    def run(self) -> None:
        """Call the handlers, up to a message that fails, or that was tried before and gets its own turn. The caller ends the turn."""
        try:
            self._run()
        except AnswersRefused as error:
            self.steps.give_up(error)
            raise

    def _run(self) -> None:
        together = self._turns.whole or self._turns.batch
        began = time.monotonic()
        while self._done < self._last:
            size = self._last - self._done if together else 1
            try:
                consumed = self._call(size, together=together)
            except BaseException as error:
                self._answers.check()
                if isinstance(error, HandlerStopped):  # it is handed out again, and no attempt is counted
                    break
                if isinstance(error, (TurnEnded, BoxMigrated)) or self.steps.is_lost:
                    raise
                if (newer := migrated(error, self._session.access.place)) is not None:
                    raise newer from error
                self._finish()
                self.failed = self._turns.end_early(
                    self._session.transaction, self.delivery, self._done, size, error, self._handler
                )
                return
            self._done += consumed
            took = time.monotonic() - began
            if consumed < size or took > LONG_S or self._turns.turn_size.is_over(took) or self._turns.ending():
                break
            if self._answers.is_large:
                self._answers.publish()
        self._finish()
        self._turns.turn_size.note(self._done, time.monotonic() - began)

    def end(self) -> None:
        """Complete the processed messages; the others are handed out again. Does nothing if a fault was recorded."""
        if self._delay_us is not None and self.delivery.is_open and not self.is_whole:
            postpone(self._session.transaction, self.delivery, self._done, self._delay_us)
        self.delivery.done_through(self._done)
        if self.token is not None:
            self._turns.take_away(self._session.transaction, self.token, self._done)

    def _call(self, size: int, *, together: bool) -> int:
        begin, end = self._done, self._done + size
        message = self.delivery.messages[begin]
        argument = self.delivery.part(begin, end) if together else message
        self.tried += size
        self._slot.call(self.at_hand)
        if self.delivery.causes is not None:
            self.delivery.causes.begin(self.delivery.messages[begin:end])
        with self._traces.process(self.delivery.messages[begin:end]), self.steps.step(self.at_hand):
            with self.delivery.lent(), HandlerTime(self._turns.queue):
                self._handler = self._turns.handlers.handler(message, self._session)
                answer = called(self._handler, argument, self._session)
            self._check_in_hand()
            published, consumed, delay_us = answered(answer, size, whole=self._turns.whole)
            self._delay_us = delay_us if consumed < size else None
            if published and self._publishes_as_handler:
                self._session.publish(published)
            self.steps.handled()
            if self.delivery.instance is not None:
                self._session.save_instance()
            end_sides(self._session, self.delivery.messages[begin : begin + consumed], self._turns.handlers.names)
            if published and not (self._collects or self._publishes_as_handler):
                self._publish(published)
            if self.checks:
                self.steps.check()
            answers = self._session.answers(published) if published and self._collects else ()
        self._slot.returned()
        self._answers.check()
        if answers:
            self._answers.add(answers, self.at_hand)
        return consumed

    def _publish(self, messages: Sequence[Message]) -> None:
        """Publish the messages of a handler, at the end of its step; without a savepoint, if nothing was written in the step, and nothing
        has failed so far.
        """
        has_failed = self.delivery.messages[self._done].attempt > 1
        if self.checks or has_failed or self.steps.has_written:
            self._session.publish(messages)
        else:
            with self.steps.aside():
                self._answers.publish_alone(messages)

    def _finish(self) -> None:
        """Finish the steps, and publish the handlers' messages."""
        self.steps.finish()
        self._answers.publish()

    def _check_in_hand(self) -> None:
        """Check that a handler hasn't put the delivery back, with a session of its own in the same transaction."""
        if self._session.delivery is not self.delivery:
            raise Misuse(
                "the handler called receive, or completed a delivery, in the transaction of its message",
                remedy="leave receiving and completing to the worker; the handler may publish in its session",
            )


def _refused(error: SeriatimError, turn: _Turn) -> BaseException | None:
    """Why a turn's writes were refused, and would be again; None: they weren't."""
    if isinstance(error, AnswersRefused):
        return error.__cause__
    return None if isinstance(error, TurnEnded) or turn.steps.is_lost else refusal(error)


def measure(queue: str, delivery: Delivery) -> None:
    """Count the handed out messages, and how long they had waited by this machine's clock."""
    fresh = [message for message in delivery.messages if message.attempt == 1]
    now = time.time()
    MEASURES.count(Measure.RELEASED, queue, by=len(fresh))
    MEASURES.observe(Measure.WAIT, queue, [now - message.received_at.timestamp() for message in fresh])
    MEASURES.observe(Measure.TURN, queue, [len(delivery.messages)])
