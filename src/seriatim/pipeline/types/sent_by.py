"""`SentBy`: the ticket of a message in its first box, which it carries over links.

Only links write these properties, into messages that come from another box.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple, Self
from uuid import UUID

#: The properties of a message that came over a link, with their types.
LINK: Mapping[str, str] = {"link_sent_by": "string", "link_through": "string", "link_replayed": "boolean"}


class SentBy(NamedTuple):
    """The home ticket of a message that came over a link."""

    #: The id of the box into which it was published.
    box: UUID
    queue: str
    location: str
    epoch: int
    number: int

    @classmethod
    def of(cls, context: Mapping[str, Any]) -> Self | None:
        """What the properties of a message tell; None: it was published in this box."""
        if (text := context.get("link_sent_by")) is None:
            return None
        told = json.loads(text)
        return cls(UUID(told["box"]), told["queue"], told["location"], told["epoch"], told["number"])
