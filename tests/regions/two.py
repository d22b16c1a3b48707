"""What the tests of two regions share: their queue, messages, and what the boxes have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import seriatim as sq
from seriatim.box.publishing.publisher import Publisher
from seriatim.regions.journal.journal import Journal

__all__ = ["NAME", "STATUS", "Two", "message", "past"]

NAME = "shop"
STATUS = (
    sq.MessageType(
        "status", properties={"session": "string", "number": "long", "price": "decimal(12,2)", "at": "timestamp"}
    ),
    sq.RegionalQueue("status", group="session", sequence="number"),
    sq.Subscription("to-status", where="type = 'status'", to="status"),
)


def message(session: str | None, number: int | None = None, ident: str | None = None, body: bytes = b"") -> sq.Message:
    """A message of a session."""
    context: dict[str, Any] = {"session": session}
    if number is not None:
        context["number"] = number
    return sq.Message(type="status", body=body, context=context, **({} if ident is None else {"message_id": ident}))


@dataclass
class Two:
    """The regions of a test."""

    regions: sq.Regions
    first: sq.MessageBox
    second: sq.MessageBox
    journal: Journal
    journal_dsn: str

    @property
    def boxes(self) -> tuple[sq.MessageBox, sq.MessageBox]:
        """Both boxes."""
        return self.first, self.second

    def has(self, box: sq.MessageBox) -> list[tuple[str, int, str]]:
        """The messages that wait in a box: session, number, id."""
        return self.rows(
            box,
            "SELECT group_key, sequence, message_id FROM {0}.entries JOIN {0}.spool USING (arrival_id, position) ORDER BY 1, 2, 3",
        )

    def rows(self, box: sq.MessageBox, sql: str, *parameters: object) -> list[tuple[Any, ...]]:
        """The rows of a query about a box; {} is its schema."""
        with box.access.connect() as connection:
            return connection.execute(sql.format(box.schema).encode(), parameters).fetchall()

    def outbox(self, box: sq.MessageBox) -> list[str]:
        """The ids of the messages that the other box lacks, as far as this one knows."""
        return [one for (one,) in self.rows(box, "SELECT message_id FROM {}.region_outbox ORDER BY 1")]


def past(box, *messages):
    """Publish to one box alone, as if the other one had been away: an application can't."""
    publisher = Publisher(box.access, messages, delay=None, visible_at=None, wait=0, own=True)
    with box.access.transaction() as transaction:
        publisher.publish(transaction)
