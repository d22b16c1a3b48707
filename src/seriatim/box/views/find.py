"""Find an order: by a message id, a group's key or the value of a property, wherever it is. Reads without locks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import Definitions
from seriatim.box.views.faults import FaultView
from seriatim.box.views.filters import Narrowed
from seriatim.box.views.groups import GroupFilter, GroupView, containing, groups_of
from seriatim.box.views.message_places import Placed

__all__ = ["FoundMessage", "SearchResult", "Similar", "find", "similar_to"]

#: Text that may be a number in a property. It is written without an exponent there.
_NUMBER = re.compile(r"-?\d{1,40}(\.\d{1,40})?", re.ASCII)


#: No id that begins with a text is above that text and this, in any order of letters.
_ABOVE = "zzzz"
#: In JSON: no property has this value.
_NO_VALUE = "[]"
#: The least number of characters of a part of an id.
_PART = 4


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
        """Whether anything was found."""
        return bool(self.groups or self.messages or self.faults or self.published)


def find(
    transaction: Transaction,
    definitions: Definitions,
    text: str,
    narrowed: Narrowed,
    limit: int,
    newest: int | None = None,
    *,
    properties: bool = True,
) -> SearchResult:
    """Find a text, in a round trip each for groups, messages, faults and ids; at most `limit` rows of each. `newest`: only so many of the
    newest messages are read for values of properties and for ids that are not remembered; None: all. `properties`: whether these are
    searched at all.
    """
    keys = _keys(definitions, text)
    parameters = {"text": text, "group_keys": keys, "limit": limit, **narrowed.parameters()}
    texts = {"text": json.dumps(text), "number": json.dumps(text), "truth": json.dumps(text)}
    if _NUMBER.fullmatch(text):
        texts["number"] = format(Decimal(text), "f")
    if text in ("true", "false"):
        texts["truth"] = text
    if not properties:
        texts = dict.fromkeys(texts, _NO_VALUE)
    as_json = "{" + ", ".join(f'"{name}": {value}' for name, value in texts.items()) + "}"
    groups = groups_of(transaction, GroupFilter(), limit=limit, groups=keys)
    messages = transaction.rows("found_messages", FoundMessage, **parameters, given=as_json, newest=newest)
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


def similar_to(
    transaction: Transaction, text: str, narrowed: Narrowed, limit: int, newest: int, *, properties: bool = True
) -> tuple[Similar, ...]:
    """Return similar results for a text: at most `limit` groups, by queue and key, and `limit` messages, newest first. Whatever its capital
    letters: groups whose key begins with it, or matches it as a pattern with ``*`` and ``?``; messages whose id begins with it, as far as
    ids are remembered, if it has 4 characters or more; and of the `newest` messages those that have it in their id, or as the value of a
    property. It is read by indexes, and so no more than that.
    """
    variants = _variants(text)
    groups: dict[tuple[str, str], Similar] = {}
    for variant in variants:
        pattern = variant if re.search(r"[*?]", variant) else f"{variant}*"
        if pattern[0] in "*?":  # that would read all keys
            continue
        for view in groups_of(transaction, GroupFilter(key=pattern), limit=limit):
            groups[view.queue, view.group] = Similar("group", None, view.queue, view.group, view.since)
    texts = {f"given{at}": variants[at % len(variants)] if properties else [] for at in range(4)}
    parts = variants if len(text) >= _PART else []  # two letters are in many ids
    rows = transaction.rows(
        "similar_messages", Similar, variants=variants, given=json.dumps(texts), pattern=containing(text) if parts else None,
        beginnings=parts, above=[f"{part}{_ABOVE}" for part in parts], limit=limit, newest=newest, **narrowed.parameters(),
    )  # fmt: skip
    return (*(groups[group] for group in sorted(groups)[:limit]), *rows)


def _variants(text: str) -> list[str]:
    """Return the spellings of a text: unchanged, in small letters, in capitals, and with one capital at its beginning."""
    return list(dict.fromkeys((text, text.lower(), text.upper(), text.capitalize())))


def _keys(definitions: Definitions, text: str) -> Sequence[str]:
    """The keys of groups that are meant: of a queue by types, the type and the key."""
    if not any(queue.declared.level == "type" for queue in definitions.queues.values()):
        return [text]
    return [text, *(f"{kind}/{text}" for kind in sorted(definitions.types))]
