"""The text of filters: what may be written, and what is told about the rest, with its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlglot.tokens import Tokenizer

from seriatim.errors import ColumnError, FilterError
from seriatim.kernel.filters.filter import And, In, Or, Property, type_from
from seriatim.pipeline.files import pipeline_file
from seriatim.pipeline.filters.syntax import parsed

TYPES = {
    name: type_from(kind)
    for name, kind in {
        "type": "string",
        "to": "string",
        "amount": "decimal(12,2)",
        "version": "long",
        "score": "double",
        "ok": "boolean",
        "at": "timestamp",
    }.items()
}


def told(text: str) -> str:
    with pytest.raises(FilterError) as error:
        parsed(text, TYPES)
    assert error.value.code == "filter"
    return f"{error.value.where}: {error.value.what}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        # Names.
        ("amuont > 3", "1:1: there is no property 'amuont'"),
        ("ok AND\n  (version = 1 OR verzion = 2)", "2:19: there is no property 'verzion'"),
        ("Type = 'x'", "1:1: there is no property 'Type'"),
        ('type = "order"', "1:8: there is no property 'order'"),
        # Keywords where a value is missing.
        ("IN", "1:1: 'IN' is not expected here"),
        ("IS", "1:1: 'IS' is not expected here"),
        ("ESCAPE", "1:1: 'ESCAPE' is not expected here"),
        ("ok AND\n version = IN", "2:12: 'IN' is not expected here"),
        ("- IS + version > 1", "1:3: 'IS' is not expected here"),
        ("version BETWEEN ESCAPE AND 3", "1:17: 'ESCAPE' is not expected here"),
        # Types.
        ("version = '1'", "1:1: 'version' (long) can't be compared with the string '1'"),
        ("ok AND type = 1", "1:8: 'type' (string) can't be compared with a long"),
        ("at > '2026-01-31'", "1:1: 'at' (timestamp) can't be compared with the string '2026-01-31'"),
        ("at = 1", "1:1: 'at' (timestamp) can't be compared with a long"),
        ("ok = 1", "1:1: 'ok' (boolean) can't be compared with a long"),
        ("type IN ('a', 2)", "1:1: 'type' (string) can't be compared with a long"),
        ("type BETWEEN 1 AND 2", "1:1: 'type' (string) can't be compared with a long"),
        ("type + 1 = 2", "1:1: + is for numbers, not 'type' (string)"),
        ("at + 1 > at", "1:1: + is for numbers, not 'at' (timestamp)"),
        ("amount & 1 <> 0", "1:1: & is for longs, not 'amount' (decimal(12,2))"),
        ("-type = 'x'", "1:2: 'type' (string) has no negative"),
        ("version LIKE '1%'", "1:1: LIKE works on strings, not on 'version' (long)"),
        ("version", "1:1: 'version' (long) is not a condition"),
        ("ok AND version + 1", "1:1: a long is not a condition"),
        ("NOT 'x'", "1:5: the string 'x' is not a condition"),
        ("version < 1 < 2", "1:1: a boolean can't be compared with a long"),
        # Constants.
        ("version = 1e999", "1:11: 1e999 is out of the range of a double"),
        (f"version = {'9' * 39}", f"1:11: {'9' * 39} has more than 38 digits"),
        ("version = 1abc", "1:11: '1' is not a number"),
        ("version = 0x1F", "1:11: '0' is not a number"),
        ("version = 1_000", "1:11: '1' is not a number"),
        ("at = TIMESTAMP '2026-13-01'", "1:16: '2026-13-01': month must be in 1..12"),
        ("at = TIMESTAMP 'noon'", "1:16: 'noon' is not a moment"),
        ("at = DATE '2026-01-31'", "1:6: DATE '…' is not a constant"),
        ("type = N'x'", "1:8: \"N'x'\" is not part of a filter"),
        ("type = X'1F'", "1:8: X '…' is not a constant"),
        ("type = 'a' 'b'", "1:8: this Concat is not part of a filter"),
        ("type LIKE 'a\\b'", "1:1: the escape character '\\\\' in the pattern must stand before %, _ or itself"),
        ("type LIKE 'a!' ESCAPE '!'", "1:1: the escape character '!' in the pattern must stand before %, _ or itself"),
        ("type LIKE 'a' ESCAPE '%'", "1:22: ESCAPE takes one character, neither % nor _"),
        ("type LIKE 'a' ESCAPE 'xy'", "1:22: ESCAPE takes one character, neither % nor _"),
        ("type LIKE to", "1:11: the pattern of LIKE must be text in quotes"),
        (f"type LIKE '{'a' * 1_001}'", "1:11: the pattern has more than 1,000 characters"),
        # Other constructs.
        ("upper(type) = 'X'", "1:1: a filter can't call upper"),
        ("ok OR sleep (10) = 1", "1:7: a filter can't call sleep"),
        ("CAST(version AS string) = 'x'", "1:1: a filter can't call CAST"),
        ("at = TIMESTAMP('2026-01-31')", "1:6: a filter can't call TIMESTAMP"),
        ("EXISTS (SELECT 1)", "1:1: a filter can't call EXISTS"),
        ("version = (SELECT 1)", "1:12: SELECT is neither a property nor part of a filter"),
        ("version IN (SELECT 1)", "1:13: SELECT is neither a property nor part of a filter"),
        ("CASE WHEN ok THEN TRUE END", "1:1: CASE is neither a property nor part of a filter"),
        ("version::string = '1'", "1:8: '::' is not part of a filter"),
        ("type ILIKE 'a'", "1:6: ILIKE '…' is not a constant"),
        ("type COLLATE x = 'a'", "1:6: COLLATE is neither a property nor part of a filter"),
        ("version IS DISTINCT FROM 1", "1:12: DISTINCT is neither a property nor part of a filter"),
        ("ok IS TRUE", "1:1: IS goes with NULL and NOT NULL only"),
        ("version = ALL (1)", "1:11: a filter can't call ALL"),
        ("version BETWEEN SYMMETRIC 1 AND 2", "1:17: there is no property 'SYMMETRIC'"),
        ("version IN (version)", "1:13: IN takes constants only"),
        ("version IN ()", "1:1: IN takes constants in parentheses"),
        ("version IN 5", "1:1: IN takes constants in parentheses"),
        ("(version, 1) = (1, 2)", "1:2: this Tuple is not part of a filter"),
        ("version == 1", "1:9: '==' is not part of a filter"),
        ("version <=> 1", "1:9: '<=>' is not part of a filter"),
        ("version | 1 = 1", "1:9: '|' is not part of a filter"),
        ("version = ~1", "1:11: '~' is not part of a filter"),
        ("type || 'x' = 'y'", "1:6: '||' is not part of a filter"),
        ("type -> 'x' = 'y'", "1:6: '->' is not part of a filter"),
        ("version[0] = 1", "1:8: '[' is not part of a filter"),
        ("version.x = 1", "1:8: '.' is not part of a filter"),
        ("version = ?", "1:11: '?' is not part of a filter"),
        ("version = :x", "1:11: ':' is not part of a filter"),
        ("version = @x", "1:11: '@' is not part of a filter"),
        ("version = $1", "1:11: '$1' is not part of a filter"),
        ("`version` = 1", "1:1: '`' is not part of a filter"),
        ("version = {x}", "1:11: '{' is not part of a filter"),
        ("version = *", "1:11: Star is not part of a filter"),
        ("version = 1; DROP TABLE x", "1:12: ';' is not part of a filter"),
        ("version = 1 -- all", "1:11: a filter has no comments"),
        ("version = /* all */ 1", "1:9: a filter has no comments"),
        ("type = 'a", "1:8: a quote is not closed"),
        ('ok = "version', "1:6: a quote is not closed"),
        # What is missing, or too much.
        ("", "1:1: there is no filter"),
        (" \n ", "1:1: there is no filter"),
        ("version =", "1:10: the filter ends too early"),
        ("version = 1 AND", "1:16: the filter ends too early"),
        ("(ok", "1:4: the filter ends too early"),
        ("ok)", "1:3: ')' is not expected here"),
        ("version = 1 2", "1:13: '2' is not expected here"),
        ("ok ok", "1:4: 'ok' is not expected here"),
        ("()", "1:1: Tuple is not part of a filter"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, says: str) -> None:
    assert told(text) == says


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("amuont > 3", "did you mean 'amount'?"),
        ("Type = 'x'", "did you mean 'type'?"),
        ("x = 3", "there are amount, at, ok, score, to, type, version"),
        (
            "type = order",
            "text is written in single quotes: 'order'; otherwise: there are amount, at, ok, score, to, type, version",
        ),
        (
            "type <> paid",
            "text is written in single quotes: 'paid'; otherwise: there are amount, at, ok, score, to, type, version",
        ),
        ('type = "order"', "text is written in single quotes: 'order'"),
        ("version = '1'", "write it without quotes"),
        ("at > '2026-01-31'", "write TIMESTAMP '2026-01-31 12:00:00'"),
        ("type = 1", "put text in single quotes"),
    ],
)
def test_what_to_do_is_told(text: str, remedy: str) -> None:
    with pytest.raises(FilterError) as error:
        parsed(text, TYPES)
    assert error.value.remedy == remedy


def test_what_is_allowed_is_told() -> None:
    with pytest.raises(FilterError) as error:
        parsed("upper(type) = 'X'", TYPES, where="subscription 'a'")
    assert error.value.where == "subscription 'a':1:1"
    assert "IN (…), BETWEEN, LIKE, IS [NOT] NULL, AND, OR, NOT" in error.value.remedy


def test_a_column_that_filters_cannot_look_at() -> None:
    with pytest.raises(ColumnError, match="a filter can't look at 'body', which is binary"):
        parsed("ok AND body = 'x'", TYPES, unfit={"body": "binary"})


OURS = {"and", "between", "escape", "false", "in", "is", "like", "not", "null", "or", "true"}


def test_a_property_may_be_called_like_any_word_that_filters_do_not_use() -> None:
    words = sorted(({word.lower() for word in Tokenizer.KEYWORDS if word.isidentifier()} | {"group", "order"}) - OURS)
    assert {"case", "date", "int", "interval", "select", "timestamp"} <= set(words)
    for word in words:
        found = parsed(f"({word} = 'x' OR 2 > 1 AND NOT 'y' = {word}) AND {word} IS NOT NULL", {word: TYPES["type"]})
        assert isinstance(found, And), word
        assert isinstance(found.terms[0], Or), word
        assert found.terms[0].terms[0] == In(Property(word, TYPES["type"]), ("x",)), word


def test_a_quoted_name_may_have_any_characters() -> None:
    for name in ("a b", "null", "a.b", "it's", "é", "1", "`", "--"):
        assert parsed(f'"{name}" = 1', {name: TYPES["version"]}) == In(Property(name, TYPES["version"]), (1,))
    assert parsed("größe = 1", {"größe": TYPES["version"]}) == In(Property("größe", TYPES["version"]), (1,))


def test_line_ends_and_spaces_do_not_matter() -> None:
    plain = parsed("version = 1 AND type IN ('a', 'b')", TYPES)
    for text in ("version=1 and type in('a','b')", "\n version\t=\r\n1\nAND type\nIN\n('a'\n,'b')  "):
        assert parsed(text, TYPES) == plain


@pytest.mark.parametrize(
    "text",
    [
        "(" * 1_000 + "ok" + ")" * 1_000,
        "(" * 90_000,
        "NOT " * 1_000 + "ok",
        "version = " + "- " * 1_000 + "1",
        "(NOT " * 1_000 + "ok" + ")" * 1_000,
        "(ok AND (ok OR " * 500 + "ok" + "))" * 500,
        " + ".join(["version"] * 1_000) + " = 1",
        "version = " * 1_000 + "1",
    ],
    ids=["parentheses", "only opened", "NOT", "minus", "NOT and parentheses", "AND and OR", "a sum", "a chain"],
)
def test_a_filter_that_is_nested_too_deeply_is_refused(text: str) -> None:
    assert "the filter is nested too deeply" in told(text)


def test_a_filter_that_is_too_long_is_refused() -> None:
    assert told("x" * 100_001) == "1:1: the filter has 100,001 characters"
    assert "the filter is too long" in told(" OR ".join(["version = 1"] * 2_000))


def test_a_long_filter_is_read() -> None:
    chain = parsed(" OR ".join(f"version = {n}" for n in range(400)), TYPES)
    assert isinstance(chain, Or)
    assert len(chain.terms) == 400
    many = parsed(f"version IN ({', '.join(map(str, range(15_000)))})", TYPES)
    assert isinstance(many, In)
    assert len(many.values) == 15_000
    assert parsed("(" * 24 + "ok" + ")" * 24, TYPES) == Property("ok", TYPES["ok"])


PIPELINE = """\
name: filtered
receive:
  - location: crm
    source: {{format: json, path: inbox}}
    promote: {{key: $.key, amount: {{path: $.amount, type: 'decimal(12,2)'}}, type: $.kind}}
