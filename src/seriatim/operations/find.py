"""Find an order: a message id, a group's key or the value of a property, wherever the box has it."""

from __future__ import annotations

from dataclasses import replace

from seriatim.box.box import MessageBox
from seriatim.box.views import find as views
from seriatim.box.views.find import FoundMessage, SearchResult, Similar
from seriatim.errors import UsageError, shown
from seriatim.operations.period import When, narrowed
from seriatim.pipeline.text.storable import checked_text

__all__ = ["FoundMessage", "SearchResult", "Similar", "find"]

_MOST = 10_000
#: Of so many messages, the newest ones, parts of ids are found.
_NEWEST = 20_000


def find(
    box: MessageBox,
    text: str,
    *,
    since: When | None = None,
    until: When | None = None,
    limit: int = 100,
    newest: int | None = None,
    similar: bool = False,
    properties: bool = True,
) -> SearchResult:
    """Find what a box knows of a text: in queues, done (as far as it is kept), set aside, dead, unrouted, and in faults.

    Groups and faults are looked up by indexes. Ids and properties of messages have none, because every publisher would pay
    for it: the stored messages are read once, without their bodies: some seconds for a million.

    Args:
        box: the box.
        text: a message id, a group's key, or the value of a property; a number fits however it is written.
        since: only messages published, and faults, from this moment on: a datetime, ISO text (without a zone: local time), or
            how long ago it was, as seconds or ``"2h"``.
        until: only messages published, and faults, before this moment, likewise.
        limit: the largest number of messages, of groups and of faults; the newest messages and faults are found.
        newest: only so many of the newest messages are read for values of properties, and for ids that are forgotten; None: all.
        similar: where nothing has the text: whether groups and messages are found that have it only in part, or with other capital letters:
            keys that begin with it (or match it: ``*`` stands for any text, ``?`` for one character), and ids that begin with it; of the
            newest 20,000 messages also those with it anywhere in their id, or as the value of a property.
        properties: whether values of properties are searched, which tells what they are.

    Raises:
        UsageError: the text, the limit or the range of time is invalid.
    """
    if not isinstance(text, str) or not text:
        raise UsageError(f"cannot find {shown(text)}", remedy="give a message id, a group's key or a property's value")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MOST:
        raise UsageError(f"cannot find {shown(limit)} messages", remedy=f"an integer from 1 to {_MOST:,}")
    checked_text(text, "a text to find")
    chosen = narrowed(since, until)
    with box.access.transaction() as transaction:
        found = views.find(
            transaction, box.access.known.current(transaction), text, chosen, limit, newest, properties=properties
        )
        if not similar or found.is_anything:
            return found
        return replace(
            found,
            similar=views.similar_to(
                transaction, text, chosen, limit, min(newest or _NEWEST, _NEWEST), properties=properties
            ),
        )
