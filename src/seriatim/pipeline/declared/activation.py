"""The activation of a queue: its readers, started and stopped by ``seriatim serve`` as the load requires."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any

from seriatim.errors import UsageError, shown
from seriatim.kernel.arguments import refusing
from seriatim.pipeline.declared.error_class import checked_error_classes
from seriatim.pipeline.declared.function import checked_function
from seriatim.pipeline.declared.work_limits import (
    MOST_RUN,
    Mode,
    check_lease,
    check_mode,
    check_rate,
    check_turn_limit,
    check_whole,
)
from seriatim.pipeline.text.name import checked_name

__all__ = ["MOST_READERS", "Activation"]

#: The largest number of readers of a queue.
MOST_READERS = 256
_LONGEST = 10_000


@refusing(UsageError)
@dataclass(frozen=True, slots=True)
class Activation:
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
        run_length: the largest number of messages of a group in one transaction; None: as ``seriatim serve`` was started.
        rate: the largest number of messages a second, of all readers together; None: no limit.
        mode: ``"transactional"``, or ``"leased"`` for long handlers, as of a `Worker`.
        turn_limit: seconds (or ``"60s"``) of a turn, as of a `Worker`; None: as ``seriatim serve`` was started, and no
            limit under leases.
        lease: seconds (or ``"30s"``) after which another reader takes over the group of a lost reader.
        heartbeat: seconds between renewals of a lease, at most a third of `lease`; None: a fifth of it.
        transient: names of classes of exceptions, ``module:Class``, after which a retry may succeed, as of a `Worker`.
        business: names of classes of exceptions after which a retry won't help, as of a `Worker`.

    Raises:
        UsageError: a value is invalid.
    """

    handler: str | None = None
    _: KW_ONLY
    minimum: int = 0
    maximum: int = 1
    batch: bool = False
    run_as: str | None = None
    enabled: bool = True
    port: str | None = None
    run_length: int | None = None
    rate: float | None = None
    mode: str = Mode.TRANSACTIONAL.value
    turn_limit: float | str | None = None
    lease: float | str = 30.0
    heartbeat: float | str | None = None
    transient: Sequence[str] = ()
    business: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.handler is not None:
            checked_function(self.handler, "handler")
        self._check_port()
        for what, least in (("minimum", 0), ("maximum", 1)):
            value = getattr(self, what)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST_READERS:
                raise UsageError(
                    f"{what} can't be {shown(value)}",
                    remedy=f"a whole number from {least} to {MOST_READERS}",
                    argument=what,
                )
        if self.minimum > self.maximum:
            raise UsageError(
                f"minimum is {self.minimum}, and maximum {self.maximum}",
                remedy="raise maximum",
                argument=("minimum", "maximum"),
            )
        if self.run_as is not None:
            checked_name(self.run_as, "the name of a role (run_as)", "run_as")
        for what in ("batch", "enabled"):
            if not isinstance(value := getattr(self, what), bool):
                raise UsageError(f"{what} can't be {shown(value)}", remedy="True or False", argument=what)
        self._check_limits()
        for what in ("transient", "business"):
            object.__setattr__(self, what, checked_error_classes(getattr(self, what), what))

    def _check_limits(self) -> None:
        if self.run_length is not None:
            check_whole("run_length", self.run_length, MOST_RUN)
        check_rate(self.rate)
        check_turn_limit(self.turn_limit)
        check_lease(self.lease, self.heartbeat)
        check_mode(self.mode)
        if self.mode == Mode.LEASED and self.handler is None and self.port is None:
            raise UsageError(
                "mode can't be 'leased' where the handlers are those of starting subscriptions",
                remedy="name a handler, or leave mode out",
                argument=("mode", "handler"),
            )

    def _check_port(self) -> None:
        if self.port is None:
            return
        if not isinstance(self.port, str) or not 0 < len(self.port) <= _LONGEST or "\0" in self.port:
            raise UsageError("port can't be that", remedy="text, such as 'http: {url: https://…}'", argument="port")
        if self.handler is not None:
            raise UsageError(
                "an activation takes a port or a handler, not both",
                remedy="give one of them",
                argument=("port", "handler"),
            )

    def as_json(self) -> dict[str, Any]:
        """As a mapping of JSON values."""
        found = {one.name: getattr(self, one.name) for one in fields(self)}
        return found | {"transient": list(self.transient), "business": list(self.business)}
