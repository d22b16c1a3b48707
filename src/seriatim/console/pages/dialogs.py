"""Dialogs, a line for each side; and what waits for transmission."""

from __future__ import annotations

from markupsafe import Markup

from seriatim.console.lists import list_page
from seriatim.operations import dialogs
from seriatim.operations.tables.dialogs import DIALOGS
from seriatim.operations.tables.table import text_only


def _why(one: dialogs.DialogView) -> str | None:
    """Why its messages wait, where it is on its way to another box, and the error with which it was ended."""
    told = [f"waits: {one.transmission_status}"] if one.waiting and one.transmission_status else []
    if one.link is not None:
        where = f"link {one.link}, box {one.far_box}" + ("" if one.stream is None else f", stream {one.stream}")
        told.append(f"{where}: acknowledged below {one.acknowledged}")
    if one.unanswered_since is not None:
        told.append(f"unanswered since {one.unanswered_since.astimezone():%Y-%m-%d %H:%M:%S}")
    if one.error_code is not None:
        told.append(f"error {one.error_code}: {one.error or 'without a text'}")
    return "; ".join(told) or None


_TABLE = DIALOGS.extended(
    "A side of a dialog",
    text_only(
        "why",
        _why,
        "why its messages wait, how far another box has acknowledged them, or the error with which it was ended",
    ),
)

PAGE = list_page(
    "dialogs",
    "Dialogs",
    dialogs.dialogs,
    DIALOGS,
    shown=_TABLE,
    about="Two services that exchange messages, in this box or in two: a line for each side here, oldest first. "
    "A message whose other side isn't there yet waits.",
    links={"unread": lambda one: ("groups", one.queue, str(one.group_id)) if one.unread else None},
    nothing="There are no dialogs.",
    hint=Markup(
        "An application begins one with <code>tx.begin_dialog</code>: <code>seriatim docs how-to/dialogs</code>."
    ),
    section="Box",
)
