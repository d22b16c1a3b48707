"""Functions of lists: their parameters and their help are the fields of a `Listing`, which is their last argument."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from seriatim.box.box import MessageBox
from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import Definitions
from seriatim.box.views.filtered import filtered
from seriatim.box.views.listing import Listing, Queue, filters_of

_Given = ParamSpec("_Given")
_Chosen = TypeVar("_Chosen", bound=Listing)
_Rows = TypeVar("_Rows")


def listed(
    listing: Callable[_Given, _Chosen], *, without: Collection[str] = (), **defaults: Any
) -> Callable[[Callable[[Transaction, _Chosen], _Rows]], Callable[Concatenate[MessageBox, _Given], _Rows]]:
    """Make a function of a box from one that reads a list in a transaction.

    Args:
        listing: the list: a subclass of `Listing`.
        without: the fields that the function doesn't take.
        defaults: defaults of fields that differ from those of the list.
    """

    def made(read: Callable[[Transaction, _Chosen], _Rows]) -> Callable[Concatenate[MessageBox, _Given], _Rows]:
        @wraps(read)
        def of_box(box: MessageBox, chosen: _Chosen) -> _Rows:
            with box.access.transaction() as transaction:
                check_queues(transaction.definitions(), chosen)
                return read(transaction, chosen)

        return filtered(listing, "the box", without=without, **defaults)(of_box)

    return made


def check_queues(definitions: Definitions, chosen: Listing) -> None:
    """Check that the queue by which a list is filtered exists.

    Raises:
        NotFound: it doesn't.
    """
    for name, one in filters_of(type(chosen)).items():
        if isinstance(one.kind, Queue) and (queue := getattr(chosen, name)) is not None:
            definitions.queue(queue)
