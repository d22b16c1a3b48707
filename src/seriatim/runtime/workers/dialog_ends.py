"""Dialogs ended by the other side: a worker ends its own side if its handler has no case for that."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from seriatim.box.session import Session
from seriatim.kernel.dialog import END_DIALOG, ERROR
from seriatim.pipeline.text.event_log import LOG
from seriatim.pipeline.types.message import Dialog, Received


def ends_dialog(message: Received) -> bool:
    return message.dialog is not None and message.type in (END_DIALOG, ERROR)


def end_sides(session: Session, messages: Sequence[Received], named: Callable[[str], bool]) -> None:
    """End the sides of dialogs that have ended, unless the handler has done so; log dialogs that have failed."""
    for message in messages:
        if message.dialog is None or not ends_dialog(message) or named(message.type):
            continue
        if not session.has_ended(message.dialog.handle):
            session.end(message.dialog.handle)
            if message.type == ERROR:
                _log(message.dialog, message.body)


def _log(dialog: Dialog, body: bytes) -> None:
    ending = json.loads(body)
    LOG.warning(
        "dialog_failed",
        dialog=str(dialog.handle),
        service=dialog.service,
        far_service=dialog.far_service,
        code=ending["code"],
        _text=ending["text"],
    )
