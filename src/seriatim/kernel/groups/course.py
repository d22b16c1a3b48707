"""Judge groups in steps: keep the state after each step, and gather the decisions and events of all of them."""

from __future__ import annotations

from seriatim.kernel.groups.state import State
from seriatim.kernel.values.columns import Ints
from seriatim.kernel.values.outcome import Decided, Events, no_events, no_messages

#: A state, what was decided, and what happened.
Judged = tuple[State, Decided, Events]


class Course:
    """The steps of one call of the kernel. `state`: the groups after the last step."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._decided, self._events = [no_messages()], [no_events()]

    def go(self, state: State, decided: Decided | None = None, events: Events | None = None) -> State:
        """Take a step, and return the state after it."""
        self.state = state
        self.note(decided, events)
        return state

    def note(self, decided: Decided | None = None, events: Events | None = None) -> None:
        if decided is not None:
            self._decided.append(decided)
        if events is not None:
            self._events.append(events)

    def go_among(self, rows: Ints, part: State, decided: Decided, events: Events) -> State:
        """Take a step of some groups, which were judged by themselves as `part`."""
        return self.go(*among(self.state, rows, part, decided, events))

    def judged(self) -> Judged:
        return self.state, Decided.concat(self._decided), Events.concat(self._events)


def among(state: State, rows: Ints, part: State, decided: Decided, events: Events) -> Judged:
    """Return the state with the groups of `rows` replaced by `part`, and their decisions and events with the rows of the whole state."""
    group, of = rows[decided.group], rows[events.group]
    return state.replace(rows, part), decided.with_columns(group=group), events.with_columns(group=of)
