"""The hooks of tracing: the additions of a publish to messages, and the block around a turn. Without tracing it does nothing.

It knows nothing of OpenTelemetry; `seriatim.tracing` installs itself here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, Self

from seriatim.pipeline.types.message import Received


class TurnTrace(AbstractContextManager["TurnTrace"], Protocol):
    """The traces of the turns of one transaction, or of one lease; a context manager around it."""

    def received(self, messages: Sequence[Received]) -> None:
        """Messages were handed out; a former turn has ended."""

    def process(self, messages: Sequence[Received]) -> AbstractContextManager[object]:
        """Around the call of a handler with messages."""

    def settles(self) -> None:
        """Note that processed messages are completed now: until the next message, or the end."""


class Tracing(Protocol):
    def published(self, queue: str | None = None) -> Mapping[str, str]:
        """The properties that messages get which are published now; empty: nothing is traced."""

    def turn(self, queue: str) -> TurnTrace:
        """Return the trace of a turn that begins now."""


class Untraced:
    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def received(self, messages: Iterable[Received]) -> None:
        """Does nothing."""

    def process(self, messages: Iterable[Received]) -> AbstractContextManager[object]:
        return _NOTHING

    def settles(self) -> None:
        """Does nothing."""


_NOTHING: AbstractContextManager[object] = nullcontext()
_UNTRACED = Untraced()


class _Traces:
    __slots__ = ("tracing",)

    def __init__(self) -> None:
        self.tracing: Tracing | None = None

    def turn(self, queue: str) -> TurnTrace:
        return _UNTRACED if self.tracing is None else self.tracing.turn(queue)


#: The tracing of this process.
TRACES = _Traces()
