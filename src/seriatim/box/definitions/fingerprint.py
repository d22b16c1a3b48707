"""The fingerprint of a message in a queue that is `Standard`: of its body and parts, or of the properties that are compared."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from seriatim.kernel.values.fingerprint import of_bytes
from seriatim.pipeline.types.message import Message


def of_content(message: Message) -> int:
    """The fingerprint of a message's body and parts."""
    return of_bytes((message.body,)) if not message.parts else of_bytes(_pieces(message))


def _pieces(message: Message) -> Iterator[bytes]:
    """The body and the parts, each part with its name and length, so that no two messages run together."""
    yield message.body
    for part in message.parts:
        yield f"\0{len(part.body)} {part.name} {part.content_type}\0".encode()
        yield part.body


def plain(value: Any) -> Any:
    """A property's value as JSON has it."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat() if value.tzinfo else value.isoformat()
    return str(value) if isinstance(value, Decimal) else value
