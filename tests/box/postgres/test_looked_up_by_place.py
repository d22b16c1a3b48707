"""Items of arrays of text aren't looked up by their places in SQL: the server walks to each from the beginning."""

from __future__ import annotations

import re

from seriatim.box.postgres.routines import routines

#: A parameter, or a variable, whose items have no fixed size.
_ARRAYS = re.compile(r"\b(\w+) (?:CONSTANT )?(?:text|bytea|jsonb|numeric)\[\]")
_COMMENTS = re.compile(r"--.*")
#: By a value, and not by a number or a range.
_LOOKED_UP = re.compile(r"(?<![.\w])(\w+)\[([a-z_.]+)\]")
#: A loop of the language itself, in which a variable is taken apart once.
_LOOPS = {("close_places", "of_groups")}


def test_no_statement_looks_an_item_of_text_up_by_its_place():
    found = {
        (routine.name, name)
        for routine in routines()
        for text in [_COMMENTS.sub("", routine.text)]
        for name, _ in _LOOKED_UP.findall(text)
        if name in _ARRAYS.findall(text)
    }
    assert found - _LOOPS == {
        ("forget_expired", "candidates"),
        ("put_right", "candidates"),
    }  # one, the last of a portion
    assert found >= _LOOPS
