"""`HandlerTransaction`: the object that a handler of a region's worker gets: a transaction of the journal's database."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from seriatim.errors import UsageError
from seriatim.regions.journal.values import Claim, Token

if TYPE_CHECKING:
    import psycopg

    from seriatim.regions.journal.journal import JournalTransaction


def key_of(queue: str, session: str, number: int) -> str:
    """The key of a message in systems elsewhere: it is the same in both regions, and at each attempt."""
    return f"{queue}/{session}/{number}"


class HandlerTransaction:
    """The transaction of one call of a handler. It is begun by its first statement; the completion of the message is its last.

    Writes elsewhere, the box of the region included, happen at least once: before the completion, under `key`, with `token`.

    Args:
        transaction: of the journal's database.
        claim: under which the message is handled.
        number: the message's; of a batch, the first one's.
        check: raises `LeaseLost` if the claim is over.
    """

    def __init__(self, transaction: JournalTransaction, claim: Claim, number: int, check: Callable[[], None]) -> None:
        self._transaction: JournalTransaction | None = transaction
        self._claim = claim
        self._number = number
        self._check = check

    @property
    def connection(self) -> psycopg.Connection:
        """The psycopg connection to the journal's database: its writes commit with the completion.

        Raises:
            LeaseLost: the claim is over.
            UsageError: the handler has returned.
        """
        if self._transaction is None:
            raise UsageError("the transaction has ended", remedy="use the one of the message that is worked on")
        self._check()
        return self._transaction.connection

    @property
    def key(self) -> str:
        """``queue/session/number`` of the message, of a batch that of the first: a key for systems elsewhere."""
        return key_of(self._claim.queue, self._claim.session, self._number)

    @property
    def token(self) -> Token:
        """The token that tells a write from one of an earlier claim, for systems elsewhere that compare it: the incarnation of the journal,
        then the claim's version.
        """
        return self._claim.token

    def end(self) -> None:
        """The handler has returned."""
        self._transaction = None
