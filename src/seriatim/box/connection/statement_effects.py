"""Find the statements of an SQL text that end a transaction, roll back to a savepoint, or set something beyond it.

The box has to follow the transaction of each delivery. It sees the calls `Connection.commit`, `rollback` and
`transaction`; it finds a ``COMMIT`` in SQL text only here. The text is split into statements by PostgreSQL's rules, so
words in comments, quoted text and function bodies don't count. This module knows no connections.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Flag, auto
from functools import lru_cache


class Effect(Flag):
    NONE = 0
    #: Begins or ends one: ``BEGIN``, ``COMMIT``, ``END``, ``ROLLBACK``, ``ABORT``, ``PREPARE TRANSACTION``.
    ENDS = auto()
    #: Goes back to a savepoint.
    GOES_BACK = auto()
    #: Makes a setting of the connection, which holds after the transaction: ``SET``, ``RESET``, ``DISCARD``, ``LISTEN``.
    SETS = auto()


#: A text without any of these has no such statement.
_ANY = re.compile(
    r"abort|begin|commit|discard|end|\blisten|prepare|reset|rollback|\bset\b|set_config|start", re.IGNORECASE
)
_TOKEN = re.compile(
    r"""
      (?P<blank> \s+ | --[^\n\r]* )
    | (?P<comment> /\* )
    | (?P<dollar> \$ (?: [^\W\d]\w* )? \$ )
    | (?P<quoted> [eE] ' (?: [^'\\] | '' | \\. )* ' | ' (?: [^'] | '' )* ' | " (?: [^"] | "" )* " )
    | (?P<word> [^\W\d] [\w$]* )
    | (?P<stop> ; )
    | (?P<other> . )
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_ENDS = re.compile(r"/\*|\*/")
#: Texts up to this length are remembered, a thousand of them: an application executes the same few again and again.
_REMEMBERED_CHARACTERS = 4096
#: A few longer texts up to this length are remembered, such as those that list groups: reading one takes milliseconds.
_LONG_CHARACTERS, _LONG_TEXTS = 65_536, 64
_CALL = re.compile("set_config", re.IGNORECASE)
#: A call that makes a setting of the transaction only, by its argument.
_FOR_TRANSACTION = re.compile(r"set_config\s*\([^()]*,\s*true\s*\)", re.IGNORECASE)
#: A ``SET`` with one of these words lasts until the end of the transaction.
_OF_TRANSACTION = frozenset({"LOCAL", "TRANSACTION", "CONSTRAINTS"})


def effect_of(text: str) -> Effect:
    if len(text) <= _REMEMBERED_CHARACTERS:
        return _remembered(text)
    return _remembered_long(text) if len(text) <= _LONG_CHARACTERS else _effect_of(text)


def _effect_of(text: str) -> Effect:
    if _ANY.search(text) is None:
        return Effect.NONE
    effect = Effect.NONE
    for words in _statements(text):
        effect |= _effect_of_one(words)
        if "SET_CONFIG" in words and len(_FOR_TRANSACTION.findall(text)) < len(_CALL.findall(text)):
            effect |= Effect.SETS
    return effect


_remembered = lru_cache(maxsize=1024)(_effect_of)
_remembered_long = lru_cache(maxsize=_LONG_TEXTS)(_effect_of)


def _effect_of_one(words: list[str]) -> Effect:
    match words:
        case ["ROLLBACK" | "ABORT", *rest] if "TO" in rest[:2]:
            return Effect.GOES_BACK
        case ["ABORT" | "BEGIN" | "COMMIT" | "END" | "ROLLBACK", *_]:
            return Effect.ENDS
        case ["START" | "PREPARE", "TRANSACTION", *_]:
            return Effect.ENDS
        case ["SET", second, *_] if second not in _OF_TRANSACTION:
            return Effect.SETS
        case ["RESET" | "DISCARD" | "LISTEN", *_]:
            return Effect.SETS
    return Effect.NONE


def _statements(text: str) -> Iterator[list[str]]:
    """The words of each statement in upper case, without quoted words."""
    words: list[str] = []
    depth = 0
    for kind, token in _tokens(text):
        if kind == "stop":
            if depth == 0:
                yield words
                words = []
            continue
        word = token.upper()
        # The body of a function in SQL: BEGIN ATOMIC … END, with statements and CASE … END in it.
        if words[:1] == ["CREATE"]:
            if (depth == 0 and word == "ATOMIC" and words[-1] == "BEGIN") or (depth and word == "CASE"):
                depth += 1
            elif depth and word == "END":
                depth -= 1
        words.append(word)
    yield words


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while (token := _TOKEN.match(text, at)) is not None:
        at = token.end()
        match token.lastgroup:
            case "comment":
                at = _behind_comment(text, at)
            case "dollar":
                closed = text.find(token[0], at)
                at = len(text) if closed < 0 else closed + len(token[0])
            case "word" | "stop" as kind:
                yield kind, token[0]


def _behind_comment(text: str, at: int) -> int:
    """The end of a comment that began before `at`; comments may be nested."""
    depth = 1
    while depth:
        if (comment_end := _COMMENT_ENDS.search(text, at)) is None:
            return len(text)
        depth += 1 if comment_end[0] == "/*" else -1
        at = comment_end.end()
    return at
