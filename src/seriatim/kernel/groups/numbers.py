"""What a producer's numbers mean: `Sequence`, the value that says so, and which policy keeps which of its rules.

The rules are on the page ``docs/reference/numbers.md``; they are computed in ``policies/numbers.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as List
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, Final, Literal

from seriatim.errors import PolicyError, shown
from seriatim.kernel.arguments import refusing
from seriatim.kernel.groups.policy import BestEffort, BestEffortNumbers, Policy, Standard, StandardNumbers

#: The name of a property or a column; with a `Sequencer` a key of the value or a function of it.
Field = str | Callable[[Any], Any]

#: The bits of a message (`Arrivals.size`, `Held.bits`): it has everything through its number in it; its producer begins anew; it has no
#: number;
#: it is late, and of the epoch before; it waits in a line.
BASE, RESTARTS, UNNUMBERED, OF_ENDED, IN_LINE = 16, 32, 64, 128, 256
#: Where an engine stores bits and no weights: it is a void; it has a position.
VOID, POSITION = 512, 8192

_LEAST_MODULUS, _LARGEST_MODULUS = 3, 2**62
#: The rules that are for contiguous numbers.
_OF_STANDARD = ("through", "previous", "epoch", "base", "base_only", "restarts", "unnumbered")
_FILTERS: Final = ("base", "base_only", "restarts", "unnumbered", "void")


@refusing(PolicyError)
@dataclass(frozen=True, slots=True)
class Sequence:
    """What the numbers of a producer mean. What is done with them is the policy's.

    Names are those of properties or columns, and filters are as those of subscriptions. With a `Sequencer` both are keys of the value, or
    functions of it.

    Args:
        by: the number. With ``BestEffort(by="position")`` it may be several names, which make one position. With a `Sequencer` None:
            the sequence that comes with the value, which also stands in where a value has no such key.
        through: the last number that a message covers, from its own on.
        previous: in place of `by`: the number of the message before. The message covers what follows on that one, up to `through`.
        modulus: numbers turn over: 0 follows on ``modulus - 1``.
        format: ``"digits"``: positions are decimal texts of up to 64 digits. None: they are compared as bytes.
        epoch: an ascending number. In each epoch numbers begin anew; the first message of a higher one ends the one before.
        base: the filter that matches messages which have everything through their number in them, such as snapshots.
        base_only: likewise; such a message isn't delivered.
        restarts: the filter that matches messages with which the producer begins anew. They have no number.
        unnumbered: the filter that matches messages without a number. They leave at once.
        void: the filter that matches messages which let the next number pass and aren't delivered.

    Raises:
        PolicyError: a value is wrong, or two contradict each other.
    """

    by: Field | List[str] | None = None
    _: KW_ONLY
    through: Field | None = None
    previous: Field | None = None
    modulus: int | None = None
    format: Literal["digits"] | None = None
    epoch: Field | None = None
    base: Field | None = None
    base_only: Field | None = None
    restarts: Field | None = None
    unnumbered: Field | None = None
    void: Field | None = None

    def __post_init__(self) -> None:
        if self.by is not None and not isinstance(self.by, str) and not callable(self.by):
            names = tuple(self.by) if isinstance(self.by, List) else ()
            if not names or not all(isinstance(name, str) and name for name in names):
                raise self._wrong("by", f"by can't be {shown(self.by)}", "a name, or a list of names for a position")
            object.__setattr__(self, "by", names)
        for name in ("by", "through", "previous", "epoch", *_FILTERS):
            self._check_field(name)
        if self.modulus is not None and (isinstance(self.modulus, bool) or not isinstance(self.modulus, int)):
            raise self._wrong("modulus", f"modulus must be a whole number, not {shown(self.modulus)}", "such as 65536")
        if self.modulus is not None and not _LEAST_MODULUS <= self.modulus <= _LARGEST_MODULUS:
            what = f"modulus must be between {_LEAST_MODULUS} and {_LARGEST_MODULUS}, not {shown(self.modulus)}"
            raise self._wrong("modulus", what, "how many numbers there are before they begin again, such as 65536")
        if self.format not in (None, "digits"):
            raise self._wrong("format", f"format must be digits, not {shown(self.format)}", "digits, or leave it out")
        self._check_together()

    def _check_field(self, name: str) -> None:
        given = getattr(self, name)
        if given is None or callable(given) or (isinstance(given, str) and given) or isinstance(given, tuple):
            return
        what = "a filter" if name in _FILTERS else "a name"
        raise self._wrong(name, f"{name} must be {what}, not {shown(given)}", "with a Sequencer also a function")

    def _check_together(self) -> None:
        if self.previous is not None and self.by is not None:
            raise self._wrong(
                ("previous", "by"),
                "previous stands in place of by: both say where a message begins",
                "give one of them",
            )
        if self.previous is not None and self.through is None:
            raise self._wrong(
                ("previous", "through"), "previous names the message before, and nothing names this one", "add through"
            )
        if self.restarts is not None and self.epoch is not None:
            raise self._wrong(
                ("restarts", "epoch"), "restarts and epoch both say where numbers begin anew", "give one of them"
            )
        numeric = [name for name in (*_OF_STANDARD, "modulus") if getattr(self, name) is not None]
        if (self.format is not None or isinstance(self.by, tuple)) and numeric:
            its = "format" if self.format is not None else "by"
            raise self._wrong((numeric[0], its), f"{numeric[0]} is for numbers, not for positions", "give one of them")

    def _wrong(self, name: str | tuple[str, ...], what: str, remedy: str) -> PolicyError:
        return PolicyError(f"Sequence: {what}", remedy=remedy, argument=name)

    def says(self) -> list[str]:
        """The names of the rules that this one has, apart from `by`."""
        return [one.name for one in fields(self) if one.name != "by" and getattr(self, one.name) is not None]

    def given(self) -> dict[str, Any]:
        """The fields that are given, by their names."""
        return {one.name: value for one in fields(self) if (value := getattr(self, one.name)) is not None}

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are given, of properties or columns."""
        by = self.by if isinstance(self.by, tuple) else (self.by,)
        return tuple(one for one in (*by, self.through, self.previous, self.epoch) if isinstance(one, str))

    @property
    def filters(self) -> dict[str, Any]:
        """The filters that are given, by their names."""
        return {name: value for name in _FILTERS if (value := getattr(self, name)) is not None}


