"""Patterns of XSD: those with one way on at each character are taken, and the others refused."""

from __future__ import annotations

import pytest

from seriatim import MessageType
from seriatim.errors import UsageError
from seriatim.pipeline.bodies.xml_paths import document_reader
from seriatim.pipeline.bodies.xsd import xsd
from seriatim.pipeline.bodies.xsd_patterns import check_pattern


def schema(pattern: str) -> str:
    return f"""<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="a"><xs:simpleType>
<xs:restriction base="xs:string"><xs:pattern value="{pattern.replace("&", "&amp;").replace("<", "&lt;")}"/>
</xs:restriction></xs:simpleType></xs:element></xs:schema>"""


# Each with a text that it takes, which is repeated as often as the pattern allows.
TAKEN = [
    ("", ""),
    ("[A-Z]{2}[0-9]{4,8}", "AB12345"),
    (r"(\d{1,3}\.){3}\d{1,3}", "10.0.0.1"),
    (r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2})?", "2026-01-31T12:00"),
    (r"[a-z]+(-[a-z]+)*", "ab-cd-" * 100_000 + "ef"),
    (r"[^@]+@[^@.]+(\.[^@.]+)+", "a" * 100_000 + "@b.c"),
    (r"(a|b|c\d)*", "abc1" * 100_000),
    (r"\+?[0-9 ]{1,20}", "+49 30 1"),
    (r"[\i-[:]][\c-[:]]*", "a1-b" * 100_000),
    (r"\p{Lu}\p{Ll}*", "Ab"),
    (r"(yes|no)", "no"),
    (r"[a-z-]*", "a-b"),
    (r"[\^\]\-]{3}", "^]-"),
    (".*", "x" * 1_000_000),
    (r"\s*[^\s]+", "  x"),
    ("(ab?c)+", "abcac" * 100_000),
    ("(a{2,3}b){0,2}", "aabaaab"),
    ("a{0}b", "b"),
]


@pytest.mark.parametrize(("pattern", "text"), TAKEN, ids=[pattern for pattern, _ in TAKEN])
def test_a_pattern_with_one_way_on_is_taken(pattern: str, text: str) -> None:
    check_pattern(pattern)
    xsd(schema(pattern))(document_reader()(f"<a>{text}</a>".encode()))


@pytest.mark.parametrize(
    "pattern",
    [
        "(a|aa)*b", "(a|a)*b", "(a*)*b", "(a+)+", "(a?){30}a{30}", "(.*)(.*)x", ".*@.*", "(a|ab)(c|bcd)*", r"(\w|\d)+x",
        "([a-z0-9]+[._]?)*@", r"(\p{L}|a)*b", r"(\p{IsBasicLatin}|a)*b", "(a{1,3}){2}", "a{1,2}a", "(ab|a)c", "[a-c-[b]]?a",
    ],
)  # fmt: skip
def test_a_pattern_with_several_ways_on_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError, match=r"several ways .*in line 2") as error:
        MessageType("t", validation="valid_xml", schema=schema(pattern))
    assert "in one way only" in error.value.remedy


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "a)",
        "[",
        "[a",
        "[^",
        "*",
        "a{",
        "a{2",
        "a**",
        "\\",
        "\\q",
        "[a-\\d]",
        "(" * 10_000,
        "[a-" * 200,
        "(" * 40 + ")*" * 40,
        "a" * 10_000,
        "(((a{9}){9}){9}){9}{9}",
    ],
)
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError):
        xsd(schema(pattern))
