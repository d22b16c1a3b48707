"""Links and their streams, as operators see them."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from uuid import UUID

from seriatim.box.views import listing
from seriatim.box.views.listing import Listing


@dataclass(frozen=True, slots=True)
class LinkView:
    """A link of a box.

    Args:
        link: its name.
        state: ``"ok"``; ``"down"``: the last round failed; ``"new"``: nothing has passed yet; ``"unpaired"``: the other box isn't known, or
            nobody may speak as it.
        box: the id of the other box; None: it isn't known yet.
        role: the role that speaks as the other box here; None: it has a key, or this box calls.
        public_key: the SHA-256 of the public key of the certificate that speaks as the other box here, in hexadecimal digits; None: it has
            a role, or this box calls.
        has_address: whether this box calls the other one.
        queues: into which queues of this box the other one may send.
        traces: whether the other one may ask here what became of its messages.
        waiting: messages in remote queues that are on no stream yet.
        unacknowledged: messages on streams that the other box hasn't acknowledged.
        streams_out: streams that this box sends and that aren't over.
        streams_in: streams that it receives.
        ending: streams that can't be made whole, of which the other box hasn't been told yet.
        sent: messages that were acknowledged, ever.
        received: messages that came, ever.
        replayed: messages that came marked as replayed, ever.
        restored: how often something was found that a restore of either box has lost or repeated.
        oldest: when the oldest message that isn't acknowledged was published.
        last_sent: the last time that a batch left.
        last_received: the last time that something came.
        last_error: why the last round failed, or a stream waits.
        warnings: queues that group by something else in the other box, in words. Known of a queue when its first messages were
            acknowledged.
        older_at: when the other box spoke in an older incarnation than before: two boxes live under its id, or it was restored. None: it
            didn't.
        refused: what the other box said last that isn't taken here, in words: a queue or service that it isn't accepted for, a service or
            contract that isn't there. It waits at its sender.
        refused_at: when that was.
    """

    link: str
    state: str
    box: UUID | None
    role: str | None
    public_key: str | None
    has_address: bool
    queues: list[str]
    traces: bool
    waiting: int
    unacknowledged: int
    streams_out: int
    streams_in: int
    ending: int
    sent: int
    received: int
    replayed: int
    restored: int
    oldest: datetime | None
    last_sent: datetime | None
    last_received: datetime | None
    last_error: str | None
    warnings: list[str]
    older_at: datetime | None
    refused: str | None
    refused_at: datetime | None


@dataclass(frozen=True, slots=True)
class StreamView:
    """A stream of a link.

    Args:
        link: the name of the link.
        direction: ``"out"`` or ``"in"``.
        queue: the queue that it leads to, in the box that receives.
        key: the group, or the lane of an unordered queue.
        incarnation: of the box that has opened it.
        number: its number.
        state: of one that is sent ``"open"``, ``"closing"`` (it was idle) or ``"ending"`` (it can't be made whole); ``"open"`` of one that
            is received.
        sent: its last message; of one that is received None.
        acknowledged: the last message that the receiver has on disk.
        attempts: how often the present question was asked without progress.
        next_try_at: before that it isn't asked again.
        last_error: why it waits.
        last_used: when something happened on it last.
    """

    link: str
    direction: str
    queue: str
    key: str
    incarnation: int
    number: int
    state: str
    sent: int | None
    acknowledged: int
    attempts: int | None
    next_try_at: datetime | None
    last_error: str | None
    last_used: datetime


@dataclass(frozen=True, slots=True)
class StreamFilter(Listing):
    name: str | None = listing.text("streams of this link", name="link")
    _: KW_ONLY
    waiting: bool = listing.flag(
        "streams on which something isn't acknowledged", label="Only those on which something isn't acknowledged"
    )
    limit: int = listing.limit("streams")
