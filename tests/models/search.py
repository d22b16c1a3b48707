"""Exhaustive search: every state that a model can reach, breadth first, and the shortest way to the first one with a fault."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

__all__ = ["Found", "Model", "search", "stranded"]

S = TypeVar("S", bound=Hashable)

#: What happens in a step, in order, each a text with a place for one word; and that word.
Label = tuple[tuple[str, ...], object]


class Model(Protocol[S]):
    """Something that goes from state to state. Equal states are one state, and the same steps come in the same order each time."""

    start: S

    def alike(self, state: S) -> Iterator[S]:
        """The state, and those that differ from it by names only: what can happen after one of them can happen after each, under its names.

        The first of them that a search meets stands for all (symmetry reduction, as in Clarke, Grumberg and Peled, "Model Checking").
        """
        yield state

    def steps(self, state: S) -> Iterator[tuple[Label, S]]:
        """All that can happen next, each with the state that follows."""

    def fault(self, state: S) -> str | None:
        """The law that the state breaks."""


@dataclass(frozen=True)
class Found(Generic[S]):
    """The result of a search.

    `states`: those that were seen; all that there are, up to names, if there is no `fault`. `steps`: how many were taken. `trace`: what happens
    from the start to the fault; no other way there has fewer steps. `ends`: the states in which nothing can happen any more.
    """

    states: Collection[S] = field(repr=False)
    steps: int
    ends: tuple[S, ...] = field(repr=False)
    fault: str | None = None
    trace: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"{len(self.states):,} states, {self.steps:,} steps: {self.fault or 'no fault'}"]
        return "\n".join([*lines, *(f"  {place}. {what}" for place, what in enumerate(self.trace, 1))])


def search(model: Model[S]) -> Found[S]:
    """Look at every state that a model can reach, up to the first one with a fault."""
    came_by: dict[S, tuple[S, Label] | None] = {model.start: None}
    layer, steps, ends = [model.start], 0, []
    while layer:
        following = []
        for state in layer:
            if fault := model.fault(state):
                return Found(came_by.keys(), steps, tuple(ends), fault, _trace(came_by, state))
            before = steps
            for label, after in model.steps(state):
                steps += 1
                if _one_of(model.alike(after), came_by) is None:
                    came_by[after] = state, label
                    following.append(after)
            if steps == before:
                ends.append(state)
        layer = following
    return Found(came_by.keys(), steps, tuple(ends))


def stranded(model: Model[S], states: Collection[S], goal: Callable[[S], bool]) -> list[S]:
    """The states from which no way leads to a goal."""
    came_from: dict[S, list[S]] = {state: [] for state in states}
    for state in states:
        for _, after in model.steps(state):
            came_from[_one_of(model.alike(after), came_from)].append(state)
    todo = [state for state in states if goal(state)]
    fine = set(todo)
    while todo:
        fresh = [before for before in came_from[todo.pop()] if before not in fine]
        fine.update(fresh)
        todo += fresh
    return [state for state in states if state not in fine]


def _one_of(alike: Iterator[S], states: Container[S]) -> S | None:
    """The one of these that is among the states."""
    return next((state for state in alike if state in states), None)


def _trace(came_by: dict[S, tuple[S, Label] | None], state: S) -> tuple[str, ...]:
    """What happened up to a state."""
    happened: list[str] = []
    while (last := came_by[state]) is not None:
        state, (texts, word) = last
        happened[:0] = [text.format(word) for text in texts]
    return tuple(happened)
