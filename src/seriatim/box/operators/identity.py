"""Disable a box and enable it; say which a box elsewhere is: the original, moved to another server, or a copy, which gets a new id."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID, uuid4

from seriatim.box.connection.access import Transaction
from seriatim.box.dialogs.clock import transmit
from seriatim.box.operators.operator_log import Operator, log
from seriatim.box.views.box_identity import BoxIdentity, identity_of_box

#: What the applications of a copy are told about a dialog of which something still waited.
_TOLD = "this message box is a copy, and its original delivers what this dialog had sent"


@dataclass(frozen=True, slots=True)
class NewIdentity:
    """A new id of a box, and what went with the former id.

    Args:
        id: the new id; None: nothing was changed yet.
        former_id: the id that the box had, which is the original's; None: it had none.
        messages: messages of dialogs that waited to be delivered, and are deleted.
        dialogs: sides of dialogs that had sent them, and have failed.
    """

    id: UUID | None
    former_id: UUID | None
    messages: int
    dialogs: int


def disable(transaction: Transaction, by: Operator) -> bool:
    """Let the box deliver nothing in dialogs, and nothing over links; False, and nothing is done, if it is disabled, or has no id yet."""
    before = identity_of_box(transaction)
    if before is None or not before.enabled:
        return False
    transaction.do("switch_box", actor=by.actor, reason=by.reason)
    log(transaction, by, "disable box", queue=None, group=None, details={"box": str(before.id)})
    return True


def enable(transaction: Transaction, by: Operator) -> bool:
    """Undo `disable`; or let the box live on this server, under its id and in a new incarnation. False, and nothing is done, if it does."""
    before = identity_of_box(transaction)
    if before is not None and before.enabled:
        return False
    if before is not None and before.disabled_by is not None:
        transaction.do("switch_box", actor=None, reason=None)
        transmit(transaction)
        log(transaction, by, "enable box", queue=None, group=None, details={"box": str(before.id)})
        return True
    lives = transaction.one("live_here", new_id=None)
    details = {"box": str(lives.box_id), "incarnation": lives.incarnation}
    log(transaction, by, "enable box", queue=None, group=None, details=details | _moved(before))
    return True


def new_id_would(transaction: Transaction) -> NewIdentity:
    before, size = identity_of_box(transaction), transaction.one("transmission_size")
    return NewIdentity(None, None if before is None else before.id, size.messages, size.dialogs)


def new_id(transaction: Transaction, by: Operator) -> NewIdentity:
    """Give the box a new id, and let it live on this server. What it would have delivered in dialogs is deleted."""
    before = identity_of_box(transaction)
    lives = transaction.one("live_here", new_id=uuid4())
    gone = transaction.one("drop_transmission", why=_TOLD)
    linked = transaction.value("drop_link_pairs")
    former = None if before is None else before.id
    details = {
        "linked": linked,
        "box": str(lives.box_id), "former": None if former is None else str(former), "messages": gone.messages,
        "dialogs": gone.dialogs,
    }  # fmt: skip
    log(transaction, by, "new box id", queue=None, group=None, details=details | _moved(before))
    return NewIdentity(lives.box_id, former, gone.messages, gone.dialogs)


def _moved(before: BoxIdentity | None) -> dict[str, object]:
    if before is None:
        return {}
    return {
        name: [getattr(before, name), getattr(before, f"{name}_here")]
        for name in ("system_identifier", "database_oid", "timeline", "folder")
        if getattr(before, name) != getattr(before, f"{name}_here")
    }
