"""Check the spool: each reference has its message, and each message its ticket."""

from dataclasses import dataclass

from seriatim.box.connection.access import Transaction


@dataclass(frozen=True, slots=True)
class Problem:
    """A violation of the law of the spool: the fault, and the message (`arrival_id`, `position`)."""

    problem: str
    arrival_id: int
    position: int


def audit(transaction: Transaction, most: int = 100) -> list[Problem]:
    """The violations of the law of the spool, with a limit for each kind; empty if all is well. Every reference has its message and every
    message its ticket; a message that nothing refers to is noted for the clean-up. Reads all of it, in one statement and without locks.
    """
    return transaction.rows("audit_references", Problem, most=most)
