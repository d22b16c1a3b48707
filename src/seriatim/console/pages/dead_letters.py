"""Dead letters, with the ways back: put back, or delete."""

from __future__ import annotations

from seriatim.console.lists import TO_GROUP, TO_MESSAGE, list_page
from seriatim.operations import dead_letters
from seriatim.operations.tables.dead_letters import DEAD_LETTERS

PAGE = list_page(
    "dead-letters",
    "Dead letters",
    dead_letters.page,
    DEAD_LETTERS,
    by_error=dead_letters.dead_letters_by_error,
    links={"number": TO_MESSAGE["message"], **TO_MESSAGE, **TO_GROUP},
    nothing="There are no dead letters.",
    template="dead_letters.html",
    section="Messages",
)
