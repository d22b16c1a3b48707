"""One noun for a list and for what is done with one of it: ``groups``, ``groups show c1``, and as well ``group show c1``.

A noun may be written in either number. Without a verb, or with ``list``, it lists. The words that a user typed are brought to those
of the command that is there, before click looks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from seriatim.errors import meant

#: Commands that list, and the commands whose verbs do something with one of what they list.
VERBS: Mapping[str, str] = {
    "connections": "connection",
    "groups": "group",
    "ports": "port",
    "queues": "queue",
    "schedules": "schedule",
    "subscriptions": "subscription",
}
#: Commands with verbs of which ``list`` is one.
LISTED = ("dead-letters", "dialogs", "instances", "messages")
#: Commands with verbs that list what is in a file, if it is named without a verb.
_OF_FILES = ("set-aside",)
#: The other commands with verbs: the verb by which each lists.
_LISTS: Mapping[str, str] = {
    "box": "status",
    "bulk": "list",
    "journal": "list",
    "link": "status",
    "pipeline": "list",
    "regions": "list",
    "token": "list",
}
#: Those of which something is shown, if a file is named without a verb.
_SHOWN_OF_FILES: Mapping[str, str] = {"pipeline": "show", "regions": "status"}
#: Commands that list and have no verbs.
_PLAIN = ("contracts", "events", "faults", "services", "types", "workers")

#: What has no command of its own, and words of other products: the command that shows it.
_SHOWN_BY: Mapping[str, str] = {
    **dict.fromkeys(("gate", "policy", "setting"), "queue show NAME"),
    **dict.fromkeys(("error", "exception", "failure"), "faults"),
    **dict.fromkeys(("consumer", "lease", "reader", "receiver"), "workers"),
    **dict.fromkeys(("lane", "stream"), "transmission"),
    **dict.fromkeys(("location", "status"), "box status"),
    **dict.fromkeys(("grant", "role"), "box grants"),
    "dlq": "dead-letters",
    "hole": "events",
    "job": "messages",
    "topic": "queues",
}

_HELP = ("-h", "--help")
_FILES = (".yaml", ".yml")
_PLURALS = {plural[:-1]: plural for plural in (*VERBS, *LISTED, *_PLAIN, "regions")}
_PLURALS |= {f"{one}s": one for one in ("link", "pipeline", "token")}


def brought_to_commands(words: Sequence[str], verbs_of: Callable[[str], Collection[str]]) -> list[str]:
    noun, rest = _PLURALS.get(words[0], words[0]), list(words[1:])
    first = rest[0] if rest else None
    if first == "list" and noun in (*VERBS, *_PLAIN):
        return [noun, *rest[1:]]
    if noun in VERBS:
        is_verb = first is not None and meant(first, verbs_of(VERBS[noun]))  # or a verb mistyped
        return [VERBS[noun] if is_verb or (first in _HELP and words[0] == VERBS[noun]) else noun, *rest]
    if noun in LISTED or noun in _OF_FILES:
        named = first in verbs_of(noun) if noun in _OF_FILES else first is not None and not first.startswith("-")
        return [noun, *rest] if named or first in _HELP else [noun, "list", *rest]
    if noun in _LISTS:
        return [noun, *_listing(noun, rest)]
    return [noun, *rest[1:]] if noun in _PLAIN and first == "show" else [noun, *rest]


def _listing(noun: str, rest: list[str]) -> list[str]:
    """The words behind a noun of `_LISTS`, with its verb."""
    first = rest[0] if rest else ""
    if first == "list" or (first not in _HELP and (not first or first.startswith("-"))):
        return [_LISTS[noun], *(rest[1:] if first == "list" else rest)]
    if noun in _SHOWN_OF_FILES and first.endswith(_FILES):
        return [_SHOWN_OF_FILES[noun], *rest]
    return rest


def shown_by(word: str) -> str | None:
    """The command that shows what a word stands for, in either number; None: it isn't known."""
    singulars = (word, word.removesuffix("s"), f"{word.removesuffix('ies')}y")
    return next((_SHOWN_BY[one] for one in singulars if one in _SHOWN_BY), None)
