"""List the recorded faults of handlers. Reads without locks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime, timedelta

from seriatim.box.connection.access import Transaction
from seriatim.box.views import listing
from seriatim.box.views.listing import Listing, When
from seriatim.errors import NotFound, UsageError, is_whole, shown
from seriatim.kernel.operators.fault import FaultKind


@dataclass(frozen=True, slots=True)
class FaultView:
    """A fault of a handler.

    Args:
        fault_id: its number.
        queue: the queue's name; None if the queue was dropped.
        group: the group's key; empty in a queue that is `Unordered`.
        message_id: the id of the message.
        type: the message's type.
        sequence: the message's position in its group, as its producer numbered it.
        ordinal: the message's position among the released messages of the group.
        attempt: the number of the attempt, from 1.
        kind: ``transient``, ``unexpected``, ``bug``, ``business``, ``poison`` or ``timeout``.
        error_class: the name of the error's class.
        error: the error's text.
        traceback: its traceback; may be empty.
        at: the time.
        worker: the worker whose handler failed.
        retry_at: the time of the automatic retry; None: no retry, or at once.
    """

    fault_id: int
    queue: str | None
    group: str
    message_id: str
    type: str
    sequence: int | None
    ordinal: int | None
    attempt: int
    kind: str
    error_class: str
    error: str
    traceback: str
    at: datetime
    worker: str
    retry_at: datetime | None


@dataclass(frozen=True, slots=True)
class FaultFilter(Listing):
    queue: str | None = listing.queue("faults in this queue")
    _: KW_ONLY
    group: str | None = listing.group("faults in the group with this key")
    key: str | None = listing.key("faults in groups with a key that matches")
    message_id: str | None = listing.text("faults on this message", noun="a message's id", name="message")
    kind: FaultKind | str | None = listing.choice(
        "faults of this kind; a bug is a mistake in the handler's own code, and of poison its worker died",
        FaultKind,
        "a kind of fault",
    )
    error_class: str | None = listing.error_class("faults with an error of this class")
    error: str | None = listing.error("faults with this text in their class or message")
    older_than: float | str | None = listing.period("faults that are older")
    since: When | None = listing.since("faults")
    until: When | None = listing.until("faults")
    properties: Mapping[str, object] | None = listing.properties("faults on messages that still exist,")
    before: int | None = listing.place(lambda one: one.fault_id)
    limit: int = listing.limit("faults")


@dataclass(frozen=True, slots=True)
class KeptFaults:
    """The number of recorded `faults`, the oldest one's time (`since`; None: no faults), and their keeping time (`kept_for`)."""

    faults: int
    since: datetime | None
    kept_for: timedelta


def faults_of(transaction: Transaction, chosen: FaultFilter) -> list[FaultView]:
    return transaction.rows("faults", FaultView, **chosen.parameters(), fault_id=None)


def fault_of(transaction: Transaction, fault_id: int) -> FaultView:
    if not is_whole(fault_id, 1, 2**63 - 1):
        raise UsageError(f"{shown(fault_id)} is not the number of a fault", remedy="a whole number from 1")
    found = transaction.maybe("faults", FaultView, **FaultFilter().parameters(), fault_id=fault_id)
    if found is None:
        raise NotFound(f"there is no fault {fault_id}", remedy="see seriatim faults")
    return found
