"""`AsyncTakenLease`: a lease on a run of one group, as coroutines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from seriatim.aio.face import OfRun, counterpart
from seriatim.box.leases.taken import LeasedMessage, TakenLease


class AsyncTakenLease(OfRun[TakenLease]):
    """The asyncio face of a `TakenLease`: its calls as coroutines, each in a thread and a connection of its own."""

    @property
    def id(self) -> UUID:
        """Its id."""
        return self.sync.id

    @property
    def token(self) -> int:
        """Its fencing token."""
        return self.sync.token

    @property
    def messages(self) -> Sequence[LeasedMessage]:
        """The messages, in order."""
        return self.sync.messages

    @property
    def done(self) -> int:
        """The number of messages that are done, as far as this object knows."""
        return self.sync.done

    @property
    def until(self) -> datetime | None:
        """When it runs out, unless it is renewed."""
        return self.sync.until

    read = counterpart(TakenLease.read)
    complete = counterpart(TakenLease.complete)
    fail = counterpart(TakenLease.fail)
    postpone = counterpart(TakenLease.postpone)
    dead_letter = counterpart(TakenLease.dead_letter)
    renew = counterpart(TakenLease.renew)
    give_back = counterpart(TakenLease.give_back)
