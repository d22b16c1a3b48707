"""Sides of dialogs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seriatim.operations.tables.table import Column, Table, json_only

if TYPE_CHECKING:
    from seriatim.operations.dialogs import DialogView

DIALOGS: Table[DialogView] = Table(
    "A side of a dialog",
    Column("handle", value=lambda one: str(one.handle)),
    *json_only("state"),
    Column("state_name", "state"),
    Column("conversation_id", None, value=lambda one: str(one.conversation_id)),
    Column("service"),
    Column("to_services", "to", meaning="the service of the other side; of a monolog all services that receive it"),
    Column("contract", meaning="its contract"),
    *json_only("queue"),
    Column("group_id", None, value=lambda one: str(one.group_id), meaning="its conversation group"),
    *json_only(
        is_initiator="whether this side has begun the dialog",
        is_monolog="whether it is a monolog",
        priority="1 to 10",
        encryption="false: nothing but the TLS of a link encrypts",
        retention="whether its messages are kept until it ends",
        send_sequence="the number of the next message that it sends",
        receive_sequence="the number of the next message that it receives",
    ),
    Column("unread"),
    Column("waiting"),
    *json_only(transmission_status="why the messages in `waiting` can't be delivered yet"),
    Column("began_at", "began", meaning="when it began"),
    *json_only(
        closed_at="when it was closed",
        expires_at="when its lifetime is over",
        timer_at="when its timer is due",
        error_code="the code of its error, if any",
        error="the text of its error, if any",
    ),
    Column(
        "far_box",
        None,
        value=lambda one: None if one.far_box is None else str(one.far_box),
        meaning="the box of the other side; null if it is this one, and so are the next five",
    ),
    *json_only("link", "stream", "acknowledged", "last_contact", "unanswered_since", "suspended"),
    row="seriatim.box.views.dialogs:DialogView",
)
