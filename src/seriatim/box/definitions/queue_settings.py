"""`QueueSettings`: what an operator has set for a queue, and its processes obey while they run."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from seriatim.box.postgres.statements import Statements
from seriatim.errors import UsageError, shown
from seriatim.kernel.fields import Declaration, Kind, Wrong, rows, takes
from seriatim.pipeline.declared.work_limits import IN_FLIGHT, RATE, RUN_LENGTH, WORKERS, rate_text


@dataclass(frozen=True, slots=True)
class QueueSettings(Declaration):
    """The settings of a queue; None: not set, so that each process works as it was started.

    Args:
        workers: the number of threads in each process of `seriatim work`; the largest number of readers of `seriatim serve`.
        in_flight: the largest number of groups that all processes together work on at once.
        rate: the largest number of messages a second, of all processes together.
        run_length: the largest number of messages of a group in one transaction.
        set_by: the operator who has set or unset something last.
        set_at: the time at which that was.
    """

    workers: int | None = takes(WORKERS, None)
    in_flight: int | None = takes(IN_FLIGHT, None)
    rate: float | None = takes(RATE, None)
    run_length: int | None = takes(RUN_LENGTH, None)
    set_by: str | None = takes(Kind(), None)
    set_at: datetime | None = takes(Kind(), None)

    @property
    def values(self) -> dict[str, Any]:
        return {name: value for name in SETTINGS if (value := getattr(self, name)) is not None}

    def __str__(self) -> str:
        told = {name: rate_text(value) if name == "rate" else f"{value:,}" for name, value in self.values.items()}
        return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in told.items()) or "nothing"


#: What can be set.
SETTINGS = tuple(one.name for one in rows(QueueSettings) if not one.name.startswith("set_"))


def check_setting(name: str, value: object) -> None:
    """Raises `UsageError` unless there is a setting of that name, and it can have this value; None unsets it."""
    if name not in SETTINGS:
        raise UsageError(f"there is no setting {shown(name)}", remedy=f"one of {', '.join(SETTINGS)}")
    for row in rows(QueueSettings):
        if row.name == name and value is not None:
            try:
                row.kind.check(value)
            except Wrong as wrong:
                raise UsageError(wrong.of(name, shown(value)), remedy=wrong.remedy, argument=name) from None


def settings_of(statements: Statements, queue: str) -> QueueSettings:
    return statements.maybe("queue_settings_of", QueueSettings, queue=queue) or QueueSettings()
