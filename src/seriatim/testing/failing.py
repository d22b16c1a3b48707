"""A function of a ``process`` step that fails at chosen messages, for tests of your pipelines."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from seriatim.errors import UsageError

__all__ = ["FailOn", "fail_on"]


@dataclass(frozen=True, slots=True)
class FailOn:
    """A function for a ``process`` step that fails at chosen messages, and otherwise calls `function`; see `fail_on`."""

    function: Callable[[Any], Any]
    messages: frozenset[str] = frozenset()
    share: float = 0.0
    seed: int = 0
    error: Callable[[str], BaseException] = RuntimeError

    def chooses(self, message_id: str) -> bool:
        """Whether the function fails at the message; the answer is the same on every machine."""
        lot = zlib.crc32(f"{self.seed}:{message_id}".encode()) / 2**32
        return message_id in self.messages or lot < self.share

    def __call__(self, messages: Any) -> Any:
        """Call the function with `messages`, a pyarrow.Table; fail if a chosen message is among them."""
        for message_id in messages.column("message_id").to_pylist():
            if self.chooses(message_id):
                raise self.error(f"told to fail at {message_id}")
        return self.function(messages)


def fail_on(
    function: Callable[[Any], Any],
    messages: Collection[str] = (),
    *,
    share: float = 0.0,
    seed: int = 0,
    error: Callable[[str], BaseException] = RuntimeError,
) -> FailOn:
    """Make a function of a ``process`` step fail.

    Assign the result to a name in a module, and write this name into the pipeline file: ``function: my_tests:apply``.

    Args:
        function: the step's function.
        messages: the ids of the messages at which it fails.
        share: the share of all other messages at which it fails, chosen by message id and `seed`. Every call chooses the
            same messages, so a repeated batch fails again.
        seed: see `share`.
        error: makes the exception from a text.

    Raises:
        UsageError: the share isn't between 0 and 1.
    """
    if not 0 <= share <= 1:
        raise UsageError(f"share must be from 0 to 1, not {share!r}")
    return FailOn(function, frozenset(messages), share, seed, error)