route:
  - to: large
    where: {where}
    resequence: {{policy: fifo, group: key}}
    deliver: {{format: json, path: out/large}}
"""


def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("inbox").mkdir()
    path = Path("pipeline.yaml")
    path.write_text(PIPELINE.format(where=where), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("type = 'order' AND amount >= 100 AND ticket > 5", "type = 'order' AND amount >= 100 AND ticket > 5"),
        ("\"location = 'crm' OR epoch = 0\"", "location = 'crm' OR epoch = 0"),
        ("received_at > TIMESTAMP '2026-01-31'", "received_at > TIMESTAMP '2026-01-31'"),
        ("message_id IS NULL", "message_id IS NULL"),
        ("TRUE", "TRUE"),
        ("false", "FALSE"),
    ],
)
def test_the_filter_of_a_destination(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, text: str) -> None:
    assert pipeline_file.load(written(tmp_path, monkeypatch, where), {}).route[0].where == text


@pytest.mark.parametrize(
    ("where", "says"),
    [
        ("amuont > 3", ", 1:1 of the filter: there is no property 'amuont' (did you mean 'amount'?)"),
        ("amount > 'x'", ", 1:1 of the filter: 'amount' (decimal(12,2)) can't be compared with the string 'x'"),
        ("body = 'x'", ", 1:1 of the filter: a filter can't look at 'body', which is binary"),
        ("upper(type) = 'X'", ", 1:1 of the filter: a filter can't call upper"),
        ("12", " must be a filter, not 12"),
        ("[a]", " must be a single value"),
    ],
)
def test_a_wrong_filter_of_a_destination(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, says: str
) -> None:
    (fault,) = pipeline_file.check(written(tmp_path, monkeypatch, where), {})
    assert f"8:12: route[0].where{says}" in str(fault)
