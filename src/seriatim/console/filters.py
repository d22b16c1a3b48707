"""The filters above lists: their fields, and what is wrong with a value, before anything is read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from seriatim.box.box import MessageBox
from seriatim.console.guard import Refusal
from seriatim.errors import NotFound, UsageError, meant, shown

#: A message of an error names at most so many values.
_NAMED = 12


class WrongValue(Refusal):
    """A filter has a value that it can't have; `field`: the name of the filter."""

    def __init__(self, field: str, status: int, what: str, remedy: str = "") -> None:
        super().__init__(status, what, remedy)
        self.field = field


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    label: str
    choices: Sequence[str] = ()
    hint: str = ""
    check: Callable[[MessageBox, str], None] | None = None
    #: What people read for a value that is a code.
    words: Mapping[str, str] = dataclasses.field(default_factory=dict)


def check_queue(box: MessageBox, value: str) -> None:
    known = box.definitions().queues
    if value not in known:
        some = ", ".join(sorted(known)[:_NAMED])
        remedy = meant(value, known) or (f"there are {some}" if some else "there are none yet")
        raise NotFound(f"there is no queue {shown(value, 60)}", remedy=remedy)


def whole_number(name: str, text: str) -> int:
    if not text.strip().removeprefix("-").isdecimal() or len(text) > 19:
        raise UsageError(f"{name} can't be {shown(text, 60)}", remedy="a whole number")
    return int(text)


QUEUE = Field("queue", "Queue", check=check_queue)


def check_values(box: MessageBox, fields: Sequence[Field], query: Mapping[str, str]) -> None:
    for one in fields:
        value = query.get(one.name)
        if not value:
            continue
        if one.choices and value not in one.choices:
            what = f"{shown(value, 60)} is none of the values of “{one.label}”"
            raise WrongValue(one.name, 400, what, f"one of {', '.join(one.choices)}")
        if one.check is not None:
            try:
                one.check(box, value)
            except UsageError as error:
                status = 404 if isinstance(error, NotFound) else 400
                raise WrongValue(one.name, status, error.what, error.remedy) from None


def check_known(names: Sequence[str], query: Mapping[str, str]) -> None:
    """Check that a query has no other names: a filter with a wrong name would find everything."""
    for name in query:
        if name not in names:
            raise Refusal(400, f"this page has no filter {shown(name, 60)}", f"it has {', '.join(sorted(names))}")
