"""What a region's worker asks its box for: how old messages are, what is over, and which other message has the same number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seriatim.box.connection.access import Transaction

__all__ = ["ages", "exchange", "over_through", "raise_over"]


def ages(transaction: Transaction, ids: Sequence[str]) -> dict[str, int]:
    """How many microseconds ago messages were published, also those that came as copies; those that came otherwise aren't there.

    That is what `Asked.age` has to be: a copy is as old as its original.

    Args:
        transaction: of the box.
        ids: the ids of the messages.
    """
    return {row.message_id: row.age for row in transaction.rows("region_ages_of", of_messages=list(ids))}


def over_through(transaction: Transaction, queue_id: int, sessions: Sequence[str]) -> dict[str, int]:
    """Through which number sessions are over, as far as the box has heard from the journal.

    Args:
        transaction: of the box.
        queue_id: the queue in the box.
        sessions: the sessions.
    """
    rows = transaction.rows("region_over", of_queue=queue_id, of_sessions=list(sessions))
    return {row.session: row.over_through for row in rows}


def raise_over(transaction: Transaction, queue_id: int, through: Mapping[str, int]) -> None:
    """Note what the journal has said: all numbers of sessions through these are over. It locks the sessions in the order of their keys.

    Args:
        transaction: of the box.
        queue_id: the queue in the box.
        through: for each session the number.
    """
    sessions = sorted(through, key=str.encode)
    transaction.do(
        "region_raise_over", of_queue=queue_id, of_sessions=sessions, overs=[through[one] for one in sessions]
    )


def exchange(transaction: Transaction, queue_id: int, session: str, number: int, message_id: str | None = None) -> bool:
    """Of several messages under one number, let another one take the place of the one in the queue, which the journal has called a conflict.

    The caller has the group, and puts its message back: the next receiver gets the other one. Both stay in the box until the number is over.

    Args:
        transaction: of the box, in which the group is locked.
        queue_id: the queue in the box.
        session: the session.
        number: the number.
        message_id: which one; None: any.

    Returns:
        whether there is one; False: it may still come.
    """
    return bool(
        transaction.value(
            "region_exchange", of_queue=queue_id, of_session=session, of_number=number, of_message=message_id
        )
    )
