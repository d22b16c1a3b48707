"""`TakenLease`: a lease on a run of one group, as its holder has it; and what its calls return."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from uuid import UUID

from seriatim.pipeline.text.storable import checked_text
from seriatim.pipeline.types.message import Message, Received

if TYPE_CHECKING:
    from seriatim.box.leases.calls import LeaseCalls


@dataclass(frozen=True, slots=True)
class Principal:
    """Whose a lease is, where several callers share the connections of one server: the callers see no leases of each other.

    Args:
        name: the caller's name, such as that of its token; part of who holds the lease, beside the role of the box (`MessageBox.as_role`).
    """

    name: str = ""

    def __post_init__(self) -> None:
        checked_text(self.name, "the name of a principal")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedMessage(Received):
    """A message of a lease: a `Received`, with its place in the delivery.

    Args:
        position: its position in the delivery, from 1.
    """

    position: int = 0


_FIELDS = tuple(each.name for each in fields(Received))


def leased_message(message: Received, position: int) -> LeasedMessage:
    return LeasedMessage(position=position, **{name: getattr(message, name) for name in _FIELDS})


#: What a completion publishes: a message; an `Answer`, which names the message that causes it; or the position of that message with it.
Result = Message | tuple[int, Message]


@dataclass(frozen=True, slots=True)
class LeaseAnswer:
    """What a call has done to a lease. The same call again returns the same.

    Args:
        done: the number of messages that are done, from the first on.
        over: whether the call ended the lease.
        published: the ids of the messages that it published, in order.
        left_out: the ids of those that were published before.
        then: what a failure led to: ``"retry"``, ``"suspended"``, ``"dead"`` or ``"stopped"``; None: it was no failure.
        repeated: whether the call had been made before, so that nothing was changed this time.
    """

    done: int
    over: bool = False
    published: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    then: str | None = None
    repeated: bool = False


class TakenLease:
    """A lease on a run of messages of one group, until it ends or runs out. `MessageBox.lease` gives it, `MessageBox.leased` finds it.

    Positions count from 1, and stay as they are, whatever is done. A call whose answer was lost can be repeated for an hour: it returns the
    stored answer, and changes nothing. `fail`, `postpone`, `dead_letter` and `give_back` end the lease; so does `complete` of its last one.
    Threads may share it.

    Attributes:
        id: its id, random; with it any process of the same principal can act on the lease.
        token: its fencing token, higher with every lease: for other systems, which refuse a lower one. It opens nothing in the box.
        queue: the queue's name.
        group: the group's key; None in a queue that is `Unordered`.
        messages: all messages of the delivery, in order, done or not; of a handle by id, see `read`.
        done: the number of messages that are done, from the first on, as far as this object knows.
        until: when it runs out, unless it is renewed; by the database's clock.
    """

    def __init__(self, calls: LeaseCalls, lease_id: UUID) -> None:
        self._calls = calls
        self.id = lease_id
        self.token = 0
        self.queue = ""
        self.group: str | None = None
        self.messages: Sequence[LeasedMessage] = ()
        self.done = 0
        self.until: datetime | None = None

    def read(self) -> None:
        """Read its state from the box: what is done, and the messages that aren't. Needed for a handle by id only.

        Raises:
            LeaseLost: it is over, or another principal's.
            Unavailable: the database is away.
        """
        self._calls.read(self)

    def complete(self, through: int | None = None, publish: Iterable[Result] = ()) -> LeaseAnswer:
        """Complete all messages through a position, and publish their results, in one transaction.

        Results carry their cause's origin, as a handler's do. Where several messages on the way to a gate are completed at once, each
        result names its cause: ``(position, message)``, or ``sq.Answer(lease.messages[2], message)``.

        Args:
            through: the position of the last message that is done; None: all of the delivery.
            publish: the results.

        Raises:
            UsageError: there is no such position, a set is completed in part, or a message can't be published.
            ActionRefused: the position is done, by a call that said something else.
            LeaseLost: the lease is over; nothing is changed.
            Unavailable: call it again.
        """
        return self._calls.complete(self, through, publish)

    def fail(
        self, at: int, kind: str = "unexpected", error: str = "", retry_after: float | str | timedelta | None = None
    ) -> LeaseAnswer:
        """Complete the messages before a position, and count the failure of a handler at it; the lease ends.

        Args:
            at: the position of the message that failed; of a set: 1.
            kind: ``"transient"``, ``"business"``, ``"unexpected"``, ``"bug"``, ``"poison"`` or ``"timeout"``: how often it is tried again.
            error: what was wrong, for people.
            retry_after: seconds, or ``"30s"``, until the next attempt; None: the queue's retry delay.

        Raises:
            UsageError, ActionRefused, LeaseLost, Unavailable: as from `complete`.
        """
        return self._calls.fail(self, at, kind, error, retry_after)

    def postpone(self, at: int, delay: float | str | timedelta) -> LeaseAnswer:
        """Complete the messages before a position, and have it handed out again after a delay, without an attempt; the lease ends.

        Args:
            at: the position; of a set: 1.
            delay: seconds, ``"15s"``, or a `timedelta`, from 0 to 10,000 days.

        Raises:
            UsageError, ActionRefused, LeaseLost, Unavailable: as from `complete`.
        """
        return self._calls.postpone(self, at, delay)

    def dead_letter(self, at: int, reason: str) -> LeaseAnswer:
        """Complete the messages before a position, and make it a dead letter; the lease ends, and the group goes on.

        Args:
            at: the position; of a set: 1.
            reason: why, for people.

        Raises:
            UsageError, ActionRefused, LeaseLost, Unavailable: as from `complete`.
        """
        return self._calls.dead_letter(self, at, reason)

    def renew(self, lease: float | str | timedelta | None = None) -> datetime:
        """Ask for a time from now; return when the lease runs out then.

        Args:
            lease: seconds, or ``"30s"``; None: the time that was asked for last.

        Raises:
            UsageError: no such time.
            LeaseLost, Unavailable: as from `complete`.
        """
        return self._calls.renew(self, lease)

    def give_back(self) -> LeaseAnswer:
        """End the lease: what isn't done is handed out again, and no attempt is counted.

        Raises:
            LeaseLost, Unavailable: as from `complete`.
        """
        return self._calls.give_back(self)

    def __len__(self) -> int:
        return len(self.messages)

    def __repr__(self) -> str:
        return f"<TakenLease {self.id} of {len(self)} from {self.queue!r}, group {self.group!r}>"
