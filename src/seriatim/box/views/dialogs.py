"""List the sides of dialogs; end them for operators."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from uuid import UUID

from seriatim.box.connection.access import Access, Transaction
from seriatim.box.dialogs.dialogs import Dialogs, handle_of
from seriatim.box.views import listing
from seriatim.box.views.listing import Listing
from seriatim.errors import UsageError
from seriatim.kernel.dialog import LABELS, DialogState

#: How many are cleaned up in one transaction.
_BATCH = 200


@dataclass(frozen=True, slots=True)
class DialogView:
    """One side of a dialog.

    Args:
        handle: its handle.
        conversation_id: the id that both sides share.
        state: the state, two letters; `state_name` has it in words.
        service: its service; `to_services` has the other side's service, or all receiving services of a monolog.
        queue: the queue of its messages; they are in the conversation group `group_id`.
        send_sequence: the number of the next sent message; `receive_sequence` is the number of the next received message.
        unread: the number of messages that wait for this side.
        waiting: the number of its messages that can't be delivered yet; `transmission_status` has the reason.
        error: the text of its error, if any; `error_code` is the code.
        far_box: the id of the box of the other side; None if it is this one, and so are the next five.
        link: the link to that box; `stream` is the stream of this side there, as ``incarnation/number``, if it has one.
        acknowledged: that box has all messages below this number.
        last_contact: when the two boxes had their last exchange.
        unanswered_since: since when something that this side has said waits to be acknowledged; None: all is.
        suspended: the actor and the reason of its conversation group's suspension; None if the group isn't suspended.
    """

    handle: UUID
    conversation_id: UUID
    state: str
    service: str
    to_services: list[str]
    contract: str
    queue: str
    group_id: UUID
    is_initiator: bool
    is_monolog: bool
    priority: int
    encryption: bool
    retention: bool
    send_sequence: int
    receive_sequence: int
    unread: int
    waiting: int
    transmission_status: str | None
    began_at: datetime
    closed_at: datetime | None
    expires_at: datetime | None
    timer_at: datetime | None
    error_code: int | None
    error: str | None
    far_box: UUID | None = None
    link: str | None = None
    stream: str | None = None
    acknowledged: int | None = None
    last_contact: datetime | None = None
    unanswered_since: datetime | None = None
    suspended: str | None = None

    @property
    def state_name(self) -> str:
        """The state in words."""
        return LABELS[DialogState(self.state)][0]


@dataclass(frozen=True, slots=True)
class DialogFilter(Listing):
    _: KW_ONLY
    handle: UUID | str | None = listing.given("Only the side with this handle.", check=handle_of)
    service: str | None = listing.text("sides of this service")
    state: str | None = listing.choice(
        "sides in this state", DialogState, "a state of dialogs",
        words={str(one): label for one, (label, *_) in LABELS.items()}, aliases={label: str(one) for one, (label, *_) in LABELS.items()},
    )  # fmt: skip
    older_than: float | str | None = listing.period("dialogs that began longer ago", label="Began longer ago than")
    waits: bool = listing.flag(
        "sides with messages that can't be delivered yet",
        name="waiting",
        label="Only with messages that can't be delivered yet",
    )
    unanswered: float | str | None = listing.period(
        "sides with something that another box hasn't acknowledged for this long", label="Not acknowledged for"
    )
    after: tuple[datetime, UUID] | None = listing.place(
        lambda one: (one.began_at, one.handle), "after_at", "after_handle", reads=(datetime.fromisoformat, UUID)
    )
    limit: int | None = listing.limit("dialogs", None, least=0, shown=1000)


def dialogs_of(transaction: Transaction, chosen: DialogFilter) -> list[DialogView]:
    return [DialogView(*row) for row in transaction.rows("dialogs", **chosen.parameters())]


def clean_up(access: Access, *, state: str, older_than: float | str, dry_run: bool) -> list[DialogView]:
    """End the sides in a state that are old enough, without notifying the other sides; return them."""
    for value, noun in ((state, "a state"), (older_than, "a period as older_than")):
        if value is None:
            raise UsageError(
                f"dialogs can't be cleaned up without {noun}", remedy="give it, so that active dialogs aren't ended"
            )
    with access.transaction() as transaction:
        views = dialogs_of(transaction, DialogFilter(state=state, older_than=older_than))
    if not dry_run:
        for begin in range(0, len(views), _BATCH):
            with access.transaction() as transaction:
                verbs = Dialogs(transaction)
                for view in views[begin : begin + _BATCH]:
                    verbs.end(view.handle, cleanup=True)
    return views
