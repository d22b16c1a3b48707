"""The messages that are still to be delivered, where several runs of one pipeline order the same messages and one delivers at a time.

The engine knows of each group through which number one of the runs has delivered it. Each run has its own batches, cut differently, and the
numbers of a group ascend in all of them. So a message is still to be delivered if its number is above that, in whichever batch it is.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from seriatim.kernel.values.columns import Bools, Ints


def undelivered(group: Ints, number: Ints, through: Ints) -> Bools:
    """The rows that are still to be delivered. `group`: the place of each row's group in `through`. `number`: the number of each row's
    message. `through`: through which number each group is delivered; `NEVER` if nothing of it is.
    """
    above: Bools = number > through[group]
    return above


def portions(group: Ints, number: Ints, most: int) -> Iterator[tuple[int, int]]:
    """Cut rows into portions that can be delivered one after another; each from a place to before another one. The rows of one message
    follow each other, and stay together: between them "delivered through this number" wouldn't be true. `group`: the place of each row's
    group. `number`: the number of each row's message. `most`: how many rows a portion has, at most; more only where one message has more.
    """
    size = len(number)
    changes = (np.diff(group) != 0) | (np.diff(number) != 0)
    ends = np.append(np.flatnonzero(changes) + 1, size)  # behind the last row of each message
    begin = 0
    while begin < size:
        fitting = int(np.searchsorted(ends, begin + most, side="right")) - 1
        next_ = int(np.searchsorted(ends, begin, side="right"))
        end = int(ends[max(fitting, next_)])
        yield begin, end
        begin = end
