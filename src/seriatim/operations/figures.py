"""The figures of a box, for those who watch it: counts, ages and sizes, in one statement."""

from __future__ import annotations

from seriatim.box.box import MessageBox
from seriatim.box.views.figures import Figure, read_figures

__all__ = ["Figure", "figures"]


def figures(box: MessageBox, *, limit_s: float = 5.0) -> list[Figure]:
    """All figures of a box, read in one statement whose cost doesn't grow with the box.

    Of queues with very many messages or groups the counts are estimated from a sample; their figure ``is_estimated`` is 1. A role that
    doesn't own the box gets those of the queues that it sees.

    Args:
        box: the box.
        limit_s: seconds after which PostgreSQL ends the statement.

    Raises:
        Unavailable: it took longer, or the server is away.
        EnvironmentProblem: the role sees no queue.
    """
    return box.access.within(read_figures, limit_s)
