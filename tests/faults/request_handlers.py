"""The service of the kill tests of requests: it writes down what it has handled, and answers."""

from __future__ import annotations

import seriatim as sq


def answer(message: sq.Received, tx: sq.Session) -> sq.Message:
    """Answer with the question."""
    tx.connection.execute("INSERT INTO handled (message_id) VALUES (%s)", [message.message_id])
    return sq.Message(type="answer", body=b"to " + message.body)
