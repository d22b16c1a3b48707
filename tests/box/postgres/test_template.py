"""The SQL of a box names the kernel's values, and has none of them as a bare number."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from seriatim.box.postgres.template import with_constants

#: Flags, counts of dispositions, times and numbers of groups; states of streams and of a journal's sessions, and what a peer answers.
BARE = re.compile(
    r"\bknown\.flags [<>=]+ \d|\bflags & ~?\(?\d|\bdecided\[\d|4611686018427387904|\blast, -\d{19}"
    r"|\b(?:stream\.status|answer|decision|side|state) (?:=|<>|<=|IN) \(?\d"
)


def texts(folder):
    for file in folder.iterdir():
        if file.is_dir():
            yield from texts(file)
        elif file.name.endswith(".sql"):
            yield file.name, file.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("flags & {flag.SUSPENDED|FAULTED} <> 0", "flags & 24 <> 0"),
        ("flags & ~{flag.CLOSED|COMPLETE}::bigint", "flags & ~6::bigint"),
        ("decided[{decided.RELEASED}], decided[{decided.VOID}]", "decided[1], decided[8]"),
        ("status = {status.ENDING}, since <> {NEVER}", "status = 2, since <> -4611686018427387904"),
        ("'{a,b}', '{\"a\": 1}', {schema}.flag", "'{a,b}', '{\"a\": 1}', {schema}.flag"),
    ],
)
def test_names_stand_for_the_kernels_values(template, text):
    assert with_constants(template) == text


@pytest.mark.parametrize("name", ["{flag.SPLENDID}", "{flag.CLOSED|SPLENDID}", "{SPLENDID}"])
def test_a_name_that_the_kernel_has_not_is_an_error(name):
    with pytest.raises(KeyError, match="SPLENDID"):
        with_constants(name)


@pytest.mark.parametrize(
    ("package", "folder"),
    [("box.postgres", "schema"), ("box.postgres", "sql"), ("regions.journal", "schema"), ("regions.journal", "sql")],
)
def test_no_sql_has_a_value_of_the_kernel_as_a_bare_number(package, folder):
    found = dict(texts(resources.files(f"seriatim.{package}").joinpath(folder)))
    assert found
    assert {name: hits for name, text in found.items() if (hits := BARE.findall(text))} == {}
