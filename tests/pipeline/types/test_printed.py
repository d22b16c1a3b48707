"""What is printed of a message has no body: that may hold what logs must not."""

from __future__ import annotations

from datetime import UTC, datetime

import seriatim as sq
from seriatim.box.dialogs.dialogs import Kept
from seriatim.pipeline.types.message import Ticket

SECRET = b"hush"


def test_no_body_is_printed():
    part = sq.Part("attachment", "text/plain", SECRET)
    message = sq.Message(type="order", body=SECRET, parts=[part], context={"customer": "c1"}, message_id="m1")
    received = sq.Received(
        type="order", body=SECRET, parts=[part], ticket=Ticket("box", 0, 1), received_at=datetime.now(UTC)
    )
    kept = Kept(sent=True, sequence=1, type="order", content_type=None, body=SECRET, at=datetime.now(UTC), reason=None)
    for one in (part, message, received, kept, [message]):
        assert "hush" not in repr(one)
        assert "hush" not in f"{one}"
    assert "message_id='m1'" in repr(message)
    assert "customer" in repr(message)
