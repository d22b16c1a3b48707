"""Open a box for a reader or a writer, and keep it open between the tasks of a worker."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from seriatim.spark.session.collector import freeze_loaded


class Side(Protocol):
    """A box, open for reading or for writing."""

    def close(self) -> None:
        """Close the box."""


_Side = TypeVar("_Side", bound=Side)
#: Open boxes of this worker: a query may read one and write into another one. Their pools close connections that are idle.
_OPEN: dict[Any, Side] = {}
_MOST = 2


@dataclass(frozen=True, slots=True)
class Opening(Generic[_Side]):
    """How a process opens a box; equal ones open the same box alike."""

    opens: Callable[[Any], _Side]
    options: Hashable

    def __call__(self) -> _Side:
        return self.opens(self.options)

    @contextmanager
    def kept(self) -> Iterator[_Side]:
        """The box for a task; it stays open for the worker's next one, except after an error."""
        box: Any = _OPEN.pop(self, None) or self()
        freeze_loaded("a box")
        try:
            yield box
        except BaseException:
            box.close()
            raise
        _OPEN[self] = box
        if len(_OPEN) > _MOST:
            _OPEN.pop(next(iter(_OPEN))).close()
