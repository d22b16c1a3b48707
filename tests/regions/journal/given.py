"""What the tests of the journal share: its queue, messages, and time that passes."""

from __future__ import annotations

from seriatim.kernel.regions.claims import JournalAnswer
from seriatim.regions.journal.journal import Journal
from seriatim.regions.journal.values import Claim, ClaimAnswer, Numbered, WantedMessage, digest_of

__all__ = ["NAME", "QUEUE", "answers", "asked", "claim_of", "claimed", "let_pass", "numbered"]

NAME, QUEUE = "shop", "status"
_TIMES = {
    "sessions": ("lease_until", "hole_since", "forgotten_before", "used_at"),
    "entries": ("due_at", "changed_at"),
    "queues": ("forgotten_before",),
    "regions": ("outbox_since", "queue_since", "reported_at"),
    "pipelines": ("lease_until", "held_since"),
}


def let_pass(journal: Journal, seconds: float) -> None:
    """Time passes: all that the journal has noted is so much longer ago."""
    with journal.transaction() as tx:
        for table, columns in _TIMES.items():
            moved = ", ".join(f"{one} = {one} - {round(seconds * 1_000_000)}" for one in columns)
            tx.connection.execute(f"UPDATE seriatim_journal.{table} SET {moved}".encode())


def numbered(session: str, number: int, ident: str = "m", body: bytes = b"") -> Numbered:
    """A message with its number."""
    return Numbered(session, number, f"{ident}{number}", digest_of("status", None, body))


def asked(
    session: str, *numbers: int, ident: str = "m", body: bytes = b"", age: float = 0, over: int | None = None
) -> list[WantedMessage]:
    """Messages that a region has."""
    digest = digest_of("status", None, body)
    return [
        WantedMessage(session, number, f"{ident}{number}", digest, round(age * 1_000_000), over) for number in numbers
    ]


def claimed(
    journal: Journal, region: str, messages: list[WantedMessage], *, mode: str = "session", lease: float = 100.0
) -> list[ClaimAnswer]:
    """What a region is answered."""
    return journal.claim(NAME, QUEUE, region, messages, mode=mode, lease=lease)


def answers(found: list[ClaimAnswer]) -> list[JournalAnswer]:
    """The answers alone."""
    return [one.answer for one in found]


def claim_of(found: list[ClaimAnswer]) -> Claim:
    """The claim of the first message."""
    assert found[0].claim is not None, found
    return found[0].claim
