"""Sides of dialogs."""

from __future__ import annotations

from seriatim.box.views.dialogs import DialogView
from seriatim.operations.tables.table import Column, Table, columns, json_only

DIALOGS: Table[DialogView] = Table(
    "A side of a dialog",
    Column("handle"),
    *json_only("state"),
    Column("state_name", "state"),
    *json_only("conversation_id"),
    Column("service"),
    Column("to_services", "to", meaning="the service of the other side; of a monolog all services that receive it"),
    Column("contract", meaning="its contract"),
    *json_only(group_id="its conversation group"),
    *json_only(
        is_initiator="whether this side has begun the dialog",
        is_monolog="whether it is a monolog",
        priority="1 to 10",
        encryption="false: nothing but the TLS of a link encrypts",
        retention="whether its messages are kept until it ends",
        send_sequence="the number of the next message that it sends",
        receive_sequence="the number of the next message that it receives",
    ),
    *columns("unread", "waiting"),
    Column("transmission_status", "why they wait", meaning="why the messages in `waiting` can't be delivered yet"),
    Column("began_at", "began", meaning="when it began"),
    *json_only(
        closed_at="when it was closed",
        expires_at="when its lifetime is over",
        timer_at="when its timer is due",
        error_code="the code of its error, if any",
        error="the text of its error, if any",
    ),
    *json_only(far_box="the box of the other side; null if it is this one, and so are the next five"),
    row=DialogView,
)
