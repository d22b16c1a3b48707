"""What a window does, worked out event by event: a second opinion on the pipeline, and the delay that it costs.

The rules are those of `best_effort`. A round of a case begins with its first event; at the end of the window its highest
number is fixed, and for a tenth of the window more only lower ones join; then it leaves, ascending. What is below the
highest number of an earlier round is out of order for good, and isn't kept waiting.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from examples.receipt.feed import Event

__all__ = ["BUFFER", "WINDOWS", "Left", "behind", "leave"]

#: The windows of the pipeline, each under the name of its destination.
WINDOWS = {
    "window-1m": timedelta(minutes=1),
    "window-10m": timedelta(minutes=10),
    "window-1h": timedelta(hours=1),
    "window-1d": timedelta(days=1),
    "window-7d": timedelta(days=7),
    "window-30d": timedelta(days=30),
}
#: The share of a window in which lower numbers may still join; the default of `best_effort`.
BUFFER = 0.10


@dataclass(frozen=True, slots=True)
class Left:
    """An event that left its case: how long it waited, and whether a higher number had left before it."""

    event: Event
    waited: timedelta
    late: bool


def by_case(events: Iterable[Event]) -> list[list[Event]]:
    """The events of each case, in order of completion."""
    cases: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        cases[event.case].append(event)
    return list(cases.values())


def leave(events: Iterable[Event], window: timedelta) -> list[Left]:
    """All events in the order in which they leave their cases."""
    return [left for case in by_case(events) for left in _leave_case(case, window)]


def _leave_case(case: list[Event], window: timedelta) -> list[Left]:
    left: list[Left] = []
    highest, waiting, begins = 0, list[Event](), case[0].completed
    coming = case[::-1]
    while coming or waiting:
        if not waiting:
            begins = coming[-1].completed
        fixed, ends = begins + window, begins + window * (1 + BUFFER)
        joined, waiting = waiting, []
        while coming and coming[-1].completed <= ends:
            event = coming.pop()
            if event.task < highest:
                left.append(Left(event, timedelta(0), late=True))
                if not joined:
                    break  # it begins no round
            elif event.completed <= fixed or event.task < max(one.task for one in joined):
                joined.append(event)
            else:
                waiting.append(event)
        joined.sort(key=lambda event: event.task)
        left += [Left(event, ends - event.completed, late=False) for event in joined]
        highest, begins = max([highest, *(event.task for event in joined)]), ends
    return left


def behind(events: Iterable[Event]) -> list[float]:
    """Of each event that is recorded after a higher number of its case: by how many seconds after the first such one."""
    found = []
    for case in by_case(events):
        tasks = np.array([event.task for event in case])
        times = np.array([event.completed.timestamp() for event in case])
        for place in range(len(case)):
            higher = times[:place][tasks[:place] > tasks[place]]
            if len(higher):
                found.append(float(times[place] - higher[0]))
    return found
