"""Sessions in which only seriatim's own code runs: the driver's errors are seriatim's, up to the commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from seriatim.box.box import MessageBox
from seriatim.box.postgres.translate import translated
from seriatim.box.session import Session

_Result = TypeVar("_Result")


@contextmanager
def own_session(box: MessageBox) -> Iterator[Session]:
    """A session for what needs one, such as `receive`. For all else there is `Access.transaction`."""
    with translated(box.access.place), box.session() as session:
        yield session


def translating(work: Callable[[Session], _Result]) -> Callable[[Session], _Result]:
    """The same for work in a session that others begin and end."""

    def within(session: Session) -> _Result:
        with translated(session.access.place):
            return work(session)

    return within
