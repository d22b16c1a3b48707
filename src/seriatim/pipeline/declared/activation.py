"""The activation of a queue: its readers, started and stopped by ``seriatim serve`` as the load requires."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

from seriatim.errors import UsageError
from seriatim.kernel.arguments import refusing
from seriatim.kernel.fields import (
    Declaration,
    Flagged,
    Kind,
    Plain,
    Text,
    Value,
    Whole,
    Wrong,
    from_stored,
    takes,
    to_stored,
)
from seriatim.pipeline.declared.error_class import FaultKinds
from seriatim.pipeline.declared.function import checked_function
from seriatim.pipeline.declared.kinds import Name
from seriatim.pipeline.declared.work_limits import MODE, Lease, Mode, Pace

#: The largest number of readers of a queue.
MOST_READERS = 256


@dataclass(frozen=True)
class _Port(Text):
    """A port as text, which a file gives with its ``$${NAME}``."""

    remedy: str = "text, such as 'http: {url: https://…}'"

    def check(self, value: Any) -> Any:
        if len(super().check(value)) > 10_000 or "\0" in value:
            raise Wrong(self.remedy, "port can't be that", bare=True)
        return value


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class Activation(Declaration):
    """The readers of a queue; ``seriatim serve`` starts and stops them as the load requires.

    A reader is a process that works on one group at a time. The numbers count the readers on all machines together.

    Args:
        handler: the function that is called with messages, ``module:function``; None: the functions that the queue's starting
            subscriptions name.
        minimum: the number of readers that run even without work; 0 to `maximum`.
        maximum: the largest number of readers; 1 to 256.
        batch: call the handler once with all messages of a turn, as a `Worker` does.
        run_as: the database role of the handler; None: the reader's role.
        enabled: whether readers are started.
        port: the port that gets the messages in place of a handler, as text (``docs/reference/ports.md``). A reader
            replaces ``${NAME}`` in it by its own environment's value.
        pace: how much is worked on at a time, and how fast, as of a `Worker`; the rate is that of all readers together.
        mode: ``"transactional"``, or ``"leased"`` for long handlers, as of a `Worker`.
        lease: a `Lease`, or its seconds (or ``"30s"``), as of a `Worker`.
        faults: the kinds of faults by their classes of exceptions, as of a `Worker`; classes are named.

    Raises:
        UsageError: a value is invalid.
    """

    handler: str | None = takes(Text(further=checked_function), None)
    _: KW_ONLY
    minimum: int = takes(Whole(0, MOST_READERS), 0)
    maximum: int = takes(Whole(1, MOST_READERS), 1)
    batch: bool = takes(Flagged(), False)
    run_as: str | None = takes(Name("the name of a role"), None)
    enabled: bool = takes(Flagged(), True)
    port: str | None = takes(_Port(), None)
    pace: Pace = takes(Value(Pace, "Pace(run_length=10)", plain=False), factory=Pace)
    mode: str = takes(MODE, Mode.TRANSACTIONAL.value)
    lease: Plain[Lease, float | str] = takes(Value(Lease, "'30s', or Lease('30s', heartbeat='5s')"), factory=Lease)
    faults: FaultKinds = takes(Value(FaultKinds, "FaultKinds(transient=[…])", plain=False), factory=FaultKinds)

    def __post_init__(self) -> None:
        self._check_fields()
        if self.port is not None and self.handler is not None:
            raise self._wrong(
                ("port", "handler"), "an activation takes a port or a handler, not both", "give one of them"
            )
        if self.minimum > self.maximum:
            raise self._wrong(
                ("minimum", "maximum"), f"minimum is {self.minimum}, and maximum {self.maximum}", "raise maximum"
            )
        if self.mode == Mode.LEASED and self.handler is None and self.port is None:
            raise self._wrong(
                ("mode", "handler"),
                "mode can't be 'leased' where the handlers are those of starting subscriptions",
                "name a handler, or leave mode out",
            )
        for name in ("transient", "business"):
            if not all(isinstance(one, str) for one in getattr(self.faults, name)):
                raise self._wrong(
                    f"faults.{name}", f"{name} has a class, which no box can keep", "name it, as module:Class"
                )


@dataclass(frozen=True)
class OfActivation(Kind):
    """An activation, which is stored as a mapping of its own."""

    def check(self, value: Any) -> Any:
        """As of every kind, as those that follow."""
        if not isinstance(value, Activation):
            raise Wrong("such as Activation('orders:handle', maximum=4)")
        return value

    def stored(self, key: str, value: Any) -> dict[str, Any]:
        return {key: None if value is None else to_stored(value)}

    def restored(self, key: str, stored: Mapping[str, Any]) -> Any:
        return None if stored[key] is None else from_stored(Activation, stored[key])
