"""Patterns of JSON Schema: ECMA 262, in time proportional to the text; and what else of a schema could take for ever."""

from __future__ import annotations

import json
from typing import Any

import pytest

from seriatim import MessageType
from seriatim.errors import UsageError
from seriatim.pipeline.bodies.json_schema import json_schema
from seriatim.pipeline.bodies.json_schema_patterns import matcher
from seriatim.pipeline.bodies.property_values import Unreadable


@pytest.mark.parametrize(
    ("pattern", "found", "absent"),
    [
        ("", ["", "x"], []),
        ("a|", ["b"], []),
        ("^a$", ["a"], ["a\n", "ba"]),
        ("^.$", ["a", "😀"], ["\n", "\r", "\u2028"]),
        (r"^\s$", ["\u00a0", "\ufeff", "\v"], ["a"]),
        (r"^\S$", ["a", "😀"], ["\u2028", " "]),
        (r"^[\S]$", ["a", "😀"], ["\u2028", " "]),
        (r"^[^\s]$", ["a"], ["\ufeff"]),
        (r"^\d$", ["3"], ["\u0663"]),
        (r"\bfoo\b", ["a foo b"], ["afoo"]),
        ("^[^]$", ["\n"], [""]),
        ("[]", [], ["a", ""]),
        ("^[[:alpha:]]$", ["a]", "[]"], ["a"]),
        (r"^[a-z\-_.]+$", ["a-_."], ["A"]),
        (r"^[\b]$", ["\x08"], ["b"]),
        (r"^\ud83d\ude00\u{1F600}😀$", ["😀😀😀"], ["😀"]),
        (r"^\cA\x41\0$", ["\x01A\0"], []),
        (r"^\p{Letter}+\p{Script=Greek}$", ["a\u03b1"], ["aa"]),
        (r"^(?<year>\d{4})-\d\d$", ["2026-01"], ["\u0663\u0663\u0663\u0663-\u0660\u0661"]),
        ("a{,3}", ["a{,3}"], ["aaa"]),
        (r"^(?i:abc)$", ["ABC"], ["AB"]),
        (r"\/\-\.\_\é", ["/-._é"], []),
        ("^(a|aa)+$", ["a" * 1_000_000], ["a" * 1_000_000 + "b"]),
        ("(x+x+)+y", ["xxy"], ["x" * 1_000_000]),
        ("^[é]$", ["é"], ["\ud83d"]),
    ],
)
def test_what_a_pattern_finds(pattern: str, found: list[str], absent: list[str]) -> None:
    matches = matcher(pattern)
    assert [text for text in found if not matches(text)] == []
    assert [text for text in absent if matches(text)] == []


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("(?=a)", "looks around, which can take unlimited time"),
        ("(?<!a)b", "looks around, which can take unlimited time"),
        (r"(a)\1", "refers back to a group, which can take unlimited time"),
        (r"(?<n>a)\k<n>", "refers back to a group"),
        ("a{1001}", "repeats something more than 1,000 times"),
        ("a{" + "9" * 5_000 + "}", "repeats something more than 1,000 times"),
        ("(((a{100}){100}){100})", "can't be used: invalid repetition size"),
        ("a**", "can't be used: bad repetition operator"),
        ("[b-a]", "has a range whose end comes before its begin"),
        (r"\Z", r"has \\Z, which is not ECMA 262 \(\$ is the end\)"),
        ("(?P<n>a)", "has .*, which is not ECMA 262"),
        ("(?i)a", r"flags are written as \(\?i:…\)"),
        ("(", r"can't be used: missing \)"),
        ("[a", "has a . that is not closed"),
        ("\\", "ends with a backslash"),
        (r"\p{Nope}", "invalid character class range"),
        (r"\ud83d", "is no code point"),
        ("\ud83d", "half a surrogate pair"),
        (r"(\p{L}{0,100}){0,9}", "it is too large"),
    ],
)
def test_patterns_that_are_refused(pattern: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        matcher(pattern)
    for keyword in ({"pattern": pattern}, {"items": {"patternProperties": {pattern: {}}}}):
        with pytest.raises(UsageError, match=says):
            MessageType("t", validation="valid_json", schema=json.dumps(keyword))


def checked(schema: Any, document: Any) -> str | None:
    try:
        json_schema(json.dumps(schema))(document)
    except Unreadable as error:
        return str(error)
    return None


SLOW = "^(a|a)*$"
NAME = "a" * 200_000 + "b"


# Tried one way after another, each of these would take longer than the universe.
@pytest.mark.parametrize(
    "draft", ["draft/2020-12/schema", "draft/2019-09/schema", "draft-07/schema#", "draft-04/schema#"]
)
@pytest.mark.parametrize(
    ("schema", "document"),
    [
        ({"pattern": SLOW}, NAME),
        ({"patternProperties": {SLOW: False}, "additionalProperties": True}, {NAME: 1}),
        ({"patternProperties": {SLOW: {}}, "additionalProperties": {"not": {}}}, {NAME: 1}),
        ({"patternProperties": {SLOW: {}}, "unevaluatedProperties": False}, {NAME: 1}),
        ({"allOf": [{"properties": {"x": {"pattern": SLOW}}}]}, {"x": NAME}),
    ],
    ids=["pattern", "patternProperties", "additionalProperties", "unevaluatedProperties", "part"],
)
def test_a_pattern_takes_time_in_proportion_to_the_text(draft: str, schema: dict[str, Any], document: Any) -> None:
    if "draft-04" in draft and False in schema.get("patternProperties", {}).values():
        schema = {**schema, "patternProperties": {SLOW: {"not": {}}}}
    checked({"$schema": f"http{'' if '#' in draft else 's'}://json-schema.org/{draft}", **schema}, document)


def test_a_part_has_no_draft_of_its_own() -> None:
    part = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "urn:part", "pattern": SLOW}
    found = checked({"allOf": [part]}, NAME)
    assert found is not None
    assert "does not match" in found
    with pytest.raises(UsageError, match="a part of the schema has another"):
        checked({"allOf": [{**part, "$schema": "http://json-schema.org/draft-07/schema#"}]}, NAME)


