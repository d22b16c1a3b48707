"""Read what a value says of its number, by a `Sequence`.

In memory, where names are keys of the value, and filters are keys or functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from seriatim.kernel.groups.arrivals import NOT_SAID
from seriatim.kernel.groups.numbers import BASE, RESTARTS, UNNUMBERED, Field, Sequence, by_position
from seriatim.kernel.groups.policy import Fifo, Policy, Standard
from seriatim.kernel.groups.positions import position_of
from seriatim.kernel.groups.sequence import position_reader
from seriatim.kernel.values.outcome import Reason
from seriatim.kernel.values.reading import HIGHEST, whole_number


class Read(NamedTuple):
    """What was read of a message: the reason why it is invalid.

    Or its number, its size or bits, its weight, and the last number that it covers.
    """

    reason: Reason
    number: int = 0
    size: int = NOT_SAID
    weight: int = 1
    through: int = 0
    epoch: int | None = None
    position: bytes | None = None


def property_of(what: Any, value: Any) -> Any:
    """A key of the value, or the result of a function; None if there is none."""
    if callable(what):
        return what(value)
    return value.get(what) if isinstance(value, Mapping) else None


class NumberReader:
    def __init__(self, policy: Policy, says: Sequence) -> None:
        self._policy, self._says = policy, says
        self._step = policy.increment if isinstance(policy, Standard) else 1
        # A number that turns over, or has an epoch beside it, is no ticket.
        plain = says.modulus is None and says.epoch is None
        self._number = position_reader(policy) if plain else whole_number

    def read(self, sequence: Any, value: Any, *, void: bool) -> Read:
        """What a message says; `void`: it is a void, and its value says nothing. `sequence`: what came with the value."""
        says = self._says
        if not void and self.holds(says.restarts, value):
            return Read(Reason.NONE, 0, RESTARTS, self._weight(value))
        if not void and self.holds(says.unnumbered, value):
            return Read(Reason.NONE, 0, UNNUMBERED, self._weight(value))
        if isinstance(self._policy, Fifo) or by_position(self._policy):
            return self._unnumbered(sequence, value, void=void)
        only = not void and self.holds(says.base_only, value)
        base = only or (not void and self.holds(says.base, value))
        weight = 0 if void or only else self._weight(value)
        found = self._span(sequence, value, void=void, base=base)
        if isinstance(found, Reason):
            return Read(found)
        first, last = found
        epoch = None
        if says.epoch is not None:
            epoch = whole_number(None if void else property_of(says.epoch, value))
            if isinstance(epoch, Reason):
                return Read(Reason.EPOCH_MISSING)
        bits = BASE if base else NOT_SAID
        return Read(Reason.NONE, last if base else first, bits, weight, last, epoch)

    def _unnumbered(self, sequence: Any, value: Any, *, void: bool) -> Read:
        """What a message says of which no number is read: its position, if it is ordered by that."""
        says, weight = self._says, 0 if void else self._weight(value)
        if isinstance(self._policy, Fifo):
            return Read(Reason.NONE, weight=weight)
        names = says.by if isinstance(says.by, tuple) else (says.by,)
        given = [] if void or says.by is None else [property_of(name, value) for name in names]
        found = sequence if all(one is None for one in given) else given if isinstance(says.by, tuple) else given[0]
        position = position_of(found, digits=says.format == "digits")
        if isinstance(position, Reason):
            return Read(position)
        return Read(Reason.NONE, weight=weight, position=position)

    def is_bare(self, value: Any) -> bool:
        return self.holds(self._says.restarts, value) or self.holds(self._says.unnumbered, value)

    def is_void(self, value: Any) -> bool:
        return not self._weight(value)

    def holds(self, what: Field | None, value: Any) -> bool:
        return what is not None and bool(property_of(what, value))

    def _weight(self, value: Any) -> int:
        return 0 if self.holds(self._says.void, value) else 1

    def _span(self, sequence: Any, value: Any, *, void: bool, base: bool) -> tuple[int, int] | Reason:
        """The first and the last number that a message covers."""
        says = self._says
        told = None if void or says.through is None else self._number(property_of(says.through, value))
        if isinstance(told, Reason) and told is Reason.SEQUENCE_MISSING:
            told = None
        if isinstance(told, Reason):
            return told
        if base and told is not None:
            return told, told
        first = self._first(sequence, value, void=void)
        if isinstance(first, Reason):
            return Reason.BASE_WITHOUT_NUMBER if base and first is Reason.SEQUENCE_MISSING else first
        last = first if told is None else told
        return Reason.ENDS_BEFORE if last < first and says.modulus is None else (first, last)

    def _first(self, sequence: Any, value: Any, *, void: bool) -> int | Reason:
        says = self._says
        if says.previous is None or void:
            given = sequence if says.by is None or void else property_of(says.by, value)
            return self._number(sequence if given is None else given)
        before = self._number(property_of(says.previous, value))
        if isinstance(before, Reason):
            return before
        if says.modulus is not None:
            return (before + self._step) % says.modulus if 0 <= before < says.modulus else Reason.NOT_OF_MODULUS
        return before + self._step if before <= HIGHEST - self._step else Reason.SEQUENCE_OVERFLOWS
