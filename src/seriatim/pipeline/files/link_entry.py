"""A link in the file of a message box."""

from __future__ import annotations

import re
from typing import Any

from seriatim.errors import UsageError
from seriatim.pipeline.declared.link import MOST_WAITING, Link
from seriatim.pipeline.text.section import Section

__all__ = ["link_entry"]

_PLACES = ("dsn", "url", "certificate", "key", "authority")
_REPLACED = re.compile(r"(?<!\$)\$\{")


def link_entry(entry: Section, name: str) -> Link | None:
    """The link that an entry of the file declares; None if it is wrong, which is reported."""
    given: dict[str, Any] = {
        "dsn": entry.text("dsn"),
        "url": entry.text("url"),
        "certificate": entry.text("certificate"),
        "key": entry.text("key"),
        "authority": entry.text("authority"),
        "box": entry.text("box"),
        "queues": entry.texts("queues"),
        "keep_sent": entry.duration_s("keep_sent"),
        "max_waiting": entry.whole("max_waiting", 1, MOST_WAITING),
        "stream_idle": entry.duration_s("stream_idle"),
        "insecure": entry.flag("insecure"),
        "schema": entry.text("schema"),
    }
    entry.finish()
    if any(entry.has(key) and value is None for key, value in given.items()):
        return None
    for key in _PLACES:
        if entry.has(key) and _REPLACED.search(entry.written(key)):
            what = "the value of ${NAME} would be stored in the box"
            entry.fault(key, what, "write $${NAME}: it is replaced by the process that transmits")
            return None
    try:
        return Link(name, **{key: value for key, value in given.items() if value is not None})
    except UsageError as error:
        entry.refuse(error)
        return None
