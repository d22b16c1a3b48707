"""Find an order: a message id, a group's key or the value of a property, wherever the box has it."""

from __future__ import annotations

from dataclasses import replace

from seriatim.box.connection.access import Transaction
from seriatim.box.views import find as views
from seriatim.box.views.find import FindFilter, FoundMessage, SearchResult, Similar
from seriatim.operations.listing import listed

__all__ = ["FoundMessage", "SearchResult", "Similar", "find"]


@listed(FindFilter)
def find(transaction: Transaction, chosen: FindFilter) -> SearchResult:
    """Find what a box knows of a text: in queues, done (as far as it is kept), set aside, dead, unrouted, and in faults.

    Groups and faults are looked up by indexes. Ids and properties of messages have none, because every publisher would pay
    for it: the stored messages are read once, without their bodies: some seconds for a million.

    With `similar`, where nothing has the text: keys that begin with it (or match it: ``*`` stands for any text, ``?`` for one
    character), and ids that begin with it; of the newest 20,000 messages also those with it anywhere in their id, or as the
    value of a property.
    """
    found = views.find(transaction, transaction.definitions(), chosen)
    if not chosen.similar or found.is_anything:
        return found
    return replace(found, similar=views.similar_to(transaction, chosen))
