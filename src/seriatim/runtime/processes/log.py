"""The log of a process of seriatim's own: lines on standard error, as text or as JSON.

Every line has the field `event`, by which the reference says what it means, and what it is about: `queue`, `group`, `message_id` and
others.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from pathlib import Path

from seriatim.errors import UsageError, shown

FORMATS = ("text", "json")
#: The event of a line of a library's, or of users' code.
OTHER = "other"
_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
#: The attributes of every record; the rest are the fields of its line.
_OWN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """A line of the log as one JSON object: `time`, `level`, `logger`, `message`, the fields of the line, and perhaps `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {name: value for name, value in vars(record).items() if name not in _OWN and name not in entry}
        entry.setdefault("event", OTHER)
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        # By ASCII: a half of a surrogate pair in a text would be no UTF-8.
        return json.dumps(entry, default=str)


def _is_new(record: logging.LogRecord) -> bool:
    """Return False for a record of py4j: it logs the error of a call between Python and Spark, and raises it in the caller, too."""
    return Path(record.pathname).parent.name != "py4j"


def log_to_stderr(level: str, form: str = "text") -> None:
    """Log lines of at least this level; for a process of seriatim's own."""
    if form not in FORMATS:
        raise UsageError(f"the log can't have the form {shown(form)}", remedy=f"one of {', '.join(FORMATS)}")
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if form == "json" else logging.Formatter(_TEXT))
    handler.addFilter(_is_new)
    logging.basicConfig(level=level.upper(), handlers=[handler])
