"""Columns that are sent as the text of an array arrive as they were."""

from __future__ import annotations

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seriatim.box.postgres.array_text import numbers, texts, written

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))


@pytest.fixture
def cursor(postgresql):
    with psycopg.connect(postgresql) as connection:
        yield connection.cursor()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.none() | TEXT | st.sampled_from(["NULL", "null", "None", "{}", "\\", '"', ",", " a ", "\n", ""])),
    st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)),
    st.lists(st.none() | st.booleans()),
)
def test_they_arrive(cursor, words, longs, facts):
    asked = {"words": texts(words), "longs": numbers(longs), "facts": numbers(facts)}
    found = cursor.execute("SELECT %(words)s::text[], %(longs)s::bigint[], %(facts)s::boolean[]", asked).fetchone()
    assert found == (words, longs, facts)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.none() | TEXT, min_size=1), st.lists(st.none() | st.integers(-(2**31), 2**31 - 1)))
def test_lists_among_parameters_and_nothing_else_become_text(cursor, words, numbers_):
    bodies = [b"\0{", b""]
    asked = written({"one": 1, "words": words, "numbers": numbers_, "bodies": bodies, "text": "{x"})
    assert (asked["one"], asked["bodies"], asked["text"]) == (1, bodies, "{x")
    found = cursor.execute("SELECT %(words)s::text[], %(numbers)s::integer[], %(bodies)b::bytea[]", asked).fetchone()
    assert found == (words, numbers_, bodies)


@pytest.mark.parametrize("many", [1, 2, 50])
@pytest.mark.parametrize(
    ("value", "kind"), [(None, "text"), ("a \\", "text"), ("", "text"), (-7, "bigint"), (False, "boolean")]
)
def test_a_column_of_one_value(cursor, value, kind, many):
    asked = written({"column": [value] * many})
    assert cursor.execute(f"SELECT %(column)s::{kind}[]", asked).fetchone() == ([value] * many,)
