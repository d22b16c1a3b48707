"""What the Python workers beside callers over HTTP and in SQL do: the same as those."""

from __future__ import annotations

import seriatim as sq


def done(message: sq.Received, tx: sq.Session) -> sq.Message:
    """Answer as the clients in the documents do; note what the script for psql would."""
    if message.context["client"] == "sql":
        tx.connection.execute("INSERT INTO handled VALUES (%s)", [message.message_id])
    return sq.Message(type="done", message_id=f"{message.message_id} done", context=message.context)
