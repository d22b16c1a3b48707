"""Filters that nobody would write: each is one, or there is an error of ours that says where in its text."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest

from seriatim.errors import FilterError
from seriatim.kernel.filters.filter import type_from
from seriatim.pipeline.filters.syntax import named, parsed
from tests import soak

TYPES = {name: type_from(kind) for name, kind in {"s": "string", "l": "long", "d": "double", "n": "decimal(12,2)", "b": "boolean", "t": "timestamp", "IN": "long", "two words": "string"}.items()}  # fmt: skip
WORDS = [
    *["AND", "OR", "NOT", "IN", "IS", "NULL", "LIKE", "ESCAPE", "BETWEEN", "TRUE", "FALSE", "TIMESTAMP"],
    *["(", ")", ",", "=", "<>", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "&"],
    *["s", "l", "d", "n", "b", "t", '"IN"', '"two words"', "nothing", '"s"'],
    *["'a'", "''", "'a%_'", "'!'", "'it''s'", "'2026-01-31'", "1", "0", "1.5", ".5", "1e3", "1e999", "9" * 40, "9" * 5_000],
]  # fmt: skip
ODD = [".", ";", "--", "/*", "*/", "'", '"', "`", "\\", "::", "[", "]", "{", "}", "|", "||", "^", "~", "@", "#", "$1", "?", ":a", "\0", "\n", "\t", "é", "😀", "\ud800", "\u00a0", "½", "²", "0x1F", "1_0", "x'41'", "CASE", "SELECT", "CAST", "INTERVAL '1' DAY", "DATE '2026-01-31'", "s.l", "COUNT(*)", "EXISTS", "ANY", "ALL", "COLLATE", "DIV", "RLIKE", "ILIKE", "ISNULL", "NOTNULL", "XOR", "OVER", "LATERAL", "WITH", "N'a'", "e'a'", "r'a'", "b'1'"]  # fmt: skip
VALID = [
    "s = 'a' AND l >= 1",
    "s LIKE 'a%' ESCAPE '!' OR NOT b",
    "l IN (1, 2, NULL) AND t < TIMESTAMP '2026-01-31 12:00:00.5+01:00'",
    "n BETWEEN 1.5 AND -l + 2 * (d / 3) % 4",
    "l & 6 <> 0 AND s IS NOT NULL AND (b OR NOT (s <> 'it''s'))",
]


def texts(chance: random.Random) -> Iterator[str]:
    """Words in any order, filters with some of their words or characters exchanged, and characters in any order."""
    while True:
        yield " ".join(chance.choices(WORDS, k=chance.randrange(1, 14)))
        words = chance.choice(VALID).split(" ")
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(words))
            words[at : at + chance.randrange(3)] = chance.choices([*WORDS, *ODD], k=chance.randrange(3))
            words = words or [""]
        yield " ".join(words)
        text = list(chance.choice(VALID))
        for _ in range(chance.randrange(1, 4)):
            text[chance.randrange(len(text))] = chance.choice(
                ["", *ODD, chance.choice(WORDS), chr(chance.randrange(256))]
            )
        yield "".join(text)
        yield "".join(chance.choices([*WORDS, *ODD, " "], k=chance.randrange(1, 12)))


@pytest.mark.soak
def test_every_filter_is_one_or_says_where_it_is_not() -> None:
    chance = random.Random(soak.seed())
    wrong: list[str] = []
    for text, _ in zip(texts(chance), range(soak.sized(100_000, 1_500, 300)), strict=False):
        for read in (lambda text: parsed(text, TYPES), named):
            try:
                read(text)
            except FilterError as error:
                lines = text.split("\n")
                place = re.fullmatch(r"(\d+):(\d+)", error.where)
                inside = (
                    place
                    and 1 <= int(place[1]) <= len(lines)
                    and 1 <= int(place[2]) <= len(lines[int(place[1]) - 1]) + 1
                )
                if not inside:
                    wrong.append(f"{text!r}: {error}")
            except Exception as error:  # noqa: BLE001 - of any other kind is what this looks for
                wrong.append(f"{text!r}: {error!r}")
    assert not wrong, f"{len(wrong)}: {wrong[:20]}"