@pytest.mark.parametrize(
    ("schema", "document", "valid"),
    [
        ({"patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False}, {"x-a": "1"}, True),
        ({"patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False}, {"x-a": 1}, False),
        ({"patternProperties": {"^x-": {}}, "properties": {"a": {}}, "additionalProperties": False}, {"b": 1}, False),
        ({"patternProperties": {"^x-": {}}, "additionalProperties": {"type": "null"}}, {"x-a": 1, "b": None}, True),
        ({"allOf": [{"patternProperties": {"^x-": {}}}], "unevaluatedProperties": False}, {"x-a": 1}, True),
        ({"allOf": [{"patternProperties": {"^x-": {}}}], "unevaluatedProperties": False}, {"y": 1}, False),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"a": {}}}}, "unevaluatedProperties": False}, {"a": 1}, True),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"a": {}}}}, "unevaluatedProperties": False}, {"b": 1}, False),
        ({"anyOf": [{"properties": {"a": {"const": 1}}}, {"properties": {"b": {}}, "required": ["b"]}], "unevaluatedProperties": False}, {"a": 2, "b": 1}, False),
        ({"if": {"properties": {"a": {"const": 1}}, "required": ["a"]}, "then": {"properties": {"b": {}}}, "else": {"properties": {"c": {}}}, "unevaluatedProperties": False}, {"a": 1, "b": 1}, True),
        ({"if": {"properties": {"a": {"const": 1}}, "required": ["a"]}, "then": {"properties": {"b": {}}}, "else": {"properties": {"c": {}}}, "unevaluatedProperties": False}, {"a": 2, "c": 1}, False),
        ({"dependentSchemas": {"a": {"properties": {"b": {}}}}, "properties": {"a": {}}, "unevaluatedProperties": False}, {"a": 1, "b": 1}, True),
        ({"allOf": [{"additionalProperties": True}], "unevaluatedProperties": False}, {"z": 1}, True),
        ({"unevaluatedProperties": {"type": "null"}}, {"z": None}, True),
        ({"unevaluatedProperties": {"type": "null"}}, {"z": 1}, False),
        ({"propertyNames": {"pattern": "^[a-z]+$"}}, {"A": 1}, False),
    ],
)  # fmt: skip
def test_properties_by_patterns(schema: Any, document: Any, valid: bool) -> None:
    assert (checked(schema, document) is None) is valid


def test_references_are_followed_so_often_only() -> None:
    # Two to the 40th ways through the schema, whatever the document.
    ways = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
    found = checked({"$ref": "#/$defs/d0", "$defs": {**ways, "d40": {}}}, 1)
    assert found is not None
    assert "references lead to each other too often" in found
    # And two to the depth of the document.
    twice = {"anyOf": [{"properties": {"a": {"$ref": "#"}}, "required": ["z"]}, {"properties": {"a": {"$ref": "#"}}, "required": ["y"]}]}  # fmt: skip
    document: Any = 1
    for _ in range(40):
        document = {"a": document}
    assert checked(twice, document) is not None
    # A large document may follow as many as it has values.
    assert checked({"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"type": "integer"}}}, [1] * 15_000) is None
    assert checked({"$ref": "#"}, 1) is not None