def with_numbers(policy: Policy, sequence: Sequence | None) -> Policy:
    """The policy that keeps the rules of a sequence, and finds the first number of a group, if that is asked for.

    Raises:
        PolicyError: the policy has no such rule.
    """
    sequence = Sequence() if sequence is None else sequence
    said = sequence.says()
    if isinstance(policy, StandardNumbers | BestEffortNumbers):
        return policy
    for name in said:
        kinds = _kinds_for(name)
        if not isinstance(policy, kinds) or (name == "modulus" and getattr(policy, "by", "number") != "number"):
            them = " and ".join(f"the policy {kind.name}" for kind in kinds)
            raise PolicyError(f"Sequence: {name} is for {them}", remedy="leave it out", argument=(name, "policy"))
    if not by_position(policy) and (sequence.format is not None or isinstance(sequence.by, tuple)):
        its = "by" if isinstance(sequence.by, tuple) else "format"
        raise PolicyError(
            'Sequence: only BestEffort(by="position") orders by such a position',
            remedy="name one number, or take that policy",
            argument=(its, "policy"),
        )
    if isinstance(policy, BestEffort):
        return policy if sequence.modulus is None else BestEffortNumbers(**_its(policy), modulus=sequence.modulus)
    if not isinstance(policy, Standard) or not (policy.gathers or set(said) - {"void"}):
        return policy
    return StandardNumbers(
        **_its(policy), modulus=sequence.modulus, spans=sequence.through is not None, epochs=sequence.epoch is not None
    )


def by_position(policy: Policy) -> bool:
    """Whether a policy orders by positions, see ``positions.py``."""
    return isinstance(policy, BestEffort) and policy.by == "position"


def _kinds_for(rule: str) -> tuple[type[Any], ...]:
    if rule in _OF_STANDARD:
        return (Standard,)
    if rule == "modulus":
        return Standard, BestEffort
    return (BestEffort,) if rule == "format" else Policy.__args__


def _its(policy: Policy) -> dict[str, Any]:
    return {one.name: getattr(policy, one.name) for one in fields(policy)}
