"""Find an order: by a message id, a group's key or the value of a property, wherever it is. Reads without locks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, dataclass
from datetime import datetime
from decimal import Decimal

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import Definitions
from seriatim.box.views import listing
from seriatim.box.views.faults import FaultView
from seriatim.box.views.groups import GroupFilter, GroupView, groups_of
from seriatim.box.views.listing import Listing, When, containing
from seriatim.box.views.message_places import Placed
from seriatim.errors import UsageError, shown
from seriatim.pipeline.text.storable import checked_text

#: Text that may be a number in a property. It is written without an exponent there.
_NUMBER = re.compile(r"-?\d{1,40}(\.\d{1,40})?", re.ASCII)

#: No id that begins with a text is above that text and this, in any order of letters.
_ABOVE = "zzzz"
#: In JSON: no property has this value.
_NO_VALUE = "[]"
#: The least number of characters of a part of an id.
_PART = 4
#: Of so many messages, the newest ones, parts of ids are found.
_NEWEST = 20_000


def _check(text: object) -> None:
    if not isinstance(text, str) or not text:
        raise UsageError(f"cannot find {shown(text)}", remedy="give a message id, a group's key or a property's value")
    checked_text(text, "a text to find")


@dataclass(frozen=True, slots=True)
class FoundMessage(Placed):
    """A found message in one queue, or an unrouted message.

    Args:
        matched: the place of the text: ``message id``, ``group``, or the name of a property.
    """

    matched: str = ""


@dataclass(frozen=True, slots=True)
class Similar:
    """A message or a group that has a text only in part, or with other capital letters.

    Args:
        matched: its place: ``group``, ``message id``, or the name of a property.
        message_id: the message's id; None for a group.
        queue: the group's queue; None for a message.
        group: the group's key; None for a message.
        at: when the message was published, or the time from which the group has its state.
    """

    matched: str
    message_id: str | None
    queue: str | None
    group: str | None
    at: datetime | None


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a box knows of a text.

    Args:
        text: the text.
        groups: the groups with this key, also those without messages.
        messages: the messages with it, newest first, once for each queue. Of done messages only those that are kept.
        faults: the failures of handlers at messages with this id, or in groups with this key, newest first.
        published: when messages with this id were published, as long as their ids are remembered, though they may be gone.
        keeps: the queues that may have had it and keep nothing of done messages, or only those that failed, by name.
        similar: where nothing was found, and it was asked for: what has a key or an id that is only similar.
    """

    text: str
    groups: tuple[GroupView, ...]
    messages: tuple[FoundMessage, ...]
    faults: tuple[FaultView, ...]
    published: tuple[datetime, ...]
    keeps: Mapping[str, str]
    similar: tuple[Similar, ...] | None = None

    @property
    def is_anything(self) -> bool:
        return bool(self.groups or self.messages or self.faults or self.published)


@dataclass(frozen=True, slots=True)
class FindFilter(Listing):
    text: str = listing.given(
        "A message id, a group's key, or the value of a property; a number fits however it is written.", MISSING, _check
    )
    _: KW_ONLY
    since: When | None = listing.since("messages published, and faults,")
    until: When | None = listing.until("messages published, and faults,")
    limit: int = listing.limit("messages", most=10_000)
    similar: bool = listing.flag(
        "Where nothing has the text, find keys and ids that have it in part, whatever their capital letters."
    )
    newest: int | None = listing.given(
        "Only so many of the newest messages are read for values of properties, and for ids that are forgotten; None: all."
    )
    properties: bool = listing.given("Whether values of properties are searched, which tells what they are.", True)


def find(transaction: Transaction, definitions: Definitions, chosen: FindFilter) -> SearchResult:
    """Find a text, in a round trip each for groups, messages, faults and ids; at most `limit` rows of each."""
    text, limit = chosen.text, chosen.limit
    keys = _keys(definitions, text)
    parameters = chosen.parameters() | {"group_keys": keys}
    texts = {"text": json.dumps(text), "number": json.dumps(text), "truth": json.dumps(text)}
    if _NUMBER.fullmatch(text):
        texts["number"] = format(Decimal(text), "f")
    if text in ("true", "false"):
        texts["truth"] = text
    if not chosen.properties:
        texts = dict.fromkeys(texts, _NO_VALUE)
    as_json = "{" + ", ".join(f'"{name}": {value}' for name, value in texts.items()) + "}"
    groups = groups_of(transaction, GroupFilter(limit=limit), keys)
    messages = transaction.rows("found_messages", FoundMessage, **parameters, given=as_json)
    faults = transaction.rows("found_faults", FaultView, **parameters)
    published = transaction.rows("published_at", message_id=text, id_space=None)
    keeps: dict[str, str] = {
        name: queue.declared.keeps
        for name, queue in sorted(definitions.queues.items())
        if queue.declared.keeps != "everything"
    }
    return SearchResult(
        text, tuple(groups), tuple(messages), tuple(faults), tuple(row.published_at for row in published), keeps
    )


def similar_to(transaction: Transaction, chosen: FindFilter) -> tuple[Similar, ...]:
    """What is similar to a text: at most `limit` groups, by queue and key, and `limit` messages, newest first. Whatever its capital
    letters: groups whose key begins with it, or matches it as a pattern with ``*`` and ``?``; messages whose id begins with it, as far as
    ids are remembered, if it has 4 characters or more; and of the newest messages those that have it in their id, or as the value of a
    property. It is read by indexes, and so no more than that.
    """
    text, limit = chosen.text, chosen.limit
    variants = list(dict.fromkeys((text, text.lower(), text.upper(), text.capitalize())))
    groups: dict[tuple[str, str], Similar] = {}
    for variant in variants:
        pattern = variant if re.search(r"[*?]", variant) else f"{variant}*"
        if pattern[0] in "*?":  # that would read all keys
            continue
        for view in groups_of(transaction, GroupFilter(key=pattern, limit=limit)):
            groups[view.queue, view.group] = Similar("group", None, view.queue, view.group, view.since)
    texts = {f"given{at}": variants[at % len(variants)] if chosen.properties else [] for at in range(4)}
    parts = variants if len(text) >= _PART else []  # two letters are in many ids
    rows = transaction.rows(
        "similar_messages", Similar, variants=variants, given=json.dumps(texts), pattern=containing(text) if parts else None,
        beginnings=parts, above=[f"{variant}{_ABOVE}" for variant in parts],
        **chosen.parameters() | {"newest": min(chosen.newest or _NEWEST, _NEWEST)},
    )  # fmt: skip
    return (*(groups[variant] for variant in sorted(groups)[:limit]), *rows)


def _keys(definitions: Definitions, text: str) -> Sequence[str]:
    """The keys of groups that are meant: of a queue by types, the type and the key."""
    if not any(queue.declared.group.by_type is not None for queue in definitions.queues.values()):
        return [text]
    return [text, *(f"{kind}/{text}" for kind in sorted(definitions.types))]
