"""Unique keys: of the messages with one key at most one waits in a queue. Which entries have a key, and where that can't be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from seriatim.box.definitions.entries import Entries
from seriatim.errors import UsageError
from seriatim.kernel.groups.policy import Standard, UnitOfWork
from seriatim.kernel.groups.sequence import MAX_KEY_BYTES
from seriatim.pipeline.declared.queue import Queue
from seriatim.pipeline.types.box_properties import UNIQUE_KEY
from seriatim.pipeline.types.message import Message, Property

_EMPTY = f"the {UNIQUE_KEY} is empty"
_TOO_LONG = f"the {UNIQUE_KEY} is longer than {MAX_KEY_BYTES:,} bytes"
_NUMBERED = f"the queue goes by numbers, and one that is left out for its {UNIQUE_KEY} would be a hole"
_PROBLEMS = frozenset({_EMPTY, _TOO_LONG, _NUMBERED})


def with_keys(entries: Entries, contexts: Sequence[Mapping[str, Property]], queues: Mapping[int, Queue]) -> Entries:
    """The entries with the unique keys of their messages; where one can't be, the entry is invalid."""
    keys: list[str | None] = []
    problems = list(entries.problems)
    for at, (place, queue_id, group) in enumerate(zip(entries.places, entries.queue_ids, entries.groups, strict=True)):
        given = contexts[place].get(UNIQUE_KEY)
        key = given if isinstance(given, str) and problems[at] is None else None
        if key is not None and (wrong := _problem(key, queues[queue_id], group)) is not None:
            key, problems[at] = None, wrong
        keys.append(key)
    return replace(entries, problems=problems, keys=keys)


def check_keys(entries: Entries, messages: Sequence[Message]) -> None:
    for place, problem in zip(entries.places, entries.problems, strict=True):
        if problem in _PROBLEMS:
            message = messages[place]
            remedy = "publish it without a key" if problem == _NUMBERED else "give another key, or none"
            raise UsageError(f"message {message.message_id}: {problem}", remedy=remedy)


def _problem(key: str, queue: Queue, group: str | None) -> str | None:
    if not key:
        return _EMPTY
    if len(key.encode()) > MAX_KEY_BYTES:
        return _TOO_LONG
    return _NUMBERED if isinstance(queue.policy_of(group), Standard | UnitOfWork) else None
